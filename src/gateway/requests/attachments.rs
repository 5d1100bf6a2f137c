//! Which calls of this process wait on which requests, as `status.attachments` says it.
//!
//! Server-side apply with a field manager of this process: what it applies is its whole set, so a late detach of one process
//! can't take away what another holds.

use crate::api::v1alpha1::{Attachment, AttentionRequest};
use crate::domain::attachment::POLLING_CLIENT;
use crate::gateway::hub::Key;
use crate::gateway::metrics::GatewayMetrics;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The manager of the entry that stands for a client that was answered `pending`.
pub const POLL_MANAGER: &str = "beckon-gateway-poll";
/// The entry's `call`.
pub const POLL_CALL: &str = "poll";
const ASKING: Duration = Duration::from_secs(10);
/// The API bounds the list, and what lost processes held stays in it; so one process names at most this many of its calls in
/// one request, which is enough to say that some wait.
const NAMED: usize = 2;

/// The waiting calls of this process.
#[derive(Clone)]
pub struct Attachments {
    client: kube::Client,
    process: Arc<str>,
    entries: Arc<Mutex<HashMap<Key, Weak<Entry>>>>,
    frozen: Arc<AtomicBool>,
    metrics: GatewayMetrics,
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
}

impl Attachments {
    /// Calls attach to the process of this name.
    pub fn new(client: kube::Client, process: &str, metrics: GatewayMetrics) -> Self {
        Self { client, process: process.into(), entries: Arc::default(), frozen: Arc::default(), metrics }
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
        let attached = Attached { call: call.to_owned(), entry: Arc::clone(&entry), owner: self.clone(), left: false };
        self.write(&entry).await;
        attached
    }

    /// From now on nothing is detached: the process ends, and what it held must be seen as held by a process that has ended.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    /// Whether another call than this one waits on the request, here or at another process.
    pub fn others_wait(&self, key: &Key, call: &str, request: &AttentionRequest) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let here = entries.get(key).and_then(Weak::upgrade).is_some_and(|entry| {
            let calls = entry.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.keys().any(|other| other != call)
        });
        let attachments = request.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
        here || attachments.iter().any(|a| *a.gateway != *self.process && a.gateway != POLLING_CLIENT && a.call != call)
    }

    /// Marks the client as alive although no call of it waits: it was answered `pending` and will ask again.
    pub async fn mark_polling(&self, key: &Key) {
        let entry =
            Attachment { call: POLL_CALL.to_owned(), gateway: POLLING_CLIENT.to_owned(), since: Some(Time(crate::runtime::clock::now())) };
        self.apply(key, POLL_MANAGER, &[entry]).await;
    }

    /// Brings the object in line with what waits now.
    async fn write(&self, entry: &Entry) {
        let mut written = entry.written.lock().await;
        let wanted: Calls = {
            let calls = entry.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.iter().take(NAMED).map(|(call, since)| (call.clone(), since.clone())).collect()
        };
        if *written == wanted || (wanted.is_empty() && self.frozen.load(Ordering::SeqCst)) {
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
    /// Writes it again when the object does not say it: a write failed, or somebody took it out.
    pub async fn ensure(&self, seen: &AttentionRequest) {
        let attachments = seen.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
        if attachments.iter().any(|a| *a.gateway == *self.owner.process) {
            return;
        }
        self.entry.written.lock().await.clear();
        self.owner.write(&self.entry).await;
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
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (entry, owner) = (Arc::clone(&self.entry), self.owner.clone());
            runtime.spawn(async move { owner.write(&entry).await });
        }
    }
}
