//! The controller against a real API server: every test has a namespace and a controller of its own.

// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr, clippy::type_complexity)]
// What a test starts ends with it.
#![allow(clippy::disallowed_methods)]

mod support;

#[path = "controller/canary.rs"]
mod canary;
#[path = "controller/caps.rs"]
mod caps;
#[path = "controller/columns.rs"]
mod columns;
#[path = "controller/crowd.rs"]
mod crowd;
#[path = "controller/events.rs"]
mod events;
#[path = "controller/faults.rs"]
mod faults;
#[path = "controller/leaders.rs"]
mod leaders;
#[path = "controller/meter.rs"]
mod meter;
#[path = "controller/requests.rs"]
mod requests;
#[path = "controller/sessions.rs"]
mod sessions;
#[path = "controller/told.rs"]
mod told;
#[path = "controller/world.rs"]
mod world;
