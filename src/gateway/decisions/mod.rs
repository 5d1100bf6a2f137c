//! What a person does to a request, written in the gateway's own name after the API server was asked about that person's
//! rights: the verb, the target and the four eyes. The reply's `by` tells who won.

mod rules;

pub use rules::{Rights, check, describe};

use super::auth::{AccessUnknown, Principal};
use super::state::Gateway;
use crate::api::v1alpha1::{
    AttentionRequest, Claim, Expected, Extension, Principal as ApiPrincipal, Resolution, ResolutionOutcome, SecretRef, Verdict, Via,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

const ASKING: Duration = Duration::from_secs(10);
/// How often a write is tried again when the object moved in between.
const TRIES: usize = 6;

/// What a person decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Resolved or Rejected.
    pub outcome: ResolutionOutcome,
    /// Fits `ask.type`.
    pub verdict: Option<Verdict>,
    /// The answer to a question; never a secret.
    pub answer: Option<String>,
    /// The Secret with a secret answer, which the person must be able to read.
    pub secret_ref: Option<SecretRef>,
    /// Needed for Clarification, Decision and Other.
    pub summary: Option<String>,
    /// A remark on the takeover.
    pub note: Option<String>,
    /// What the agent reads.
    pub message: Option<String>,
    /// What the person had before their eyes. Absent parts are not checked.
    pub expected: Option<Expected>,
}

/// What a person does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and nobody keeps it")]
pub enum Action {
    /// Resolve or reject.
    Answer(Answer),
    /// "I am on it".
    Claim,
    /// More time, in seconds.
    Extend(i32),
}

/// Why it was not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// No such request, or one that the person may not see.
    #[error("there is no attention request {namespace}/{name}")]
    NotFound {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
    },
    /// The person's rights do not suffice; the text names what is missing.
    #[error("{0}")]
    Forbidden(String),
    /// Somebody was faster, or it settled otherwise.
    #[error("this request is no longer open: {0}")]
    Settled(String),
    /// What the person saw is not what is.
    #[error("{0}: look at the request again")]
    Stale(String),
    /// The answer does not fit the request; the text names the field.
    #[error("{0}")]
    Invalid(String),
    /// The API server could not be asked, or refused the gateway itself.
    #[error("{0}")]
    Unavailable(String),
}

impl From<AccessUnknown> for DecisionError {
    fn from(error: AccessUnknown) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Does it, on behalf of `who`, and returns the stored request.
pub async fn act(
    gateway: &Gateway,
    who: &Principal,
    via: Via,
    namespace: &str,
    name: &str,
    action: &Action,
) -> Result<AttentionRequest, DecisionError> {
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), namespace);
    let not_found = || DecisionError::NotFound { namespace: namespace.to_owned(), name: name.to_owned() };
    let storing = async {
        if !super::is_name(namespace) || !super::is_name(name) {
            return Err(not_found());
        }
        for _ in 0..TRIES {
            let current = match tokio::time::timeout(ASKING, api.get_opt(name)).await {
                Ok(Ok(Some(current))) => current,
                Ok(Ok(None)) => return Err(not_found()),
                Ok(Err(error)) => return Err(DecisionError::Unavailable(super::brief(&error))),
                Err(_) => return Err(DecisionError::Unavailable("the API server did not answer: try again".to_owned())),
            };
            let rights = rights(gateway, who, &current, namespace, name).await?;
            rules::check(who, &current, rights, action)?;
            if let Action::Answer(answer) = action {
                check_execution(gateway, &current, answer.expected.as_ref())?;
            }
            let patch = patch(who.recorded(&gateway.settings.extra_keys), via, &current, action);
            let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
            match tokio::time::timeout(ASKING, api.patch(name, &params, &Patch::Merge(&patch))).await {
                Ok(Ok(stored)) => return won(gateway, who, action, stored),
                // The object moved between the look and the write: look again, since target and claim may be others now.
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
                Ok(Err(kube::Error::Api(status))) => return Err(rules::refused(status.code, &status.message)),
                Ok(Err(error)) => return Err(DecisionError::Unavailable(super::brief(&error))),
                Err(_) => {
                    return Err(DecisionError::Unavailable("the API server did not answer: look whether the answer was stored".to_owned()));
                }
            }
        }
        Err(DecisionError::Unavailable("the request changes too fast: try again".to_owned()))
    };
    let done = storing.await;
    if let Action::Answer(_) = action {
        let result = match &done {
            Ok(_) => "stored",
            Err(DecisionError::Forbidden(_) | DecisionError::NotFound { .. }) => "forbidden",
            Err(DecisionError::Settled(_)) => "lost",
            Err(_) => "failed",
        };
        gateway.metrics.decided(via.as_str(), result);
    }
    done
}

/// What the API server says of the person's rights on this request; `administer` only where it decides.
pub async fn rights(
    gateway: &Gateway,
    who: &Principal,
    request: &AttentionRequest,
    namespace: &str,
    name: &str,
) -> Result<Rights, AccessUnknown> {
    let may = async |verb| gateway.auth.may(who, verb, "attentionrequests", namespace, Some(name)).await;
    let resolve = may("resolve").await?;
    let for_admins = request.spec.current_target().is_some_and(|target| target.admins == Some(true));
    Ok(Rights { resolve, administer: resolve && for_admins && may("administer").await? })
}

/// An answer that equals the stored one is a success to the API server; only `by` tells whose it is.
fn won(gateway: &Gateway, who: &Principal, action: &Action, stored: AttentionRequest) -> Result<AttentionRequest, DecisionError> {
    gateway.hub.requests.offer(stored.clone());
    match (action, &stored.spec.resolution) {
        (Action::Answer(_), Some(resolution)) if !who.is(resolution.by.as_ref()) => {
            Err(DecisionError::Settled(describe(&stored).unwrap_or_else(|| "somebody else answered it".to_owned())))
        }
        _ => Ok(stored),
    }
}

/// The execution is another object's, which no policy can read.
fn check_execution(gateway: &Gateway, request: &AttentionRequest, expected: Option<&Expected>) -> Result<(), DecisionError> {
    let Some(quoted) = expected.and_then(|e| e.execution_state_version) else { return Ok(()) };
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let session = request.spec.session_ref.as_ref().and_then(|r| gateway.hub.sessions.get(namespace, &r.name));
    let version = session.and_then(|s| s.status.as_ref()?.execution.as_ref().map(|e| e.state_version));
    if version == Some(quoted) {
        Ok(())
    } else {
        Err(DecisionError::Stale(format!(
            "stale: the execution is at state version {}",
            version.map_or("none".to_owned(), |v| v.to_string())
        )))
    }
}

fn patch(by: ApiPrincipal, via: Via, current: &AttentionRequest, action: &Action) -> Value {
    let spec = match action {
        Action::Answer(answer) => json!({"resolution": Resolution {
            outcome: answer.outcome,
            verdict: answer.verdict,
            answer: answer.answer.clone(),
            secret_ref: answer.secret_ref.clone(),
            summary: answer.summary.clone(),
            note: answer.note.clone(),
            message: answer.message.clone().filter(|message| !message.is_empty()),
            by: Some(by),
            via: Some(via),
            expected: answer.expected.clone().map(|e| Expected { execution_state_version: None, ..e }).filter(|e| *e != Expected::default()),
        }}),
        Action::Claim => json!({"claim": Claim { since: Time(crate::runtime::clock::now()), by: Some(by) }}),
        Action::Extend(seconds) => {
            let mut all = current.spec.extensions.clone();
            all.push(Extension { seconds: *seconds, by: Some(by) });
            json!({"extensions": all})
        }
    };
    json!({"metadata": {"resourceVersion": current.metadata.resource_version}, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::AttentionRequestSpec;

    #[test]
    fn the_gateway_says_who_and_through_what() {
        let action = Action::Answer(Answer { message: Some("done".into()), ..Answer::default() });
        let mut request = AttentionRequest::new("a-1", AttentionRequestSpec::default());
        request.metadata.resource_version = Some("7".into());
        let patch = patch(ApiPrincipal::named("ann"), Via::Dashboard, &request, &action);
        assert_eq!(
            patch,
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"resolution": {
                "outcome": "Resolved", "message": "done", "by": {"username": "ann"}, "via": "Dashboard"
            }}})
        );
    }
}
