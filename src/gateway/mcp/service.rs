//! MCP over Streamable HTTP: both eras of the protocol on one path, behind our own checks.

use super::busy::Busy;
use super::cancel::Calls;
use super::events::Events;
use super::guard::{self, Pace, Resumed};
use super::legacy::{CALLER, Ids, Manager, Store};
use super::raw_options;
use super::server::Agents;
use crate::gateway::auth::AuthError;
use crate::gateway::origin;
use crate::gateway::state::Shared;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_LENGTH, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The largest message, in bytes.
const LARGEST: usize = 4 << 20;
/// How often idle sessions of the older revisions are let go.
const REAP: Duration = Duration::from_mins(1);

/// The routes of MCP. `ended` is cancelled when the drain is over: what still runs is cut.
pub fn router(gateway: &Shared, ended: &CancellationToken) -> Router {
    let resumed = Resumed::default();
    let busy = Busy::default();
    let agents =
        Agents { gateway: Arc::clone(gateway), calls: Calls::default(), resumed: resumed.clone(), busy: busy.clone(), local: None };
    let manager = Arc::new(Manager::new(Ids::new(&gateway.keys), Arc::new(Events::default()), busy));
    let mut config = StreamableHttpServerConfig::default()
        // Ours is in front, and knows the page that this server serves itself.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(Duration::from_secs(15)))
        .with_max_request_body_bytes(LARGEST + (1 << 20))
        .with_cancellation_token(ended.child_token());
    config.session_store = Some(Arc::new(Store(Arc::clone(&manager))));
    tokio::spawn(reap(Arc::clone(&manager), ended.clone()));
    let service = StreamableHttpService::new(move || Ok(agents.clone()), Arc::clone(&manager), config);
    Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn_with_state(manager, ends))
        .layer(from_fn(move |request, next| guard::guard(resumed.clone(), Pace::default(), request, next)))
        .layer(from_fn(read))
        .layer(from_fn_with_state(Arc::clone(gateway), admit))
}

async fn reap(manager: Arc<Manager>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(REAP);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => manager.reap().await,
        }
    }
}

/// Host and origin first, then the caller.
async fn admit(State(gateway): State<Shared>, mut request: Request, next: Next) -> Response {
    if let Err(error) = origin::check(&gateway.settings, request.uri(), request.headers()) {
        return refuse(StatusCode::FORBIDDEN, "FORBIDDEN", &error.to_string());
    }
    match gateway.auth.caller(request.headers()).await {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(AuthError::Unavailable) => refuse(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", &AuthError::Unavailable.to_string()),
        Err(error) => {
            let mut response = refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", &error.to_string());
            let challenge = match error {
                AuthError::Missing => r#"Bearer realm="beckon""#,
                AuthError::Malformed => r#"Bearer realm="beckon", error="invalid_request""#,
                AuthError::Refused | AuthError::Unavailable => r#"Bearer realm="beckon", error="invalid_token""#,
            };
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            response
        }
    }
}

/// Reads the message once: keeps options token for token, fills in what some clients leave out, and notes what a session needs
/// to be taken up elsewhere.
async fn read(request: Request, next: Next) -> Response {
    let Some(who) = request.extensions().get::<Arc<crate::gateway::auth::Principal>>().cloned() else {
        return refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "no caller");
    };
    if request.method() != Method::POST {
        return CALLER.scope((who, None), next.run(request)).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, LARGEST).await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", &format!("a message may have at most {LARGEST} bytes"));
    };
    let bytes = raw_options::lift(&bytes).map_or(bytes, Into::into);
    let head = Head::of(&bytes);
    if head.method.starts_with("tasks/")
        && !parts.headers.contains_key("mcp-name")
        && let Some(name) = head.task.and_then(|id| HeaderValue::from_str(&id).ok())
    {
        parts.headers.insert("mcp-name", name);
    }
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    let request = Request::from_parts(parts, Body::from(bytes));
    CALLER.scope((who, head.version), next.run(request)).await
}

#[derive(Default)]
struct Head {
    method: String,
    version: Option<String>,
    task: Option<String>,
}

impl Head {
    fn of(body: &[u8]) -> Self {
        #[derive(serde::Deserialize)]
        struct Message {
            method: String,
            params: Option<Params>,
        }
        #[derive(serde::Deserialize)]
        struct Params {
            #[serde(rename = "protocolVersion")]
            version: Option<String>,
            #[serde(rename = "taskId")]
            task: Option<String>,
        }
        let Ok(message) = serde_json::from_slice::<Message>(body) else { return Self::default() };
        let (version, task) = message.params.map(|params| (params.version, params.task)).unwrap_or_default();
        Self { version: version.filter(|_| message.method == "initialize"), task, method: message.method }
    }
}

/// A session that its client ends is not taken up again.
async fn ends(State(manager): State<Arc<Manager>>, request: Request, next: Next) -> Response {
    let session = guard::header(&request, "mcp-session-id").filter(|_| request.method() == Method::DELETE);
    let response = next.run(request).await;
    if let Some(session) = session.filter(|_| response.status().is_success()) {
        manager.end(&session);
    }
    response
}

/// A refusal before the protocol begins.
fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    let body: Value = json!({"code": code, "message": message});
    (status, axum::Json(body)).into_response()
}
