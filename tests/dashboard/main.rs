//! The door, the JSON API and the live view of two gateways, over the wire, on the whole product as `cargo xtask up` starts it.
//! What a person sees and does in a browser is the journeys'.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// What a test starts ends with it.
#![allow(clippy::disallowed_methods)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod door;
mod live;
mod requests;
mod timing;
