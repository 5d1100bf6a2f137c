//! The chart, installed for real: its pods run, agents and people reach them, an upgrade loses nothing, and the accounts hold no
//! right that they never use. The node runs containers as processes; what that leaves out is in docs/testing.md.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

#[path = "../mcp/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../support/mod.rs"]
mod support;
#[path = "../dashboard/client.rs"]
#[allow(dead_code)]
mod web;

mod confined;
mod life;
mod release;
mod rights;
