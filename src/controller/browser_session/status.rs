//! The status that a plan means.

use super::build::pod_name;
use super::observe::{Observed, ends};
use crate::api::conditions::{self, ConditionType, ControlHeldReason, IdlePausedReason, NewCondition, ReadyReason, SandboxedReason};
use crate::api::v1alpha1::{
    AttentionRequest, BrowserSession, BrowserSessionStatus, ExecutionState, ExecutionStatus, Idle, PodStatus, SessionPhase,
};
use crate::controller::settings::Settings;
use crate::domain::idle_lease::{CONTROL, Clock};
use crate::domain::session::End;
use crate::domain::time::after;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;

/// How well the browser is isolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sandbox {
    pub(super) tier: SandboxedReason,
    pub(super) message: String,
}

/// A renewal of the idle lease is recorded when it moves the deadline by at least this share of the timeout.
const WORTH_RECORDING: i64 = 10;

fn condition(kind: ConditionType, status: bool, reason: &'static str, message: impl Into<String>) -> NewCondition {
    NewCondition { kind, status: Some(status), reason, message: message.into() }
}

fn base(
    session: &BrowserSession,
    observed: &Observed,
    mut new: Vec<NewCondition>,
    settings: &Settings,
    now: Timestamp,
) -> BrowserSessionStatus {
    let status = session.status.clone().unwrap_or_default();
    let generation = session.metadata.generation;
    let driving = status.control.as_ref().is_some_and(|control| control.holder.is_some());
    new.push(if driving {
        condition(ConditionType::ControlHeld, true, ControlHeldReason::PersonDriving.as_str(), "A person drives the browser.")
    } else {
        condition(ConditionType::ControlHeld, false, ControlHeldReason::AgentDriving.as_str(), "")
    });
    let idle = observed.clock.as_ref().map(|clock| idle(clock, status.idle.as_ref(), session, settings));
    if let Some(clock) = &observed.clock {
        new.push(paused(clock));
    }
    BrowserSessionStatus {
        observed_generation: generation,
        conditions: conditions::merge(&status.conditions, &new, generation, now),
        ends_at: Some(Time(ends(session, settings))),
        open_requests: observed.names().into_iter().take(64).collect(),
        execution: execution(status.execution.as_ref(), session, &observed.open),
        idle: idle.or(status.idle.clone()),
        pod: pod(session, observed),
        ..status
    }
}

fn pod(session: &BrowserSession, observed: &Observed) -> Option<PodStatus> {
    let recorded = session.status.as_ref().and_then(|status| status.pod.clone());
    let ours = observed.life.as_ref().filter(|life| life.ours);
    match (ours, recorded) {
        // A pod that takes the recorded one's place is a loss, which the plan sees: the record stays.
        (Some(life), Some(recorded)) if recorded.uid.as_ref().is_some_and(|uid| *uid != life.uid) => Some(recorded),
        (Some(life), _) => Some(PodStatus {
            name: pod_name(session),
            uid: Some(life.uid.clone()),
            ip: life.ip.clone(),
            restart_count: Some(life.restart_count),
        }),
        (None, recorded) => recorded,
    }
}

/// The lease, as it is recorded: small renewals of a running clock are not worth a write.
fn idle(clock: &Clock, recorded: Option<&Idle>, session: &BrowserSession, settings: &Settings) -> Idle {
    let step = session.spec.idle_timeout_seconds.unwrap_or(settings.idle_timeout) / WORTH_RECORDING;
    match (clock, recorded.and_then(|idle| idle.deadline.as_ref()), recorded) {
        (Clock::Running { deadline }, Some(before), Some(recorded))
            if recorded.remaining_seconds.is_none() && *deadline < after(before.0, step) =>
        {
            recorded.clone()
        }
        _ => clock.record(),
    }
}

fn paused(clock: &Clock) -> NewCondition {
    let (reason, message) = match clock {
        Clock::Running { .. } => {
            return condition(ConditionType::IdlePaused, false, IdlePausedReason::Running.as_str(), "");
        }
        Clock::Paused { by, .. } if by.iter().all(|name| name == CONTROL) => (IdlePausedReason::ControlHeld, "A person holds control."),
        Clock::Paused { .. } => (IdlePausedReason::RequestsOpen, "Attention requests are open."),
    };
    condition(ConditionType::IdlePaused, true, reason.as_str(), message)
}

/// The run, as the open requests of the session's owner show it. Each change of state is one version more.
fn execution(recorded: Option<&ExecutionStatus>, session: &BrowserSession, open: &[Arc<AttentionRequest>]) -> Option<ExecutionStatus> {
    let owner = session.spec.owner.as_ref();
    let waits = open
        .iter()
        .filter(|request| owner.zip(request.spec.requester.as_ref()).is_some_and(|(owner, requester)| owner.is(requester)))
        .filter(|request| request.spec.execution.is_some())
        .min_by_key(|request| (request.metadata.creation_timestamp.clone(), request.metadata.uid.clone()))
        .and_then(|request| request.spec.execution.as_ref());
    let version = recorded.map_or(0, |execution| execution.state_version);
    let moved = |id: &str, state| Some(ExecutionStatus { id: id.to_owned(), state, state_version: version.saturating_add(1) });
    match (waits, recorded) {
        (Some(wanted), Some(now)) if now.state == ExecutionState::NeedsHuman && now.id == wanted.id => recorded.cloned(),
        (Some(wanted), _) => moved(&wanted.id, ExecutionState::NeedsHuman),
        (None, Some(now)) if now.state == ExecutionState::NeedsHuman => moved(&now.id, ExecutionState::Waiting),
        (None, now) => now.cloned(),
    }
}

/// The pod is not there, or not ready.
pub(super) fn starting(
    session: &BrowserSession,
    observed: &Observed,
    waiting: Option<&str>,
    settings: &Settings,
    now: Timestamp,
) -> BrowserSessionStatus {
    let was_ready = session.status.as_ref().and_then(|status| status.phase) == Some(SessionPhase::Ready);
    let (reason, message) = match waiting {
        _ if was_ready => (ReadyReason::PodStarting, "The browser does not answer."),
        Some(waiting) => (ReadyReason::PodPending, waiting),
        None => (ReadyReason::PodStarting, "The pod starts."),
    };
    let phase = if was_ready { SessionPhase::Ready } else { SessionPhase::Pending };
    let new = vec![condition(ConditionType::Ready, false, reason.as_str(), message)];
    BrowserSessionStatus { phase: Some(phase), ..base(session, observed, new, settings, now) }
}

/// Tools can be called.
pub(super) fn ready(
    session: &BrowserSession,
    observed: &Observed,
    sandbox: Option<&Sandbox>,
    settings: &Settings,
    now: Timestamp,
) -> BrowserSessionStatus {
    let mut new = vec![condition(ConditionType::Ready, true, ReadyReason::BrowserReady.as_str(), "The browser answers.")];
    if let Some(sandbox) = sandbox {
        let own = sandbox.tier == SandboxedReason::Native;
        new.push(condition(ConditionType::Sandboxed, own, sandbox.tier.as_str(), sandbox.message.clone()));
    }
    BrowserSessionStatus { phase: Some(SessionPhase::Ready), ..base(session, observed, new, settings, now) }
}

/// It ends now. What it holds is removed in a later pass.
pub(super) fn ended(session: &BrowserSession, observed: &Observed, end: &End, settings: &Settings, now: Timestamp) -> BrowserSessionStatus {
    let ready = condition(ConditionType::Ready, false, end.reason.as_str(), end.message.clone());
    let still = Observed { pod: None, life: observed.life.clone(), open: observed.open.clone(), clock: None };
    let status = base(session, &still, vec![ready], settings, now);
    // That it holds something is recorded even when nothing was: a pod could have been made just before.
    let pod = status.pod.clone().or_else(|| Some(PodStatus { name: pod_name(session), ..PodStatus::default() }));
    BrowserSessionStatus {
        phase: Some(end.phase),
        message: Some(end.message.chars().take(1024).collect()),
        ended_at: Some(Time(now)),
        idle: None,
        pod,
        ..status
    }
}

/// It has ended, and holds nothing any more.
pub(super) fn cleaned(session: &BrowserSession, observed: &Observed, now: Timestamp) -> BrowserSessionStatus {
    let status = session.status.clone().unwrap_or_default();
    BrowserSessionStatus {
        pod: None,
        ended_at: status.ended_at.clone().or(Some(Time(now))),
        open_requests: observed.names().into_iter().take(64).collect(),
        execution: execution(status.execution.as_ref(), session, &observed.open),
        control: None,
        ..status
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
