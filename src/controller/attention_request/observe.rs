//! What a request's life depends on, read and not judged.

use crate::api::conditions::{self, AttachedReason, ConditionType, ReadyReason};
use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use crate::controller::browser_session::hard_end;
use crate::controller::context::Context;
use crate::controller::settings::Settings;
use crate::domain::attachment::{Attached, Liveness, POLLING_CLIENT};
use crate::domain::attention::{Seen, SessionSeen};
use crate::domain::canary::Trust;
use crate::domain::outcome::decided_at;
use crate::domain::{incarnation, session};
use crate::k8s::client::call;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

/// What was read.
pub(super) struct Observed {
    session: SessionSeen,
    attachments: Vec<Liveness>,
    attached: Option<Attached>,
    trust: Trust,
    /// The gateway processes at which calls wait now, sorted.
    pub(super) waiting: Vec<String>,
    /// Those of the attachments that do not live.
    pub(super) gone: Vec<String>,
}

impl Observed {
    pub(super) fn seen<'a>(&'a self, request: &'a AttentionRequest, settings: &Settings) -> Seen<'a> {
        Seen {
            request,
            session: self.session.clone(),
            attachments: &self.attachments,
            attached: self.attached,
            trust: self.trust,
            limits: settings.limits,
            grace_seconds: settings.grace,
        }
    }
}

pub(super) async fn observe(request: &AttentionRequest, context: &Context) -> Observed {
    let attached = recorded(request);
    let (attachments, waiting, gone) = attachments(request, attached, context).await;
    Observed { session: session(request, context).await, attachments, attached, trust: trust(request, context).await, waiting, gone }
}

/// Whether somebody waited when that was last recorded.
fn recorded(request: &AttentionRequest) -> Option<Attached> {
    let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions::find(conditions, ConditionType::Attached)?;
    if condition.status == "True" {
        return Some(Attached::Waiting);
    }
    let reason = AttachedReason::parse(&condition.reason).unwrap_or(AttachedReason::ClientDetached);
    Some(Attached::Nobody { reason, since: condition.last_transition_time.0 })
}

/// The processes of the attachments. One that was dead before somebody else came back does not say why nobody is there now.
async fn attachments(request: &AttentionRequest, before: Option<Attached>, context: &Context) -> (Vec<Liveness>, Vec<String>, Vec<String>) {
    let held_by = request.status.as_ref().map(|status| status.waiting_at.as_slice()).unwrap_or_default();
    let mut liveness = Vec::new();
    let mut waiting = Vec::new();
    let mut gone = Vec::new();
    for attachment in request.status.iter().flat_map(|status| &status.attachments) {
        let name = attachment.gateway.as_str();
        let seen = if name == POLLING_CLIENT { Liveness::Live } else { process(name, context).await };
        if seen != Liveness::Live {
            gone.push(name.to_owned());
        }
        let counts = match (seen, before) {
            (Liveness::Live, _) => {
                waiting.push(name.to_owned());
                true
            }
            (Liveness::Lost | Liveness::ShuttingDown, Some(Attached::Waiting)) => held_by.iter().any(|holder| holder == name),
            (Liveness::Lost | Liveness::ShuttingDown, Some(Attached::Nobody { .. }) | None) => true,
        };
        if counts {
            liveness.push(seen);
        }
    }
    waiting.sort_unstable();
    waiting.dedup();
    (liveness, waiting, gone)
}

async fn process(name: &str, context: &Context) -> Liveness {
    let api = context.api::<Lease>(&context.settings.namespace);
    // Absence of an answer is not evidence.
    context.processes.ask(&api, name, context.clock).await.unwrap_or(Liveness::Live)
}

async fn session(request: &AttentionRequest, context: &Context) -> SessionSeen {
    let Some(reference) = &request.spec.session_ref else { return SessionSeen::NotNamed };
    let namespace = request.namespace().unwrap_or_default();
    let ours = |session: &BrowserSession| reference.uid.is_none() || reference.uid == session.uid();
    let cached = context.stores.sessions.get(&ObjectRef::new(&reference.name).within(&namespace));
    if let Some(session) = cached.filter(|session| ours(session)) {
        return judge(request, &session, &context.settings);
    }
    // The watch may lag behind: only a read that is not from it says that a session is gone.
    match call(context.api::<BrowserSession>(&namespace).get_opt(&reference.name)).await {
        Ok(Some(session)) if ours(&session) => judge(request, &session, &context.settings),
        Ok(Some(_) | None) => SessionSeen::Gone,
        Err(error) => {
            tracing::warn!(%error, "the session of a request could not be read");
            SessionSeen::Unknown
        }
    }
}

fn judge(request: &AttentionRequest, seen: &BrowserSession, settings: &Settings) -> SessionSeen {
    if session::foreign(&request.spec, &seen.spec) {
        return SessionSeen::Foreign;
    }
    let status = seen.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    let by_other = session::closed_by_other(&seen.spec);
    if session::ended(phase) || by_other.is_some() {
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        return SessionSeen::Ended {
            phase: phase.filter(|_| session::ended(phase)).unwrap_or(crate::api::v1alpha1::SessionPhase::Closed),
            at: status.and_then(|status| status.ended_at.as_ref()).map(|time| time.0),
            by_other: by_other.unwrap_or_default(),
            evicted: conditions::find(conditions, ConditionType::Ready).is_some_and(|c| c.reason == ReadyReason::Evicted.as_str()),
            why: status.and_then(|status| status.message.clone()),
        };
    }
    if seen.metadata.deletion_timestamp.is_some() {
        return SessionSeen::Gone;
    }
    SessionSeen::Alive {
        incarnation: incarnation::of(status.and_then(|status| status.pod.as_ref())),
        // Also that of a session which says none yet: a deadline behind it would stay there.
        ends: Some(hard_end(seen, settings)),
    }
}

/// Whether the stored decision is honoured. Where that is not known the API server is asked at once.
async fn trust(request: &AttentionRequest, context: &Context) -> Trust {
    let namespace = request.namespace().unwrap_or_default();
    let spec = &request.spec;
    if spec.resolution.is_none() && spec.completion.is_none() && spec.cancel.is_none() {
        return Trust::Honour;
    }
    let now = context.now();
    let stored = decided_at(request, now).unwrap_or(now);
    match context.canaries.trust(&namespace, stored) {
        Trust::Hold => {
            super::super::ask_canary(context, &namespace).await;
            context.canaries.trust(&namespace, stored)
        }
        known @ (Trust::Honour | Trust::Refuse) => known,
    }
}
