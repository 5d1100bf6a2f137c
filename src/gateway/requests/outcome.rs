//! How far a request has come, for a call that waits on it.

use crate::api::conditions::SettledReason;
use crate::api::v1alpha1::{AttentionRequest, Phase};
use crate::domain::outcome::{AgentResult, Outcome, resolved_at};
use crate::runtime::clock;
use k8s_openapi::jiff::Timestamp;

/// How far a request has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The controller has not seen it yet.
    New,
    /// It waits for a person.
    Open,
    /// Its decision is stored and final, but not recorded yet. May be handed over when identities were enforced at that time.
    Decided(AgentResult, Timestamp),
    /// It is settled.
    Settled(AgentResult),
    /// Over a cap: it never was open. For the agent.
    RateLimited(String),
}

/// Reads a request.
#[must_use]
pub fn progress(request: &AttentionRequest, now: Timestamp) -> Progress {
    let id = request.metadata.name.clone().unwrap_or_default();
    let at = resolved_at(request, now);
    if let Some(recorded) = Outcome::recorded(request) {
        if recorded.reason == SettledReason::RateLimited {
            return Progress::RateLimited(recorded.message.unwrap_or_else(|| "too many attention requests are open".to_owned()));
        }
        return Progress::Settled(recorded.result(id, at));
    }
    match (Outcome::decided(&request.spec), at) {
        (Some(decided), Some(stored)) => Progress::Decided(decided.result(id, at), stored),
        _ if request.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Pending)) => Progress::Open,
        _ => Progress::New,
    }
}

/// Whether nobody can answer it any more.
#[must_use]
pub fn is_over(request: &AttentionRequest) -> bool {
    !matches!(progress(request, clock::now()), Progress::New | Progress::Open)
}

/// The message of a call that is told to ask again.
#[must_use]
pub fn still_open(request_id: &str) -> String {
    format!(
        "The attention request is still open and an operator may answer it at any time. Call get_attention_result with request_id \
         {request_id} to go on waiting; do not ask again."
    )
}

/// The message of a call that ends because this replica does.
#[must_use]
pub fn moved(request_id: &str) -> String {
    format!(
        "This server instance is stopping; the attention request is still open. Call get_attention_result with request_id {request_id} \
         at once to go on waiting."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Principal, Resolution};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, FieldsV1, ManagedFieldsEntry, Time};
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn answered() -> AttentionRequestSpec {
        let resolution = Resolution { message: Some("Done, continue.".into()), by: Some(Principal::named("ann")), ..Resolution::default() };
        AttentionRequestSpec { resolution: Some(resolution), ..AttentionRequestSpec::default() }
    }

    fn request(spec: AttentionRequestSpec, phase: Option<Phase>) -> AttentionRequest {
        let mut request = AttentionRequest::new("a-1", spec);
        request.metadata.managed_fields = Some(vec![ManagedFieldsEntry {
            time: Some(Time(at(20))),
            fields_v1: Some(FieldsV1(json!({"f:spec": {"f:resolution": {}}}))),
            ..ManagedFieldsEntry::default()
        }]);
        request.status = phase.map(|phase| AttentionRequestStatus { phase: Some(phase), ..AttentionRequestStatus::default() });
        request
    }

    #[test]
    fn each_step_is_told_apart() {
        assert_eq!(progress(&request(AttentionRequestSpec::default(), None), at(30)), Progress::New);
        assert_eq!(progress(&request(AttentionRequestSpec::default(), Some(Phase::Pending)), at(30)), Progress::Open);
        assert!(!is_over(&request(AttentionRequestSpec::default(), Some(Phase::Pending))));
        assert!(matches!(progress(&request(answered(), Some(Phase::Pending)), at(30)), Progress::Decided(_, stored) if stored == at(20)));
        assert!(is_over(&request(AttentionRequestSpec::default(), Some(Phase::Timeout))));
    }

    #[test]
    fn the_answer_is_exactly_the_seeds_object_before_and_after_it_is_recorded() {
        let want =
            json!({"status": "resolved", "message": "Done, continue.", "resolved_by": "ann", "resolved_at": 20_000, "request_id": "a-1"});
        let Progress::Decided(early, _) = progress(&request(answered(), Some(Phase::Pending)), at(30)) else { panic!("not decided") };
        assert_eq!(serde_json::to_value(early).unwrap(), want);
        let mut recorded = request(answered(), Some(Phase::Resolved));
        let status = recorded.status.as_mut().unwrap();
        (status.message, status.resolved_by, status.settled_at) = (Some("Done, continue.".into()), Some("ann".into()), Some(Time(at(20))));
        let Progress::Settled(late) = progress(&recorded, at(30)) else { panic!("not settled") };
        assert_eq!(serde_json::to_value(late).unwrap(), want);
    }

    #[test]
    fn a_refused_one_never_was_open() {
        let mut refused = request(AttentionRequestSpec::default(), Some(Phase::Rejected));
        let status = refused.status.as_mut().unwrap();
        status.message = Some("RATE_LIMITED: at most 8".into());
        status.conditions = vec![Condition {
            type_: "Settled".into(),
            status: "True".into(),
            reason: "RateLimited".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(20)),
        }];
        assert_eq!(progress(&refused, at(30)), Progress::RateLimited("RATE_LIMITED: at most 8".into()));
    }
}
