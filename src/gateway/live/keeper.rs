//! Keeps grants of control alive, and lets them die. The driver's grant lives for 2 s; it is renewed only after a fresh look
//! at what entitles the person. So whatever happens (a decision by kubectl, a dead gateway, an API server that can't be
//! reached), the hands are off the page within two seconds.

use super::control;
use crate::api::v1alpha1::{BrowserSession, Phase};
use crate::driver::{DriverErrorCode, ReleaseControl, RenewControl};
use crate::gateway::auth::Principal;
use crate::gateway::dashboard::{Site, model};
use crate::gateway::decisions;
use crate::gateway::driver_client::{Driver, DriverFailure};
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// Three renewals fit into the life of a grant.
const BEAT: Duration = Duration::from_millis(700);
/// A renewal that takes longer is no use.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long a lease is renewed while no socket shows it: between taking over and the first word on the socket, and for a
/// connection that blinks. After that the driver's own reconnect window runs, in which its holder takes again.
const BLINK: Duration = Duration::from_secs(3);
/// How often the person's rights are looked at again.
const RIGHTS: Duration = Duration::from_secs(30);

/// What entitles a person to drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// This open request.
    Request(String),
    /// The verb `takeover`.
    Verb,
}

/// A lease that is kept.
#[derive(Clone, Debug)]
pub struct Held {
    /// The driver's lease.
    pub lease: String,
    /// Whose.
    pub who: Arc<Principal>,
    /// Of which session.
    pub session: Arc<BrowserSession>,
    /// Why.
    pub basis: Basis,
}

struct Kept {
    held: Held,
    /// How many sockets of the holder show it.
    sockets: watch::Sender<usize>,
    stop: CancellationToken,
}

/// The leases that this process keeps alive.
#[derive(Clone, Default)]
pub struct Keeper(Arc<Mutex<HashMap<String, Arc<Kept>>>>);

/// A socket of the holder.
pub struct Attached(Arc<Kept>);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.sockets.send_modify(|n| *n = n.saturating_sub(1));
    }
}

/// The place of a lease that is being kept; left however the keeping ends.
struct Place {
    keeper: Keeper,
    kept: Arc<Kept>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keeper.lock().retain(|_, other| !Arc::ptr_eq(other, &self.kept));
    }
}

/// Why a lease is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// What entitled the person is over: the driver is told.
    Over,
    /// Handed back, or taken up elsewhere: the driver knows or needs no word.
    Left,
}

impl Keeper {
    /// Keeps a lease alive from now on.
    pub fn keep(&self, site: &Site, held: Held, driver: Driver) {
        let lease = held.lease.clone();
        let kept = Arc::new(Kept { held, sockets: watch::Sender::new(0), stop: site.gateway.stop.child_token() });
        let old = self.lock().insert(lease.clone(), Arc::clone(&kept));
        if let Some(old) = old {
            old.stop.cancel();
        }
        let (tasks, site) = (&site.gateway.tasks, site.clone());
        tasks.spawn("the keeping of a lease of control", async move {
            let place = Place { keeper: site.keeper.clone(), kept: Arc::clone(&kept) };
            let end = run(&site, &kept, &driver).await;
            drop(place);
            if end == End::Over {
                drop(driver.release(&ReleaseControl { lease: Some(lease), request: None }).await);
            }
            control::record(site, Arc::clone(&kept.held.session), driver).await;
        });
    }

    /// Whether this person's lease is kept here.
    pub fn holds(&self, lease: &str, who: &Principal) -> bool {
        self.lock().get(lease).is_some_and(|kept| kept.held.who.username == who.username && kept.held.who.uid == who.uid)
    }

    /// A socket shows this lease.
    pub fn attach(&self, lease: &str) -> Option<Attached> {
        let kept = self.lock().get(lease).cloned()?;
        kept.sockets.send_modify(|n| *n += 1);
        Some(Attached(kept))
    }

    /// Whether input with this lease may pass this very moment. The driver asks again.
    pub fn passes(&self, site: &Site, lease: &str) -> bool {
        let Some(kept) = self.lock().get(lease).cloned() else { return false };
        if kept.stop.is_cancelled() {
            return false;
        }
        match &kept.held.basis {
            Basis::Verb => true,
            Basis::Request(name) => {
                let namespace = kept.held.session.namespace().unwrap_or_default();
                site.gateway.hub.requests.get(&namespace, name).is_none_or(|request| decisions::describe(&request).is_none())
            }
        }
    }

    /// Keeps it no longer.
    pub fn forget(&self, lease: &str) {
        if let Some(kept) = self.lock().remove(lease) {
            kept.stop.cancel();
        }
    }

    /// Keeps no longer what was held for this request.
    pub fn forget_request(&self, namespace: &str, name: &str) {
        self.lock().retain(|_, kept| {
            let of_it = kept.held.basis == Basis::Request(name.to_owned()) && kept.held.session.namespace().as_deref() == Some(namespace);
            if of_it {
                kept.stop.cancel();
            }
            !of_it
        });
    }

    /// Whether any lease of this session is kept here.
    pub fn drives(&self, uid: &str) -> bool {
        self.lock().values().any(|kept| kept.held.session.metadata.uid.as_deref() == Some(uid))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(site: &Site, kept: &Kept, driver: &Driver) -> End {
    let held = &kept.held;
    let hub = &site.gateway.hub;
    let namespace = held.session.namespace().unwrap_or_default();
    let mut session = hub.session(&namespace, &held.session.name_any());
    let mut request = match &held.basis {
        Basis::Request(name) => Some(hub.request(&namespace, name)),
        Basis::Verb => None,
    };
    let mut sockets = kept.sockets.subscribe();
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut away = Some(Instant::now());
    let mut rights = Instant::now();
    loop {
        tokio::select! {
            () = kept.stop.cancelled() => return End::Left,
            _ = beat.tick() => {}
            _ = session.changed() => {}
            _ = sockets.changed() => {}
            () = changed(request.as_mut()) => {}
        }
        if *sockets.borrow_and_update() > 0 {
            away = None;
        } else if away.get_or_insert_with(Instant::now).elapsed() >= BLINK {
            // Another replica may keep it: it is not ended, only no longer kept here.
            return End::Left;
        }
        let there =
            session.borrow_and_update().as_ref().is_some_and(|s| s.metadata.uid == held.session.metadata.uid && !model::session_ended(s));
        let settled = request.as_mut().is_some_and(|r| r.borrow_and_update().as_ref().is_some_and(|r| decisions::describe(r).is_some()));
        if !there || settled {
            return End::Over;
        }
        match entitled(site, held, &namespace, &mut rights).await {
            Some(true) => {}
            Some(false) => return End::Over,
            // Nobody could say: not renewed, so that the grant ends by itself if this lasts.
            None => continue,
        }
        match tokio::time::timeout(RENEWAL, driver.renew(&RenewControl { lease: held.lease.clone(), extend: false })).await {
            Ok(Err(DriverFailure::Refused(error))) if error.code == DriverErrorCode::LeaseEnded => return End::Left,
            Ok(_) | Err(_) => {}
        }
    }
}

/// A fresh look at what entitles. `None`: it could not be looked at.
async fn entitled(site: &Site, held: &Held, namespace: &str, rights: &mut Instant) -> Option<bool> {
    if let Basis::Request(name) = &held.basis {
        let Some(request) = control::look(site, namespace, name).await.ok()? else { return Some(false) };
        let pending = request.status.as_ref().and_then(|s| s.phase) == Some(Phase::Pending);
        if !pending || decisions::describe(&request).is_some() {
            site.gateway.hub.requests.offer(request);
            return Some(false);
        }
    }
    if rights.elapsed() >= RIGHTS {
        let request = match &held.basis {
            Basis::Request(name) => Some(name.as_str()),
            Basis::Verb => None,
        };
        match control::entitled(site, &held.who, &held.session, request).await {
            Ok(_) => *rights = Instant::now(),
            Err(problem) if problem.status.is_server_error() => return None,
            Err(_) => return Some(false),
        }
    }
    Some(true)
}

async fn changed<T>(receiver: Option<&mut watch::Receiver<T>>) {
    let told = match receiver {
        Some(receiver) => receiver.changed().await.is_ok(),
        None => false,
    };
    if !told {
        std::future::pending::<()>().await;
    }
}

/// Now and then compares what sessions record with who really has the hands: a process that died could not write it.
pub async fn run_sweep(site: Site, stop: CancellationToken) {
    let mut tick = tokio::time::interval(Duration::from_secs(10));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        for session in site.gateway.hub.sessions.all() {
            let recorded = session.status.as_ref().and_then(|s| s.control.as_ref()?.holder.as_ref()).is_some();
            let here = session.metadata.uid.as_deref().is_some_and(|uid| site.keeper.drives(uid));
            if recorded
                && !here
                && !model::session_ended(&session)
                && let Ok(driver) = site.gateway.drivers.of(&session).await
            {
                control::record(site.clone(), session, driver).await;
            }
        }
    }
}
