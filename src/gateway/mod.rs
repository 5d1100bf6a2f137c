//! `beckon gateway`: MCP for agents, the dashboard for people. Any replica can serve any call.

pub mod activity;
pub mod auth;
mod brief;
pub mod canary;
mod config;
pub mod dashboard;
pub mod decisions;
pub mod driver_client;
pub mod hub;
pub mod keys;
mod listen;
pub mod live;
pub mod mcp;
pub mod metrics;
pub mod origin;
pub mod process_lease;
pub mod requests;
pub mod rest;
mod run;
mod session_status;
pub mod sessions;
pub mod state;

pub use config::{ConfigError, GatewayArgs, Settings, Transport};
pub use state::{Gateway, Shared};

use crate::k8s::apply::Manager;
use brief::brief;
use std::io::Write as _;
use std::process::ExitCode;

/// The field manager of the gateway's general writes.
pub const MANAGER: &str = Manager::Gateway.as_str();

/// Runs until it is told to stop.
pub async fn run(args: GatewayArgs) -> ExitCode {
    match Box::pin(run::run(args)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the gateway ends");
            drop(writeln!(std::io::stderr(), "beckon gateway: {error}"));
            if matches!(error, run::RunError::Config(_)) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether it can be the name of an object or a namespace. The client writes names into paths as they are, so what is none
/// must get no further.
fn is_name(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 253 && bytes.iter().all(inner) && bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_names_and_no_paths() {
        for (text, want) in [
            ("a-1", true),
            ("default", true),
            ("a.b", true),
            ("", false),
            ("A", false),
            ("..", false),
            ("a/status", false),
            ("a?dryRun=All", false),
            ("a%2fb", false),
            ("-a", false),
            ("a\n", false),
            (&"a".repeat(254), false),
        ] {
            assert_eq!(is_name(text), want, "{text:?}");
        }
    }
}
