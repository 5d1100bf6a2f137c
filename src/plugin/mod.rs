//! `kubectl attention`: the kubectl plugin.

use clap::Args;
use std::process::ExitCode;

/// The flags of `kubectl attention`.
#[derive(Args, Debug)]
pub struct PluginArgs {}

/// Runs until it is told to stop.
pub async fn run(_args: PluginArgs) -> ExitCode {
    ExitCode::FAILURE
}

/// Parses the arguments of `kubectl-attention`.
pub fn parse(_args: Vec<std::ffi::OsString>) -> PluginArgs {
    PluginArgs {}
}
