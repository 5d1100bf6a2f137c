//! Browser sessions: see, resize, close, watch, drive.

use super::{Caller, Means, Problem};
use crate::api::v1alpha1::BrowserSession;
use crate::driver::{RenewControl, ResizeViewport};
use crate::gateway::auth::Principal;
use crate::gateway::dashboard::{Site, model, origin, rights};
use crate::gateway::live::{control, ticket};
use crate::gateway::sessions;
use crate::runtime::clock;
use crate::runtime::json::Object;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use http::HeaderMap;
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

/// `GET /sessions`.
pub(super) async fn list(State(site): State<Site>, caller: Caller) -> Result<Json<Value>, Problem> {
    let mut all = rights::visible_sessions(&site, &caller.who).await?;
    all.sort_by_key(|session| (session.namespace(), session.name_any()));
    Ok(Json(json!({"items": all.iter().map(|session| shown(session)).collect::<Vec<_>>()})))
}

/// `GET /sessions/{namespace}/{name}`.
pub(super) async fn one(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let session = rights::session(&site, &namespace, &name)?;
    if !site.gateway.auth.may(&caller.who, "get", "browsersessions", &namespace, Some(&name)).await? {
        return Err(Problem::forbidden(format!("{} may not see sessions in namespace {namespace}", caller.who.username)));
    }
    Ok(Json(shown(&session)))
}

/// Why it is closed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Closing {
    reason: Option<String>,
}

/// `POST /sessions/{namespace}/{name}/close`.
pub(super) async fn close(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Closing>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let session = rights::session(&site, &namespace, &name)?;
    if !may_close(&site, &caller.who, &session).await? {
        return Err(Problem::forbidden(format!(
            "{} may not close this session: that takes owning it, or the verb takeover or delete on browsersessions",
            caller.who.username
        )));
    }
    if session.spec.close.is_some() || model::session_ended(&session) {
        return Err(Problem::conflict("SESSION_ENDED", format!("the session {name} has already ended")));
    }
    match sessions::write_close(&site.gateway, &caller.who, &session, body.reason).await {
        Ok(Ok(stored)) => Ok(Json(shown(&stored))),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Err(Problem::not_found(format!("there is no session {namespace}/{name}")))
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 422 => Err(Problem::conflict("SESSION_ENDED", status.message)),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err(Problem::forbidden(status.message)),
        Ok(Err(_)) | Err(_) => Err(Problem::unavailable("the API server did not answer: look whether the session was closed")),
    }
}

/// Whether the caller may end a session.
pub async fn may_close(site: &Site, who: &Principal, session: &BrowserSession) -> Result<bool, Problem> {
    let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
    Ok(who.is(session.spec.owner.as_ref())
        || site.gateway.auth.may(who, "takeover", "browsersessions", &namespace, Some(&name)).await?
        || site.gateway.auth.may(who, "delete", "browsersessions", &namespace, Some(&name)).await?)
}

/// The wanted viewport, in CSS pixels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    width: i32,
    height: i32,
}

/// `POST /sessions/{namespace}/{name}/resize`: the agent's real viewport. Needs no open request.
pub(super) async fn resize(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Size>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(Size { width, height })) = body?;
    let size = ResizeViewport { width, height };
    let session = rights::session(&site, &namespace, &name)?;
    if !control::may_change(&site, &caller.who, &session).await? {
        return Err(Problem::forbidden(format!("{} may not resize this browser", caller.who.username)));
    }
    if !(320..=2560).contains(&size.width) || !(240..=1600).contains(&size.height) {
        return Err(Problem::invalid("width must be 320 to 2560 and height 240 to 1600"));
    }
    let real = site.gateway.drivers.of(&session).await?.resize(size).await?;
    control::write_status(&site, &session, json!({"viewport": real})).await;
    Ok(Json(json!(real)))
}

/// `POST /sessions/{namespace}/{name}/live-ticket`: opens one live view within 30 s.
pub(super) async fn live_ticket(
    State(site): State<Site>,
    caller: Caller,
    headers: HeaderMap,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let session = rights::session(&site, &namespace, &name)?;
    control::must_view(&site, &caller.who, &session).await?;
    control::must_run(&session)?;
    // A cookie's socket is opened by one of our pages; a program's socket names no origin.
    let origin = match caller.means {
        Means::Cookie(_) => origin::own(&headers, &site.gateway.settings)?,
        Means::Token => "",
    };
    let (binding, uid) = (caller.binding(), session.uid().unwrap_or_default());
    let made = ticket::Ticket::new(&binding, &uid, origin, clock::now());
    Ok(Json(json!({"ticket": made.sign(&site.ticket_key), "expires_at": made.expires()})))
}

/// What to drive for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Taking {
    request: Option<String>,
}

/// `POST /sessions/{namespace}/{name}/control/take`.
pub(super) async fn take(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Taking>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let session = rights::session(&site, &namespace, &name)?;
    let grant = control::take(&site, &caller, &session, body.request.as_deref()).await?;
    Ok(Json(json!(grant)))
}

/// A lease of control.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lease {
    lease: String,
}

/// `POST /sessions/{namespace}/{name}/control/extend`: the person wants to keep control.
pub(super) async fn extend(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Lease>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let session = rights::session(&site, &namespace, &name)?;
    let driver = control::holder_only(&site, &caller.who, &session).await?;
    let grant = driver.renew(&RenewControl { lease: body.lease, extend: true }).await?;
    Ok(Json(json!(grant)))
}

/// `POST /sessions/{namespace}/{name}/control/release`: hand back.
pub(super) async fn release(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Lease>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let session = rights::session(&site, &namespace, &name)?;
    let state = control::release(&site, &caller.who, &session, body.lease).await?;
    Ok(Json(json!(state)))
}

/// A session as programs read it.
fn shown(session: &BrowserSession) -> Value {
    let status = session.status.as_ref();
    json!({
        "namespace": session.namespace(),
        "name": session.name_any(),
        "phase": status.and_then(|s| s.phase).unwrap_or_default(),
        "owner": session.spec.owner.as_ref().map(|owner| &owner.username),
        "page": status.and_then(|s| s.page.as_ref()),
        "viewport": status.and_then(|s| s.viewport),
        "control": status.and_then(|s| s.control.as_ref()),
        "open_requests": status.map(|s| s.open_requests.as_slice()).unwrap_or_default(),
        "idle": status.and_then(|s| s.idle.as_ref()),
        "ends_at": status.and_then(|s| s.ends_at.as_ref()),
        "message": status.and_then(|s| s.message.as_ref()),
    })
}
