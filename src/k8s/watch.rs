//! Watches that end and begin anew every minute, survive an object that can't be read, and keep only what is needed.

use futures::StreamExt as _;
use kube::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, reflector::Lookup};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::hash::Hash;
use tokio_util::sync::CancellationToken;

/// How long one watch call lasts, in seconds. A connection that died silently is noticed after that.
pub const TIMEOUT_SECONDS: u32 = 60;
/// A watch that was not opened anew for this long, in seconds, is dead.
pub const DEAD_SECONDS: u64 = 2 * TIMEOUT_SECONDS as u64 + 30;

/// The one configuration of every watch.
#[must_use]
pub fn config() -> watcher::Config {
    watcher::Config::default().timeout(TIMEOUT_SECONDS)
}

/// What a watch saw. The store is up to date when it is told.
#[derive(Debug)]
pub enum Change<K> {
    /// The object is new or changed.
    Applied(K),
    /// The object is gone.
    Deleted(K),
    /// Everything was read anew: whatever was not told before may have happened.
    Reset,
    /// An object could not be read; it is left out of the store. Namespace, name, and why.
    Unreadable(Option<String>, String, String),
    /// The watch failed and is tried again.
    Failed(String),
}

/// Fills the store and tells every change, until it is stopped.
pub async fn run<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    mut writer: Writer<K>,
    prune: fn(&mut K),
    mut tell: impl FnMut(Change<K>),
    stop: CancellationToken,
) where
    K: Resource + Lookup + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone,
    <K as Lookup>::DynamicType: Default + Eq + Hash + Clone,
    DeserializeGuard<K>: Resource<DynamicType = <K as Resource>::DynamicType>,
{
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        let change = match event {
            None => return,
            Some(Err(error)) => Change::Failed(error.to_string()),
            Some(Ok(event)) => match store(&mut writer, event, prune) {
                Some(change) => change,
                None => continue,
            },
        };
        tell(change);
    }
}

fn store<K>(writer: &mut Writer<K>, event: Event<DeserializeGuard<K>>, prune: fn(&mut K)) -> Option<Change<K>>
where
    K: Resource + Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    let read = |guard: DeserializeGuard<K>| {
        let mut object = guard.0.map_err(Box::new)?;
        prune(&mut object);
        Ok::<_, Box<kube::core::error_boundary::InvalidObject>>(object)
    };
    let unreadable = |error: &kube::core::error_boundary::InvalidObject| {
        let meta = &error.metadata;
        Change::Unreadable(meta.namespace.clone(), meta.name.clone().unwrap_or_default(), error.error.clone())
    };
    match event {
        Event::Init => {
            writer.apply_watcher_event(&Event::Init);
            None
        }
        Event::InitApply(guard) => match read(guard) {
            Ok(object) => {
                writer.apply_watcher_event(&Event::InitApply(object));
                None
            }
            Err(error) => Some(unreadable(&error)),
        },
        Event::InitDone => {
            writer.apply_watcher_event(&Event::InitDone);
            Some(Change::Reset)
        }
        Event::Apply(guard) => Some(match read(guard) {
            Ok(object) => {
                writer.apply_watcher_event(&Event::Apply(object.clone()));
                Change::Applied(object)
            }
            Err(error) => unreadable(&error),
        }),
        Event::Delete(guard) => Some(match read(guard) {
            Ok(object) => {
                writer.apply_watcher_event(&Event::Delete(object.clone()));
                Change::Deleted(object)
            }
            Err(error) => unreadable(&error),
        }),
    }
}

/// Drops what makes up half of a cached object and is read by nobody.
pub fn prune_metadata<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.meta_mut().managed_fields = None;
}
