//! What the controller counts. Labels are closed sets.

use crate::runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// The kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// `AttentionRequest` or `BrowserSession`.
    pub kind: &'static str,
}

/// A pass over an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PassLabel {
    /// `AttentionRequest` or `BrowserSession`.
    pub kind: &'static str,
    /// `ok`, or the category of the error.
    pub outcome: &'static str,
}

/// Why something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// The reason of the condition.
    pub reason: &'static str,
}

/// What the controller counts.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    /// 1 while this process leads.
    pub leader: Gauge,
    /// Passes.
    pub passes: Family<PassLabel, Counter>,
    /// How long passes take.
    pub pass_seconds: Family<KindLabel, Histogram, fn() -> Histogram>,
    /// Status writes.
    pub writes: Family<KindLabel, Counter>,
    /// Requests that are open or not decided about.
    pub open: Gauge,
    /// Settled requests.
    pub settled: Family<ReasonLabel, Counter>,
    /// How long requests waited.
    pub wait_seconds: Histogram,
    /// How late deadlines fired.
    pub deadline_lag_seconds: Histogram,
    /// Sessions that live.
    pub sessions: Gauge,
    /// Ended sessions.
    pub ended: Family<ReasonLabel, Counter>,
    /// Namespaces whose policies are not known to be in force.
    pub not_enforced: Gauge,
    /// Seconds since the watch that is furthest behind was opened.
    pub watch_age_seconds: Gauge,
    /// Objects that could not be read.
    pub unreadable: Family<KindLabel, Counter>,
}

fn passes() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 8))
}

impl ControllerMetrics {
    /// Registers them.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let all = Self {
            leader: Gauge::default(),
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(passes),
            writes: Family::default(),
            open: Gauge::default(),
            settled: Family::default(),
            wait_seconds: Histogram::new(exponential_buckets(1.0, 3.0, 10)),
            deadline_lag_seconds: Histogram::new(exponential_buckets(0.01, 3.0, 8)),
            sessions: Gauge::default(),
            ended: Family::default(),
            not_enforced: Gauge::default(),
            watch_age_seconds: Gauge::default(),
            unreadable: Family::default(),
        };
        metrics.register(|registry| {
            registry.register("controller_leader", "1 while this process leads", all.leader.clone());
            registry.register("controller_passes", "Passes over objects", all.passes.clone());
            registry.register("controller_pass_seconds", "How long passes take", all.pass_seconds.clone());
            registry.register("controller_status_writes", "Writes of status", all.writes.clone());
            registry.register("attention_requests_open", "Requests that are not settled", all.open.clone());
            registry.register("attention_requests_settled", "Settled requests", all.settled.clone());
            registry.register("attention_wait_seconds", "How long requests waited", all.wait_seconds.clone());
            registry.register("attention_deadline_lag_seconds", "How late deadlines fired", all.deadline_lag_seconds.clone());
            registry.register("sessions_alive", "Sessions that have not ended", all.sessions.clone());
            registry.register("sessions_ended", "Ended sessions", all.ended.clone());
            registry.register(
                "policies_not_enforced_namespaces",
                "Namespaces whose admission policies are not known to be in force",
                all.not_enforced.clone(),
            );
            registry.register(
                "controller_watch_age_seconds",
                "Seconds since the watch that is furthest behind was opened",
                all.watch_age_seconds.clone(),
            );
            registry.register("controller_unreadable_objects", "Objects that could not be read", all.unreadable.clone());
        });
        all
    }
}
