//! How this process talks to the API server: guarded writes, bounded watches, whether the
//! policies hold, leadership, events.

pub mod apply;
pub mod canary;
pub mod client;
pub mod events;
pub mod lease;
pub mod processes;
pub mod user;
pub mod watch;
