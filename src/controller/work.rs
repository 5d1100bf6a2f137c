//! What a leader does, until it is dropped.

use super::context::{Context, Next, Shared, retry};
use super::error::{Category, Error};
use super::index::Key;
use super::queue::{Lane, Queue};
use super::superseded::Told;
use super::{ask_canary, attention_request, browser_session, tell_gateways, watches};
use crate::domain::session;
use crate::k8s::apply;
use crate::k8s::client::call;
use futures::stream::{self, FuturesUnordered, StreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// How many passes of one kind run at once.
const AT_ONCE: usize = 32;
/// How many canaries are asked at once.
const CANARIES_AT_ONCE: usize = 4;
/// After so many failures in a row what the watch told is doubted.
const DOUBTFUL: u32 = 3;
/// How often old Leases of gateway processes are looked for.
const SWEEP: Duration = Duration::from_mins(5);

/// Works until it is dropped; `term` tells one leader's time from another's.
pub(super) async fn work(context: &Shared, term: Option<Timestamp>) {
    context.ledger.lead(term).await;
    context.triggers.open();
    watches::everything(context);
    let requests = passes(attention_request::KIND, &context.triggers.requests, &context.stores.requests, context, |request| {
        let context = context.clone();
        async move { attention_request::reconcile(request, context).await }
    });
    let sessions = passes(browser_session::KIND, &context.triggers.sessions, &context.stores.sessions, context, |session| {
        let context = context.clone();
        async move { browser_session::reconcile(session, context).await }
    });
    tokio::join!(requests, sessions, tick(context), ask_canaries(context), sweep(context));
}

/// Makes a pass over each object that waits, so many at once, until it is dropped.
async fn passes<K, F, P>(kind: &'static str, queue: &Queue, store: &Store<K>, context: &Shared, pass: F)
where
    K: Lookup<DynamicType = ()> + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + 'static,
    F: Fn(Arc<K>) -> P,
    P: Future<Output = Result<Next, Error>>,
{
    let one = async |key: Key| {
        let object = match object(&key, store, context).await {
            Seen::Object(object) => object,
            // It was deleted while it waited for its pass.
            Seen::Gone => return (key, None),
            Seen::OldUntil(at) => return (key, Some((at, Lane::Living))),
        };
        let next = pass(object.clone()).await.unwrap_or_else(|error| {
            report(kind, &key, &error);
            retry(object.as_ref(), &error, context)
        });
        (key, next.at())
    };
    let mut running = FuturesUnordered::new();
    loop {
        // Passes with nothing to do never wait: whoever else shares this task gets a turn.
        tokio::task::coop::consume_budget().await;
        tokio::select! {
            Some((key, again)) = running.next() => queue.done(key, again),
            key = queue.next(), if running.len() < AT_ONCE => running.push(one(key)),
        }
    }
}

/// What a pass is to be made over.
enum Seen<K> {
    Object(Arc<K>),
    Gone,
    /// It is known to have changed, and the watch is given until then to tell how.
    OldUntil(Instant),
}

/// The object as the watch tells it. A watch that lags or has lost something makes every write a conflict: when that is known, or
/// after some failures in a row, the API server itself is asked.
async fn object<K>((namespace, name): &Key, store: &Store<K>, context: &Context) -> Seen<K>
where
    K: Lookup<DynamicType = ()> + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + 'static,
{
    let Some(told) = store.get(&ObjectRef::new(name).within(namespace)) else { return Seen::Gone };
    let uid = told.uid().unwrap_or_default();
    match context.superseded.told(&uid, &told.resource_version().unwrap_or_default(), Instant::now()) {
        Told::OldUntil(at) => return Seen::OldUntil(at),
        Told::Newest if context.backoff.count(&uid) < DOUBTFUL => return Seen::Object(told),
        Told::Newest | Told::Overdue => {}
    }
    match call(context.api::<K>(namespace).get_opt(name)).await {
        Ok(current) => current.map_or(Seen::Gone, |current| Seen::Object(Arc::new(current))),
        Err(error) => {
            tracing::debug!(namespace, name, %error, "an object could not be read anew");
            Seen::Object(told)
        }
    }
}

/// The one place that logs why passes failed.
fn report(kind: &'static str, (namespace, name): &Key, error: &Error) {
    match error.category() {
        Category::Conflict => tracing::debug!(kind, namespace, name, %error, "somebody else wrote first"),
        category @ (Category::Refused | Category::Unreachable | Category::Internal) => {
            tracing::warn!(kind, namespace, name, category = category.as_str(), %error, "a pass failed and is tried again");
        }
    }
}

/// What changes by the clock alone.
async fn tick(context: &Shared) {
    let mut second = every_second();
    loop {
        second.tick().await;
        tell_gateways(context);
        count(context);
    }
}

/// Asks the canaries that are due. An API server that is slow to reply holds up nothing else.
async fn ask_canaries(context: &Shared) {
    let mut second = every_second();
    loop {
        second.tick().await;
        let due = context.canaries.due(&context.index.namespaces());
        stream::iter(due).for_each_concurrent(CANARIES_AT_ONCE, |namespace| async move { ask_canary(context, &namespace).await }).await;
    }
}

fn every_second() -> Interval {
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    second
}

fn count(context: &Shared) {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    context.metrics.not_enforced.set(number(context.canaries.not_enforced()));
    let alive = context.stores.sessions.state().iter().filter(|s| !session::ended(s.status.as_ref().and_then(|s| s.phase))).count();
    context.metrics.sessions.set(number(alive));
}

/// Removes the Leases of gateway processes that are long gone.
async fn sweep(context: &Shared) {
    let api = context.api::<Lease>(&context.settings.namespace);
    let mut due = interval(SWEEP);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        for name in context.processes.old(context.now()) {
            if let Err(error) = apply::delete(&api, &name, None, None).await {
                tracing::warn!(%error, "the lease of a gateway process that is gone could not be removed");
            }
        }
    }
}
