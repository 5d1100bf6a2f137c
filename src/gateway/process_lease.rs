//! Who this gateway process is: a Lease under a name that is new at every start. Calls that wait are attached to it, so that
//! the controller sees which ones a lost process held, and whether it had announced its end.

use crate::k8s::processes::{GATEWAY, ROLE_LABEL, SHUTTING_DOWN};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use rand::RngExt as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the Lease is good for, in seconds.
pub const DURATION_SECONDS: i32 = 15;
const RENEW: Duration = Duration::from_secs(5);
const ASKING: Duration = Duration::from_secs(4);
/// The identity of this process.
#[derive(Clone)]
pub struct ProcessLease {
    name: Arc<str>,
    api: Api<Lease>,
}

impl ProcessLease {
    /// A new identity, not yet written.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        let name = format!("beckon-gateway-{}", random_name(10));
        Self { name: name.into(), api: Api::namespaced(client, namespace) }
    }

    /// The Lease's name: the process in `status.attachments[].gateway`, and the field manager of its attachments.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes the Lease for the first time.
    pub async fn create(&self) -> Result<(), kube::Error> {
        let now = MicroTime(crate::runtime::clock::now());
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.to_string()),
                labels: Some(BTreeMap::from([(ROLE_LABEL.to_owned(), GATEWAY.to_owned())])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(std::env::var("HOSTNAME").unwrap_or_else(|_| self.name.to_string())),
                lease_duration_seconds: Some(DURATION_SECONDS),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams { field_manager: Some(super::MANAGER.to_owned()), ..PostParams::default() };
        match self.api.create(&params, &lease).await {
            // The name is this process's own: a try before this one was stored, although its reply was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            done => done.map(drop),
        }
    }

    /// Renews until the token is cancelled.
    pub async fn run(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(RENEW);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let patch = json!({"spec": {"renewTime": MicroTime(crate::runtime::clock::now())}});
            match tokio::time::timeout(ASKING, self.patch(&patch)).await {
                Ok(Ok(())) => {}
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    tracing::warn!("the Lease of this process was deleted; writing it again");
                    match tokio::time::timeout(ASKING, self.create()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::warn!(error = %super::brief(&error), "the Lease of this process could not be written"),
                        Err(_) => tracing::warn!("the Lease of this process could not be written in time"),
                    }
                }
                Ok(Err(error)) => tracing::warn!(error = %super::brief(&error), "the Lease of this process could not be renewed"),
                Err(_) => tracing::warn!("the Lease of this process could not be renewed in time"),
            }
        }
    }

    /// Announces that the process ends on purpose.
    pub async fn announce_shutdown(&self) {
        let patch =
            json!({"metadata": {"annotations": {SHUTTING_DOWN: "true"}}, "spec": {"renewTime": MicroTime(crate::runtime::clock::now())}});
        match tokio::time::timeout(ASKING, self.patch(&patch)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %super::brief(&error), "the end of this process could not be announced"),
            Err(_) => tracing::warn!("the end of this process could not be announced in time"),
        }
    }

    async fn patch(&self, patch: &serde_json::Value) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        self.api.patch(&self.name, &params, &Patch::Merge(patch)).await.map(drop)
    }
}

/// Lowercase letters and digits, unguessable enough for a name.
#[must_use]
pub fn random_name(length: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut rng = rand::rng();
    (0..length).filter_map(|_| ALPHABET.get(rng.random_range(0..ALPHABET.len()))).map(|&b| char::from(b)).collect()
}
