//! What a session's life depends on, read and not judged.

use super::super::context::Context;
use super::super::error::{During as _, Error};
use super::super::index::{key, unsettled};
use super::super::settings::Settings;
use super::build::{BROWSER, pod_name};
use crate::api::conditions::{self, ConditionType, ReadyReason};
use crate::api::v1alpha1::{AttentionRequest, BrowserSession, BrowserSessionStatus, Phase, SessionPhase};
use crate::domain::idle_lease::{self, CONTROL, Clock, Signals};
use crate::domain::session::{self, Loss, PodSeen, Seen};
use crate::k8s::client::{call, list_by_field};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

/// What was read.
pub(super) struct Observed {
    /// The pod of the session's name.
    pub(super) pod: Option<Arc<Pod>>,
    /// The same, as far as the session's life goes.
    pub(super) life: Option<PodSeen>,
    /// The open requests, sorted.
    pub(super) open: Vec<Arc<AttentionRequest>>,
    /// The clock of the idle lease, once the session was ready.
    pub(super) clock: Option<Clock>,
}

impl Observed {
    pub(super) fn seen<'a>(&'a self, session: &'a BrowserSession, settings: &Settings) -> Seen<'a> {
        let status = session.status.as_ref();
        let created = created(session);
        Seen {
            spec: &session.spec,
            phase: status.and_then(|status| status.phase),
            recorded: status.and_then(|status| status.pod.as_ref()),
            pod: self.life.as_ref(),
            created,
            said: said(status),
            ends: ends(session, settings),
            idle_until: self.clock.as_ref().and_then(Clock::expires),
            start_seconds: settings.start_timeout,
        }
    }

    /// Names of the open requests.
    pub(super) fn names(&self) -> Vec<String> {
        self.open.iter().map(|request| request.name_any()).collect()
    }
}

/// What the recorded Ready condition says of a session that is not ready.
fn said(status: Option<&BrowserSessionStatus>) -> Option<&str> {
    let ready = conditions::find(&status?.conditions, ConditionType::Ready)?;
    (ready.reason == ReadyReason::PodPending.as_str() && !ready.message.is_empty()).then_some(ready.message.as_str())
}

/// When a session was created.
pub(super) fn created(session: &BrowserSession) -> Timestamp {
    session.creation_timestamp().map_or(Timestamp::MAX, |time| time.0)
}

/// The hard end: as recorded, since a changed setting moves no session's end.
pub(in crate::controller) fn ends(session: &BrowserSession, settings: &Settings) -> Timestamp {
    let recorded = session.status.as_ref().and_then(|status| status.ends_at.as_ref()).map(|time| time.0);
    recorded.unwrap_or_else(|| session::ends(created(session), &session.spec, settings.max_lifetime))
}

pub(super) async fn observe(session: &BrowserSession, context: &Context) -> Result<Observed, Error> {
    let namespace = session.namespace().unwrap_or_default();
    let pod = pod(session, &namespace, context).await?;
    let life = pod.as_ref().map(|pod| life(pod, session));
    let open = open(session, &namespace, context);
    let now = context.now();
    let ready = session.status.as_ref().and_then(|status| status.phase) == Some(SessionPhase::Ready);
    let clock = (ready || life.as_ref().is_some_and(|life| life.ready)).then(|| {
        let reference = ObjectRef::<Lease>::new(&idle_lease::name(&session.name_any())).within(&namespace);
        let lease = context.stores.activity.get(&reference);
        clock(session, &open, lease.as_deref().and_then(last_used), &context.settings, now)
    });
    Ok(Observed { pod, life, open, clock })
}

/// The pod. One that was recorded and is not in the watch is asked for, since the watch may lag behind.
async fn pod(session: &BrowserSession, namespace: &str, context: &Context) -> Result<Option<Arc<Pod>>, Error> {
    let name = pod_name(session);
    if let Some(pod) = context.stores.pods.get(&ObjectRef::new(&name).within(namespace)) {
        return Ok(Some(pod));
    }
    let status = session.status.as_ref();
    if session::ended(status.and_then(|status| status.phase)) && status.is_none_or(|status| status.pod.is_none()) {
        return Ok(None);
    }
    let pod = call(context.api::<Pod>(namespace).get_opt(&name)).await.during("the pod of a session")?;
    Ok(pod.map(Arc::new))
}

/// The requests that are taken in and not decided.
fn open(session: &BrowserSession, namespace: &str, context: &Context) -> Vec<Arc<AttentionRequest>> {
    let names = context.index.of_session(&key(session));
    let all = names.iter().filter_map(|name| context.stores.requests.get(&ObjectRef::new(name).within(namespace)));
    all.filter(|request| is_open(request, session)).collect()
}

fn is_open(request: &AttentionRequest, session: &BrowserSession) -> bool {
    let ours = request.spec.session_ref.as_ref().is_some_and(|reference| reference.uid.is_none() || reference.uid == session.uid());
    let pending = request.status.as_ref().and_then(|status| status.phase) == Some(Phase::Pending);
    ours && pending && unsettled(request).is_some_and(|entry| !entry.decided)
}

fn last_used(lease: &Lease) -> Option<Timestamp> {
    lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
}

fn clock(
    session: &BrowserSession,
    open: &[Arc<AttentionRequest>],
    activity: Option<Timestamp>,
    settings: &Settings,
    now: Timestamp,
) -> Clock {
    let status = session.status.as_ref();
    let mut paused_by: Vec<String> = open.iter().map(|request| request.name_any()).collect();
    if status.and_then(|status| status.control.as_ref()).is_some_and(|control| control.holder.is_some()) {
        paused_by.push(CONTROL.to_owned());
    }
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let resumed = conditions::find(conditions, ConditionType::IdlePaused).filter(|paused| paused.status == "False");
    let signals = Signals {
        timeout_seconds: session.spec.idle_timeout_seconds.unwrap_or(settings.idle_timeout),
        usable: now,
        activity,
        resumed: resumed.map(|condition| condition.last_transition_time.0),
        paused_by: &paused_by,
    };
    Clock::next(Clock::recorded(status.and_then(|status| status.idle.as_ref())).as_ref(), signals, now)
}

/// Whether something that the watches have not told yet keeps an idle session alive: a request, or activity. The hard end is
/// kept by nothing.
pub(super) async fn renewed_meanwhile(
    session: &BrowserSession,
    observed: &Observed,
    context: &Context,
    now: Timestamp,
) -> Result<bool, Error> {
    if ends(session, &context.settings) <= now {
        return Ok(false);
    }
    let namespace = session.namespace().unwrap_or_default();
    let name = session.name_any();
    let open = |request: &AttentionRequest| {
        let of_it = request.spec.session_ref.as_ref().is_some_and(|named| named.name == name);
        unsettled(request).filter(|entry| of_it && !entry.decided).map(drop)
    };
    let open = list_by_field(&context.api::<AttentionRequest>(&namespace), "spec.sessionRef.name", &name, open).await;
    if !open.during("the requests of a session")?.is_empty() {
        return Ok(true);
    }
    let lease = call(context.api::<Lease>(&namespace).get_opt(&idle_lease::name(&name))).await.during("the idle lease of a session")?;
    let fresh = clock(session, &observed.open, lease.as_ref().and_then(last_used), &context.settings, now);
    Ok(fresh.expires().is_none_or(|expires| expires > now))
}

/// A pod, as far as the session's life goes.
pub(super) fn life(pod: &Pod, session: &BrowserSession) -> PodSeen {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let browser = containers.iter().find(|container| container.name == BROWSER);
    let conditions = status.conditions.unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let disruption = condition("DisruptionTarget").filter(|c| c.status == "True").and_then(|c| c.reason.as_deref());
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    PodSeen {
        uid: pod.uid().unwrap_or_default(),
        ours: owner.is_some_and(|owner| Some(&owner.uid) == session.uid().as_ref()),
        ip: status.pod_ip,
        restart_count: browser.map(|container| container.restart_count).unwrap_or_default(),
        ready: condition("Ready").is_some_and(|c| c.status == "True"),
        lost: loss(pod, browser, status.phase.as_deref(), disruption.or(status.reason.as_deref())),
        created: pod.creation_timestamp().map_or_else(|| created(session), |time| time.0),
        waiting: browser.and_then(waiting).or_else(|| {
            condition("PodScheduled").filter(|c| c.status == "False").map(|c| {
                let reason = c.reason.clone().unwrap_or_default();
                session::bounded(&format!("{reason}: {}", c.message.clone().unwrap_or_default()))
            })
        }),
    }
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone().unwrap_or_default();
    Some(match &waiting.message {
        Some(message) => session::bounded(&format!("{reason}: {message}")),
        None => reason,
    })
}

fn loss(pod: &Pod, browser: Option<&ContainerStatus>, phase: Option<&str>, why: Option<&str>) -> Option<Loss> {
    let terminated = browser.and_then(|container| {
        let now = container.state.as_ref().and_then(|state| state.terminated.as_ref());
        now.or_else(|| container.last_state.as_ref().and_then(|state| state.terminated.as_ref()))
    });
    let over = matches!(phase, Some("Failed" | "Succeeded")) || terminated.is_some();
    if !over && pod.metadata.deletion_timestamp.is_none() {
        return None;
    }
    let named = match why {
        Some("Evicted" | "EvictionByEvictionAPI" | "TerminationByKubelet" | "NodeShutdown" | "Terminated") => Some(Loss::Evicted),
        Some("Preempting" | "PreemptionByScheduler") => Some(Loss::Preempted),
        Some("NodeLost" | "DeletionByTaintManager" | "DeletionByPodGC") => Some(Loss::NodeLost),
        Some(_) | None => None,
    };
    Some(match (named, terminated) {
        (_, Some(end)) if end.reason.as_deref() == Some("OOMKilled") => Loss::OutOfMemory,
        (Some(named), _) => named,
        (None, Some(end)) if pod.metadata.deletion_timestamp.is_none() => {
            let words = end.message.as_deref().map(session::bounded).filter(|words| !words.is_empty());
            Loss::Exited(end.exit_code, words)
        }
        (None, _) => Loss::Deleted,
    })
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
