//! The browser sessions of agents: made for a principal, found by their id, closed by their owner.

use super::auth::Principal;
use super::mcp::Failure;
use super::state::Gateway;
use crate::api::v1alpha1::{BrowserSession, BrowserSessionSpec, Close, SessionPhase};
use crate::domain::names;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use rand::RngExt as _;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::error::Elapsed;

const ASKING: Duration = Duration::from_secs(15);
/// How long a new session may take until its first page can be used.
pub const READY_WITHIN: Duration = Duration::from_secs(90);

/// A session of this caller, whatever its state. Another's is not told apart from none.
pub async fn find(gateway: &Gateway, who: &Principal, id: &str) -> Result<Arc<BrowserSession>, Failure> {
    let unknown = || {
        Failure::new(
            "SESSION_NOT_FOUND",
            format!("session_id: there is no session {:?} of yours: create one with create_session", short(id)),
        )
    };
    if !super::is_name(id) {
        return Err(unknown());
    }
    let namespace = &gateway.settings.namespace;
    let session = if let Some(session) = gateway.hub.sessions.get(namespace, id) {
        session
    } else {
        // The mirror may be late by some milliseconds.
        let api: Api<BrowserSession> = Api::namespaced(gateway.client.clone(), namespace);
        match Failure::asked("the session could not be read", api.get_opt(id)).await? {
            Ok(Some(session)) => {
                gateway.hub.sessions.offer(session.clone());
                Arc::new(session)
            }
            Ok(None) => return Err(unknown()),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404 | 422) => return Err(unknown()),
            Err(error) => return Err(Failure::api("the session could not be read", &error)),
        }
    };
    if who.is(session.spec.owner.as_ref()) { Ok(session) } else { Err(unknown()) }
}

/// A session that is not over.
pub async fn find_open(gateway: &Gateway, who: &Principal, id: &str) -> Result<Arc<BrowserSession>, Failure> {
    let session = find(gateway, who, id).await?;
    match ended(&session) {
        None => Ok(session),
        Some(failure) => Err(failure),
    }
}

/// A session whose browser can be used, waiting for one that starts.
pub async fn find_ready(gateway: &Gateway, who: &Principal, id: &str) -> Result<Arc<BrowserSession>, Failure> {
    let session = find_open(gateway, who, id).await?;
    if is_ready(&session) { Ok(session) } else { until_ready(gateway, id).await }
}

/// Waits until the browser can be used.
pub async fn until_ready(gateway: &Gateway, id: &str) -> Result<Arc<BrowserSession>, Failure> {
    let mut watched = gateway.hub.session(&gateway.settings.namespace, id);
    let waiting = async {
        loop {
            let current = watched.borrow_and_update().clone();
            if let Some(session) = current {
                if let Some(failure) = ended(&session) {
                    return Err(failure);
                }
                if is_ready(&session) {
                    return Ok(session);
                }
            }
            if watched.changed().await.is_err() {
                watched = gateway.hub.session(&gateway.settings.namespace, id);
            }
        }
    };
    if let Ok(done) = tokio::time::timeout(READY_WITHIN, waiting).await {
        return done;
    }
    let why = gateway.hub.sessions.get(&gateway.settings.namespace, id).and_then(|session| not_ready_because(&session));
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Err(Failure::new(
        "SESSION_NOT_READY",
        format!(
            "the browser of session {id} did not start within {} s{why}: try a page tool later, or close the session",
            READY_WITHIN.as_secs()
        ),
    ))
}

fn not_ready_because(session: &BrowserSession) -> Option<String> {
    use crate::api::conditions::{ConditionType, find};
    let condition = find(&session.status.as_ref()?.conditions, ConditionType::Ready)?;
    let text = if condition.message.is_empty() { &condition.reason } else { &condition.message };
    Some(text.chars().take(200).collect())
}

/// Whether tools can be called.
#[must_use]
pub fn is_ready(session: &BrowserSession) -> bool {
    session
        .status
        .as_ref()
        .is_some_and(|status| status.phase == Some(SessionPhase::Ready) && status.pod.as_ref().is_some_and(|pod| pod.ip.is_some()))
}

/// Why the session can't be used any more.
#[must_use]
pub fn ended(session: &BrowserSession) -> Option<Failure> {
    let name = session.name_any();
    let phase = session.status.as_ref().and_then(|status| status.phase);
    let how = match phase {
        Some(SessionPhase::Crashed) => "crashed",
        Some(SessionPhase::Expired) => "has expired",
        Some(SessionPhase::Closed) => "is closed",
        _ if session.spec.close.is_some() => "is closed",
        _ => return None,
    };
    let why = session.status.as_ref().and_then(|status| status.message.clone()).map(|why| format!(" ({why})")).unwrap_or_default();
    let mut failure =
        Failure::new("SESSION_CLOSED", format!("session_id: session {name} {how}{why}: create a new one with create_session"));
    let phase = phase.filter(|phase| !matches!(phase, SessionPhase::Pending | SessionPhase::Ready)).unwrap_or(SessionPhase::Closed);
    failure.more.insert("phase".to_owned(), json!(phase.as_str()));
    Some(failure)
}

/// The sessions of this caller, newest first.
pub fn mine(gateway: &Gateway, who: &Principal) -> Vec<Arc<BrowserSession>> {
    let mut all = gateway.hub.sessions.all();
    all.retain(|session| session.metadata.namespace.as_deref() == Some(&gateway.settings.namespace) && who.is(session.spec.owner.as_ref()));
    all.sort_by(|a, b| b.metadata.creation_timestamp.cmp(&a.metadata.creation_timestamp).then_with(|| a.name_any().cmp(&b.name_any())));
    all
}

/// Creates a session for the caller. It is not ready yet.
pub async fn create(gateway: &Gateway, who: &Principal, mut spec: BrowserSessionSpec) -> Result<BrowserSession, Failure> {
    const WHAT: &str = "the session could not be created";
    spec.owner = Some(who.recorded(&gateway.settings.extra_keys));
    let mut random = [0_u8; names::SESSION_LETTERS];
    rand::rng().fill(&mut random);
    let name = names::session(random);
    let session = BrowserSession::new(&name, spec);
    let api: Api<BrowserSession> = Api::namespaced(gateway.client.clone(), &gateway.settings.namespace);
    let params = PostParams { field_manager: Some(super::MANAGER.to_owned()), ..PostParams::default() };
    let made = match Failure::asked(WHAT, api.create(&params, &session)).await? {
        // The name is random: a try before this one was stored, although its reply was lost.
        Err(kube::Error::Api(status)) if status.code == 409 => Failure::asked(WHAT, api.get(&name)).await?,
        made => made,
    };
    let made = made.map_err(|error| Failure::api(WHAT, &error))?;
    if !who.is(made.spec.owner.as_ref()) {
        return Err(Failure::new("UNAVAILABLE", format!("{WHAT}: its name was taken; try again")));
    }
    gateway.hub.sessions.offer(made.clone());
    Ok(made)
}

/// Closes a session on behalf of somebody who may. Closing a closed one changes nothing.
pub async fn close(gateway: &Gateway, who: &Principal, session: &BrowserSession) -> Result<(), Failure> {
    const WHAT: &str = "the session could not be closed";
    match write_close(gateway, who, session, None).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 || (status.code == 422 && status.message.contains("already closed")) => {
            Ok(())
        }
        Ok(Err(error)) => Err(Failure::api(WHAT, &error)),
        Err(_) => Err(Failure::new("UNAVAILABLE", format!("{WHAT}: the API server did not answer; try again"))),
    }
}

/// Writes who closes a session, and why.
pub async fn write_close(
    gateway: &Gateway,
    who: &Principal,
    session: &BrowserSession,
    reason: Option<String>,
) -> Result<Result<BrowserSession, kube::Error>, Elapsed> {
    let namespace = session.namespace().unwrap_or_else(|| gateway.settings.namespace.clone());
    let api: Api<BrowserSession> = Api::namespaced(gateway.client.clone(), &namespace);
    let patch = json!({"spec": {"close": Close { by: Some(who.recorded(&gateway.settings.extra_keys)), reason }}});
    let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
    let stored = tokio::time::timeout(ASKING, api.patch(&session.name_any(), &params, &Patch::Merge(&patch))).await?;
    if let Ok(stored) = &stored {
        gateway.hub.sessions.offer(stored.clone());
    }
    Ok(stored)
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
