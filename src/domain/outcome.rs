//! How a request ended, and what its agent reads.

use super::messages;
use super::time::after;
use crate::api::conditions::{self, ConditionType, SettledReason};
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, CompletionReason, Phase, ResolutionOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The API server's clock may be this far ahead of ours, in seconds, and its stamps are still taken as they are: else two readers
/// would not say the same.
const MOST_SKEW_SECONDS: i64 = 60;

/// The end of a request. There is exactly one, and it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Never `Pending`.
    pub phase: Phase,
    /// Why.
    pub reason: SettledReason,
    /// What the agent reads; absent when there is nothing to report.
    pub message: Option<String>,
    /// The user name of the person who answered.
    pub resolved_by: Option<String>,
}

impl Outcome {
    /// An end that no person decided.
    #[must_use]
    pub fn of(phase: Phase, reason: SettledReason, message: impl Into<String>) -> Self {
        Self { phase, reason, message: Some(message.into()), resolved_by: None }
    }

    /// The decision that is stored in the spec, which is final the moment it is stored. Whether identities were enforced
    /// then is another question: see [`super::canary`].
    #[must_use]
    pub fn decided(spec: &AttentionRequestSpec) -> Option<Self> {
        if let Some(resolution) = &spec.resolution {
            let phase = match resolution.outcome {
                ResolutionOutcome::Resolved => Phase::Resolved,
                ResolutionOutcome::Rejected => Phase::Rejected,
            };
            let message = [&resolution.message, &resolution.answer].into_iter().flatten().find(|text| !text.is_empty()).cloned();
            let resolved_by = resolution.by.as_ref().map(|by| by.username.clone());
            return Some(Self { phase, reason: SettledReason::Answered, message, resolved_by });
        }
        if let Some(completion) = &spec.completion {
            let reason = match completion.reason {
                CompletionReason::ConfirmedByUser => SettledReason::ConfirmedByUser,
                CompletionReason::HandoverEnded => SettledReason::HandoverEnded,
                CompletionReason::AgentResumed => SettledReason::AgentResumed,
            };
            let message = completion.note.clone().filter(|note| !note.is_empty());
            return Some(Self { phase: Phase::Resolved, reason, message, resolved_by: None });
        }
        spec.cancel.as_ref().map(|_| Self::of(Phase::Cancelled, SettledReason::ClientCancelled, messages::CLIENT_CANCELLED))
    }

    /// The end that is recorded in the status.
    #[must_use]
    pub fn recorded(request: &AttentionRequest) -> Option<Self> {
        let status = request.status.as_ref()?;
        let phase = status.phase.filter(|phase| *phase != Phase::Pending)?;
        let reason = conditions::find(&status.conditions, ConditionType::Settled)
            .and_then(|condition| SettledReason::parse(&condition.reason))
            .unwrap_or(match phase {
                Phase::Resolved | Phase::Rejected | Phase::Pending => SettledReason::Answered,
                Phase::Timeout => SettledReason::DeadlineExceeded,
                Phase::Cancelled => SettledReason::ClientCancelled,
            });
        let message = status.message.clone().filter(|text| !text.is_empty());
        Some(Self { phase, reason, message, resolved_by: status.resolved_by.clone() })
    }

    /// What is recorded, else what is decided.
    #[must_use]
    pub fn known(request: &AttentionRequest) -> Option<Self> {
        Self::recorded(request).or_else(|| Self::decided(&request.spec))
    }

    /// What the agent reads of it.
    #[must_use]
    pub fn result(&self, request_id: impl Into<String>, resolved_at: Option<Timestamp>) -> AgentResult {
        AgentResult {
            status: AgentStatus::of(self.phase),
            message: self.message.clone(),
            resolved_by: self.resolved_by.clone(),
            resolved_at: resolved_at.map(Timestamp::as_millisecond),
            request_id: request_id.into(),
        }
    }
}

/// The word that an agent reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Done, continue.
    Resolved,
    /// Give up or try something else, or the request was lost; the message says which.
    Rejected,
    /// Nobody answered in time.
    Timeout,
    /// The client withdrew it or is gone.
    Cancelled,
}

impl AgentStatus {
    const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Resolved => Self::Resolved,
            Phase::Rejected | Phase::Pending => Self::Rejected,
            Phase::Timeout => Self::Timeout,
            Phase::Cancelled => Self::Cancelled,
        }
    }
}

/// What `request_attention` and `get_attention_result` return of a settled request. What there is not to report is left
/// out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentResult {
    /// How it ended.
    pub status: AgentStatus,
    /// The person's reply, or why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<i64>,
    /// The request's name.
    pub request_id: String,
}

impl AgentResult {
    /// What a settled or decided request's agent reads.
    #[must_use]
    pub fn known(request: &AttentionRequest, now: Timestamp) -> Option<Self> {
        let id = request.metadata.name.clone().unwrap_or_default();
        Some(Outcome::known(request)?.result(id, resolved_at(request, now)))
    }

    /// No such id, or another's.
    #[must_use]
    pub fn unknown(request_id: impl Into<String>) -> Self {
        Outcome::of(Phase::Rejected, SettledReason::Deleted, messages::UNKNOWN).result(request_id, None)
    }

    /// The object was deleted while somebody waited.
    #[must_use]
    pub fn deleted(request_id: impl Into<String>, at: Option<Timestamp>) -> Self {
        Outcome::of(Phase::Rejected, SettledReason::Deleted, messages::DELETED).result(request_id, at)
    }
}

/// When it ended: as recorded, else as the API server stamped the write of the decision. The controller records the
/// latter, so both say the same.
#[must_use]
pub fn resolved_at(request: &AttentionRequest, now: Timestamp) -> Option<Timestamp> {
    let recorded = request.status.as_ref().and_then(|status| status.settled_at.as_ref()).map(|time| time.0);
    recorded.or_else(|| decided_at(request, now))
}

/// When the decision in the spec was stored, by the server's stamp of the write that set it.
///
/// The server keeps these stamps in `metadata.managedFields`, where everybody who may patch can add others. The latest counts: in
/// the very write of an answer the server adds its own, so that an older one beside it back-dates nothing. One from the future
/// counts only if there is no other, and then as now; none is before the request itself.
#[must_use]
pub fn decided_at(request: &AttentionRequest, now: Timestamp) -> Option<Timestamp> {
    let spec = &request.spec;
    let field = if spec.resolution.is_some() {
        "f:resolution"
    } else if spec.completion.is_some() {
        "f:completion"
    } else if spec.cancel.is_some() {
        "f:cancel"
    } else {
        return None;
    };
    let sets = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:spec").is_some_and(|spec| spec.get(field).is_some()))
    };
    let managed = request.metadata.managed_fields.as_deref().unwrap_or_default();
    let stamps: Vec<Timestamp> = managed.iter().filter(sets).filter_map(|entry| entry.time.as_ref()).map(|time| time.0).collect();
    let future = after(now, MOST_SKEW_SECONDS);
    let latest = stamps.iter().filter(|stamp| **stamp <= future).max().copied();
    let stamp = latest.or_else(|| stamps.first().map(|_| now))?;
    Some(request.metadata.creation_timestamp.as_ref().map_or(stamp, |created| stamp.max(created.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestStatus, Cancel, Completion, Principal, Resolution};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, Time};
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn answered(outcome: ResolutionOutcome, message: Option<&str>) -> AttentionRequestSpec {
        let resolution =
            Resolution { outcome, message: message.map(str::to_owned), by: Some(Principal::named("ada")), ..Resolution::default() };
        AttentionRequestSpec { resolution: Some(resolution), ..AttentionRequestSpec::default() }
    }

    fn entry(manager: &str, second: i64, fields: serde_json::Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.into()),
            time: Some(Time(at(second))),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn the_seeds_result_is_exactly_these_fields() {
        let mut request = AttentionRequest::new("a-1", answered(ResolutionOutcome::Resolved, Some("Done, continue.")));
        request.metadata.managed_fields = Some(vec![
            entry("agent", 1_700_000_000, json!({"f:spec": {"f:reason": {}}})),
            entry("kubectl-patch", 1_768_000_000, json!({"f:spec": {"f:resolution": {"f:outcome": {}}}})),
        ]);
        let result = AgentResult::known(&request, at(2_000_000_000)).expect("answered");
        assert_eq!(
            serde_json::to_string(&result).expect("serialises"),
            r#"{"status":"resolved","message":"Done, continue.","resolved_by":"ada","resolved_at":1768000000000,"request_id":"a-1"}"#
        );
    }

    #[test]
    fn nothing_to_report_is_left_out() {
        for empty in [None, Some("")] {
            let request = AttentionRequest::new("a-1", answered(ResolutionOutcome::Rejected, empty));
            let text = serde_json::to_string(&AgentResult::known(&request, at(2_000_000_000))).expect("serialises");
            assert_eq!(text, r#"{"status":"rejected","resolved_by":"ada","request_id":"a-1"}"#);
        }
        let text = serde_json::to_string(&AgentResult::unknown("a-9")).expect("serialises");
        assert_eq!(text, r#"{"status":"rejected","message":"Unknown attention request","request_id":"a-9"}"#);
    }

    #[test]
    fn each_decision_has_its_outcome() {
        let completed = |reason| AttentionRequestSpec {
            completion: Some(Completion { reason, ..Completion::default() }),
            ..AttentionRequestSpec::default()
        };
        let cancelled = AttentionRequestSpec { cancel: Some(Cancel::default()), ..AttentionRequestSpec::default() };
        for (spec, phase, reason) in [
            (answered(ResolutionOutcome::Resolved, None), Phase::Resolved, SettledReason::Answered),
            (answered(ResolutionOutcome::Rejected, None), Phase::Rejected, SettledReason::Answered),
            (completed(CompletionReason::ConfirmedByUser), Phase::Resolved, SettledReason::ConfirmedByUser),
            (completed(CompletionReason::HandoverEnded), Phase::Resolved, SettledReason::HandoverEnded),
            (completed(CompletionReason::AgentResumed), Phase::Resolved, SettledReason::AgentResumed),
            (cancelled, Phase::Cancelled, SettledReason::ClientCancelled),
        ] {
            let outcome = Outcome::decided(&spec).expect("decided");
            assert_eq!((outcome.phase, outcome.reason), (phase, reason));
        }
        assert_eq!(Outcome::decided(&AttentionRequestSpec::default()), None);
    }

    #[test]
    fn the_record_beats_the_decision_and_the_stamp() {
        let mut request = AttentionRequest::new("a-1", answered(ResolutionOutcome::Resolved, Some("yes")));
        request.metadata.managed_fields = Some(vec![entry("x", 50, json!({"f:spec": {"f:resolution": {}}}))]);
        assert_eq!(resolved_at(&request, at(99)), Some(at(50)));
        request.status = Some(AttentionRequestStatus {
            phase: Some(Phase::Rejected),
            message: Some(messages::IDENTITY_NOT_ENFORCED.into()),
            settled_at: Some(Time(at(60))),
            ..AttentionRequestStatus::default()
        });
        assert_eq!(resolved_at(&request, at(99)), Some(at(60)));
        let known = AgentResult::known(&request, at(2_000_000_000)).expect("settled");
        assert_eq!((known.status, known.message.as_deref()), (AgentStatus::Rejected, Some(messages::IDENTITY_NOT_ENFORCED)));
        assert_eq!(known.resolved_by, None);
    }

    #[test]
    fn a_forged_stamp_moves_no_answer() {
        let resolution = || json!({"f:spec": {"f:resolution": {"f:outcome": {}}}});
        let forged = || json!({"f:spec": {"f:resolution": {"f:nothing": {}}}});
        let server = || entry("kubectl-patch", 500, resolution());
        for (created, stamps, now, want) in [
            (100, vec![server()], 501, Some(500)),
            (100, vec![entry("old", 7, forged()), server()], 501, Some(500)),
            (100, vec![server(), entry("old", 499, forged())], 501, Some(500)),
            (100, vec![entry("future", 4_000_000_000, forged()), server()], 501, Some(500)),
            // The server's clock is ahead of ours: all readers still say the same.
            (100, vec![server()], 445, Some(500)),
            // Nothing but forgeries: never before the request, never after now.
            (100, vec![entry("old", 7, forged())], 501, Some(100)),
            (100, vec![entry("future", 4_000_000_000, forged())], 501, Some(501)),
            (100, vec![entry("other", 300, json!({"f:spec": {"f:claim": {}}}))], 501, None),
            (100, vec![], 501, None),
        ] {
            let mut request = AttentionRequest::new("a-1", answered(ResolutionOutcome::Resolved, None));
            request.metadata.creation_timestamp = Some(Time(at(created)));
            request.metadata.managed_fields = Some(stamps.clone());
            assert_eq!(decided_at(&request, at(now)), want.map(at), "{stamps:?} at {now}");
        }
        assert_eq!(decided_at(&AttentionRequest::new("a-1", AttentionRequestSpec::default()), at(1)), None);
    }
}
