//! Whether identities are enforced. A dry-run create of a name that only the policy refuses tells: its own refusal, with the
//! version text, is good; anything else is not.

use super::metrics::GatewayMetrics;
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, Mode, Principal};
use kube::Api;
use kube::api::PostParams;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The name that the policy refuses.
pub const NAME: &str = "beckon-policy-canary";
/// What the policy's refusal says.
pub const VERSION_TEXT: &str = "beckon-policy/1";
/// How long a good reply is believed.
const BELIEVED: Duration = Duration::from_secs(300);
/// A reply that is older than this is refreshed before an answer is handed over.
const FRESH: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Default)]
struct Verdict {
    good: Option<Instant>,
    asked: Option<Instant>,
    bad: bool,
}

/// The verdict of each namespace.
#[derive(Clone)]
pub struct Canary {
    client: kube::Client,
    verdicts: Arc<Mutex<HashMap<String, Verdict>>>,
    metrics: GatewayMetrics,
}

impl Canary {
    /// Nothing is known yet.
    pub fn new(client: kube::Client, metrics: GatewayMetrics) -> Self {
        Self { client, verdicts: Arc::default(), metrics }
    }

    /// Whether an answer that is stored in this namespace may be handed over. Asks when the last reply is not fresh; an API
    /// server that does not answer leaves the last good reply standing for five minutes, any other reply does not.
    pub async fn holds(&self, namespace: &str) -> bool {
        let now = Instant::now();
        let known = self.verdict(namespace);
        if !known.asked.is_some_and(|asked| now.duration_since(asked) < FRESH) {
            self.ask(namespace).await;
        }
        let verdict = self.verdict(namespace);
        !verdict.bad && verdict.good.is_some_and(|good| good.elapsed() < BELIEVED)
    }

    /// Asks now.
    pub async fn ask(&self, namespace: &str) {
        let api: Api<AttentionRequest> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams { dry_run: true, field_manager: Some(super::MANAGER.to_owned()) };
        let reply = tokio::time::timeout(ASKING, api.create(&params, &canary())).await;
        let now = Instant::now();
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.entry(namespace.to_owned()).or_default();
        match reply {
            Ok(Err(kube::Error::Api(status))) if refusal_is_the_policys(status.code, &status.message) => {
                *verdict = Verdict { good: Some(now), asked: Some(now), bad: false };
            }
            // No reply at all says nothing about the policies.
            Err(_) | Ok(Err(kube::Error::HyperError(_) | kube::Error::Service(_))) => verdict.asked = Some(now),
            Ok(other) => {
                let why = other.err().map_or_else(|| "the canary was let through".to_owned(), |error| super::brief(&error));
                tracing::error!(namespace, %why, "identities are not enforced: answers are not handed over");
                verdict.asked = Some(now);
                verdict.bad = true;
            }
        }
        self.metrics.identity_enforced.set(i64::from(!verdicts.values().any(|v| v.bad)));
    }

    fn verdict(&self, namespace: &str) -> Verdict {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).copied().unwrap_or_default()
    }
}

fn refusal_is_the_policys(code: u16, message: &str) -> bool {
    code == 403 && message.contains(VERSION_TEXT)
}

/// Fits the schema, so that only the policy can refuse it.
fn canary() -> AttentionRequest {
    let spec = AttentionRequestSpec {
        mode: Mode::Notify,
        reason: "Asks whether the admission policies are in place. Never stored.".to_owned(),
        requester: Some(Principal::named("canary-forged")),
        ..AttentionRequestSpec::default()
    };
    AttentionRequest::new(NAME, spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_policys_own_refusal_is_good() {
        let refusal = "attentionrequests.beckon.dev \"beckon-policy-canary\" is forbidden: ValidatingAdmissionPolicy 'beckon-requests' denied request: beckon-policy/1 stamped=false";
        assert!(refusal_is_the_policys(403, refusal));
        assert!(!refusal_is_the_policys(403, "User \"x\" cannot create resource"));
        assert!(!refusal_is_the_policys(422, refusal));
        assert!(!refusal_is_the_policys(201, ""));
    }
}
