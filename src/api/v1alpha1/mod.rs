//! `beckon.dev/v1alpha1`.

mod attention_request;
pub(super) mod attention_rules;
mod attention_status;
mod browser_session;
pub(super) mod session_rules;
mod session_status;
mod shared;

pub use attention_request::*;
pub use attention_status::*;
pub use browser_session::*;
pub use session_status::*;
pub use shared::*;
