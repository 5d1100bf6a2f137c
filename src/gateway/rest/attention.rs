//! Attention requests: see them, answer them.

use super::{Caller, Means, Problem};
use crate::api::v1alpha1::{Ask, AskType, AttentionRequest, Expected, ResolutionOutcome, Verdict, Via};
use crate::gateway::auth::Principal;
use crate::gateway::dashboard::model::Request;
use crate::gateway::dashboard::{Site, rights};
use crate::gateway::decisions::{self, Action, Answer};
use crate::gateway::is_name;
use crate::gateway::live::control;
use crate::runtime::json::Object;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const ASKING: Duration = Duration::from_secs(10);
/// The most requests of one bulk call: as many as can be open.
const BULK: usize = 256;
/// How many of a bulk call are written at a time.
const AT_A_TIME: usize = 8;

/// Which requests to list.
#[derive(Debug, Deserialize)]
pub(super) struct Filter {
    /// Only open ones, or only settled ones; absent: both.
    open: Option<bool>,
    /// Only of this namespace.
    namespace: Option<String>,
}

/// `GET /attention`: oldest deadline first.
pub(super) async fn list(State(site): State<Site>, caller: Caller, Query(filter): Query<Filter>) -> Result<Json<Value>, Problem> {
    let mut seen = rights::visible_requests(&site, &caller.who).await?;
    seen.retain(|request| filter.namespace.as_ref().is_none_or(|namespace| request.namespace().as_ref() == Some(namespace)));
    let mut all: Vec<(Request, Arc<AttentionRequest>)> = seen.into_iter().map(|object| (Request::of(&object), object)).collect();
    all.retain(|(view, _)| filter.open.is_none_or(|open| view.is_open() == open));
    all.sort_by_key(|(view, _)| (view.urgency(), view.key()));
    Ok(Json(json!({"items": all.iter().map(|(view, object)| shown(view, object)).collect::<Vec<_>>()})))
}

/// `GET /attention/{namespace}/{name}`.
pub(super) async fn one(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let object = read(&site, &caller.who, &namespace, &name).await?;
    Ok(Json(shown(&Request::of(&object), &object)))
}

/// What a person sends with an answer. Absent parts of the verdict are filled in from what was asked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Body {
    message: Option<String>,
    verdict: Option<Verdict>,
    answer: Option<String>,
    summary: Option<String>,
    note: Option<String>,
    expected: Option<Object<Seen>>,
}

/// What the person had before their eyes, as the API's [`Expected`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Seen {
    generation: Option<i64>,
    execution_state_version: Option<i64>,
    evidence_digest: Option<String>,
}

impl From<Seen> for Expected {
    fn from(Seen { generation, execution_state_version, evidence_digest }: Seen) -> Self {
        Self { generation, execution_state_version, evidence_digest }
    }
}

/// `POST /attention/{namespace}/{name}/resolve`.
pub(super) async fn resolve(
    state: State<Site>,
    caller: Caller,
    path: Path<(String, String)>,
    body: Result<Json<Object<Body>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    answer(state, caller, path, body, ResolutionOutcome::Resolved).await
}

/// `POST /attention/{namespace}/{name}/reject`.
pub(super) async fn reject(
    state: State<Site>,
    caller: Caller,
    path: Path<(String, String)>,
    body: Result<Json<Object<Body>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    answer(state, caller, path, body, ResolutionOutcome::Rejected).await
}

async fn answer(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<Body>>, JsonRejection>,
    outcome: ResolutionOutcome,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let stored = decide(&site, &caller, &namespace, &name, outcome, &body).await?;
    Ok(Json(shown(&Request::of(&stored), &stored)))
}

/// `POST /attention/{namespace}/{name}/claim`.
pub(super) async fn claim(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let stored = decisions::act(&site.gateway, &caller.who, via(&caller), &namespace, &name, &Action::Claim).await?;
    Ok(Json(shown(&Request::of(&stored), &stored)))
}

/// More time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct More {
    seconds: i32,
}

/// `POST /attention/{namespace}/{name}/extend`.
pub(super) async fn extend(
    State(site): State<Site>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
    body: Result<Json<Object<More>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(Object(body)) = body?;
    let stored = decisions::act(&site.gateway, &caller.who, via(&caller), &namespace, &name, &Action::Extend(body.seconds)).await?;
    Ok(Json(shown(&Request::of(&stored), &stored)))
}

/// Many at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    outcome: BulkOutcome,
    #[serde(default)]
    message: Option<String>,
    requests: Vec<Object<Named>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BulkOutcome {
    Resolve,
    Reject,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    namespace: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct Done {
    namespace: String,
    name: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// `POST /attention/bulk`: each is decided by itself; one that fails fails alone.
pub(super) async fn bulk(
    State(site): State<Site>,
    caller: Caller,
    body: Result<Json<Object<Bulk>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    use futures::StreamExt as _;
    let Json(Object(bulk)) = body?;
    if bulk.requests.is_empty() || bulk.requests.len() > BULK {
        return Err(Problem::invalid(format!("requests: name 1 to {BULK}, not {}", bulk.requests.len())));
    }
    let outcome = match bulk.outcome {
        BulkOutcome::Resolve => ResolutionOutcome::Resolved,
        BulkOutcome::Reject => ResolutionOutcome::Rejected,
    };
    let body = Body { message: bulk.message, ..Body::default() };
    let results: Vec<Done> = futures::stream::iter(bulk.requests)
        .map(|Object(Named { namespace, name })| {
            let (site, caller, body) = (&site, &caller, &body);
            async move {
                let failed = decide(site, caller, &namespace, &name, outcome, body).await.err();
                Done { namespace, name, ok: failed.is_none(), code: failed.as_ref().map(|p| p.code), error: failed.map(|p| p.detail) }
            }
        })
        .buffered(AT_A_TIME)
        .collect()
        .await;
    Ok(Json(json!({"results": results})))
}

/// Stores a decision, and takes the hands that it ends off the page before anybody is told.
async fn decide(
    site: &Site,
    caller: &Caller,
    namespace: &str,
    name: &str,
    outcome: ResolutionOutcome,
    body: &Body,
) -> Result<AttentionRequest, Problem> {
    let known = match site.gateway.hub.requests.get(namespace, name) {
        Some(known) => known,
        None => fetch(site, namespace, name).await?,
    };
    let action = Action::Answer(fill(known.spec.ask.as_ref(), outcome, body));
    let stored = decisions::act(&site.gateway, &caller.who, via(caller), namespace, name, &action).await?;
    control::end_for_request(site, &stored).await;
    Ok(stored)
}

/// The answer as the API takes it: what the ask needs and the person did not spell out follows from the outcome and the
/// message.
fn fill(ask: Option<&Ask>, outcome: ResolutionOutcome, body: &Body) -> Answer {
    let message = body.message.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let resolved = outcome == ResolutionOutcome::Resolved;
    let verdict = ask.and_then(|ask| match (ask.type_, resolved) {
        (AskType::Takeover, true) => Some(Verdict::Done),
        (AskType::Takeover, false) => Some(Verdict::Failed),
        (AskType::Approval | AskType::DestructiveAction, true) => Some(Verdict::Approved),
        (AskType::Access, true) => Some(Verdict::Provided),
        (AskType::Approval | AskType::DestructiveAction | AskType::Access, false) => Some(Verdict::Denied),
        (_, true) => Some(Verdict::Answered),
        (_, false) => None,
    });
    let asks_summary = ask.is_some_and(|ask| matches!(ask.type_, AskType::Clarification | AskType::Decision | AskType::Other)) && resolved;
    let chosen = ask.filter(|_| resolved).and_then(|ask| ask.choices.iter().find(|choice| Some(choice.as_str()) == message.as_deref()));
    Answer {
        outcome,
        verdict: body.verdict.or(verdict),
        answer: body.answer.clone().or_else(|| chosen.cloned()),
        secret_ref: None,
        summary: body.summary.clone().or_else(|| message.clone().filter(|_| asks_summary).map(|text| text.chars().take(2000).collect())),
        note: body.note.clone(),
        message,
        expected: body.expected.clone().map(|Object(seen)| seen.into()),
    }
}

fn via(caller: &Caller) -> Via {
    match caller.means {
        Means::Cookie(_) => Via::Dashboard,
        Means::Token => Via::API,
    }
}

/// A request that the caller may see.
async fn read(site: &Site, who: &Principal, namespace: &str, name: &str) -> Result<Arc<AttentionRequest>, Problem> {
    if !site.gateway.auth.may(who, "get", "attentionrequests", namespace, Some(name)).await? {
        return Err(Problem::forbidden(format!("{} may not see attention requests in namespace {namespace}", who.username)));
    }
    match site.gateway.hub.requests.get(namespace, name) {
        Some(known) => Ok(known),
        None => fetch(site, namespace, name).await,
    }
}

/// The mirror may be late: a request that it lacks may be there.
pub async fn fetch(site: &Site, namespace: &str, name: &str) -> Result<Arc<AttentionRequest>, Problem> {
    let not_found = || Problem::not_found(format!("there is no attention request {namespace}/{name}"));
    if !is_name(namespace) || !is_name(name) {
        return Err(not_found());
    }
    let api: Api<AttentionRequest> = Api::namespaced(site.gateway.client.clone(), namespace);
    match tokio::time::timeout(ASKING, api.get_opt(name)).await {
        Ok(Ok(Some(found))) => Ok(Arc::new(found)),
        Ok(Ok(None)) => Err(not_found()),
        Ok(Err(_)) | Err(_) => Err(Problem::unavailable("the API server did not answer: try again")),
    }
}

/// A request as programs read it.
fn shown(view: &Request, object: &AttentionRequest) -> Value {
    let spec = &object.spec;
    let settled = view.settled.as_ref();
    json!({
        "namespace": view.namespace,
        "name": view.name,
        "generation": object.metadata.generation,
        "session": spec.session_ref.as_ref().map(|session| &session.name),
        "mode": spec.mode,
        "reason": spec.reason,
        "details": spec.details,
        "suggested_action": spec.suggested_action,
        "options": spec.options,
        "ask": spec.ask,
        "requester": spec.requester.as_ref().map(|by| &by.username),
        "open": view.is_open(),
        "phase": object.status.as_ref().and_then(|s| s.phase),
        "opened_at": view.opened,
        "deadline": view.deadline,
        "outcome": settled.map(|s| s.ending.word()),
        "message": settled.and_then(|s| s.message.as_ref()),
        "resolved_by": settled.and_then(|s| s.by.as_ref()),
        "settled_at": settled.and_then(|s| s.at),
        "waited_seconds": view.waited,
        "claimed_by": spec.claim.as_ref().and_then(|claim| claim.by.as_ref()).map(|by| &by.username),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_ask_needs_follows_from_outcome_and_message() {
        use AskType as T;
        use ResolutionOutcome::{Rejected, Resolved};
        let said = Body { message: Some(" Blue ".into()), ..Body::default() };
        for (type_, outcome, verdict, answer, summary) in [
            (None, Resolved, None, None, None),
            (None, Rejected, None, None, None),
            (Some(T::Takeover), Resolved, Some(Verdict::Done), Some("Blue"), None),
            (Some(T::Takeover), Rejected, Some(Verdict::Failed), None, None),
            (Some(T::Approval), Resolved, Some(Verdict::Approved), Some("Blue"), None),
            (Some(T::DestructiveAction), Rejected, Some(Verdict::Denied), None, None),
            (Some(T::Access), Resolved, Some(Verdict::Provided), Some("Blue"), None),
            (Some(T::Question), Resolved, Some(Verdict::Answered), Some("Blue"), None),
            (Some(T::Question), Rejected, None, None, None),
            (Some(T::Decision), Resolved, Some(Verdict::Answered), Some("Blue"), Some("Blue")),
            (Some(T::Other), Rejected, None, None, None),
        ] {
            let ask = type_.map(|type_| Ask { type_, choices: vec!["Red".into(), "Blue".into()], ..Ask::default() });
            let filled = fill(ask.as_ref(), outcome, &said);
            let got = (filled.verdict, filled.answer.as_deref(), filled.summary.as_deref(), filled.message.as_deref());
            assert_eq!(got, (verdict, answer, summary, Some("Blue")), "{type_:?} {outcome:?}");
        }
        assert_eq!(fill(None, Resolved, &Body { message: Some("  ".into()), ..Body::default() }).message, None);
    }
}
