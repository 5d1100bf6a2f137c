//! MCP over Streamable HTTP: both eras of the protocol on one path, behind our own checks.

use super::busy::Busy;
use super::cancel::Calls;
use super::ended::Ended;
use super::events::Events;
use super::guard::{self, Pace, Resumed};
use super::legacy::{CALLER, Ids, Manager, Store};
use super::message::{self, Envelope};
use super::refusals;
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
/// A message that takes longer to arrive is given up.
const READ_WITHIN: Duration = Duration::from_mins(1);
/// How often idle sessions of the older revisions are let go.
const REAP: Duration = Duration::from_mins(1);

/// The routes of MCP, and the sessions that somebody must keep. `cut` is cancelled when the drain is over: what still runs is
/// cut.
pub fn router(gateway: &Shared, cut: &CancellationToken) -> (Router, Sessions) {
    let resumed = Resumed::default();
    let busy = Busy::default();
    let agents =
        Agents { gateway: Arc::clone(gateway), calls: Calls::default(), resumed: resumed.clone(), busy: busy.clone(), local: None };
    let ended = Ended::new(gateway.client.clone(), &gateway.settings.system_namespace);
    let manager = Arc::new(Manager::new(Ids::new(&gateway.keys), Arc::new(Events::new(gateway.tasks.clone())), ended, busy));
    let mut config = StreamableHttpServerConfig::default()
        // Ours is in front, and knows the page that this server serves itself.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(Duration::from_secs(15)))
        .with_max_request_body_bytes(LARGEST + (1 << 20))
        .with_cancellation_token(cut.child_token());
    config.session_store = Some(Arc::new(Store(Arc::clone(&manager))));
    let sessions = Sessions(Arc::clone(&manager));
    let service = StreamableHttpService::new(move || Ok(agents.clone()), Arc::clone(&manager), config);
    let router = Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn(refusals::explain))
        .layer(from_fn_with_state(manager, ends))
        .layer(from_fn(move |request, next| guard::guard(resumed.clone(), Pace::default(), request, next)))
        .layer(from_fn(read))
        .layer(from_fn_with_state(Arc::clone(gateway), admit));
    (router, sessions)
}

/// The sessions of the older revisions.
pub struct Sessions(Arc<Manager>);

impl Sessions {
    /// Lets those go that idle or have ended elsewhere, until the token is cancelled.
    pub async fn keep(&self, stop: CancellationToken) {
        let reaping = async {
            let mut tick = tokio::time::interval(REAP);
            loop {
                tick.tick().await;
                self.0.reap().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = reaping => {}
            () = self.0.follow(stop.clone()) => {}
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
                AuthError::Refused | AuthError::OtherAudience { .. } | AuthError::Unavailable => {
                    r#"Bearer realm="beckon", error="invalid_token""#
                }
            };
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            response
        }
    }
}

/// Reads the message once: keeps options token for token, fills in what some clients leave out, and notes what a session needs
/// to be taken up elsewhere.
async fn read(mut request: Request, next: Next) -> Response {
    let Some(who) = request.extensions().get::<Arc<crate::gateway::auth::Principal>>().cloned() else {
        return refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "no caller");
    };
    if request.method() != Method::POST {
        request.extensions_mut().insert(Envelope::default());
        return CALLER.scope((who, None), next.run(request)).await;
    }
    let (mut parts, body) = request.into_parts();
    let bytes = match tokio::time::timeout(READ_WITHIN, to_bytes(body, LARGEST)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return refusals::refuse(StatusCode::PAYLOAD_TOO_LARGE, -32600, &format!("a message may have at most {LARGEST} bytes"));
        }
        Err(_) => {
            let error = format!("the message did not arrive within {} s: send it again", READ_WITHIN.as_secs());
            return refusals::refuse(StatusCode::REQUEST_TIMEOUT, -32600, &error);
        }
    };
    let (envelope, other) = match message::read(&bytes) {
        Ok(read) => read,
        Err((why, id)) => return refusals::no_message(&why, id.as_deref()),
    };
    let bytes = other.map_or(bytes, Into::into);
    if envelope.method.starts_with("tasks/")
        && !parts.headers.contains_key("mcp-name")
        && let Some(name) = envelope.task.as_deref().and_then(|id| HeaderValue::from_str(id).ok())
    {
        parts.headers.insert("mcp-name", name);
    }
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    let version = envelope.version.clone();
    parts.extensions.insert(envelope);
    let request = Request::from_parts(parts, Body::from(bytes));
    CALLER.scope((who, version), next.run(request)).await
}

/// A session that its client ends is not taken up again. The library would end anybody's.
async fn ends(State(manager): State<Arc<Manager>>, request: Request, next: Next) -> Response {
    let session = guard::header(&request, "mcp-session-id").filter(|_| request.method() == Method::DELETE);
    if session.as_ref().is_some_and(|session| !manager.is_mine(session) || manager.has_ended(session)) {
        return refusals::session_unknown();
    }
    let response = next.run(request).await;
    let Some(session) = session.filter(|_| response.status().is_success()) else { return response };
    manager.end(&session).await;
    // It has ended when this is answered; the library's 202 makes clients warn that it did not.
    StatusCode::NO_CONTENT.into_response()
}

/// A refusal before the protocol begins.
fn refuse(status: StatusCode, code: &str, message: &str) -> Response {
    let body: Value = json!({"code": code, "message": message});
    (status, axum::Json(body)).into_response()
}
