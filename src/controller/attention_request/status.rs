//! The status that a plan means.

use crate::api::conditions::{self, AcceptedReason, AttachedReason, ConditionType, DeadlineNearReason, NewCondition, SettledReason};
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestStatus, Phase};
use crate::domain::attachment::Attached;
use crate::domain::attention::{NewPlan, OpenPlan};
use crate::domain::outcome::Outcome;
use crate::domain::time::{round_up, seconds_passed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

fn condition(kind: ConditionType, status: bool, reason: &'static str, message: impl Into<String>) -> NewCondition {
    NewCondition { kind, status: Some(status), reason, message: message.into() }
}

fn base(request: &AttentionRequest, new: &[NewCondition], now: Timestamp) -> AttentionRequestStatus {
    let status = request.status.clone().unwrap_or_default();
    let generation = request.metadata.generation;
    AttentionRequestStatus {
        observed_generation: generation,
        conditions: conditions::merge(&status.conditions, new, generation, now),
        current_target: request.spec.current_target().cloned(),
        ..status
    }
}

/// It was taken in.
pub(super) fn opened(request: &AttentionRequest, plan: &NewPlan, now: Timestamp) -> AttentionRequestStatus {
    let admitted = condition(ConditionType::Accepted, true, AcceptedReason::Admitted.as_str(), "Within the caps.");
    AttentionRequestStatus {
        phase: Some(Phase::Pending),
        // Rounded as the deadline is, so that an extension moves it by exactly what it says.
        opened_at: Some(Time(round_up(now))),
        deadline: Some(Time(plan.deadline)),
        incarnation: plan.incarnation.clone(),
        ..base(request, &[admitted], now)
    }
}

/// Whether its deadline was recorded to be near.
pub(super) fn was_near(request: &AttentionRequest) -> bool {
    request.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, ConditionType::DeadlineNear))
}

/// It is open. Once a call waits somewhere, what lost processes held says nothing any more and goes.
pub(super) fn open(
    request: &AttentionRequest,
    plan: &OpenPlan,
    waiting: &[String],
    gone: &[String],
    now: Timestamp,
) -> AttentionRequestStatus {
    let mut new = Vec::new();
    let known = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if plan.near || conditions::find(known, ConditionType::DeadlineNear).is_some() {
        let (reason, message) = if plan.near {
            (DeadlineNearReason::FourFifthsOver, "80 % of the wait are over.")
        } else {
            (DeadlineNearReason::Extended, "The deadline was extended.")
        };
        new.push(condition(ConditionType::DeadlineNear, plan.near, reason.as_str(), message));
    }
    match plan.attached {
        None => {}
        Some(Attached::Waiting) => {
            new.push(condition(ConditionType::Attached, true, AttachedReason::Waiting.as_str(), waiting.join(" ")));
        }
        Some(nobody @ Attached::Nobody { .. }) => {
            new.push(condition(ConditionType::Attached, false, nobody.reason().as_str(), "Nobody waits for the answer."));
        }
    }
    let mut status =
        AttentionRequestStatus { deadline: Some(Time(plan.deadline)), incarnation: plan.incarnation.clone(), ..base(request, &new, now) };
    status.waiting_at.clear();
    if plan.attached == Some(Attached::Waiting) {
        status.waiting_at = waiting.to_vec();
        status.attachments.retain(|attachment| !gone.contains(&attachment.gateway));
    }
    status
}

/// It has its outcome, and nobody waits any more. `at` is when that was decided.
pub(super) fn settled(request: &AttentionRequest, outcome: &Outcome, at: Timestamp, now: Timestamp) -> AttentionRequestStatus {
    let note = match outcome.reason {
        // A person's words are for the agent, and not for every list of conditions.
        SettledReason::Answered | SettledReason::ConfirmedByUser | SettledReason::HandoverEnded | SettledReason::AgentResumed => {
            outcome.phase.as_str().to_owned()
        }
        SettledReason::RateLimited
        | SettledReason::DeadlineExceeded
        | SettledReason::ClientCancelled
        | SettledReason::ClientGone
        | SettledReason::ServerRestarted
        | SettledReason::ServerShutdown
        | SettledReason::ForeignSession
        | SettledReason::SessionNotFound
        | SettledReason::SessionClosed
        | SettledReason::SessionCrashed
        | SettledReason::SessionExpired
        | SettledReason::SessionEvicted
        | SettledReason::IdentityNotEnforced
        | SettledReason::Deleted => outcome.message.clone().unwrap_or_default(),
    };
    let mut new = vec![condition(ConditionType::Settled, true, outcome.reason.as_str(), note)];
    if outcome.reason == SettledReason::RateLimited {
        let message = outcome.message.clone().unwrap_or_default();
        new.push(condition(ConditionType::Accepted, false, AcceptedReason::RateLimited.as_str(), message));
    }
    let status = request.status.as_ref();
    let opened = status.and_then(|status| status.opened_at.as_ref()).or(request.creation_timestamp().as_ref()).map_or(at, |time| time.0);
    AttentionRequestStatus {
        phase: Some(outcome.phase),
        settled_at: Some(Time(at)),
        waited_seconds: Some(seconds_passed(opened, at)),
        message: outcome.message.clone(),
        resolved_by: outcome.resolved_by.clone(),
        attachments: Vec::new(),
        waiting_at: Vec::new(),
        ..base(request, &new, now)
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
