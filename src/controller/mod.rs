//! `beckon controller`: reconciles both kinds. One leader of N.

use clap::Args;
use std::process::ExitCode;

/// The flags of `beckon controller`.
#[derive(Args, Debug)]
pub struct ControllerArgs {}

/// Runs until it is told to stop.
pub async fn run(_args: ControllerArgs) -> ExitCode {
    ExitCode::FAILURE
}
