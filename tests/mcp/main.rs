//! What agents are promised over MCP, byte for byte, on a real API server: the gateway runs as its own processes, a stand-in
//! takes requests in as the controller does, and people answer with kubectl.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// What a test starts ends with it.
#![allow(clippy::disallowed_methods)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod world;

mod as_installed;
mod attachment;
mod bad_input;
mod canary;
mod cancelling;
mod confined;
mod conformance;
mod contract;
mod options;
mod page;
mod replicas;
mod retries;
mod starting;
