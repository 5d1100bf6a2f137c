//! Which requests are not settled, by object and by session: what caps, pauses and triggers look at.

use crate::api::v1alpha1::{AttentionRequest, Phase};
use crate::domain::caps::Candidate;
use crate::domain::outcome::Outcome;
use kube::ResourceExt as _;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Namespace and name.
pub(super) type Key = (String, String);

/// A request that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsettled {
    /// As the caps see it.
    pub candidate: Candidate,
    /// Whether its decision is stored: then it is no longer open.
    pub decided: bool,
    /// The gateway processes of its attachments.
    pub gateways: Vec<String>,
    /// Its session's name.
    pub session: Option<String>,
}

/// The unsettled requests.
#[derive(Debug, Default)]
pub struct Index(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    requests: HashMap<Key, Unsettled>,
    sessions: HashMap<Key, BTreeSet<String>>,
}

impl Tables {
    fn insert(&mut self, key: Key, entry: Unsettled) {
        if let Some(session) = &entry.session {
            self.sessions.entry((key.0.clone(), session.clone())).or_default().insert(key.1.clone());
        }
        self.requests.insert(key, entry);
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.requests.remove(key) else { return };
        let Some(session) = entry.session else { return };
        let session = (key.0.clone(), session);
        if let Some(names) = self.sessions.get_mut(&session) {
            names.remove(&key.1);
            if names.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}

/// The key of an object.
#[must_use]
pub(super) fn key<K: kube::Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Reads a request: `None` when it is settled.
#[must_use]
pub(super) fn unsettled(request: &AttentionRequest) -> Option<Unsettled> {
    let status = request.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    if phase.is_some_and(|phase| phase != Phase::Pending) {
        return None;
    }
    let session = request.spec.session_ref.as_ref().map(|session| session.name.clone());
    let namespace = request.namespace().unwrap_or_default();
    Some(Unsettled {
        candidate: Candidate {
            uid: request.uid().unwrap_or_default(),
            created: request.creation_timestamp().map_or(k8s_openapi::jiff::Timestamp::MAX, |time| time.0),
            session: session.as_ref().map(|name| format!("{namespace}/{name}")),
            requester: request.spec.requester.as_ref().map(|requester| requester.username.clone()),
            accepted: phase.is_some(),
        },
        decided: Outcome::decided(&request.spec).is_some(),
        gateways: status.map(|status| status.attachments.iter().map(|a| a.gateway.clone()).collect()).unwrap_or_default(),
        session,
    })
}

impl Index {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is new or changed.
    pub fn applied(&self, request: &AttentionRequest) {
        let key = key(request);
        let mut tables = self.tables();
        tables.remove(&key);
        if let Some(entry) = unsettled(request) {
            tables.insert(key, entry);
        }
    }

    /// A request is gone.
    pub fn deleted(&self, request: &AttentionRequest) {
        self.tables().remove(&key(request));
    }

    /// These are all.
    pub fn reset<'a>(&self, requests: impl IntoIterator<Item = &'a AttentionRequest>) {
        let mut fresh = Tables::default();
        for request in requests {
            if let Some(entry) = unsettled(request) {
                fresh.insert(key(request), entry);
            }
        }
        *self.tables() = fresh;
    }

    /// Names of the unsettled requests of a session, sorted.
    #[must_use]
    pub fn of_session(&self, session: &Key) -> Vec<String> {
        self.tables().sessions.get(session).map(|names| names.iter().cloned().collect()).unwrap_or_default()
    }

    /// Unsettled requests with an attachment of this gateway process.
    #[must_use]
    pub fn of_gateway(&self, gateway: &str) -> Vec<Key> {
        let tables = self.tables();
        tables.requests.iter().filter(|(_, entry)| entry.gateways.iter().any(|name| name == gateway)).map(|(key, _)| key.clone()).collect()
    }

    /// Every unsettled request, those that are decided first, then the older ones.
    #[must_use]
    pub fn all(&self) -> Vec<Key> {
        let tables = self.tables();
        let mut all: Vec<_> = tables.requests.iter().collect();
        all.sort_by_key(|(_, entry)| (!entry.decided, entry.candidate.created));
        all.into_iter().map(|(key, _)| key.clone()).collect()
    }

    /// Namespaces that have unsettled requests.
    #[must_use]
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.tables().requests.keys().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// The oldest unsettled request of a namespace.
    #[must_use]
    pub fn first_of(&self, namespace: &str) -> Option<String> {
        let tables = self.tables();
        let of_namespace = tables.requests.iter().filter(|(key, _)| key.0 == namespace);
        of_namespace.min_by_key(|(_, entry)| entry.candidate.created).map(|(key, _)| key.1.clone())
    }

    /// Requests of a namespace whose decision is stored and not recorded.
    #[must_use]
    pub fn decided(&self, namespace: &str) -> Vec<Key> {
        let tables = self.tables();
        tables.requests.iter().filter(|(key, entry)| key.0 == namespace && entry.decided).map(|(key, _)| key.clone()).collect()
    }

    /// Those that are open or want to be, as the caps see them.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        self.tables().requests.values().filter(|entry| !entry.decided).map(|entry| entry.candidate.clone()).collect()
    }

    /// How many are unsettled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables().requests.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables().requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Cancel, SessionRef};

    fn request(name: &str, session: &str, phase: Option<Phase>) -> AttentionRequest {
        let session_ref = Some(SessionRef { name: session.into(), uid: None });
        let mut request = AttentionRequest::new(name, AttentionRequestSpec { session_ref, ..AttentionRequestSpec::default() });
        request.metadata.namespace = Some("n".into());
        request.metadata.uid = Some(format!("uid-{name}"));
        request.status = phase.map(|phase| AttentionRequestStatus { phase: Some(phase), ..AttentionRequestStatus::default() });
        request
    }

    #[test]
    fn it_follows_the_requests() {
        let index = Index::default();
        let session = ("n".to_owned(), "s".to_owned());
        index.applied(&request("a", "s", None));
        index.applied(&request("b", "s", Some(Phase::Pending)));
        assert_eq!(index.of_session(&session), ["a", "b"]);
        index.applied(&request("a", "s", Some(Phase::Timeout)));
        assert_eq!(index.of_session(&session), ["b"]);
        index.deleted(&request("b", "s", None));
        assert!(index.is_empty() && index.of_session(&session).is_empty());
        index.reset([&request("c", "t", None)]);
        assert_eq!(index.of_session(&("n".into(), "t".into())), ["c"]);
        assert_eq!(index.namespaces().into_iter().collect::<Vec<_>>(), ["n"]);
    }

    #[test]
    fn what_is_decided_is_open_no_longer() {
        let index = Index::default();
        let mut cancelled = request("a", "s", Some(Phase::Pending));
        cancelled.spec.cancel = Some(Cancel::default());
        index.applied(&cancelled);
        assert_eq!((index.len(), index.candidates().len()), (1, 0));
        assert_eq!(index.decided("n"), [("n".to_owned(), "a".to_owned())]);
    }
}
