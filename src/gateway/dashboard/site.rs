//! What pages, REST and live views share.

use super::cookie::Visit;
use super::visits::Visits;
use crate::gateway::live::{Keeper, Marks};
use crate::gateway::state::Shared;
use crate::runtime::metrics::Metrics;
use axum_extra::extract::cookie::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use sha2::Sha256;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The most tokens that are checked at a time.
const DOOR: usize = 4;
/// The most live views of one process.
const VIEWERS: usize = 512;
/// The most feeds of one process.
const FEEDS: usize = 2048;

/// The shared handles.
pub struct SiteState {
    /// The gateway's core.
    pub gateway: Shared,
    /// Seals cookies.
    pub cookie_key: Key,
    /// Signs tickets.
    pub ticket_key: [u8; 32],
    /// Seals what is in a login link.
    pub link_key: Key,
    /// What can be used once.
    pub marks: Marks,
    /// Visits that were ended by signing out.
    pub visits: Visits,
    /// The leases of control that this process keeps alive.
    pub keeper: Keeper,
    /// How many tokens are checked at a time at the door.
    pub door: Semaphore,
    /// Places for live views.
    pub viewers: Arc<Semaphore>,
    /// Places for feeds.
    pub feeds: Arc<Semaphore>,
    /// What is counted.
    pub metrics: SiteMetrics,
}

/// The handle that handlers take.
pub type Site = Arc<SiteState>;

impl SiteState {
    /// From the gateway's core. Keys are derived, so that none serves two purposes.
    pub fn new(gateway: &Shared, metrics: &Metrics) -> Site {
        let secret = &gateway.keys.cookie;
        let wide = |label: &str| Key::from(&[derive(secret, &format!("{label} 1")), derive(secret, &format!("{label} 2"))].concat());
        let marks = Marks::new(gateway.client.clone(), &gateway.settings.system_namespace);
        Arc::new(Self {
            cookie_key: wide("cookie"),
            ticket_key: derive(secret, "ticket"),
            link_key: wide("link"),
            visits: Visits::new(marks.clone()),
            marks,
            keeper: Keeper::default(),
            door: Semaphore::new(DOOR),
            viewers: Arc::new(Semaphore::new(VIEWERS)),
            feeds: Arc::new(Semaphore::new(FEEDS)),
            metrics: SiteMetrics::register(metrics),
            gateway: Arc::clone(gateway),
        })
    }

    /// The visit of a request, if it has one that is not over.
    pub fn visit(&self, headers: &HeaderMap, now: Timestamp) -> Option<Visit> {
        Visit::read(headers, &self.cookie_key, now).filter(|visit| !self.visits.is_over(visit))
    }
}

fn derive(secret: &[u8; 64], label: &str) -> [u8; 32] {
    // HMAC takes keys of any length.
    Hmac::<Sha256>::new_from_slice(secret).map_or([0; 32], |mut mac| {
        mac.update(label.as_bytes());
        mac.finalize().into_bytes().into()
    })
}

/// What the dashboard counts.
#[derive(Clone, Default)]
pub struct SiteMetrics {
    /// Live views that are open.
    pub viewers: Gauge,
    refused: Family<Refused, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    code: &'static str,
}

impl SiteMetrics {
    fn register(metrics: &Metrics) -> Self {
        let m = Self::default();
        metrics.register(|registry| {
            let r = registry.sub_registry_with_prefix("live");
            r.register("viewers", "Live views that are open", m.viewers.clone());
            r.register("refused_input", "Messages of viewers that were refused, by code", m.refused.clone());
        });
        m
    }

    /// A viewer's message was refused.
    pub fn refused(&self, code: &'static str) {
        self.refused.get_or_create(&Refused { code }).inc();
    }
}
