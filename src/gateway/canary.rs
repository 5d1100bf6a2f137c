//! Asks the canary: whether the admission policies hold in each namespace that has requests, and so whether an answer that is
//! stored there may be handed over.

use super::metrics::GatewayMetrics;
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, Mode, Principal};
use crate::domain::canary::{Enforcement, FORGED_REQUESTER, NAME, Reply, Trust, classify};
use crate::k8s::watch;
use crate::runtime::clock;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ASKING: Duration = Duration::from_secs(3);
/// Our policies and bindings begin with this.
const OURS: &str = "beckon-";

#[derive(Default)]
struct Namespace {
    seen: Enforcement,
    asked: Option<Timestamp>,
}

/// What is known of each namespace.
#[derive(Clone)]
pub struct Canary {
    client: kube::Client,
    namespaces: Arc<Mutex<HashMap<String, Namespace>>>,
    metrics: GatewayMetrics,
}

impl Canary {
    /// Nothing is known yet.
    pub fn new(client: kube::Client, metrics: GatewayMetrics) -> Self {
        Self { client, namespaces: Arc::default(), metrics }
    }

    /// Whether a decision that was stored at `stored` may be handed over. Asks first when nothing recent is known.
    pub async fn trust(&self, namespace: &str, stored: Timestamp) -> Trust {
        let now = clock::now();
        let (trust, due) = self.with(namespace, |n| (n.seen.trust(stored, now), n.seen.ask_at(n.asked) <= now));
        if trust == Trust::Honour && !due {
            return trust;
        }
        self.ask(namespace).await;
        self.with(namespace, |n| n.seen.trust(stored, clock::now()))
    }

    /// Asks now.
    pub async fn ask(&self, namespace: &str) {
        let api: Api<AttentionRequest> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams { dry_run: true, field_manager: Some(super::MANAGER.to_owned()) };
        let asked = clock::now();
        let reply = match tokio::time::timeout(ASKING, api.create(&params, &canary())).await {
            Ok(Ok(_)) => classify(None),
            Ok(Err(kube::Error::Api(status))) => classify(Some((status.code, &status.message))),
            Ok(Err(_)) | Err(_) => Reply::Nothing,
        };
        if let Reply::NotEnforced(why) = &reply {
            tracing::error!(namespace, %why, "identities are not enforced: answers are not handed over");
        }
        self.with(namespace, |n| {
            n.asked = Some(asked);
            n.seen.reply(&reply, asked);
        });
        let all_good = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).values().all(|n| !n.seen.refuted());
        self.metrics.identity_enforced.set(i64::from(all_good));
    }

    /// Forgets the namespaces that have no requests any more.
    pub fn keep_only(&self, there: &HashSet<String>) {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).retain(|namespace, _| there.contains(namespace));
    }

    /// Whether the question is due.
    pub fn due(&self, namespace: &str) -> bool {
        self.with(namespace, |n| n.seen.ask_at(n.asked) <= clock::now())
    }

    /// Watches our policies and bindings: what is stored between a change and the next good reply is not honoured.
    pub async fn watch_policies(&self, stop: CancellationToken) {
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        let policies = watcher(policies, watch::config()).default_backoff().map_ok(|event| changed(&event)).boxed();
        let bindings = watcher(bindings, watch::config()).default_backoff().map_ok(|event| changed(&event)).boxed();
        let mut events = futures::stream::select(policies, bindings);
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(true)) => {
                    let now = clock::now();
                    let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
                    namespaces.values_mut().for_each(|n| n.seen.changed(now));
                }
                Some(Ok(false)) => {}
                Some(Err(error)) => tracing::warn!(%error, "the watch of the admission policies failed"),
                None => return,
            }
        }
    }

    fn with<R>(&self, namespace: &str, look: impl FnOnce(&mut Namespace) -> R) -> R {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        look(namespaces.entry(namespace.to_owned()).or_default())
    }
}

/// Whether a policy or binding of ours was written or removed; a relist tells nothing new.
fn changed<K: kube::Resource>(event: &watcher::Event<K>) -> bool {
    match event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => object.name_any().starts_with(OURS),
        watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::InitDone => false,
    }
}

/// Fits the schema, so that only the policy can refuse it.
fn canary() -> AttentionRequest {
    let spec = AttentionRequestSpec {
        mode: Mode::Notify,
        reason: "Asks whether the admission policies are in place. Never stored.".to_owned(),
        requester: Some(Principal::named(FORGED_REQUESTER)),
        ..AttentionRequestSpec::default()
    };
    AttentionRequest::new(NAME, spec)
}
