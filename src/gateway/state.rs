//! What every part of the gateway shares.

use super::auth::Auth;
use super::canary::Canary;
use super::config::Settings;
use super::driver_client::Drivers;
use super::hub::Hub;
use super::keys::Keys;
use super::metrics::GatewayMetrics;
use super::process_lease::ProcessLease;
use super::requests::attachments::Attachments;
use crate::k8s::processes::Processes;
use crate::runtime::tasks::Tasks;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The shared handles. `axum` state is [`Shared`].
pub struct Gateway {
    /// The API server, as the gateway's own account.
    pub client: kube::Client,
    /// The settings.
    pub settings: Settings,
    /// The mirror of both kinds.
    pub hub: Hub,
    /// Who calls, and what they may.
    pub auth: Auth,
    /// The installation's keys.
    pub keys: Keys,
    /// The drivers of the sessions' pods.
    pub drivers: Drivers,
    /// Who this process is.
    pub process: ProcessLease,
    /// Which gateway processes live.
    pub processes: Processes,
    /// Whether the admission policies hold.
    pub canary: Canary,
    /// The calls of this process that wait.
    pub attachments: Attachments,
    /// When sessions were last used.
    pub activity: super::activity::Activity,
    /// What is counted.
    pub metrics: GatewayMetrics,
    /// Cancelled when the process is told to stop: streams end, nothing is settled.
    pub stop: CancellationToken,
    /// Cancelled some time after `stop`, before streams are cut: a call that still runs answers now, whatever it does.
    pub last_words: CancellationToken,
    /// What runs beside the calls that began it, each with an end of its own; the process waits for it before it ends.
    pub tasks: Tasks,
}

/// The handle that handlers take.
pub type Shared = Arc<Gateway>;
