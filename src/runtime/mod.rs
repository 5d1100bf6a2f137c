//! What every role needs to run: the clock, no core dumps, JSON from outside, listening, telemetry, metrics, the admin port, supervision, owners of tasks, and an orderly end.

pub mod admin;
pub mod bind;
pub mod clock;
pub mod core_dumps;
pub mod json;
pub mod metrics;
pub mod shutdown;
pub mod supervision;
pub mod tasks;
pub mod telemetry;
