//! `beckon browser` against real Chromium, driven by its driver API over TLS as the gateway does.

// A test looks for one kind of event and passes over the others.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::wildcard_enum_match_arm)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::type_complexity
)]

#[path = "../support/percentiles.rs"]
mod percentiles;

mod actions;
mod away;
mod choosers;
mod control;
mod drag;
mod floods;
mod harness;
mod input;
mod lifecycle;
mod live;
mod native;
mod paste;
mod pitfalls;
mod sandbox;
mod secrets;
mod site;
mod timing;
mod viewer;
