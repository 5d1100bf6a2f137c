//! `beckon gateway`: MCP for agents, the dashboard for people. Any replica can serve any call.

use clap::Args;
use std::process::ExitCode;

/// The flags of `beckon gateway`.
#[derive(Args, Debug)]
pub struct GatewayArgs {}

/// Runs until it is told to stop.
pub async fn run(_args: GatewayArgs) -> ExitCode {
    ExitCode::FAILURE
}
