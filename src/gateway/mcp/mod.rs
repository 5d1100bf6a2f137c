//! MCP: what agents call. `/mcp` serves both eras of the protocol; standard input and output serve a local client.

mod busy;
mod call;
mod cancel;
mod elsewhere;
mod ended;
mod events;
mod guard;
mod legacy;
mod message;
mod refusals;
mod schema;
mod server;
mod service;
mod stdio;
pub mod tools;
mod waiting;

pub use call::Failure;
pub use service::router;
pub use stdio::{StdioError, serve as serve_stdio};
