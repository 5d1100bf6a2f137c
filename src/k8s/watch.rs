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

/// What a watch tells, in its order: first everything that there is, then each change. It may read everything anew at any time.
#[derive(Debug)]
pub enum Step<K> {
    /// Everything is read now.
    Begun,
    /// An object that is there.
    Listed(K),
    /// That was everything: what was known before and was not listed is gone.
    Complete,
    /// The object is new or changed.
    Applied(K),
    /// The object is gone.
    Deleted(K),
    /// An object could not be read. The others do not suffer.
    Unreadable(Unreadable),
    /// The watch failed and is tried again. Why, for a person.
    Failed(String),
}

/// An object that fits no kind that this version knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Why, for a log: the API server's words about its shape.
    pub why: String,
}

/// Tells every step of a watch, until it is stopped. Objects are pruned before they are told.
pub async fn follow<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    prune: fn(&mut K),
    mut tell: impl FnMut(Step<K>),
    stop: CancellationToken,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone,
    DeserializeGuard<K>: Resource<DynamicType = <K as Resource>::DynamicType>,
{
    let begin = || Box::pin(watcher::watcher(api.clone(), config.clone()).default_backoff());
    let mut events = begin();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                // kube would ask for the same version for ever.
                if gone(&error) {
                    events = begin();
                }
                tell(Step::Failed(error.to_string()));
            }
            Some(Ok(event)) => tell(step(event, prune)),
        }
    }
}

/// Whether the opening of a watch was refused because what it should begin with is compacted: everything has to be read anew.
fn gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

fn step<K>(event: Event<DeserializeGuard<K>>, prune: fn(&mut K)) -> Step<K> {
    let read = |guard: DeserializeGuard<K>, told: fn(K) -> Step<K>| match guard.0 {
        Ok(mut object) => {
            prune(&mut object);
            told(object)
        }
        Err(error) => Step::Unreadable(Unreadable {
            namespace: error.metadata.namespace,
            name: error.metadata.name.unwrap_or_default(),
            why: error.error,
        }),
    };
    match event {
        Event::Init => Step::Begun,
        Event::InitApply(guard) => read(guard, Step::Listed),
        Event::InitDone => Step::Complete,
        Event::Apply(guard) => read(guard, Step::Applied),
        Event::Delete(guard) => read(guard, Step::Deleted),
    }
}

/// What a watch that fills a store saw. The store is up to date when it is told.
#[derive(Debug)]
pub enum Change<K> {
    /// The object is new or changed.
    Applied(K),
    /// The object is gone.
    Deleted(K),
    /// Everything was read anew: whatever was not told before may have happened.
    Reset,
    /// An object could not be read; it is left out of the store.
    Unreadable(Unreadable),
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
    let keep = |step| {
        if let Some(change) = store(&mut writer, step) {
            tell(change);
        }
    };
    follow(api, config, prune, keep, stop).await;
}

fn store<K>(writer: &mut Writer<K>, step: Step<K>) -> Option<Change<K>>
where
    K: Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone,
{
    match step {
        Step::Begun => {
            writer.apply_watcher_event(&Event::Init);
            None
        }
        Step::Listed(object) => {
            writer.apply_watcher_event(&Event::InitApply(object));
            None
        }
        Step::Complete => {
            writer.apply_watcher_event(&Event::InitDone);
            Some(Change::Reset)
        }
        Step::Applied(object) => {
            writer.apply_watcher_event(&Event::Apply(object.clone()));
            Some(Change::Applied(object))
        }
        Step::Deleted(object) => {
            writer.apply_watcher_event(&Event::Delete(object.clone()));
            Some(Change::Deleted(object))
        }
        Step::Unreadable(which) => Some(Change::Unreadable(which)),
        Step::Failed(why) => Some(Change::Failed(why)),
    }
}

/// Drops what makes up half of a cached object and is read by nobody.
pub fn prune_metadata<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.meta_mut().managed_fields = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::reflector;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Lists nothing, and refuses every watch as too old.
    fn compacted(lists: Arc<AtomicU32>) -> Client {
        let answer = move |request: Request<Body>| {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let (code, body) = if watches {
                (410, r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}"#)
            } else {
                lists.fetch_add(1, Ordering::SeqCst);
                (200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#)
            };
            let response = Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
            std::future::ready(response)
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_watch_that_can_not_go_on_reads_everything_anew() {
        let lists = Arc::new(AtomicU32::new(0));
        let api = Api::<DeserializeGuard<ConfigMap>>::default_namespaced(compacted(lists.clone()));
        let (_, writer) = reflector::store();
        let stop = CancellationToken::new();
        let mut resets = 0;
        let tell = |change| {
            resets += u32::from(matches!(change, Change::Reset));
            if resets == 2 {
                stop.cancel();
            }
        };
        run(api, config(), writer, prune_metadata, tell, stop.clone()).await;
        assert_eq!((resets, lists.load(Ordering::SeqCst)), (2, 2));
    }
}
