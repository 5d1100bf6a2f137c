//! The admin port: `/livez`, `/readyz` and `/metrics`. Apart from the service port, and never exposed by a Service of people.

use super::bind::bind;
use super::metrics::Metrics;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What a process still waits for before it serves.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Readiness {
    /// `what` is not ready because of `why`.
    pub fn wait_for(&self, what: &'static str, why: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(what, why.into());
    }

    /// `what` is ready.
    pub fn ready(&self, what: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
    }

    /// What is missing, one line each; empty when ready.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(what, why)| format!("{what}: {why}")).collect()
    }
}

/// Serves until the token is cancelled.
///
/// # Errors
/// When the address can't be bound; the error names the flag of it.
pub async fn serve(address: SocketAddr, metrics: Metrics, readiness: Readiness, stop: CancellationToken) -> io::Result<()> {
    let taken = |error: io::Error| {
        let text = format!("--admin-listen {address}: {error}; choose another address, or end what listens there");
        io::Error::new(error.kind(), text)
    };
    let listener = bind(address).await.map_err(taken)?;
    serve_on(listener, metrics, readiness, stop).await
}

/// Serves at a port that is bound until the token is cancelled.
///
/// # Errors
/// When serving breaks off.
pub async fn serve_on(listener: TcpListener, metrics: Metrics, readiness: Readiness, stop: CancellationToken) -> io::Result<()> {
    let ready = move || async move {
        let missing = readiness.missing();
        if missing.is_empty() {
            (StatusCode::OK, "ready\n".to_owned())
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n")
        }
    };
    let router = Router::new().route("/livez", get(|| async { "ok\n" })).route("/readyz", get(ready)).route(
        "/metrics",
        get(move || async move {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.encode()).into_response()
        }),
    );
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}
