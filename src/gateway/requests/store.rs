//! Creating, finding and withdrawing the requests of agents.

use crate::api::v1alpha1::{
    AttentionRequest, AttentionRequestSpec, BrowserSession, Cancel, Mode, Principal as ApiPrincipal, SessionRef, Source, Waiter,
};
use crate::domain::names::{self, MOST_REPEATS, Sameness};
use crate::gateway::auth::Principal;
use crate::gateway::hub::Key;
use crate::gateway::mcp::Failure;
use crate::gateway::requests::outcome::is_over;
use crate::gateway::state::Gateway;
use crate::k8s::client::{CallError, list_by_field};
use crate::runtime::clock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

const UNREAD: &str = "the attention request could not be read";
/// The annotation that tells when a request was asked, finer than its creation time.
const ASKED_AT: &str = "beckon.dev/asked-at";

/// What an agent asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// What is needed.
    pub reason: String,
    /// Whether the operator may drive.
    pub mode: Mode,
    /// The agent's JSON, token for token.
    pub options: Option<String>,
    /// The wished wait, in seconds.
    pub max_wait_seconds: Option<i64>,
    /// The caller's key for retries.
    pub key: Option<String>,
}

impl Ask {
    fn digest(&self) -> String {
        let wait = self.max_wait_seconds.unwrap_or_default().to_string();
        names::input_digest(&[Some(self.mode.as_str()), None, Some(&self.reason), None, self.options.as_deref(), Some(&wait)])
    }

    fn spec(&self, requester: &ApiPrincipal, session: Option<&BrowserSession>, digest: &str) -> AttentionRequestSpec {
        AttentionRequestSpec {
            session_ref: session.map(|session| SessionRef { name: session.name_any(), uid: session.uid() }),
            source: Source::RequestAttention,
            mode: self.mode,
            reason: self.reason.clone(),
            options: self.options.clone(),
            max_wait_seconds: self.max_wait_seconds,
            requester: Some(requester.clone()),
            waiter: Waiter::Required,
            idempotency_key: self.key.clone(),
            input_digest: Some(digest.to_owned()),
            ..AttentionRequestSpec::default()
        }
    }
}

/// Makes the request, or finds the one that this is a retry of. However often and wherever it is asked at the same time, there
/// is one: the name says so. The flag tells whether this call made it.
pub async fn ask(
    gateway: &Gateway,
    who: &Principal,
    session: Option<&BrowserSession>,
    ask: &Ask,
) -> Result<(AttentionRequest, bool), Failure> {
    let namespace = &gateway.settings.namespace;
    let digest = ask.digest();
    let (principal, key) = (who.recorded(&gateway.settings.extra_keys), &gateway.keys.names);
    let spec = ask.spec(&principal, session, &digest);
    let session_uid = session.and_then(kube::ResourceExt::uid).unwrap_or_default();
    if let Some(own) = &ask.key {
        let name = names::request(key, &principal, &session_uid, Sameness::Key(own));
        let (request, made) = create_or_get(gateway, namespace, &name, &spec).await?;
        if request.spec.input_digest.as_deref() != Some(&digest) {
            let error = format!(
                "idempotency_key was used before for another request ({name}): repeat exactly what was asked then, or choose another key"
            );
            return Err(Failure::new("IDEMPOTENCY_CONFLICT", error));
        }
        return Ok((request, made));
    }
    for repeat in 0..MOST_REPEATS {
        let name = names::request(key, &principal, &session_uid, Sameness::Input { digest: &digest, repeat });
        // What the mirror knows to be over is skipped without a question to the API server.
        if gateway.hub.requests.get(namespace, &name).is_some_and(|known| is_over(&known)) {
            continue;
        }
        let (request, made) = create_or_get(gateway, namespace, &name, &spec).await?;
        if made || !is_over(&request) {
            return Ok((request, made));
        }
    }
    Err(Failure::new("TOO_MANY_REPEATS", "the same request was asked too often: change the reason, or give an idempotency_key"))
}

async fn create_or_get(
    gateway: &Gateway,
    namespace: &str,
    name: &str,
    spec: &AttentionRequestSpec,
) -> Result<(AttentionRequest, bool), Failure> {
    const WHAT: &str = "the attention request could not be created";
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), namespace);
    let object = AttentionRequest {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some([(ASKED_AT.to_owned(), clock::now().to_string())].into()),
            labels: spec.session_ref.as_ref().map(|session| [("beckon.dev/session".to_owned(), session.name.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: spec.clone(),
        status: None,
    };
    let params = PostParams { field_manager: Some(crate::gateway::MANAGER.to_owned()), ..PostParams::default() };
    // It may be deleted between the two questions; then it is made anew.
    for _ in 0..3 {
        match Failure::asked(WHAT, api.create(&params, &object)).await? {
            Ok(made) => {
                gateway.hub.requests.offer(made.clone());
                return Ok((made, true));
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Failure::api(WHAT, &error)),
        }
        match Failure::asked(WHAT, api.get_opt(name)).await? {
            Ok(Some(there)) => {
                gateway.hub.requests.offer(there.clone());
                return Ok((there, false));
            }
            Ok(None) => {}
            Err(error) => return Err(Failure::api(WHAT, &error)),
        }
    }
    Err(Failure::new("UNAVAILABLE", format!("{WHAT}: it is being deleted; try again")))
}

/// A request of this caller; `None` when there is none of this name, or it is another's.
pub async fn mine(gateway: &Gateway, who: &Principal, name: &str) -> Result<Option<AttentionRequest>, Failure> {
    // What can't be a name of ours is not asked for.
    if !crate::gateway::is_name(name) {
        return Ok(None);
    }
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), &gateway.settings.namespace);
    let found = match Failure::asked(UNREAD, api.get_opt(name)).await? {
        Ok(found) => found,
        // Not a valid name at all.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404 | 422) => None,
        Err(error) => return Err(Failure::api(UNREAD, &error)),
    };
    let found = found.filter(|request| who.is(request.spec.requester.as_ref()));
    if let Some(found) = &found {
        gateway.hub.requests.offer(found.clone());
    }
    Ok(found)
}

/// Whether the request is gone for sure.
pub async fn is_deleted(gateway: &Gateway, key: &Key) -> bool {
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), &key.0);
    match Failure::asked(UNREAD, api.get_opt(&key.1)).await {
        Ok(Ok(Some(there))) => {
            gateway.hub.requests.offer(there);
            false
        }
        Ok(Ok(None)) => true,
        // Not known now: whoever waits looks again.
        Ok(Err(_)) | Err(_) => false,
    }
}

/// The caller's newest request, of one session where it is named. The API server is asked: a mirror may not have it yet.
pub async fn newest(gateway: &Gateway, who: &Principal, session: Option<&str>) -> Result<Option<String>, Failure> {
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), &gateway.settings.namespace);
    let mine = |request: &AttentionRequest| {
        let of_it = session.is_none_or(|name| request.spec.session_ref.as_ref().is_some_and(|of| of.name == name));
        (of_it && who.is(request.spec.requester.as_ref())).then(|| age(request))
    };
    match list_by_field(&api, "spec.requester.username", &who.username, mine).await {
        Ok(all) => Ok(all.into_iter().max().map(|(_, _, name)| name)),
        Err(CallError::Kube(error)) => Err(Failure::api("the attention requests could not be read", &error)),
        Err(error @ (CallError::Timeout | CallError::Endless)) => Err(Failure::new("UNAVAILABLE", format!("{error}; try again"))),
    }
}

/// What orders requests by when they were asked, the newest last. The API server's time has whole seconds; within one the
/// gateway's own tells.
fn age(request: &AttentionRequest) -> (Option<Time>, Option<Timestamp>, String) {
    let asked = request.annotations().get(ASKED_AT).and_then(|at| at.parse().ok());
    (request.metadata.creation_timestamp.clone(), asked, request.name_any())
}

/// Withdraws it on behalf of its requester. Of an answer and a withdrawal the first wins; the loser changes nothing.
pub async fn cancel(gateway: &Gateway, who: &Principal, key: &Key, reason: &str) -> Result<(), Failure> {
    const WHAT: &str = "the attention request could not be cancelled";
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), &key.0);
    let patch =
        json!({"spec": {"cancel": Cancel { reason: Some(reason.to_owned()), by: Some(who.recorded(&gateway.settings.extra_keys)) }}});
    let params = PatchParams { field_manager: Some(crate::gateway::MANAGER.to_owned()), ..PatchParams::default() };
    match Failure::asked(WHAT, api.patch(&key.1, &params, &Patch::Merge(&patch))).await? {
        Ok(stored) => {
            gateway.hub.requests.offer(stored);
            Ok(())
        }
        // Answered, cancelled or settled before.
        Err(kube::Error::Api(status)) if status.code == 404 || (status.code == 422 && status.message.contains("already")) => Ok(()),
        Err(error) => Err(Failure::api(WHAT, &error)),
    }
}

/// Whether the request can still be withdrawn.
#[must_use]
pub fn is_open(request: &AttentionRequest) -> bool {
    !is_over(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_in_one_second_the_later_one_is_newer() {
        let asked = |name: &str, second: i64, asked: Option<&str>| {
            let mut request = AttentionRequest::new(name, AttentionRequestSpec::default());
            request.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
            request.metadata.annotations = asked.map(|at| [(ASKED_AT.to_owned(), at.to_owned())].into());
            age(&request)
        };
        let ordered = [
            asked("z", 9, Some("2026-01-01T00:00:00Z")),
            asked("y", 10, None),
            asked("x", 10, Some("anything")),
            asked("w", 10, Some("1970-01-01T00:00:10.001Z")),
            asked("b", 10, Some("1970-01-01T00:00:10.0015Z")),
            asked("a", 10, Some("1970-01-01T00:00:10.9Z")),
            asked("c", 11, None),
        ];
        let mut names: Vec<_> = ordered.iter().rev().cloned().collect();
        names.sort();
        let names: Vec<&str> = names.iter().map(|(_, _, name)| name.as_str()).collect();
        assert_eq!(names, ["z", "x", "y", "w", "b", "a", "c"]);
    }
}
