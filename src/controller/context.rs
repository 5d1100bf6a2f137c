//! What a pass may touch.

use super::backoff::Backoff;
use super::caps::Ledger;
use super::error::Error;
use super::index::Index;
use super::metrics::{ControllerMetrics, KindLabel, PassLabel};
use super::queue::Lane;
use super::settings::Settings;
use super::superseded::Superseded;
use super::triggers::Triggers;
use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use crate::k8s::canary::Canaries;
use crate::k8s::client::CallError;
use crate::k8s::events::{Events, Fact};
use crate::k8s::processes::Processes;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource, ResourceExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// However quiet an object is, it is looked at again after this long, in seconds, give or take a tenth: timers do not follow a
/// clock that is set forward, deadlines do. Such a look writes nothing.
const LONGEST_SECONDS: i64 = 60;
/// The same, where only history is left.
const LONGEST_OF_HISTORY_SECONDS: i64 = 600;

/// What is watched.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Requests.
    pub requests: Store<AttentionRequest>,
    /// Sessions.
    pub sessions: Store<BrowserSession>,
    /// Pods of sessions.
    pub pods: Store<Pod>,
    /// When sessions were last used.
    pub activity: Store<Lease>,
}

/// What a pass may touch.
#[derive(Debug)]
pub struct Context {
    /// The API server.
    pub client: ClientOf,
    /// The clock.
    pub clock: fn() -> Timestamp,
    /// The installation's settings.
    pub settings: Settings,
    /// What is watched.
    pub stores: Stores,
    /// The unsettled requests.
    pub index: Index,
    /// What has to be looked at.
    pub triggers: Triggers,
    /// The gateway processes.
    pub processes: Processes,
    /// Whether the policies are in force.
    pub canaries: Canaries,
    /// What was admitted lately.
    pub ledger: Ledger,
    /// Events for people.
    pub events: Events,
    /// What is counted.
    pub metrics: ControllerMetrics,
    /// Failures in a row.
    pub backoff: Backoff,
    /// What the watch tells late.
    pub superseded: Superseded,
    /// How often a driver was asked in vain, by the session's uid.
    pub asked_drivers: Backoff,
}

/// The client, which has nothing to show of itself.
#[derive(Clone)]
pub struct ClientOf(pub Client);

impl std::fmt::Debug for ClientOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Context {
    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The API of a kind in a namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.0.clone(), namespace)
    }

    /// Whether there was something to write. Either way the version that was written over, by us or by whoever was first, is not to be
    /// acted upon again.
    ///
    /// # Errors
    /// When the write failed.
    pub(super) fn wrote<K: Resource>(&self, seen: &K, written: Result<Option<K>, CallError>) -> Result<bool, CallError> {
        if matches!(&written, Ok(Some(_))) || written.as_ref().is_err_and(CallError::is_conflict) {
            let version = seen.resource_version().unwrap_or_default();
            self.superseded.insert(seen.uid().unwrap_or_default(), version, Instant::now());
        }
        written.map(|written| written.is_some())
    }

    /// Tells people a fact about an object.
    pub fn tell<K>(&self, object: &K, warning: bool, reason: &'static str, action: &'static str, note: impl Into<String>)
    where
        K: Resource<DynamicType = ()>,
    {
        self.events.post(Fact { about: object.object_ref(&()), warning, reason, action, note: note.into() });
    }

    /// Looks again at `wake`, or after a minute, whichever comes first.
    #[must_use]
    pub fn again(&self, wake: Option<Timestamp>) -> Next {
        Next::after(self.pause(wake, LONGEST_SECONDS))
    }

    /// Looks again at `wake`, or after ten minutes, whichever comes first: nobody waits for it.
    #[must_use]
    pub fn again_as_history(&self, wake: Timestamp) -> Next {
        Next(Some((self.pause(Some(wake), LONGEST_OF_HISTORY_SECONDS), Lane::History)))
    }

    fn pause(&self, wake: Option<Timestamp>, longest: i64) -> Duration {
        let longest = SignedDuration::from_millis(rand::random_range(900 * longest..1100 * longest));
        let pause = wake.map_or(longest, |wake| wake.duration_since(self.now()).min(longest));
        // A timer has whole milliseconds: one more is not early.
        Duration::try_from(pause).unwrap_or_default() + Duration::from_millis(1)
    }

    /// Counts a pass that ended.
    pub fn count<T>(&self, kind: &'static str, since: Instant, result: &Result<T, Error>) {
        let outcome = result.as_ref().map_or_else(|error| error.category().as_str(), |_| "ok");
        self.metrics.passes.get_or_create(&PassLabel { kind, outcome }).inc();
        self.metrics.pass_seconds.get_or_create(&KindLabel { kind }).observe(since.elapsed().as_secs_f64());
    }
}

/// When an object is looked at again if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next(Option<(Duration, Lane)>);

impl Next {
    /// Not by the clock: it is on its way out.
    pub const NEVER: Self = Self(None);

    /// After a pause; its life goes on.
    #[must_use]
    pub const fn after(pause: Duration) -> Self {
        Self(Some((pause, Lane::Living)))
    }

    /// Counted from now.
    #[must_use]
    pub fn at(self) -> Option<(Instant, Lane)> {
        self.0.map(|(pause, lane)| (Instant::now() + pause, lane))
    }
}

/// What follows a pass that failed: a pause that grows with the failures in a row.
pub(super) fn retry<K: Resource>(object: &K, error: &Error, context: &Context) -> Next {
    let uid = object.uid().unwrap_or_default();
    let pause = error.pause(context.backoff.failed(&uid));
    let jitter = Duration::from_millis(rand::random_range(0..=pause.as_millis().min(10_000) as u64 / 4));
    Next::after(pause + jitter)
}

/// The shared context.
pub(super) type Shared = Arc<Context>;
