//! Asks the API server whether the admission policies are in force, in every namespace that has requests, and so whether what is
//! decided there may be honoured.

use super::client::{CallError, call};
use super::watch::{self, Step, prune_metadata};
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, Mode, Principal};
use crate::domain::canary::{self, Enforcement, Reply, Trust};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::{ClusterResourceScope, DeserializeGuard};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as Turn;
use tokio_util::sync::CancellationToken;

/// Our policies and bindings begin with this.
const OURS: &str = "beckon-";

#[derive(Debug, Default)]
struct Namespace {
    enforcement: Enforcement,
    asked: Option<Timestamp>,
    /// When the last reply came, or none in time.
    replied: Option<Timestamp>,
    /// Held by whoever asks.
    turn: Arc<Turn<()>>,
}

/// What is known of each namespace. Clones know the same.
#[derive(Clone)]
pub struct Canaries {
    client: Client,
    now: fn() -> Timestamp,
    patience: Duration,
    namespaces: Arc<Mutex<HashMap<String, Namespace>>>,
}

impl Debug for Canaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Canaries").field(&self.namespaces).finish()
    }
}

/// What an answer of the API server changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// The policies are in force, which was not known.
    Enforced,
    /// They are not; why, for a person.
    NotEnforced(String),
}

impl Canaries {
    /// Nothing is known yet. A question without a reply within `patience`, 15 s at most, says nothing.
    #[must_use]
    pub fn new(client: Client, now: fn() -> Timestamp, patience: Duration) -> Self {
        Self { client, now, patience, namespaces: Arc::default() }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Namespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespaces that have to be asked about; those that are not among these are forgotten.
    #[must_use]
    pub fn due(&self, namespaces: &BTreeSet<String>) -> Vec<String> {
        let now = (self.now)();
        let mut all = self.all();
        all.retain(|namespace, _| namespaces.contains(namespace));
        namespaces
            .iter()
            .filter(|namespace| all.get(*namespace).is_none_or(|known| known.enforcement.ask_at(known.asked) <= now))
            .cloned()
            .collect()
    }

    /// Whether this namespace has to be asked about.
    #[must_use]
    pub fn is_due(&self, namespace: &str) -> bool {
        let now = (self.now)();
        self.all().get(namespace).is_none_or(|known| known.enforcement.ask_at(known.asked) <= now)
    }

    /// Asks about one namespace, or waits for the reply to somebody else's question: many decisions that wait for one namespace
    /// are one question.
    pub async fn ask(&self, namespace: &str) -> News {
        let now = self.now;
        let wanted = now();
        let turn = self.all().entry(namespace.to_owned()).or_default().turn.clone();
        let _mine = turn.lock().await;
        if self.all().get(namespace).is_some_and(|known| known.replied.is_some_and(|replied| replied >= wanted)) {
            return News::None;
        }
        let asked = now();
        self.all().entry(namespace.to_owned()).or_default().asked = Some(asked);
        let reply = tokio::time::timeout(self.patience, ask(&self.client, namespace)).await.unwrap_or(Reply::Nothing);
        let mut all = self.all();
        let known = all.entry(namespace.to_owned()).or_default();
        let (was_good, was_refuted) = (known.enforcement.enforced(now()), known.enforcement.refuted());
        known.enforcement.reply(&reply, asked);
        known.replied = Some(now());
        match reply {
            Reply::NotEnforced(why) if !was_refuted => News::NotEnforced(why),
            Reply::Enforced if !was_good && known.enforcement.enforced(now()) => News::Enforced,
            Reply::NotEnforced(_) | Reply::Enforced | Reply::Nothing => News::None,
        }
    }

    /// A policy or binding changed.
    fn changed(&self) {
        let at = (self.now)();
        self.all().values_mut().for_each(|known| known.enforcement.changed(at));
    }

    /// Whether a decision that was stored at `stored` is honoured.
    #[must_use]
    pub fn trust(&self, namespace: &str, stored: Timestamp) -> Trust {
        let now = (self.now)();
        self.all().get(namespace).map_or(Trust::Hold, |known| known.enforcement.trust(stored, now))
    }

    /// In how many namespaces the policies are not known to be in force.
    #[must_use]
    pub fn not_enforced(&self) -> usize {
        let now = (self.now)();
        self.all().values().filter(|known| !known.enforcement.enforced(now)).count()
    }

    /// Whether a reply has said of any namespace that they are not in force.
    #[must_use]
    pub fn any_refuted(&self) -> bool {
        self.all().values().any(|known| known.enforcement.refuted())
    }

    /// Watches our policies and their bindings until it is stopped: a change of one distrusts until the next good reply. Where
    /// they may not be watched the questions alone tell.
    pub async fn watch_policies(&self, stop: CancellationToken) {
        tokio::join!(
            self.watch_kind::<ValidatingAdmissionPolicy>(stop.clone()),
            self.watch_kind::<ValidatingAdmissionPolicyBinding>(stop.clone()),
        );
    }

    async fn watch_kind<K>(&self, stop: CancellationToken)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let mut seen = Versions::default();
        let tell = |step: Step<K>| {
            if let Step::Failed(error) = &step {
                tracing::warn!(error, "the admission policies can't be watched");
            }
            if seen.tell(&step) {
                self.changed();
            }
        };
        watch::follow(Api::<DeserializeGuard<K>>::all(self.client.clone()), watch::config(), prune_metadata, tell, stop).await;
    }
}

/// What tells one state of the policies from another: uid and generation, since their status changes by itself. Of one that this
/// version can't read nothing is known.
type Version = (Option<String>, Option<i64>);

/// The policies of one kind.
#[derive(Debug, Default)]
struct Versions {
    known: Option<BTreeMap<String, Version>>,
    listed: BTreeMap<String, Version>,
}

impl Versions {
    /// Whether this step changed a policy of ours. What is there at the first reading has not changed.
    fn tell<K: Resource>(&mut self, step: &Step<K>) -> bool {
        match step {
            Step::Begun => {
                self.listed.clear();
                false
            }
            Step::Listed(policy) => {
                self.listed.extend(version(policy));
                false
            }
            Step::Unreadable(which) if which.name.starts_with(OURS) => {
                let unknown = (which.name.clone(), (None, None));
                self.listed.extend([unknown.clone()]);
                self.known.as_mut().is_some_and(|known| known.insert(unknown.0, unknown.1).is_none_or(|before| before != (None, None)))
            }
            Step::Complete => {
                let now = std::mem::take(&mut self.listed);
                self.known.replace(now.clone()).is_some_and(|before| before != now)
            }
            Step::Applied(policy) => {
                let Some((name, now)) = version(policy) else { return false };
                self.known.get_or_insert_default().insert(name, now.clone()) != Some(now)
            }
            Step::Deleted(policy) => self.known.as_mut().is_some_and(|known| known.remove(&policy.name_any()).is_some()),
            Step::Unreadable(_) | Step::Failed(_) => false,
        }
    }
}

fn version<K: Resource>(policy: &K) -> Option<(String, Version)> {
    let name = policy.name_any();
    name.starts_with(OURS).then(|| (name, (policy.uid(), policy.meta().generation)))
}

/// The object that only the policies refuse: it fits the schema, and its requester is nobody.
fn canary() -> AttentionRequest {
    AttentionRequest::new(
        canary::NAME,
        AttentionRequestSpec {
            mode: Mode::Notify,
            reason: "Whether the admission policies are in force. Never stored.".into(),
            requester: Some(Principal::named(canary::FORGED_REQUESTER)),
            ..AttentionRequestSpec::default()
        },
    )
}

async fn ask(client: &Client, namespace: &str) -> Reply {
    let api = Api::<AttentionRequest>::namespaced(client.clone(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match call(api.create(&params, &canary())).await {
        Ok(_) => canary::classify(None),
        Err(CallError::Kube(kube::Error::Api(status))) => canary::classify(Some((status.code, &status.message))),
        Err(CallError::Kube(_) | CallError::Timeout | CallError::Endless) => Reply::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::watch::Unreadable;
    use crate::runtime::clock;
    use http::{Request, Response};
    use kube::client::Body;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn many_that_wait_for_one_namespace_are_one_question() {
        let questions = Arc::new(AtomicU32::new(0));
        let counted = questions.clone();
        let client = Client::new(
            tower::service_fn(move |_: Request<Body>| {
                counted.fetch_add(1, Ordering::SeqCst);
                async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let refusal = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"beckon-policy/1"}"#;
                    Response::builder().status(403).body(Body::from(refusal.as_bytes().to_vec()))
                }
            }),
            "default",
        );
        let canaries = Canaries::new(client, clock::now, Duration::from_secs(15));
        let news = futures::future::join_all((0..32).map(|_| canaries.ask("n"))).await;
        assert_eq!(questions.load(Ordering::SeqCst), 1);
        assert_eq!(news.iter().filter(|news| **news == News::Enforced).count(), 1);
        assert_eq!(canaries.trust("n", clock::now()), Trust::Honour);
    }

    #[test]
    fn only_a_change_of_a_policy_of_ours_is_one() {
        let policy = |name: &str, generation| {
            let mut policy = ValidatingAdmissionPolicy::default();
            (policy.metadata.name, policy.metadata.generation) = (Some(name.into()), Some(generation));
            policy
        };
        let unreadable = || Step::Unreadable(Unreadable { namespace: None, name: "beckon-a".into(), why: "new".into() });
        let mut seen = Versions::default();
        let mut tell = |step: Step<ValidatingAdmissionPolicy>| seen.tell(&step);
        for (step, changed, why) in [
            (Step::Begun, false, "it begins"),
            (Step::Listed(policy("beckon-a", 1)), false, "it was there"),
            (Step::Complete, false, "the first reading"),
            (Step::Applied(policy("beckon-a", 1)), false, "its status"),
            (Step::Applied(policy("other", 1)), false, "another's"),
            (Step::Applied(policy("beckon-a", 2)), true, "its rules"),
            (Step::Failed("cut".into()), false, "nothing is known of a change"),
            (Step::Begun, false, "read anew"),
            (Step::Listed(policy("beckon-a", 2)), false, "read anew"),
            (Step::Complete, false, "nothing happened meanwhile"),
            (Step::Begun, false, "read anew"),
            (Step::Complete, true, "it is gone"),
            (Step::Applied(policy("beckon-a", 1)), true, "it is back"),
            (unreadable(), true, "it is another one"),
            (unreadable(), false, "as before"),
            (Step::Deleted(policy("beckon-a", 1)), true, "gone again"),
        ] {
            assert_eq!(tell(step), changed, "{why}");
        }
    }
}
