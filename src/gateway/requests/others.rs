//! Whether an agent that takes a call back is the only one that waited.

use crate::api::v1alpha1::AttentionRequest;
use crate::domain::attachment::{Liveness, POLLING_CLIENT};
use crate::gateway::hub::Key;
use crate::gateway::process_lease::DURATION_SECONDS;
use crate::gateway::requests::outcome::is_over;
use crate::gateway::state::Gateway;
use crate::runtime::clock;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How often the Leases are looked at while they tell nothing yet.
const LOOK: Duration = Duration::from_millis(250);
/// A Lease tells within its duration whether its process lives; a little more for the way.
const AT_MOST: Duration = Duration::from_secs(DURATION_SECONDS.unsigned_abs() as u64 + 5);

/// Whether another call than this one waits on the request, here or at another process that lives. A process that was just lost
/// looks alive until its Lease is old; for that this waits, up to the Lease's duration.
pub async fn others_wait(gateway: &Gateway, key: &Key, call: &str, request: &AttentionRequest) -> bool {
    let (since, deadline) = (clock::now(), Instant::now() + AT_MOST);
    let leases: Api<Lease> = Api::namespaced(gateway.client.clone(), &gateway.settings.system_namespace);
    let own = gateway.process.name();
    let mut names = elsewhere(own, call, request);
    loop {
        if gateway.attachments.others_here(key, call) {
            return true;
        }
        let mut told = true;
        for name in &names {
            match gateway.processes.ask(&leases, name, clock::now).await {
                Some(Liveness::Lost | Liveness::ShuttingDown) => {}
                Some(Liveness::Live) if gateway.processes.renewed_since(name, since) => return true,
                Some(Liveness::Live) | None => told = false,
            }
        }
        if told || Instant::now() >= deadline {
            return !told;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            // Not known, and no time left to know it: a cancellation that is lost does less harm than one too many.
            () = gateway.stop.cancelled() => return true,
        }
        if let Some(newer) = gateway.hub.requests.get(&key.0, &key.1) {
            if is_over(&newer) {
                return true;
            }
            names.extend(elsewhere(own, call, &newer));
        }
    }
}

/// The other processes at which other calls wait, as the object says.
fn elsewhere(own: &str, call: &str, request: &AttentionRequest) -> BTreeSet<String> {
    let attachments = request.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
    attachments.iter().filter(|a| a.gateway != own && a.gateway != POLLING_CLIENT && a.call != call).map(|a| a.gateway.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{Attachment, AttentionRequestSpec, AttentionRequestStatus};

    #[test]
    fn only_other_calls_of_other_processes_count() {
        let mut request = AttentionRequest::new("a-1", AttentionRequestSpec::default());
        assert!(elsewhere("gw-1", "c-1", &request).is_empty());
        let attachments = [("c-1", "gw-2"), ("c-2", "gw-1"), ("poll", "client"), ("c-3", "gw-3"), ("c-4", "gw-3")];
        let attachments = attachments.map(|(call, gateway)| Attachment { call: call.into(), gateway: gateway.into(), since: None });
        request.status = Some(AttentionRequestStatus { attachments: attachments.to_vec(), ..AttentionRequestStatus::default() });
        assert_eq!(elsewhere("gw-1", "c-1", &request).into_iter().collect::<Vec<_>>(), ["gw-3"]);
    }
}
