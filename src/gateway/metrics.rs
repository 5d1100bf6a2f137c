//! What the gateway counts. Labels are closed sets.

use super::auth::AuthError;
use crate::runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// The gateway's metrics.
#[derive(Clone, Default)]
pub struct GatewayMetrics {
    /// Calls that wait for a person now.
    pub open_waits: Gauge,
    calls: Family<Call, Counter>,
    attachments: Family<Change, Counter>,
    refused: Family<Refused, Counter>,
    decisions: Family<DecisionLabel, Counter>,
    /// Tasks that panicked.
    pub panics: Counter,
    /// 1 when the admission policies answered the last canary as they should.
    pub identity_enforced: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    tool: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Change {
    change: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    why: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabel {
    via: &'static str,
    result: &'static str,
}

impl GatewayMetrics {
    /// Registered under `beckon_gateway_`.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let m = Self::default();
        metrics.register(|registry| {
            let r = registry.sub_registry_with_prefix("gateway");
            r.register("open_waits", "Calls that wait for a person", m.open_waits.clone());
            r.register("calls", "Tool calls, by tool and outcome", m.calls.clone());
            r.register("attachments", "Calls attached to and detached from requests", m.attachments.clone());
            r.register("auth_failures", "Callers that were not let in", m.refused.clone());
            r.register("decisions", "Decisions of people, by way and result", m.decisions.clone());
            r.register("panicked_tasks", "Tasks that panicked", m.panics.clone());
            r.register("identity_enforced", "Whether the admission policies hold", m.identity_enforced.clone());
        });
        m
    }

    /// A tool call ended. `code` is `OK` or a stable error code.
    pub fn called(&self, tool: &'static str, code: &'static str) {
        self.calls.get_or_create(&Call { tool, code }).inc();
    }

    /// A wait attached or detached.
    pub fn attached(&self, change: &'static str) {
        self.attachments.get_or_create(&Change { change }).inc();
    }

    /// A person decided, or tried to.
    pub fn decided(&self, via: &'static str, result: &'static str) {
        self.decisions.get_or_create(&DecisionLabel { via, result }).inc();
    }

    /// A caller was not let in.
    pub fn auth_failed(&self, error: &AuthError) {
        let why = match error {
            AuthError::Missing => "missing",
            AuthError::Malformed => "malformed",
            AuthError::Refused => "refused",
            AuthError::OtherAudience { .. } => "other_audience",
            AuthError::Unavailable => "unavailable",
        };
        self.refused.get_or_create(&Refused { why }).inc();
    }
}
