//! The rules, as pure functions with `now` passed in: no client, no clock, no runtime.

pub mod attachment;
pub mod attention;
pub mod canary;
pub mod caps;
pub mod control;
pub mod deadline;
pub mod idle_lease;
pub mod incarnation;
pub mod messages;
pub mod names;
pub mod outcome;
pub mod session;
pub mod time;
pub mod time_zone;
pub mod tools;
