//! One token for the whole process: SIGTERM or SIGINT starts an orderly end, a second one ends at once.

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT.
///
/// # Errors
/// When a signal handler can't be installed.
pub fn on_signal() -> io::Result<CancellationToken> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    #[expect(clippy::disallowed_methods, reason = "it waits for signals as long as the process lives")]
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("stopping");
        stop.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::warn!("stopped a second time: ending at once");
        std::process::abort();
    });
    Ok(token)
}
