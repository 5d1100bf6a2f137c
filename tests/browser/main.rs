//! `beckon browser` against real Chromium, driven by its driver API over TLS as the gateway does.

mod actions;
mod control;
mod harness;
mod input;
mod lifecycle;
mod live;
mod pitfalls;
mod site;
