//! The attention requests of agents: made once however often they are asked, attached while a call waits, and read the same
//! way wherever the answer is seen first.

pub mod attachments;
pub mod evidence;
pub mod hands;
pub mod others;
pub mod outcome;
pub mod store;
