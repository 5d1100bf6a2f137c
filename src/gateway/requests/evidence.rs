//! What the browser showed when a request was raised, as its driver says: below it the agent's words may be believed or not.

use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Evidence};
use crate::domain::names::hex;
use crate::driver::PageInfo;
use crate::gateway::hub::watched;
use crate::gateway::state::Shared;
use crate::k8s::apply::Manager;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// The field manager of evidence.
const MANAGER: &str = Manager::GatewayEvidence.as_str();
const ASKING: Duration = Duration::from_secs(10);
/// How long the request may take until it is taken in.
const TAKEN_IN: Duration = Duration::from_secs(30);

/// Looks at the page and writes it down, once. The asking call does not wait for it.
pub fn capture(gateway: &Shared, session: &BrowserSession, request: &AttentionRequest) {
    let (owner, session) = (gateway, session.clone());
    let gateway = Arc::clone(gateway);
    let (namespace, name) = (request.namespace().unwrap_or_default(), request.name_any());
    owner.tasks.spawn("evidence", async move {
        let captured = async {
            let driver = gateway.drivers.of(&session).await.map_err(|error| error.to_string())?;
            let state = driver.state().await.map_err(|error| error.to_string())?;
            let evidence = evidence(&state.page, crate::runtime::clock::now());
            // A status without a phase would look like one that the controller has not written.
            let mut seen = gateway.hub.request(&namespace, &name);
            let open = |r: &Option<Arc<AttentionRequest>>| r.as_ref().is_some_and(|r| r.status.as_ref().is_some_and(|s| s.phase.is_some()));
            tokio::time::timeout(TAKEN_IN, watched(&mut seen, open)).await.map_err(|_| "it was not taken in".to_owned())?;
            write(&gateway, &namespace, &name, &evidence).await
        };
        let captured = tokio::select! {
            captured = captured => captured,
            () = gateway.stop.cancelled() => Err("this process ends".to_owned()),
        };
        if let Err(why) = captured {
            tracing::warn!(request = %name, %why, "the page of a request could not be captured");
        }
    });
}

async fn write(gateway: &Shared, namespace: &str, name: &str, evidence: &Evidence) -> Result<(), String> {
    let api: Api<AttentionRequest> = Api::namespaced(gateway.client.clone(), namespace);
    let body = json!({
        "apiVersion": "beckon.dev/v1alpha1",
        "kind": "AttentionRequest",
        "metadata": {"name": name},
        "status": {"evidence": evidence},
    });
    let params = PatchParams::apply(MANAGER).force();
    match tokio::time::timeout(ASKING, api.patch_status(name, &params, &Patch::Apply(&body))).await {
        // It is set once: another replica was faster.
        Ok(Err(kube::Error::Api(status))) if status.code == 422 => Ok(()),
        Ok(result) => result.map(drop).map_err(|error| crate::gateway::brief(&error)),
        Err(_) => Err("the API server did not answer".to_owned()),
    }
}

fn evidence(page: &PageInfo, now: Timestamp) -> Evidence {
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    // The driver leaves query and fragment out; this keeps them out whatever it says.
    let path = page.path.split(['?', '#']).next().unwrap_or_default();
    let (origin, path, title) = (cut(&page.origin, 512), cut(path, 2048), cut(&page.title, 512));
    let mut hash = Sha256::new();
    for part in [&origin, &path, &title] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hex(hash.finalize());
    Evidence {
        origin: Some(origin),
        path: Some(path),
        title: Some(title),
        captured_at: Some(Time(now)),
        digest: Some(format!("sha256:{digest}")),
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_query_and_no_fragment_and_everything_bounded() {
        let page = PageInfo { origin: "https://shop.example".into(), path: "/pay?card=4242#x".into(), title: "T".repeat(600) };
        let now = Timestamp::from_second(7).unwrap();
        let seen = evidence(&page, now);
        assert_eq!(seen.path.as_deref(), Some("/pay"));
        assert_eq!(seen.title.as_ref().map(String::len), Some(512));
        let other = evidence(&PageInfo { title: "other".into(), ..page.clone() }, now);
        assert_ne!(seen.digest, other.digest);
        assert_eq!(seen.digest, evidence(&page, Timestamp::from_second(8).unwrap()).digest);
    }
}
