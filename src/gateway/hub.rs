//! What the API server holds, mirrored: one watch of each kind for the whole process, and a wake-up for whoever waits on one
//! object. Nothing here decides; a mirror may be late, so whoever writes reads the object itself first.

use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Phase};
use crate::k8s::watch;
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many changes a slow subscriber may lag behind before it is told to look at everything again.
const BACKLOG: usize = 1024;
/// A watch that only fails for this long is stale.
const STALE: Duration = Duration::from_secs(15);

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
        Self { requests: Mirror::new("attentionrequests", prune_request), sessions: Mirror::new("browsersessions", watch::prune_metadata) }
    }
}

impl Hub {
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

/// A mirror of one kind.
pub struct Mirror<K> {
    what: &'static str,
    prune: fn(&mut K),
    inner: Arc<Mutex<Inner<K>>>,
    changes: broadcast::Sender<Key>,
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Self {
        Self { what: self.what, prune: self.prune, inner: Arc::clone(&self.inner), changes: self.changes.clone() }
    }
}

struct Inner<K> {
    /// Present objects, and absent ones that somebody waits for.
    slots: HashMap<Key, Sender<Option<Arc<K>>>>,
    /// While a list is read, what was offered since it began: it may be younger than the list.
    offered: Option<HashSet<Key>>,
    /// Whether a complete list was seen.
    complete: bool,
    /// Since when the watch only fails.
    failing: Option<(Instant, String)>,
}

impl<K> Mirror<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn new(what: &'static str, prune: fn(&mut K)) -> Self {
        let inner = Inner { slots: HashMap::new(), offered: None, complete: false, failing: None };
        Self { what, prune, inner: Arc::new(Mutex::new(inner)), changes: broadcast::channel(BACKLOG).0 }
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
    pub fn watch(&self, namespace: &str, name: &str) -> Receiver<Option<Arc<K>>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.slots.entry((namespace.to_owned(), name.to_owned())).or_insert_with(|| Sender::new(None)).subscribe()
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
            Some((since, why)) if !inner.complete || since.elapsed() > STALE => Some(format!("the watch of {} fails: {why}", self.what)),
            None if !inner.complete => Some(format!("the list of {} was not read yet", self.what)),
            _ => None,
        }
    }

    /// Takes a written object in at once, so that the writer's own next look sees it. An older one than the mirror's is
    /// left: resource versions of one object grow.
    pub fn offer(&self, mut object: K) {
        let Some(key) = key(&object) else { return };
        (self.prune)(&mut object);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = &mut inner.offered {
            offered.insert(key.clone());
        }
        let newer = inner.slots.get(&key).and_then(|slot| slot.borrow().clone()).is_none_or(|old| version(&object) > version(&*old));
        if newer {
            set(&mut inner.slots, &key, Some(Arc::new(object)));
            drop(inner);
            drop(self.changes.send(key));
        }
    }

    async fn run(&self, client: kube::Client, namespace: Option<&str>, stop: CancellationToken) {
        let api: Api<DeserializeGuard<K>> =
            namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
        let events = kube::runtime::WatchStreamExt::default_backoff(watcher::watcher(api, watch::config()));
        let mut events = std::pin::pin!(events);
        let mut listed: HashSet<Key> = HashSet::new();
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    if let Some(event) = self.readable(event, &mut listed) {
                        self.take(event, &mut listed);
                    }
                }
                Some(Err(error)) => {
                    let why = brief_watch(&error, namespace);
                    tracing::warn!(error = %why, what = self.what, "a watch failed");
                    let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                    let since = inner.failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                    inner.failing = Some((since, why));
                }
                None => return,
            }
        }
    }

    /// The event without the guard. An object that can't be read is left as it was known: the others must not suffer.
    fn readable(&self, event: Event<DeserializeGuard<K>>, listed: &mut HashSet<Key>) -> Option<Event<K>> {
        let mut read = |guard: DeserializeGuard<K>| match guard.0 {
            Ok(mut object) => {
                (self.prune)(&mut object);
                Some(object)
            }
            Err(error) => {
                let (namespace, name) = (error.metadata.namespace, error.metadata.name);
                tracing::warn!(what = self.what, ?namespace, ?name, "an object can't be read: it fits no kind that this version knows");
                listed.extend(namespace.zip(name));
                None
            }
        };
        Some(match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(guard) => Event::InitApply(read(guard)?),
            Event::Apply(guard) => Event::Apply(read(guard)?),
            Event::Delete(guard) => Event::Delete(read(guard)?),
        })
    }

    fn take(&self, event: Event<K>, listed: &mut HashSet<Key>) {
        let mut changed = Vec::new();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => {
                listed.clear();
                inner.offered = Some(HashSet::new());
            }
            Event::InitApply(object) => {
                if let Some(key) = key(&object) {
                    listed.insert(key.clone());
                    let offered = inner.offered.as_ref().is_some_and(|offered| offered.contains(&key));
                    if inner.put(&key, object, !offered) {
                        changed.push(key);
                    }
                }
            }
            Event::InitDone => {
                let offered = inner.offered.take().unwrap_or_default();
                let gone = |(key, slot): (&Key, &Sender<Option<Arc<K>>>)| {
                    (slot.borrow().is_some() && !listed.contains(key) && !offered.contains(key)).then(|| key.clone())
                };
                changed.extend(inner.slots.iter().filter_map(gone));
                for key in &changed {
                    set(&mut inner.slots, key, None);
                }
                listed.clear();
                inner.complete = true;
                inner.failing = None;
            }
            Event::Apply(object) => {
                if let Some(key) = key(&object)
                    && inner.put(&key, object, false)
                {
                    changed.push(key);
                }
                inner.failing = None;
            }
            Event::Delete(object) => {
                if let Some(key) = key(&object)
                    && inner.get(&key).is_none_or(|there| version(&*there) <= version(&object))
                {
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

impl<K: Resource<DynamicType = ()>> Inner<K> {
    fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.slots.get(key).and_then(|slot| slot.borrow().clone())
    }

    /// Unless it is older than what was offered, since a watch may be late; `anyway`: also then, unless it is the same.
    fn put(&mut self, key: &Key, object: K, anyway: bool) -> bool {
        let newer = self.get(key).is_none_or(|there| {
            let (known, now) = (version(&*there), version(&object));
            there.meta().uid != object.meta().uid || known < now || (anyway && known != now)
        });
        if newer {
            set(&mut self.slots, key, Some(Arc::new(object)));
        }
        newer
    }
}

fn set<K>(slots: &mut HashMap<Key, Sender<Option<Arc<K>>>>, key: &Key, object: Option<Arc<K>>) {
    slots.entry(key.clone()).or_insert_with(|| Sender::new(None)).send_replace(object);
}

fn key<K: Resource>(object: &K) -> Option<Key> {
    Some((object.meta().namespace.clone()?, object.meta().name.clone()?))
}

/// Ordered for one object; unordered ones count as older.
fn version<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    object.resource_version().and_then(|v| v.parse().ok()).unwrap_or_default()
}

fn brief_watch(error: &watcher::Error, namespace: Option<&str>) -> String {
    let text: String = error.to_string().chars().take(300).collect();
    // The usual cause, and what helps.
    if namespace.is_none() && text.contains("cluster scope") {
        return format!("{text} (an account with rights in one namespace alone needs --watch-namespace)");
    }
    text
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
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        let mut listed = HashSet::new();
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
        assert_eq!(keys, ["a"], "b did not change");
    }

    #[test]
    fn an_offer_never_goes_back() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        mirror.offer(request("a", "9"));
        mirror.offer(request("a", "10"));
        mirror.offer(request("a", "8"));
        assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("10"));
        assert!(mirror.get("ns", "b").is_none());
    }

    #[test]
    fn what_is_written_while_a_list_is_read_is_not_taken_for_gone() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        let mut listed = HashSet::new();
        mirror.offer(request("before", "1"));
        for event in [Event::Init, Event::InitApply(request("listed", "2"))] {
            mirror.take(event, &mut listed);
        }
        mirror.offer(request("meanwhile", "3"));
        mirror.take(Event::InitDone, &mut listed);
        assert!(mirror.get("ns", "meanwhile").is_some() && mirror.get("ns", "listed").is_some());
        assert!(mirror.get("ns", "before").is_none(), "the list is younger, and does not have it");
        mirror.take(Event::Delete(request("meanwhile", "4")), &mut listed);
        assert!(mirror.get("ns", "meanwhile").is_none());
    }

    #[test]
    fn a_late_watch_does_not_go_back_and_a_new_object_of_the_name_is_taken() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        let mut listed = HashSet::new();
        mirror.offer(request("a", "9"));
        mirror.take(Event::Apply(request("a", "8")), &mut listed);
        assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("9"));
        mirror.take(Event::Delete(request("a", "7")), &mut listed);
        assert!(mirror.get("ns", "a").is_some(), "the deletion of an earlier one of the name");
        let mut other = request("a", "5");
        other.metadata.uid = Some("restored".into());
        mirror.take(Event::Apply(other), &mut listed);
        assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("5"));
    }

    #[test]
    fn an_object_that_can_not_be_read_harms_no_other() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        let guarded = |text: serde_json::Value| serde_json::from_value::<DeserializeGuard<AttentionRequest>>(text).unwrap();
        let good = serde_json::to_value(request("a", "1")).unwrap();
        let mut bad = good.clone();
        bad["spec"]["mode"] = "Telepathy".into();
        let mut listed = HashSet::new();
        assert!(matches!(mirror.readable(Event::Apply(guarded(good)), &mut listed), Some(Event::Apply(_))));
        mirror.offer(request("a", "1"));
        mirror.take(Event::Init, &mut listed);
        assert!(mirror.readable(Event::InitApply(guarded(bad)), &mut listed).is_none());
        mirror.take(Event::InitDone, &mut listed);
        assert!(mirror.get("ns", "a").is_some(), "what is there is not taken for gone");
    }

    #[test]
    fn a_list_that_is_never_read_says_why() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        assert!(mirror.stale().unwrap().contains("was not read yet"));
        mirror.inner.lock().unwrap().failing = Some((Instant::now(), "forbidden".into()));
        assert!(mirror.stale().unwrap().contains("forbidden"));
    }

    #[test]
    fn a_slot_that_nobody_holds_is_given_up() {
        let mirror: Mirror<AttentionRequest> = Mirror::new("attentionrequests", prune_request);
        drop(mirror.watch("ns", "never"));
        mirror.take(Event::Apply(request("a", "1")), &mut HashSet::new());
        mirror.take(Event::Delete(request("a", "2")), &mut HashSet::new());
        assert_eq!(mirror.inner.lock().unwrap().slots.len(), 0);
    }
}
