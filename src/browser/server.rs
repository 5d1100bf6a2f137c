//! The driver API: TLS from the session's Secret, and its token on every path but `/healthz`.

use super::driver::Driver;
use super::error::Refused;
use super::live;
use super::tools;
use crate::api::v1alpha1::Viewport;
use crate::driver::{
    ControlGrant, ControlState, DriverErrorCode, DriverState, HEALTH_PATH, LIVE_PATH, MAX_COMMAND_BYTES, RELEASE_PATH, RENEW_PATH,
    RESIZE_PATH, ReleaseControl, RenewControl, ResizeViewport, SECRET_CERTIFICATE, SECRET_KEY, SECRET_TOKEN, STATE_PATH, TAKE_PATH,
    TOOLS_PATH, TakeControl, ToolReply,
};
use crate::runtime::json::Object;
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, FromRef, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use serde::de::DeserializeOwned;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

/// The largest body, in bytes.
const LARGEST_BODY: usize = 256 << 10;
/// How long open calls may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// The shortest token that protects anything, in bytes.
const SHORTEST_TOKEN: usize = 16;

/// What the session's Secret holds.
pub(super) struct Credentials {
    token: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Credentials {
    /// Reads the mounted Secret.
    ///
    /// # Errors
    /// Names the file and the flag.
    pub(super) fn read(directory: &std::path::Path) -> Result<Self, String> {
        let read = |name: &str| {
            let path: PathBuf = directory.join(name);
            let bytes = std::fs::read(&path).map_err(|error| {
                format!(
                    "{}: {error}; --driver-dir must name the directory with the session's Secret (token, tls.crt, tls.key)",
                    path.display()
                )
            })?;
            if bytes.is_empty() { Err(format!("{}: is empty", path.display())) } else { Ok(bytes) }
        };
        let token = read(SECRET_TOKEN)?.trim_ascii().to_vec();
        if token.len() < SHORTEST_TOKEN {
            let path = directory.join(SECRET_TOKEN);
            return Err(format!("{}: the token must be at least {SHORTEST_TOKEN} bytes", path.display()));
        }
        Ok(Self { token, certificate: read(SECRET_CERTIFICATE)?, key: read(SECRET_KEY)? })
    }
}

/// A bound address that does not serve yet.
pub(super) struct Server {
    listener: TcpListener,
    tls: RustlsConfig,
    token: Arc<[u8]>,
}

impl Server {
    /// Binds the address and reads the certificate.
    ///
    /// # Errors
    /// Names the flag.
    pub(super) async fn bind(address: SocketAddr, credentials: Credentials) -> Result<Self, String> {
        let tls = RustlsConfig::from_pem(credentials.certificate, credentials.key)
            .await
            .map_err(|error| format!("--driver-dir: tls.crt and tls.key are no certificate and its key: {error}"))?;
        let listener = TcpListener::bind(address).map_err(|error| {
            let what = if error.kind() == io::ErrorKind::AddrInUse { "; another process listens there: give another port" } else { "" };
            format!("--listen {address}: {error}{what}")
        })?;
        listener.set_nonblocking(true).map_err(|error| format!("--listen {address}: {error}"))?;
        Ok(Self { listener, tls, token: credentials.token.into() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// When the listener fails.
    pub(super) async fn run(self, driver: Arc<Driver>, stop: CancellationToken) -> io::Result<()> {
        let handle = Handle::new();
        let service = router(Serving { driver, stop: stop.clone() }, self.token).into_make_service();
        // Without it a reply waits for the acknowledgement of the one before.
        let acceptor = RustlsAcceptor::new(self.tls).acceptor(NoDelayAcceptor::new());
        let serving = axum_server::from_tcp(self.listener)?.acceptor(acceptor).handle(handle.clone()).serve(service);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served,
            () = stop.cancelled() => handle.graceful_shutdown(Some(GRACE)),
        }
        serving.await
    }
}

/// What every path can reach.
#[derive(Clone, FromRef)]
struct Serving {
    driver: Arc<Driver>,
    stop: CancellationToken,
}

fn router(serving: Serving, token: Arc<[u8]>) -> Router {
    let private = Router::new()
        .route(STATE_PATH, get(state))
        .route(&format!("{TOOLS_PATH}/{{tool}}"), post(tool))
        .route(TAKE_PATH, post(take))
        .route(RENEW_PATH, post(renew))
        .route(RELEASE_PATH, post(release))
        .route(RESIZE_PATH, post(resize))
        .route(LIVE_PATH, any(watch))
        .fallback(|| async { Refused::new(DriverErrorCode::NotFound, "There is no such path.") })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(middleware::from_fn_with_state(token, authenticate));
    Router::new().route(HEALTH_PATH, get(health)).merge(private).with_state(serving)
}

async fn authenticate(State(token): State<Arc<[u8]>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
    let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
    if bool::from(given.ct_eq(&token)) {
        next.run(request).await
    } else {
        Refused::new(DriverErrorCode::Unauthenticated, "The session's token is missing or wrong.").into_response()
    }
}

async fn health(State(driver): State<Arc<Driver>>) -> (StatusCode, &'static str) {
    if driver.alive().await { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "Chromium does not answer\n") }
}

async fn state(State(driver): State<Arc<Driver>>) -> Json<DriverState> {
    Json(driver.state().await)
}

async fn tool(State(driver): State<Arc<Driver>>, Path(tool): Path<String>, body: Bytes) -> Result<Json<ToolReply>, Refused> {
    tools::run(&driver, &tool, &body).await.map(Json)
}

async fn take(State(driver): State<Arc<Driver>>, body: Bytes) -> Result<Json<ControlGrant>, Refused> {
    let ask: TakeControl = parse(&body)?;
    if ask.holder.is_empty() {
        return Err(Refused::argument("holder: must not be empty"));
    }
    Ok(Json(driver.control.take(ask).await?))
}

async fn renew(State(driver): State<Arc<Driver>>, body: Bytes) -> Result<Json<ControlGrant>, Refused> {
    let renew: RenewControl = parse(&body)?;
    Ok(Json(driver.control.renew(&renew.lease, renew.extend)?))
}

async fn release(State(driver): State<Arc<Driver>>, body: Bytes) -> Result<Json<ControlState>, Refused> {
    match parse(&body)? {
        ReleaseControl { lease: Some(lease), .. } => driver.control.release(&lease)?,
        ReleaseControl { request: Some(request), .. } => driver.control.settled(&request),
        ReleaseControl { lease: None, request: None } => return Err(Refused::argument("lease or request: give one")),
    }
    Ok(Json(driver.control.now()))
}

async fn resize(State(driver): State<Arc<Driver>>, body: Bytes) -> Result<Json<Viewport>, Refused> {
    let wanted: ResizeViewport = parse(&body)?;
    Ok(Json(driver.resize(wanted).await?))
}

async fn watch(State(driver): State<Arc<Driver>>, State(stop): State<CancellationToken>, upgrade: WebSocketUpgrade) -> Response {
    let tasks = driver.tasks.clone();
    upgrade
        .max_message_size(MAX_COMMAND_BYTES)
        .max_frame_size(MAX_COMMAND_BYTES)
        .on_upgrade(move |socket| tasks.own("a live view", live::view(socket, driver, stop)))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(body)| body).map_err(|error| Refused::argument(format!("the body does not fit: {error}")))
}
