//! What a request has come to, read the same way from a stored decision and from the settled status.

use crate::api::conditions::{self, ConditionType, SettledReason};
use crate::api::v1alpha1::{AttentionRequest, Phase, ResolutionOutcome};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// The message of a request that the asker does not have.
pub const UNKNOWN: &str = "Unknown attention request";
/// The message of a deleted one.
pub const DELETED: &str = "The attention request was deleted.";
const CANCELLED: &str = "The client cancelled the attention request.";

/// The status of a result, as agents read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The operator resolved it.
    Resolved,
    /// The operator rejected it, or it was lost; the message says which.
    Rejected,
    /// Nobody answered in time.
    Timeout,
    /// The client cancelled it or went away.
    Cancelled,
    /// Still open: ask again.
    Pending,
}

/// What the agent's call returns: exactly these fields, absent ones omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The status.
    pub status: Status,
    /// The person's reply, or what happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The user name of the person who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// When it got its outcome, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<i64>,
    /// The request's name.
    pub request_id: String,
}

impl Outcome {
    /// An outcome with a message alone.
    #[must_use]
    pub fn said(status: Status, message: impl Into<String>, request_id: &str) -> Self {
        Self { status, message: Some(message.into()), resolved_by: None, resolved_at: None, request_id: request_id.to_owned() }
    }

    /// There is no such request for this caller.
    #[must_use]
    pub fn unknown(request_id: &str) -> Self {
        Self::said(Status::Rejected, UNKNOWN, request_id)
    }
}

/// How far a request has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The controller has not seen it yet.
    New,
    /// It waits for a person.
    Open,
    /// Its decision is stored and final, but not recorded yet. May be handed over while identities are enforced.
    Decided(Outcome),
    /// It is settled.
    Settled(Outcome),
    /// Over a cap: it never was open. The controller's message.
    RateLimited(String),
}

/// Reads a request.
#[must_use]
pub fn progress(request: &AttentionRequest) -> Progress {
    let id = request.metadata.name.clone().unwrap_or_default();
    let status = request.status.as_ref();
    let phase = status.and_then(|s| s.phase);
    let resolved_at = decided_at(request).map(Timestamp::as_millisecond);
    let Some(phase) = phase.filter(|phase| *phase != Phase::Pending) else {
        return match decision(request) {
            Some((state, message, by)) => {
                Progress::Decided(Outcome { status: state, message, resolved_by: by, resolved_at, request_id: id })
            }
            None if phase.is_some() => Progress::Open,
            None => Progress::New,
        };
    };
    let reason = status
        .and_then(|s| conditions::find(&s.conditions, ConditionType::Settled))
        .and_then(|condition| SettledReason::parse(&condition.reason));
    let recorded = status.and_then(|s| s.message.clone()).filter(|message| !message.is_empty());
    if reason == Some(SettledReason::RateLimited) {
        return Progress::RateLimited(recorded.unwrap_or_default());
    }
    let state = match phase {
        Phase::Resolved => Status::Resolved,
        Phase::Timeout => Status::Timeout,
        Phase::Cancelled => Status::Cancelled,
        Phase::Rejected | Phase::Pending => Status::Rejected,
    };
    // A decision reads the same before and after it is recorded; one that was made while identities were not enforced is
    // not the agent's to read.
    let decided = decision(request).filter(|(stored, ..)| *stored == state && reason != Some(SettledReason::IdentityNotEnforced));
    let (message, resolved_by) = match decided {
        Some((_, message, by)) => (message, by),
        None => (recorded, status.and_then(|s| s.resolved_by.clone())),
    };
    Progress::Settled(Outcome { status: state, message, resolved_by, resolved_at, request_id: id })
}

/// The decision in the spec: status, message and who.
fn decision(request: &AttentionRequest) -> Option<(Status, Option<String>, Option<String>)> {
    let spec = &request.spec;
    if let Some(resolution) = &spec.resolution {
        let state = match resolution.outcome {
            ResolutionOutcome::Resolved => Status::Resolved,
            ResolutionOutcome::Rejected => Status::Rejected,
        };
        let said = [&resolution.message, &resolution.answer, &resolution.summary, &resolution.note];
        let message = said.into_iter().flatten().find(|text| !text.is_empty()).cloned();
        return Some((state, message, resolution.by.as_ref().map(|by| by.username.clone())));
    }
    if let Some(completion) = &spec.completion {
        let note = completion.note.clone().filter(|note| !note.is_empty());
        return Some((Status::Resolved, note, completion.by.as_ref().map(|by| by.username.clone())));
    }
    spec.cancel.as_ref().map(|_| (Status::Cancelled, Some(CANCELLED.to_owned()), None))
}

/// When the decision was stored, as the API server stamped it; once it is recorded, what was recorded.
#[must_use]
pub fn decided_at(request: &AttentionRequest) -> Option<Timestamp> {
    if let Some(settled) = request.status.as_ref().and_then(|s| s.settled_at.as_ref()) {
        return Some(settled.0);
    }
    let field = if request.spec.resolution.is_some() {
        "f:resolution"
    } else if request.spec.completion.is_some() {
        "f:completion"
    } else if request.spec.cancel.is_some() {
        "f:cancel"
    } else {
        return None;
    };
    request
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(&format!("/f:spec/{field}")).is_some()))
        .filter_map(|entry| entry.time.as_ref().map(|time| time.0))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Cancel, Completion, Principal, Resolution};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, FieldsV1, ManagedFieldsEntry, Time};
    use serde_json::json;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn request(spec: AttentionRequestSpec, phase: Option<Phase>) -> AttentionRequest {
        let mut request = AttentionRequest::new("a-1", spec);
        request.status = phase.map(|phase| AttentionRequestStatus { phase: Some(phase), ..AttentionRequestStatus::default() });
        request
    }

    fn answered(message: &str) -> AttentionRequestSpec {
        AttentionRequestSpec {
            resolution: Some(Resolution { message: Some(message.into()), by: Some(Principal::named("ann")), ..Resolution::default() }),
            ..AttentionRequestSpec::default()
        }
    }

    fn settled(mut request: AttentionRequest, reason: &str, message: Option<&str>) -> AttentionRequest {
        let status = request.status.as_mut().unwrap();
        status.settled_at = Some(at(20));
        status.message = message.map(str::to_owned);
        status.conditions = vec![Condition {
            type_: "Settled".into(),
            status: "True".into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: at(20),
        }];
        request
    }

    fn json_of(progress: Progress) -> serde_json::Value {
        match progress {
            Progress::Settled(outcome) | Progress::Decided(outcome) => serde_json::to_value(outcome).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_reads_the_same_before_and_after_it_is_recorded() {
        let mut decided = request(answered("Done, continue."), Some(Phase::Pending));
        decided.metadata.managed_fields = Some(vec![
            ManagedFieldsEntry {
                time: Some(at(10)),
                fields_v1: Some(FieldsV1(json!({"f:spec": {"f:reason": {}}}))),
                ..ManagedFieldsEntry::default()
            },
            ManagedFieldsEntry {
                time: Some(at(20)),
                fields_v1: Some(FieldsV1(json!({"f:spec": {"f:resolution": {}}}))),
                ..ManagedFieldsEntry::default()
            },
        ]);
        let recorded = settled(request(answered("Done, continue."), Some(Phase::Resolved)), "Answered", Some("Done, continue."));
        let want =
            json!({"status": "resolved", "message": "Done, continue.", "resolved_by": "ann", "resolved_at": 20_000, "request_id": "a-1"});
        assert!(matches!(progress(&decided), Progress::Decided(_)));
        assert_eq!(json_of(progress(&decided)), want);
        assert!(matches!(progress(&recorded), Progress::Settled(_)));
        assert_eq!(json_of(progress(&recorded)), want);
    }

    #[test]
    fn nothing_to_report_is_omitted() {
        let recorded = settled(request(answered(""), Some(Phase::Resolved)), "Answered", None);
        let value = json_of(progress(&recorded));
        assert_eq!(value, json!({"status": "resolved", "resolved_by": "ann", "resolved_at": 20_000, "request_id": "a-1"}));
        let timeout = settled(request(AttentionRequestSpec::default(), Some(Phase::Timeout)), "DeadlineExceeded", Some("late"));
        assert_eq!(
            json_of(progress(&timeout)),
            json!({"status": "timeout", "message": "late", "resolved_at": 20_000, "request_id": "a-1"})
        );
    }

    #[test]
    fn each_way_to_end() {
        let cancel = AttentionRequestSpec { cancel: Some(Cancel::default()), ..AttentionRequestSpec::default() };
        let value = json_of(progress(&request(cancel, None)));
        assert_eq!((value["status"].as_str(), value["message"].as_str()), (Some("cancelled"), Some(CANCELLED)));
        let completion = AttentionRequestSpec { completion: Some(Completion::default()), ..AttentionRequestSpec::default() };
        assert_eq!(json_of(progress(&request(completion, Some(Phase::Pending))))["status"], "resolved");
        let limited = settled(request(AttentionRequestSpec::default(), Some(Phase::Rejected)), "RateLimited", Some("8 are open"));
        assert_eq!(progress(&limited), Progress::RateLimited("8 are open".into()));
        assert_eq!(progress(&request(AttentionRequestSpec::default(), None)), Progress::New);
        assert_eq!(progress(&request(AttentionRequestSpec::default(), Some(Phase::Pending))), Progress::Open);
    }

    #[test]
    fn an_answer_that_nobody_could_vouch_for_is_not_handed_over() {
        let forged = settled(request(answered("pay"), Some(Phase::Rejected)), "IdentityNotEnforced", Some("refused"));
        let value = json_of(progress(&forged));
        assert_eq!(
            (value["status"].as_str(), value["message"].as_str(), value.get("resolved_by")),
            (Some("rejected"), Some("refused"), None)
        );
    }
}
