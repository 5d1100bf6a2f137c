//! When a session was last used: its Lease, renewed at most every 15 s by the calls of agents and the input of people, never
//! by watching.

use crate::api::v1alpha1::BrowserSession;
use crate::domain::idle_lease;
use crate::runtime::tasks::Tasks;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two renewals of one session.
pub const EVERY: Duration = Duration::from_secs(15);
const ASKING: Duration = Duration::from_secs(5);

/// Renews the idle Leases.
#[derive(Clone)]
pub struct Activity {
    client: kube::Client,
    renewed: Arc<Mutex<HashMap<String, Instant>>>,
    tasks: Tasks,
}

impl Activity {
    /// Nothing was renewed yet. Writes run among `tasks`.
    pub fn new(client: kube::Client, tasks: Tasks) -> Self {
        Self { client, renewed: Arc::default(), tasks }
    }

    /// The session is used now. Costs a write at most every [`EVERY`], and never makes the caller wait for one.
    pub fn touch(&self, session: &BrowserSession) {
        let Some(uid) = session.uid() else { return };
        let now = Instant::now();
        {
            let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
            renewed.retain(|_, at| now.duration_since(*at) < EVERY);
            if renewed.contains_key(&uid) {
                return;
            }
            renewed.insert(uid.clone(), now);
        }
        let (client, renewed) = (self.client.clone(), Arc::clone(&self.renewed));
        let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
        let owner = session.controller_owner_ref(&());
        self.tasks.spawn("a renewal of an idle Lease", async move {
            let api: Api<Lease> = Api::namespaced(client, &namespace);
            let lease_name = idle_lease::name(&name);
            // Both gateways write the same Lease, so the manager is shared and forced.
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": lease_name,
                    "labels": {"beckon.dev/session": name},
                    "ownerReferences": owner.map(|mut owner| { owner.controller = None; owner.block_owner_deletion = None; vec![owner] }),
                },
                "spec": {"holderIdentity": "agent-or-person", "renewTime": MicroTime(crate::runtime::clock::now())},
            });
            let (params, patch) = (PatchParams::apply(super::MANAGER).force(), Patch::Apply(&lease));
            let write = api.patch(&lease_name, &params, &patch);
            let failed = match tokio::time::timeout(ASKING, write).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => super::brief(&error),
                Err(_) => "no reply in time".to_owned(),
            };
            tracing::warn!(error = %failed, session = %name, "the activity of a session could not be written");
            renewed.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        });
    }
}
