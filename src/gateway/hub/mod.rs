//! What the API server holds, mirrored: one watch of each kind for the whole process, and a wake-up for whoever waits on one
//! object. Nothing here decides; a mirror may be late, so whoever writes reads the object itself first.

mod mirror;

pub use mirror::{Key, Mirror};

use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Phase};
use crate::k8s::client::WatchProgress;
use crate::k8s::watch;
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

/// Waits until a watched value fits, and returns it; `None`: no more will come.
pub async fn watched<T: Clone>(receiver: &mut Receiver<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    loop {
        // No lock is held over the wait.
        let current = receiver.borrow_and_update().clone();
        if fits(&current) {
            return Some(current);
        }
        receiver.changed().await.ok()?;
    }
}

/// The two mirrors.
#[derive(Clone)]
pub struct Hub {
    /// AttentionRequests of all namespaces.
    pub requests: Mirror<AttentionRequest>,
    /// BrowserSessions of all namespaces.
    pub sessions: Mirror<BrowserSession>,
}

impl Hub {
    /// Knows nothing yet. `progress` is of the client that will watch.
    pub fn new(progress: &WatchProgress) -> Self {
        Self {
            requests: Mirror::new("attentionrequests", prune_request, progress),
            sessions: Mirror::new("browsersessions", watch::prune_metadata, progress),
        }
    }

    /// A request, and every change of it. `None`: not there (yet), or deleted.
    pub fn request(&self, namespace: &str, name: &str) -> Receiver<Option<Arc<AttentionRequest>>> {
        self.requests.watch(namespace, name)
    }

    /// A session, and every change of it.
    pub fn session(&self, namespace: &str, name: &str) -> Receiver<Option<Arc<BrowserSession>>> {
        self.sessions.watch(namespace, name)
    }

    /// The key of every change, of both kinds. A `Lagged` subscriber reads the lists again.
    pub fn subscribe(&self) -> (broadcast::Receiver<Key>, broadcast::Receiver<Key>) {
        (self.requests.subscribe(), self.sessions.subscribe())
    }

    /// What is not mirrored now, and why; empty when all is well.
    pub fn stale(&self) -> Vec<String> {
        [self.requests.stale(), self.sessions.stale()].into_iter().flatten().collect()
    }

    /// Watches both kinds, in one namespace or in all, until the token is cancelled.
    pub async fn run(&self, client: kube::Client, namespace: Option<&str>, stop: CancellationToken) {
        tokio::join!(self.requests.run(client.clone(), namespace, stop.clone()), self.sessions.run(client, namespace, stop));
    }
}

/// Who wrote which field is read only to tell when a decision was stored, and that is recorded once it is settled.
fn prune_request(request: &mut AttentionRequest) {
    if request.status.as_ref().and_then(|status| status.phase).is_some_and(|phase| phase != Phase::Pending) {
        request.metadata.managed_fields = None;
    }
}
