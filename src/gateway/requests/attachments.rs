//! Which calls of this process wait on which requests, as `status.attachments` says it.
//!
//! Server-side apply with a field manager of this process: what it applies is its whole set, so a late detach of one process
//! can't take away what another holds.

use crate::api::v1alpha1::{Attachment, AttentionRequest};
use crate::domain::attachment::POLLING_CLIENT;
use crate::gateway::hub::Key;
use crate::gateway::metrics::GatewayMetrics;
use crate::gateway::requests::outcome::is_over;
use crate::k8s::apply::Manager;
use crate::runtime::tasks::Tasks;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The manager of the entry that stands for a client that was answered `pending`.
pub const POLL_MANAGER: &str = Manager::GatewayPoll.as_str();
/// The entry's `call`.
pub const POLL_CALL: &str = "poll";
const ASKING: Duration = Duration::from_secs(10);
/// How often a write is tried again when the object moved in between.
const TRIES: usize = 5;
/// The API bounds the list, and what lost processes held stays in it; so one process names at most this many of its calls in
/// one request, which is enough to say that some wait.
const NAMED: usize = 2;

/// The waiting calls of this process.
#[derive(Clone)]
pub struct Attachments {
    client: kube::Client,
    process: Arc<str>,
    entries: Arc<Mutex<HashMap<Key, Weak<Entry>>>>,
    metrics: GatewayMetrics,
    stop: CancellationToken,
    tasks: Tasks,
}

type Calls = BTreeMap<String, Time>;

/// One request that calls of this process wait on.
struct Entry {
    key: Key,
    calls: Mutex<Calls>,
    /// What is in the object. Held while it is written, so that writes of one request follow each other.
    written: tokio::sync::Mutex<Calls>,
}

/// A call that waits. Dropping it detaches.
pub struct Attached {
    call: String,
    entry: Arc<Entry>,
    owner: Attachments,
    left: bool,
    /// Whether the object was seen to name it.
    noticed: bool,
}

impl Attachments {
    /// Calls attach to the process of this name. Once it stops nothing is detached any more: what it held must be seen as held
    /// by a process that has ended. Writes that no call waits for run among `tasks`.
    pub fn new(client: kube::Client, process: &str, metrics: GatewayMetrics, stop: CancellationToken, tasks: Tasks) -> Self {
        Self { client, process: process.into(), entries: Arc::default(), metrics, stop, tasks }
    }

    /// Attaches a call to a request that is Pending. The status write is done when this returns; when it failed the call stays
    /// attached in memory, and [`Attached::ensure`] tries again.
    pub async fn attach(&self, key: &Key, call: &str) -> Attached {
        let entry = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.retain(|_, entry| entry.strong_count() > 0);
            let entry = entries
                .get(key)
                .and_then(Weak::upgrade)
                .unwrap_or_else(|| Arc::new(Entry { key: key.clone(), calls: Mutex::default(), written: tokio::sync::Mutex::default() }));
            entries.insert(key.clone(), Arc::downgrade(&entry));
            let mut calls = entry.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.insert(call.to_owned(), Time(crate::runtime::clock::now()));
            drop(calls);
            entry
        };
        self.metrics.attached("attach");
        let mut attached = Attached { call: call.to_owned(), entry: Arc::clone(&entry), owner: self.clone(), left: false, noticed: false };
        self.write(&entry).await;
        // The mirror may tell of the object only after another replica took the call out again.
        attached.noticed = entry.written.lock().await.contains_key(call);
        attached
    }

    /// Whether another call than this one waits on the request here.
    pub fn others_here(&self, key: &Key, call: &str) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).and_then(Weak::upgrade).is_some_and(|entry| {
            let calls = entry.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.keys().any(|other| other != call)
        })
    }

    /// Marks the client as alive although no call of it waits: it is answered `pending` and will ask again. `false`: it was not
    /// stored, so that nothing stands for the client.
    pub async fn mark_polling(&self, key: &Key) -> bool {
        let entry =
            Attachment { call: POLL_CALL.to_owned(), gateway: POLLING_CLIENT.to_owned(), since: Some(Time(crate::runtime::clock::now())) };
        self.apply(key, POLL_MANAGER, &[entry]).await.is_some()
    }

    /// Takes a call of another process out of the object: its client told this one that it does not wait any more. That
    /// process sees it, and lets the call end.
    pub async fn take_out(&self, key: &Key, call: &str) {
        let api: Api<AttentionRequest> = Api::namespaced(self.client.clone(), &key.0);
        let taking_out = async {
            for _ in 0..TRIES {
                let Some(current) = api.get_opt(&key.1).await? else { return Ok(()) };
                let version = current.metadata.resource_version;
                let mut left = current.status.map(|status| status.attachments).unwrap_or_default();
                let before = left.len();
                left.retain(|attachment| attachment.call != call);
                if left.len() == before {
                    return Ok(());
                }
                let patch = json!({"metadata": {"resourceVersion": version}, "status": {"attachments": left}});
                let params = PatchParams { field_manager: Some(crate::gateway::MANAGER.to_owned()), ..PatchParams::default() };
                match api.patch_status(&key.1, &params, &Patch::Merge(&patch)).await {
                    // Somebody else wrote in between.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    done => return done.map(drop),
                }
            }
            Ok(())
        };
        match tokio::time::timeout(ASKING, taking_out).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = %crate::gateway::brief(&error), request = %key.1, "a call of another gateway could not be taken out");
            }
            Err(_) => tracing::warn!(request = %key.1, "a call of another gateway could not be taken out in time"),
        }
    }

    /// Brings the object in line with what waits now.
    async fn write(&self, entry: &Entry) {
        let mut written = entry.written.lock().await;
        let wanted: Calls = {
            let calls = entry.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.iter().take(NAMED).map(|(call, since)| (call.clone(), since.clone())).collect()
        };
        if *written == wanted || (wanted.is_empty() && self.stop.is_cancelled()) {
            return;
        }
        let set: Vec<Attachment> = wanted
            .iter()
            .map(|(call, since)| Attachment { call: call.clone(), gateway: self.process.to_string(), since: Some(since.clone()) })
            .collect();
        let Some(stored) = self.apply(&entry.key, &self.process, &set).await else { return };
        let polling = stored.status.is_some_and(|status| status.attachments.iter().any(|a| a.call == POLL_CALL));
        if !wanted.is_empty() && polling {
            // A call waits again, so its connection speaks for the client.
            self.apply(&entry.key, POLL_MANAGER, &[]).await;
        }
        *written = wanted;
    }

    async fn apply(&self, key: &Key, manager: &str, set: &[Attachment]) -> Option<AttentionRequest> {
        let (namespace, name) = key;
        let api: Api<AttentionRequest> = Api::namespaced(self.client.clone(), namespace);
        let mut body = json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": name}});
        if !set.is_empty()
            && let Some(body) = body.as_object_mut()
        {
            body.insert("status".to_owned(), json!({"attachments": set}));
        }
        let params = PatchParams::apply(manager).force();
        match tokio::time::timeout(ASKING, api.patch_status(name, &params, &Patch::Apply(&body))).await {
            Ok(Ok(stored)) => Some(stored),
            // Deleted: nothing to attach to.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => None,
            Ok(Err(error)) => {
                tracing::warn!(error = %crate::gateway::brief(&error), request = %name, "an attachment could not be written");
                None
            }
            Err(_) => {
                tracing::warn!(request = %name, "an attachment could not be written in time");
                None
            }
        }
    }
}

impl Attached {
    /// Tries the write again that failed when the call attached.
    pub async fn ensure(&self) {
        self.owner.write(&self.entry).await;
    }

    /// Whether another replica took it out, see [`Attachments::take_out`]. Then it is detached.
    pub async fn is_taken_out(&mut self, seen: &AttentionRequest) -> bool {
        if self.names(seen) {
            self.noticed = true;
            return false;
        }
        // Only what this process wrote, and the object named since, can have been taken out.
        let mut written = self.entry.written.lock().await;
        if !self.noticed || !written.contains_key(&self.call) {
            return false;
        }
        // What was seen may be older than the last write; and what is over is told by its outcome, which comes.
        let api: Api<AttentionRequest> = Api::namespaced(self.owner.client.clone(), &self.entry.key.0);
        match tokio::time::timeout(ASKING, api.get_opt(&self.entry.key.1)).await {
            Ok(Ok(Some(now))) if !self.names(&now) && !is_over(&now) => {}
            _ => return false,
        }
        written.remove(&self.call);
        drop(written);
        self.leave();
        true
    }

    fn names(&self, request: &AttentionRequest) -> bool {
        let attachments = request.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
        attachments.iter().any(|a| a.call == self.call && *a.gateway == *self.owner.process)
    }

    /// Detaches, and returns when the object says so.
    pub async fn detach(mut self) {
        self.leave();
        self.owner.write(&self.entry).await;
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.left, true) {
            self.entry.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.call);
            self.owner.metrics.attached("detach");
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.leave();
        // A dropped call can't wait for the write; it is bounded by its own timeout.
        let (entry, owner) = (Arc::clone(&self.entry), self.owner.clone());
        self.owner.tasks.spawn("a detachment", async move { owner.write(&entry).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Phase};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::Value;

    /// What was asked of an API server that answers as it is told to, the last answer for ever.
    #[derive(Clone, Default)]
    struct Server {
        asked: Arc<Mutex<Vec<Value>>>,
        answers: Arc<Mutex<Vec<(u16, Value)>>>,
    }

    impl Server {
        fn attachments(&self, answers: Vec<(u16, Value)>) -> Attachments {
            *self.answers.lock().unwrap() = answers;
            let server = self.clone();
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let server = server.clone();
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    server.asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap_or_default());
                    let mut answers = server.answers.lock().unwrap();
                    let (status, answer) = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
                    let reply = http::Response::builder().status(status).body(Body::from(answer.to_string().into_bytes())).unwrap();
                    Ok::<_, std::convert::Infallible>(reply)
                }
            });
            let client = kube::Client::new(service, "ns");
            Attachments::new(client, "process", GatewayMetrics::default(), CancellationToken::new(), Tasks::default())
        }

        fn calls(&self) -> Vec<Vec<String>> {
            let named = |asked: &Value| asked["status"]["attachments"].as_array().cloned().unwrap_or_default();
            let calls = |asked: &Value| named(asked).iter().map(|a| a["call"].as_str().unwrap().to_owned()).collect();
            self.asked.lock().unwrap().iter().map(calls).collect()
        }
    }

    fn request(calls: &[&str]) -> AttentionRequest {
        let mut request = AttentionRequest::new("a-1", AttentionRequestSpec::default());
        let attachment = |call: &&str| Attachment { call: (*call).to_owned(), gateway: "process".into(), since: None };
        request.status =
            Some(AttentionRequestStatus { attachments: calls.iter().map(attachment).collect(), ..AttentionRequestStatus::default() });
        request
    }

    fn stored(calls: &[&str]) -> (u16, Value) {
        (200, serde_json::to_value(request(calls)).unwrap())
    }

    fn failed() -> (u16, Value) {
        (500, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "etcd", "reason": "InternalError", "code": 500}))
    }

    fn key() -> Key {
        ("ns".into(), "a-1".into())
    }

    #[tokio::test]
    async fn a_write_that_failed_is_tried_again_and_one_that_did_not_is_not() {
        let server = Server::default();
        let attachments = server.attachments(vec![failed(), stored(&["c"])]);
        let attached = attachments.attach(&key(), "c").await;
        attached.ensure().await;
        attached.ensure().await;
        assert_eq!(server.calls(), [["c"], ["c"]]);
    }

    #[tokio::test]
    async fn it_is_told_whether_the_client_counts_as_polling() {
        let server = Server::default();
        let attachments = server.attachments(vec![failed(), stored(&["poll"])]);
        assert!(!attachments.mark_polling(&key()).await);
        assert!(attachments.mark_polling(&key()).await);
        assert_eq!(server.calls(), [["poll"], ["poll"]]);
    }

    #[tokio::test]
    async fn who_was_taken_out_by_another_replica_is_detached_and_nobody_else() {
        let server = Server::default();
        let attachments = server.attachments(vec![stored(&["c"]), stored(&["c"]), stored(&["c"]), stored(&[])]);
        let mut attached = attachments.attach(&key(), "c").await;
        assert!(!attached.is_taken_out(&request(&[])).await, "the mirror is late: it never named the call");
        assert!(!attached.is_taken_out(&request(&["c"])).await);
        assert!(!attached.is_taken_out(&request(&[])).await, "what was seen is older than what is");
        assert!(attached.is_taken_out(&request(&[])).await);
        attached.detach().await;
        assert_eq!(server.asked.lock().unwrap().len(), 4, "there is nothing left to write");
    }

    /// The mirror keeps the newest only: of a call that came and was taken out at once it need not tell.
    #[tokio::test]
    async fn who_was_taken_out_before_the_mirror_told_of_it_is_detached_too() {
        let server = Server::default();
        let attachments = server.attachments(vec![stored(&["c"]), stored(&[])]);
        let mut attached = attachments.attach(&key(), "c").await;
        assert!(attached.is_taken_out(&request(&[])).await);
    }

    #[tokio::test]
    async fn who_could_not_be_attached_was_not_taken_out() {
        let server = Server::default();
        let attachments = server.attachments(vec![failed(), stored(&[])]);
        let mut attached = attachments.attach(&key(), "c").await;
        assert!(!attached.is_taken_out(&request(&[])).await);
        assert_eq!(server.calls(), [["c"]], "nothing was asked for");
    }

    /// A process that was stopped for a while sees one after the other what happened meanwhile.
    #[tokio::test]
    async fn who_was_taken_out_of_what_is_over_hears_the_end() {
        let server = Server::default();
        let mut over = request(&[]);
        over.status.as_mut().unwrap().phase = Some(Phase::Timeout);
        let attachments = server.attachments(vec![stored(&["c"]), (200, serde_json::to_value(over).unwrap())]);
        let mut attached = attachments.attach(&key(), "c").await;
        assert!(!attached.is_taken_out(&request(&["c"])).await);
        assert!(!attached.is_taken_out(&request(&[])).await, "the end is on its way");
    }

    #[tokio::test]
    async fn a_call_is_taken_out_alone_and_only_of_what_is() {
        let server = Server::default();
        let conflict = (409, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}));
        let attachments = server.attachments(vec![stored(&["a", "c"]), conflict, stored(&["b", "c"]), stored(&["b"])]);
        attachments.take_out(&key(), "c").await;
        let calls = server.calls();
        assert_eq!((calls.len(), &calls[1], &calls[3]), (4, &vec!["a".to_owned()], &vec!["b".to_owned()]));
    }
}
