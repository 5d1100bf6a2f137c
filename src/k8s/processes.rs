//! Which gateway processes live. What counts is when this process saw a Lease renewed, by its own clock.

use super::client::call;
use super::watch::{self, Change, prune_metadata};
use crate::domain::attachment::{Liveness, ProcessLease};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use kube::{Api, Client, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The label that tells what a Lease of ours is for.
pub const ROLE_LABEL: &str = "beckon.dev/role";
/// The role of the Lease of a gateway process.
pub const GATEWAY: &str = "gateway";
/// The Leases of gateway processes, as a selector.
pub const SELECTOR: &str = "beckon.dev/role=gateway";
/// The annotation of a process that has announced its end.
pub const SHUTTING_DOWN: &str = "beckon.dev/shutting-down";
/// A Lease is removed this many seconds after its last renewal.
pub const KEEP_SECONDS: i64 = 3600;

#[derive(Clone, Debug)]
struct Process {
    renewed: Option<Timestamp>,
    /// When a renewal was seen to come, which a Lease that is read for the first time does not tell.
    alive: Option<Timestamp>,
    lease: ProcessLease,
    /// What was told last.
    told: Liveness,
}

/// The gateway processes that have a Lease.
#[derive(Debug, Default)]
pub struct Processes(Mutex<HashMap<String, Process>>);

impl Processes {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Lease was seen.
    pub fn applied(&self, lease: &Lease, now: Timestamp) {
        let spec = lease.spec.clone().unwrap_or_default();
        let renewed = spec.renew_time.map(|time| time.0);
        let duration_seconds = i64::from(spec.lease_duration_seconds.unwrap_or(15));
        let shutting_down = lease.annotations().get(SHUTTING_DOWN).is_some_and(|value| value == "true");
        let mut all = self.all();
        let before = all.get(&lease.name_any());
        let observed = before.filter(|before| before.renewed == renewed).map_or(now, |before| before.lease.observed);
        let alive = before.and_then(|before| if before.renewed == renewed { before.alive } else { Some(now) });
        let told = before.map_or(Liveness::Live, |before| before.told);
        all.insert(lease.name_any(), Process { renewed, alive, lease: ProcessLease { observed, duration_seconds, shutting_down }, told });
    }

    /// A Lease is gone.
    pub fn deleted(&self, name: &str) {
        self.all().remove(name);
    }

    /// These are all that there are; the rest is gone.
    pub fn reset(&self, names: &[String]) {
        self.all().retain(|name, _| names.contains(name));
    }

    /// What a watch of the Leases tells, whose store this is.
    pub fn told(&self, change: &Change<Lease>, store: &Store<Lease>, now: Timestamp) {
        match change {
            Change::Applied(lease) => self.applied(lease, now),
            Change::Deleted(lease) => self.deleted(&lease.name_any()),
            Change::Reset => {
                let all = store.state();
                self.reset(&all.iter().map(|lease| lease.name_any()).collect::<Vec<_>>());
                for lease in &all {
                    self.applied(lease, now);
                }
            }
            Change::Unreadable(_) | Change::Failed(_) => {}
        }
    }

    /// Watches the Leases of a namespace until it is stopped.
    pub async fn watch(&self, client: Client, namespace: &str, now: fn() -> Timestamp, stop: CancellationToken) {
        let (store, writer) = reflector::store();
        let api = Api::<DeserializeGuard<Lease>>::namespaced(client, namespace);
        let tell = |change: Change<Lease>| {
            if let Change::Failed(error) = &change {
                tracing::warn!(error, "the watch of the gateways' Leases failed and is tried again");
            }
            self.told(&change, &store, now());
        };
        watch::run(api, watch::config().labels(SELECTOR), writer, prune_metadata, tell, stop).await;
    }

    /// Whether a process lives. One that the watch does not know, or gives up, is asked about, since the watch may lag behind it:
    /// after an outage it comes back later than the process does. `None`: that could not be told.
    pub async fn ask(&self, api: &Api<Lease>, name: &str, now: fn() -> Timestamp) -> Option<Liveness> {
        if let Some(liveness @ (Liveness::Live | Liveness::ShuttingDown)) = self.liveness(name, now()) {
            return Some(liveness);
        }
        match call(api.get_opt(name)).await {
            Ok(None) => Some(Liveness::Lost),
            Ok(Some(lease)) => {
                self.applied(&lease, now());
                self.liveness(name, now())
            }
            Err(error) => {
                tracing::warn!(%error, "the Lease of a gateway process could not be read");
                None
            }
        }
    }

    /// Whether a process was seen to renew its Lease after `since`.
    #[must_use]
    pub fn renewed_since(&self, name: &str, since: Timestamp) -> bool {
        self.all().get(name).and_then(|process| process.alive).is_some_and(|alive| alive > since)
    }

    /// Whether a process lives; `None` when it has no Lease that was seen.
    #[must_use]
    pub fn liveness(&self, name: &str, now: Timestamp) -> Option<Liveness> {
        self.all().get(name).map(|process| process.lease.liveness(now))
    }

    /// The processes whose liveness changed since it was last asked.
    pub fn changed(&self, now: Timestamp) -> Vec<String> {
        let mut changed = Vec::new();
        for (name, process) in self.all().iter_mut() {
            let liveness = process.lease.liveness(now);
            if liveness != process.told {
                process.told = liveness;
                changed.push(name.clone());
            }
        }
        changed
    }

    /// The processes whose Leases have outlived their use.
    #[must_use]
    pub fn old(&self, now: Timestamp) -> Vec<String> {
        let kept = crate::domain::time::after(now, -KEEP_SECONDS);
        self.all()
            .iter()
            .filter(|(_, process)| process.lease.liveness(now) != Liveness::Live)
            .filter(|(_, process)| process.renewed.is_none_or(|renewed| renewed < kept))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn lease(renewed: i64, shutting_down: bool) -> Lease {
        let mut lease = Lease {
            spec: Some(LeaseSpec { renew_time: Some(MicroTime(at(renewed))), lease_duration_seconds: Some(15), ..LeaseSpec::default() }),
            ..Lease::default()
        };
        lease.metadata.name = Some("g".into());
        if shutting_down {
            lease.annotations_mut().insert(SHUTTING_DOWN.into(), "true".into());
        }
        lease
    }

    #[tokio::test]
    async fn who_seems_lost_is_asked_about() {
        let stored = |renewed: i64| {
            let body = serde_json::to_vec(&lease(renewed, false)).unwrap();
            let answer = move |_: http::Request<kube::client::Body>| {
                std::future::ready(http::Response::builder().body(kube::client::Body::from(body.clone())))
            };
            Api::<Lease>::default_namespaced(Client::new(tower::service_fn(answer), "default"))
        };
        let late: fn() -> Timestamp = || at(1100);
        let processes = Processes::default();
        processes.applied(&lease(7, false), at(1000));
        assert_eq!(processes.ask(&stored(7), "g", late).await, Some(Liveness::Lost), "it stands still");
        assert_eq!(processes.ask(&stored(8), "g", late).await, Some(Liveness::Live), "the watch has not told its renewal");
        assert_eq!(processes.liveness("g", at(1100)), Some(Liveness::Live));
    }

    #[test]
    fn a_process_is_lost_when_its_lease_stands_still_by_our_clock() {
        let processes = Processes::default();
        // The gateway's clock is far off: that changes nothing.
        processes.applied(&lease(7, false), at(1000));
        processes.applied(&lease(7, false), at(1010));
        assert_eq!(processes.liveness("g", at(1015)), Some(Liveness::Live));
        assert!(processes.changed(at(1015)).is_empty());
        assert_eq!(processes.changed(at(1016)), ["g"]);
        assert_eq!(processes.liveness("g", at(1016)), Some(Liveness::Lost));
        processes.applied(&lease(12, false), at(1020));
        assert_eq!(processes.changed(at(1020)), ["g"], "it was only cut off");
        processes.applied(&lease(13, true), at(1021));
        assert_eq!(processes.liveness("g", at(1021)), Some(Liveness::ShuttingDown));
        assert!(processes.old(at(1022)).is_empty());
        assert_eq!(processes.old(at(9000)), ["g"]);
        processes.deleted("g");
        assert_eq!(processes.liveness("g", at(1022)), None);
    }

    #[test]
    fn a_lease_that_is_read_for_the_first_time_proves_no_life() {
        let processes = Processes::default();
        processes.applied(&lease(7, false), at(1000));
        processes.applied(&lease(7, false), at(1004));
        assert!(!processes.renewed_since("g", at(999)));
        processes.applied(&lease(8, false), at(1005));
        assert!(processes.renewed_since("g", at(1004)) && !processes.renewed_since("g", at(1005)));
        assert!(!processes.renewed_since("other", at(0)));
    }
}
