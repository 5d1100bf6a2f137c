//! The mirror of one kind.

use crate::k8s::client::WatchProgress;
use crate::k8s::watch::{self, Step, Unreadable};
use k8s_openapi::NamespaceResourceScope;
use kube::core::DeserializeGuard;
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

/// Namespace and name.
pub type Key = (String, String);

/// A mirror of one kind.
pub struct Mirror<K> {
    what: &'static str,
    prune: fn(&mut K),
    progress: WatchProgress,
    inner: Arc<Mutex<Inner<K>>>,
    changes: broadcast::Sender<Key>,
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Self {
        let (inner, changes) = (Arc::clone(&self.inner), self.changes.clone());
        Self { what: self.what, prune: self.prune, progress: self.progress.clone(), inner, changes }
    }
}

struct Inner<K> {
    /// Present objects, and absent ones that somebody waits for.
    slots: HashMap<Key, Sender<Option<Arc<K>>>>,
    /// While a list is read, what was offered since it began: it may be younger than the list.
    offered: Option<HashSet<Key>>,
    /// Whether a complete list was seen.
    complete: bool,
    /// That the watch failed, and nothing came since.
    failing: Option<Failing>,
}

struct Failing {
    since: Instant,
    last: Instant,
    why: String,
    /// What is watched, as the client's progress names it.
    watch: String,
}

impl<K> Mirror<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub(super) fn new(what: &'static str, prune: fn(&mut K), progress: &WatchProgress) -> Self {
        let inner = Inner { slots: HashMap::new(), offered: None, complete: false, failing: None };
        let (inner, changes) = (Arc::new(Mutex::new(inner)), broadcast::channel(BACKLOG).0);
        Self { what, prune, progress: progress.clone(), inner, changes }
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
        // A watch that goes on again may have nothing to tell for long.
        let goes_on = |failing: &&Failing| self.progress.opened(&failing.watch).is_some_and(|at| at > failing.last);
        match inner.failing.as_ref().filter(|failing| !(inner.complete && goes_on(failing))) {
            Some(Failing { since, why, .. }) if !inner.complete || since.elapsed() > STALE => {
                Some(format!("the watch of {} fails: {why}", self.what))
            }
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

    pub(super) async fn run(&self, client: kube::Client, namespace: Option<&str>, stop: CancellationToken) {
        let api: Api<DeserializeGuard<K>> =
            namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace));
        let watched = K::url_path(&(), namespace);
        let mut listed = HashSet::new();
        let tell = |step| {
            if let Step::Failed(error) = &step {
                self.failed(error, namespace, &watched);
            } else {
                self.take(step, &mut listed);
            }
        };
        watch::follow(api, watch::config(), self.prune, tell, stop).await;
    }

    fn failed(&self, error: &str, namespace: Option<&str>, watched: &str) {
        let why = brief_watch(error, namespace);
        tracing::warn!(error = %why, what = self.what, "a watch failed");
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Instant::now();
        // What went on meanwhile has not failed all the time.
        let opened = self.progress.opened(watched);
        let before = inner.failing.as_ref().filter(|before| opened.is_none_or(|at| at <= before.last));
        let since = before.map_or(last, |before| before.since);
        inner.failing = Some(Failing { since, last, why, watch: watched.to_owned() });
    }

    fn take(&self, step: Step<K>, listed: &mut HashSet<Key>) {
        let mut changed = Vec::new();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Begun => {
                listed.clear();
                inner.offered = Some(HashSet::new());
            }
            Step::Listed(object) => {
                if let Some(key) = key(&object) {
                    listed.insert(key.clone());
                    let offered = inner.offered.as_ref().is_some_and(|offered| offered.contains(&key));
                    if inner.put(&key, object, !offered) {
                        changed.push(key);
                    }
                }
            }
            Step::Complete => {
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
            Step::Applied(object) => {
                if let Some(key) = key(&object)
                    && inner.put(&key, object, false)
                {
                    changed.push(key);
                }
                inner.failing = None;
            }
            Step::Deleted(object) => {
                if let Some(key) = key(&object)
                    && inner.get(&key).is_none_or(|there| version(&*there) <= version(&object))
                {
                    set(&mut inner.slots, &key, None);
                    changed.push(key);
                }
                inner.failing = None;
            }
            // It is left as it was known.
            Step::Unreadable(Unreadable { namespace, name, why }) => {
                tracing::warn!(what = self.what, ?namespace, name, why, "an object can't be read: it fits no kind that this version knows");
                listed.extend(namespace.map(|namespace| (namespace, name)));
            }
            Step::Failed(_) => {}
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

fn brief_watch(error: &str, namespace: Option<&str>) -> String {
    let text: String = error.chars().take(300).collect();
    // The usual cause, and what helps.
    if namespace.is_none() && text.contains("cluster scope") {
        return format!("{text} (an account with rights in one namespace alone needs --watch-namespace)");
    }
    text
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
