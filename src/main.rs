//! The `beckon` binary.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    beckon::runtime::telemetry::init();
    beckon::runtime::core_dumps::disable();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider was installed before");
    }
    beckon::cli::run(std::env::args_os().collect()).await
}
