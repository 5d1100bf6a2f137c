//! The live view: a viewer's socket is ended here and another one is opened to the session's driver. Nothing is passed on
//! that was not understood.

pub mod control;
pub mod keeper;
mod marks;
mod outbox;
mod relay;
mod socket;
pub mod ticket;
mod validate;

pub use keeper::Keeper;
pub use marks::{Mark, MarkError, Marks};
pub use socket::open;
