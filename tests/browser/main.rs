//! `beckon browser` against real Chromium, driven by its driver API over TLS as the gateway does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr, clippy::type_complexity)]

mod actions;
mod control;
mod drag;
mod harness;
mod input;
mod lifecycle;
mod live;
mod pitfalls;
mod site;
