//! Ten thousand races, alone in their test binary and on their API server: other suites would have to wait for it.

// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr, clippy::type_complexity)]
// What a test starts ends with it.
#![allow(clippy::disallowed_methods)]

mod support;

#[allow(dead_code)]
#[path = "controller/meter.rs"]
mod meter;
#[path = "controller/races.rs"]
mod races;
#[path = "controller/told.rs"]
mod told;
#[allow(dead_code)]
#[path = "controller/world.rs"]
mod world;
