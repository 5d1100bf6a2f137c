//! Asks the API server whether the admission policies are in force, in every namespace that has requests.

use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, Mode, Principal};
use crate::domain::canary::{self, Enforcement, Reply, Trust};
use crate::k8s::client::{CallError, call};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Mutex as Turn;

#[derive(Debug, Default)]
struct Namespace {
    enforcement: Enforcement,
    asked: Option<Timestamp>,
    /// When the last reply came, or none in time.
    replied: Option<Timestamp>,
    /// Held by whoever asks.
    turn: Arc<Turn<()>>,
}

/// What is known of each namespace.
#[derive(Debug, Default)]
pub struct Canaries(Mutex<HashMap<String, Namespace>>);

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
    fn all(&self) -> MutexGuard<'_, HashMap<String, Namespace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespaces that have to be asked about; the others are forgotten.
    #[must_use]
    pub fn due(&self, namespaces: &BTreeSet<String>, now: Timestamp) -> Vec<String> {
        let mut all = self.all();
        all.retain(|namespace, _| namespaces.contains(namespace));
        namespaces
            .iter()
            .filter(|namespace| all.get(*namespace).is_none_or(|known| known.enforcement.ask_at(known.asked) <= now))
            .cloned()
            .collect()
    }

    /// Asks about one namespace, or waits for the reply to somebody else's question: many decisions that wait for one namespace
    /// are one question.
    pub async fn ask(&self, client: &Client, namespace: &str, now: fn() -> Timestamp) -> News {
        let wanted = now();
        let turn = self.all().entry(namespace.to_owned()).or_default().turn.clone();
        let _mine = turn.lock().await;
        if self.all().get(namespace).is_some_and(|known| known.replied.is_some_and(|replied| replied >= wanted)) {
            return News::None;
        }
        let asked = now();
        self.all().entry(namespace.to_owned()).or_default().asked = Some(asked);
        let reply = ask(client, namespace).await;
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
    pub fn changed(&self, at: Timestamp) {
        self.all().values_mut().for_each(|known| known.enforcement.changed(at));
    }

    /// Whether a decision that was stored at `stored` is honoured.
    #[must_use]
    pub fn trust(&self, namespace: &str, stored: Timestamp, now: Timestamp) -> Trust {
        self.all().get(namespace).map_or(Trust::Hold, |known| known.enforcement.trust(stored, now))
    }

    /// In how many namespaces the policies are not known to be in force.
    #[must_use]
    pub fn not_enforced(&self, now: Timestamp) -> usize {
        self.all().values().filter(|known| !known.enforcement.enforced(now)).count()
    }
}

/// The object that only the policies refuse: it fits the schema, and its requester is nobody.
#[must_use]
pub(super) fn canary() -> AttentionRequest {
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
        Err(CallError::Kube(_) | CallError::Timeout) => Reply::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;
    use http::{Request, Response};
    use kube::client::Body;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

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
        let canaries = Canaries::default();
        let news = futures::future::join_all((0..32).map(|_| canaries.ask(&client, "n", clock::now))).await;
        assert_eq!(questions.load(Ordering::SeqCst), 1);
        assert_eq!(news.iter().filter(|news| **news == News::Enforced).count(), 1);
        assert_eq!(canaries.trust("n", clock::now(), clock::now()), Trust::Honour);
    }
}
