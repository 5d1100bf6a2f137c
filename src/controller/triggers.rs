//! What has to be looked at. Watches tell it here; while nobody leads it is dropped, since a new leader looks at everything.

use super::index::Key;
use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use kube::runtime::reflector::ObjectRef;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;

/// How many triggers may wait; a full queue holds back the watches.
const WAITING: usize = 1024;

/// The queues of a leader.
#[derive(Debug)]
pub struct Queues {
    /// Requests to look at.
    pub requests: mpsc::Receiver<ObjectRef<AttentionRequest>>,
    /// Sessions to look at.
    pub sessions: mpsc::Receiver<ObjectRef<BrowserSession>>,
}

#[derive(Clone, Debug)]
struct Senders {
    requests: mpsc::Sender<ObjectRef<AttentionRequest>>,
    sessions: mpsc::Sender<ObjectRef<BrowserSession>>,
}

/// Where triggers go.
#[derive(Debug, Default)]
pub struct Triggers(Mutex<Option<Senders>>);

impl Triggers {
    /// Begins to collect triggers. Earlier queues get no more.
    #[must_use]
    pub fn open(&self) -> Queues {
        let (to_requests, requests) = mpsc::channel(WAITING);
        let (to_sessions, sessions) = mpsc::channel(WAITING);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Senders { requests: to_requests, sessions: to_sessions });
        Queues { requests, sessions }
    }

    /// Drops triggers from now on, and ends the queues.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn senders(&self) -> Option<Senders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Look at this request.
    pub async fn request(&self, (namespace, name): &Key) {
        if let Some(senders) = self.senders() {
            drop(senders.requests.send(ObjectRef::new(name).within(namespace)).await);
        }
    }

    /// Look at this session.
    pub async fn session(&self, (namespace, name): &Key) {
        if let Some(senders) = self.senders() {
            drop(senders.sessions.send(ObjectRef::new(name).within(namespace)).await);
        }
    }
}
