//! What the API server holds, mirrored: one watch of each kind for the whole process, and a wake-up for whoever waits on one
//! object. Nothing here decides; a mirror may be late, so whoever writes reads the object itself first.

use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many changes a slow subscriber may lag behind before it is told to look at everything again.
const BACKLOG: usize = 1024;
/// A watch that only fails for this long is stale.
const STALE: Duration = Duration::from_secs(15);

/// Waits until a watched value fits, and returns it; `None`: no more will come.
pub async fn watched<T: Clone>(receiver: &mut watch::Receiver<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    loop {
        // No lock is held over the wait.
        let current = receiver.borrow_and_update().clone();
        if fits(&current) {
            return Some(current);
        }
        receiver.changed().await.ok()?;
    }
}

/// Namespace and name.
pub type Key = (String, String);

/// The two mirrors.
#[derive(Clone)]
pub struct Hub {
    /// AttentionRequests of all namespaces.
    pub requests: Mirror<AttentionRequest>,
    /// BrowserSessions of all namespaces.
    pub sessions: Mirror<BrowserSession>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { requests: Mirror::new("attentionrequests"), sessions: Mirror::new("browsersessions") }
    }
}

impl Hub {
    /// A request, and every change of it. `None`: not there (yet), or deleted.
    pub fn request(&self, namespace: &str, name: &str) -> watch::Receiver<Option<Arc<AttentionRequest>>> {
        self.requests.watch(namespace, name)
    }

    /// A session, and every change of it.
    pub fn session(&self, namespace: &str, name: &str) -> watch::Receiver<Option<Arc<BrowserSession>>> {
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

/// A mirror of one kind.
pub struct Mirror<K> {
    what: &'static str,
    inner: Arc<Mutex<Inner<K>>>,
    changes: broadcast::Sender<Key>,
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Self {
        Self { what: self.what, inner: Arc::clone(&self.inner), changes: self.changes.clone() }
    }
}

struct Inner<K> {
    /// Present objects, and absent ones that somebody waits for.
    slots: HashMap<Key, watch::Sender<Option<Arc<K>>>>,
    /// Whether a complete list was seen.
    complete: bool,
    /// Since when the watch only fails.
    failing: Option<(Instant, String)>,
}

impl<K> Mirror<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn new(what: &'static str) -> Self {
        let inner = Inner { slots: HashMap::new(), complete: false, failing: None };
        Self { what, inner: Arc::new(Mutex::new(inner)), changes: broadcast::channel(BACKLOG).0 }
    }

    /// The newest mirrored state of one object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.slots.get(&(namespace.to_owned(), name.to_owned())).and_then(|slot| slot.borrow().clone())
    }

    /// Every object.
    pub fn all(&self) -> Vec<Arc<K>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.slots.values().filter_map(|slot| slot.borrow().clone()).collect()
    }

    /// One object and every change of it.
    pub fn watch(&self, namespace: &str, name: &str) -> watch::Receiver<Option<Arc<K>>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.slots.entry((namespace.to_owned(), name.to_owned())).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// The key of every change.
    pub fn subscribe(&self) -> broadcast::Receiver<Key> {
        self.changes.subscribe()
    }

    /// Whether a complete list was seen.
    pub fn is_complete(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).complete
    }

    /// Why the mirror can't be trusted to be current.
    pub fn stale(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match &inner.failing {
            _ if !inner.complete => Some(format!("the list of {} was not read yet", self.what)),
            Some((since, why)) if since.elapsed() > STALE => Some(format!("the watch of {} fails: {why}", self.what)),
            _ => None,
        }
    }

    /// Takes a written object in at once, so that the writer's own next look sees it. An older one than the mirror's is
    /// left: resource versions of one object grow.
    pub fn offer(&self, object: K) {
        let Some(key) = key(&object) else { return };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = inner.slots.get(&key).and_then(|slot| slot.borrow().clone()).is_none_or(|old| version(&object) > version(&*old));
        if newer {
            set(&mut inner.slots, &key, Some(Arc::new(object)));
            drop(inner);
            drop(self.changes.send(key));
        }
    }

    async fn run(&self, client: kube::Client, namespace: Option<&str>, stop: CancellationToken) {
        let api: Api<K> = namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
        let events = kube::runtime::WatchStreamExt::default_backoff(watcher::watcher(api, watcher::Config::default()));
        let mut events = std::pin::pin!(events);
        let mut listed: Vec<Key> = Vec::new();
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(event)) => self.take(event, &mut listed),
                Some(Err(error)) => {
                    let why = brief_watch(&error);
                    tracing::warn!(error = %why, what = self.what, "a watch failed");
                    let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                    let since = inner.failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                    inner.failing = Some((since, why));
                }
                None => return,
            }
        }
    }

    fn take(&self, event: Event<K>, listed: &mut Vec<Key>) {
        let mut changed = Vec::new();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) | Event::Apply(object) if key(&object).is_none() => drop(object),
            Event::InitApply(object) => {
                if let Some(key) = key(&object) {
                    set(&mut inner.slots, &key, Some(Arc::new(object)));
                    listed.push(key.clone());
                    changed.push(key);
                }
            }
            Event::InitDone => {
                let there: std::collections::HashSet<&Key> = listed.iter().collect();
                changed.extend(
                    inner.slots.iter().filter(|(key, slot)| slot.borrow().is_some() && !there.contains(key)).map(|(k, _)| k.clone()),
                );
                for key in &changed {
                    set(&mut inner.slots, key, None);
                }
                listed.clear();
                inner.complete = true;
                inner.failing = None;
            }
            Event::Apply(object) => {
                if let Some(key) = key(&object) {
                    set(&mut inner.slots, &key, Some(Arc::new(object)));
                    changed.push(key);
                }
                inner.failing = None;
            }
            Event::Delete(object) => {
                if let Some(key) = key(&object) {
                    set(&mut inner.slots, &key, None);
                    changed.push(key);
                }
                inner.failing = None;
            }
        }
        inner.slots.retain(|_, slot| slot.borrow().is_some() || slot.receiver_count() > 0);
        drop(inner);
        for key in changed {
            // Without a subscriber there is nobody to tell.
            drop(self.changes.send(key));
        }
    }
}

fn set<K>(slots: &mut HashMap<Key, watch::Sender<Option<Arc<K>>>>, key: &Key, object: Option<Arc<K>>) {
    slots.entry(key.clone()).or_insert_with(|| watch::Sender::new(None)).send_replace(object);
}

fn key<K: Resource>(object: &K) -> Option<Key> {
    Some((object.meta().namespace.clone()?, object.meta().name.clone()?))
}

/// Ordered for one object; unordered ones count as older.
fn version<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    object.resource_version().and_then(|v| v.parse().ok()).unwrap_or_default()
}

fn brief_watch(error: &watcher::Error) -> String {
    let text = error.to_string();
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec};

    fn request(name: &str, version: &str) -> AttentionRequest {
        let mut object = AttentionRequest::new(name, AttentionRequestSpec::default());
        object.metadata.namespace = Some("ns".into());
        object.metadata.resource_version = Some(version.into());
        object
    }

    #[test]
    fn a_relist_drops_what_is_gone_and_wakes_who_waits() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests");
        let mut listed = Vec::new();
        let mut early = mirror.watch("ns", "a");
        assert!(mirror.stale().is_some());
        for event in [Event::Init, Event::InitApply(request("a", "1")), Event::InitApply(request("b", "2")), Event::InitDone] {
            mirror.take(event, &mut listed);
        }
        assert!(mirror.stale().is_none());
        assert!(early.borrow_and_update().is_some());
        let mut changes = mirror.subscribe();
        for event in [Event::Init, Event::InitApply(request("b", "2")), Event::InitDone] {
            mirror.take(event, &mut listed);
        }
        assert!(early.has_changed().unwrap() && early.borrow_and_update().is_none());
        assert_eq!(mirror.all().len(), 1);
        let keys: Vec<String> = std::iter::from_fn(|| changes.try_recv().ok()).map(|(_, name)| name).collect();
        assert_eq!(keys, ["b", "a"]);
    }

    #[test]
    fn an_offer_never_goes_back() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests");
        mirror.offer(request("a", "9"));
        mirror.offer(request("a", "10"));
        mirror.offer(request("a", "8"));
        assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("10"));
        assert!(mirror.get("ns", "b").is_none());
    }

    #[test]
    fn a_slot_that_nobody_holds_is_given_up() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests");
        drop(mirror.watch("ns", "never"));
        mirror.take(Event::Apply(request("a", "1")), &mut Vec::new());
        mirror.take(Event::Delete(request("a", "2")), &mut Vec::new());
        assert_eq!(mirror.inner.lock().unwrap().slots.len(), 0);
    }
}
