//! Whether an answer that is stored may be handed over: what the canary says of its namespace.

use super::metrics::GatewayMetrics;
use crate::domain::canary::Trust;
use crate::k8s::canary::{Canaries, News};
use crate::runtime::clock;
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A call that waits for the reply waits no longer than this.
const ASKING: Duration = Duration::from_secs(3);
/// How many are asked at once.
const AT_ONCE: usize = 4;

/// What is known of each namespace.
#[derive(Clone)]
pub struct Canary {
    canaries: Canaries,
    metrics: GatewayMetrics,
}

impl Canary {
    /// Nothing is known yet.
    pub fn new(client: kube::Client, metrics: GatewayMetrics) -> Self {
        Self { canaries: Canaries::new(client, clock::now, ASKING), metrics }
    }

    /// Whether a decision that was stored at `stored` may be handed over. Asks first when nothing recent is known.
    pub async fn trust(&self, namespace: &str, stored: Timestamp) -> Trust {
        let known = self.canaries.trust(namespace, stored);
        if known == Trust::Honour && !self.canaries.is_due(namespace) {
            return known;
        }
        self.ask(namespace).await;
        self.canaries.trust(namespace, stored)
    }

    /// Asks about those that are due, and forgets the others: they have no requests any more.
    pub async fn ask_due(&self, namespaces: &BTreeSet<String>) {
        let due = futures::stream::iter(self.canaries.due(namespaces));
        due.for_each_concurrent(AT_ONCE, |namespace| async move { self.ask(&namespace).await }).await;
    }

    async fn ask(&self, namespace: &str) {
        match self.canaries.ask(namespace).await {
            News::None => {}
            News::Enforced => tracing::info!(namespace, "the admission policies are in force"),
            News::NotEnforced(why) => tracing::error!(namespace, %why, "identities are not enforced: answers are not handed over"),
        }
        self.metrics.identity_enforced.set(i64::from(!self.canaries.any_refuted()));
    }

    /// Watches our policies and bindings: what is stored between a change and the next good reply is not honoured.
    pub async fn watch_policies(&self, stop: CancellationToken) {
        self.canaries.watch_policies(stop).await;
    }
}
