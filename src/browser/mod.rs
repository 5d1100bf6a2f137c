//! `beckon browser`: the entry point of a session's pod: one Chromium, its only CDP connection, the arbiter of control.

use clap::Args;
use std::process::ExitCode;

/// The flags of `beckon browser`.
#[derive(Args, Debug)]
pub struct BrowserArgs {}

/// Runs until it is told to stop.
pub async fn run(_args: BrowserArgs) -> ExitCode {
    ExitCode::FAILURE
}
