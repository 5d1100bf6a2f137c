//! The life of a request: wait, and until when; or settle, and how.

mod plan;

pub use plan::{NewPlan, OpenPlan, Plan, Seen, SessionSeen, settle};
