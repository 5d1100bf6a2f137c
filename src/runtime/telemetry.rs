//! Logs on standard error: text on a terminal, JSON elsewhere. Never keystrokes, tokens, cookies, page text or answers.

use std::io::{self, IsTerminal as _};
use tracing_subscriber::EnvFilter;

/// Starts logging at `info`, or as `BECKON_LOG` says. A second call changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env("BECKON_LOG").unwrap_or_else(|_| EnvFilter::new("info,kube_runtime=warn,rmcp=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let done = if io::stderr().is_terminal() { builder.try_init() } else { builder.json().flatten_event(true).try_init() };
    drop(done);
}
