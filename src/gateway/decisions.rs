//! What a person does to a request, written in the gateway's own name after the API server was asked about that person's
//! rights: the verb, the target and the four eyes. The reply's `by` tells who won.

use super::auth::{AccessUnknown, Principal};
use super::state::Gateway;
use crate::api::v1alpha1::{
    AskType, AttentionRequest, Claim, Expected, Extension, Phase, Resolution, ResolutionOutcome, SecretRef, Source, Target, Verdict, Via,
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

/// The rights of a person on one request, as the API server told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The verb `resolve`.
    pub resolve: bool,
    /// The verb `administer`; asked only where it decides.
    pub administer: bool,
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
    let done = try_act(gateway, who, via, namespace, name, action).await;
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

async fn try_act(
    gateway: &Gateway,
    who: &Principal,
    via: Via,
    namespace: &str,
    name: &str,
    action: &Action,
) -> Result<AttentionRequest, DecisionError> {
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), namespace);
    let not_found = || DecisionError::NotFound { namespace: namespace.to_owned(), name: name.to_owned() };
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
        let resolve = gateway.auth.may(who, "resolve", "attentionrequests", namespace, Some(name)).await?;
        let asks_administer = current_target(&current).is_some_and(|t| t.admins == Some(true));
        let administer =
            resolve && asks_administer && gateway.auth.may(who, "administer", "attentionrequests", namespace, Some(name)).await?;
        check(who, &current, Rights { resolve, administer }, action)?;
        if let Action::Answer(answer) = action {
            check_execution(gateway, &current, answer.expected.as_ref())?;
        }
        let patch = patch(who, via, &current, action);
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        match tokio::time::timeout(ASKING, api.patch(name, &params, &Patch::Merge(&patch))).await {
            Ok(Ok(stored)) => return won(gateway, who, action, stored),
            // The object moved between the look and the write: look again, since target and claim may be others now.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
            Ok(Err(kube::Error::Api(status))) => return Err(refused(status.code, &status.message)),
            Ok(Err(error)) => return Err(DecisionError::Unavailable(super::brief(&error))),
            Err(_) => {
                return Err(DecisionError::Unavailable("the API server did not answer: look whether the answer was stored".to_owned()));
            }
        }
    }
    Err(DecisionError::Unavailable("the request changes too fast: try again".to_owned()))
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

/// Whether this person may do this to this request: pure, so that every rule has a test.
pub fn check(who: &Principal, request: &AttentionRequest, rights: Rights, action: &Action) -> Result<(), DecisionError> {
    let (verb, done) = match action {
        Action::Answer(_) => ("answer", "answered"),
        Action::Claim => ("claim", "claimed"),
        Action::Extend(_) => ("extend", "extended"),
    };
    if !rights.resolve {
        return Err(DecisionError::Forbidden(format!(
            "{} may not {verb} attention requests here (RBAC verb resolve on attentionrequests.beckon.dev)",
            who.username
        )));
    }
    // The person's own answer, sent again, is told apart from a loss by `won`.
    let mine = request.spec.resolution.as_ref().is_some_and(|r| who.is(r.by.as_ref()));
    if let Some(outcome) = describe(request)
        && !(mine && matches!(action, Action::Answer(_)))
    {
        return Err(DecisionError::Settled(outcome));
    }
    if request.status.as_ref().and_then(|s| s.phase).is_none() {
        return Err(DecisionError::Stale(format!("this request can't be {done} yet: it is not open")));
    }
    if let Action::Extend(seconds) = action
        && *seconds < 1
    {
        return Err(DecisionError::Invalid(format!("seconds must be at least 1, not {seconds}")));
    }
    let Action::Answer(_) = action else { return Ok(()) };
    if let Some(target) = current_target(request) {
        let fits = match &target {
            Target { user: Some(user), .. } => *user == who.username,
            Target { group: Some(group), .. } => who.groups.contains(group),
            _ => rights.administer,
        };
        if !fits {
            let whom = match target {
                Target { user: Some(user), .. } => format!("user {user}"),
                Target { group: Some(group), .. } => format!("group {group}"),
                _ => "administrators".to_owned(),
            };
            return Err(DecisionError::Forbidden(format!("this request is for {whom}")));
        }
    }
    let four_eyes = request.spec.source != Source::Operator
        && request.spec.ask.as_ref().is_some_and(|ask| {
            matches!(ask.type_, AskType::Question | AskType::Approval | AskType::DestructiveAction | AskType::Access | AskType::Decision)
        });
    if four_eyes && who.is(request.spec.requester.as_ref()) {
        let kind = request.spec.ask.as_ref().map_or("", |ask| ask.type_.as_str());
        return Err(DecisionError::Forbidden(format!("you can't answer your own request of type {kind}")));
    }
    Ok(())
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

/// Who may answer now: the last retarget's target, else the request's.
pub fn current_target(request: &AttentionRequest) -> Option<Target> {
    request.spec.retargets.last().map(|r| r.target.clone()).or_else(|| request.spec.target.clone())
}

/// How the request ended, for a person; `None` while it is open.
pub fn describe(request: &AttentionRequest) -> Option<String> {
    let spec = &request.spec;
    if let Some(resolution) = &spec.resolution {
        let by = resolution.by.as_ref().map(|by| format!(" by {}", by.username)).unwrap_or_default();
        return Some(format!("{}{by}", resolution.outcome.as_str()));
    }
    if let Some(completion) = &spec.completion {
        return Some(format!("completed, {}", completion.reason.as_str()));
    }
    if spec.cancel.is_some() {
        return Some("cancelled by its requester".to_owned());
    }
    request.status.as_ref().and_then(|s| s.phase).filter(|phase| *phase != Phase::Pending).map(|phase| phase.as_str().to_owned())
}

fn patch(who: &Principal, via: Via, current: &AttentionRequest, action: &Action) -> Value {
    let by = who.to_api();
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

/// The API server's refusal as a person can use it.
fn refused(code: u16, message: &str) -> DecisionError {
    // "attentionrequests.beckon.dev "x" is invalid: spec.resolution: Forbidden: this request was already answered: …"
    let text = message.split_once(": ").map_or(message, |(_, rest)| rest).to_owned();
    match code {
        404 => DecisionError::Settled("it was deleted".to_owned()),
        422 if message.contains("already") => DecisionError::Settled(text),
        422 if message.contains("stale:") => DecisionError::Stale(text),
        422 | 400 => DecisionError::Invalid(text),
        403 => DecisionError::Forbidden(text),
        _ => DecisionError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{Ask, AttentionRequestSpec, AttentionRequestStatus, Cancel, Principal as ApiPrincipal, Retarget};

    fn ann() -> Principal {
        Principal { username: "ann".into(), groups: vec!["support".into()], ..Principal::default() }
    }

    fn open() -> AttentionRequest {
        let spec =
            AttentionRequestSpec { requester: Some(ApiPrincipal::named("agent")), reason: "r".into(), ..AttentionRequestSpec::default() };
        let mut request = AttentionRequest::new("a-1", spec);
        request.status = Some(AttentionRequestStatus { phase: Some(Phase::Pending), ..AttentionRequestStatus::default() });
        request
    }

    const MAY: Rights = Rights { resolve: true, administer: false };

    fn answer() -> Action {
        Action::Answer(Answer::default())
    }

    #[test]
    fn the_verb_is_needed_for_everything() {
        for action in [answer(), Action::Claim, Action::Extend(60)] {
            assert!(check(&ann(), &open(), MAY, &action).is_ok());
            let error = check(&ann(), &open(), Rights::default(), &action).unwrap_err();
            assert!(error.to_string().contains("RBAC verb resolve"), "{error}");
        }
    }

    #[test]
    fn only_the_target_answers_and_the_last_one_counts() {
        let user = |name: &str| Target { user: Some(name.into()), ..Target::default() };
        let group = |name: &str| Target { group: Some(name.into()), ..Target::default() };
        let admins = Target { admins: Some(true), ..Target::default() };
        let cases = [
            (Some(user("ann")), None, MAY, true),
            (Some(user("bob")), None, MAY, false),
            (Some(group("support")), None, MAY, true),
            (Some(group("billing")), None, MAY, false),
            (Some(admins.clone()), None, MAY, false),
            (Some(admins.clone()), None, Rights { resolve: true, administer: true }, true),
            (Some(user("bob")), Some(user("ann")), MAY, true),
            (Some(user("ann")), Some(user("bob")), MAY, false),
        ];
        for (target, retarget, rights, allowed) in cases {
            let mut request = open();
            request.spec.target = target.clone();
            request.spec.retargets = retarget.clone().map(|target| Retarget { target, ..Retarget::default() }).into_iter().collect();
            assert_eq!(check(&ann(), &request, rights, &answer()).is_ok(), allowed, "{target:?} {retarget:?}");
            assert!(check(&ann(), &request, MAY, &Action::Claim).is_ok(), "a claim needs only the verb");
        }
    }

    #[test]
    fn four_eyes_where_the_answer_gives_power() {
        for kind in AskType::ALL {
            let mut request = open();
            request.spec.requester = Some(ApiPrincipal::named("ann"));
            request.spec.ask = Some(Ask { type_: *kind, ..Ask::default() });
            let mine_is_refused = !matches!(kind, AskType::Takeover | AskType::Clarification | AskType::Other);
            assert_eq!(check(&ann(), &request, MAY, &answer()).is_err(), mine_is_refused, "{kind:?}");
            request.spec.source = Source::Operator;
            assert!(check(&ann(), &request, MAY, &answer()).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn a_loser_is_told_who_won() {
        let mut request = open();
        request.spec.resolution =
            Some(Resolution { outcome: ResolutionOutcome::Rejected, by: Some(ApiPrincipal::named("bob")), ..Resolution::default() });
        assert_eq!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Settled("Rejected by bob".into())));
        let mut request = open();
        request.spec.cancel = Some(Cancel::default());
        assert!(matches!(check(&ann(), &request, MAY, &Action::Claim), Err(DecisionError::Settled(_))));
        let mut request = open();
        request.status = Some(AttentionRequestStatus { phase: Some(Phase::Timeout), ..AttentionRequestStatus::default() });
        assert_eq!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Settled("Timeout".into())));
        let mut request = open();
        request.status = None;
        assert!(matches!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Stale(_))));
    }

    #[test]
    fn refusals_of_the_api_server_are_told_apart() {
        let told = |code, text: &str| refused(code, text);
        assert_eq!(
            told(
                422,
                "AttentionRequest.beckon.dev \"a\" is invalid: spec.resolution: Forbidden: this request was already answered: Resolved by bob"
            ),
            DecisionError::Settled("spec.resolution: Forbidden: this request was already answered: Resolved by bob".into())
        );
        assert!(matches!(told(422, "x \"a\" is forbidden: stale: this request is at generation 3"), DecisionError::Stale(_)));
        assert!(matches!(told(422, "x is invalid: spec.resolution.verdict: does not fit"), DecisionError::Invalid(_)));
        assert!(matches!(told(403, "x is forbidden: this request is for user bob"), DecisionError::Forbidden(_)));
        assert!(matches!(told(500, "oops"), DecisionError::Unavailable(_)));
    }

    #[test]
    fn the_gateway_says_who_and_through_what() {
        let action = Action::Answer(Answer { message: Some("done".into()), ..Answer::default() });
        let mut request = open();
        request.metadata.resource_version = Some("7".into());
        let patch = patch(&ann(), Via::Dashboard, &request, &action);
        assert_eq!(
            patch,
            json!({"metadata": {"resourceVersion": "7"}, "spec": {"resolution": {
                "outcome": "Resolved", "message": "done", "by": {"username": "ann"}, "via": "Dashboard"
            }}})
        );
    }
}
