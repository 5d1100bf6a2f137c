//! Assembles the gateway, serves, and ends in order.

use super::activity::Activity;
use super::auth::Auth;
use super::canary::Canary;
use super::driver_client::Drivers;
use super::hub::Hub;
use super::keys::{Keys, KeysError};
use super::listen::{self, Limits};
use super::metrics::GatewayMetrics;
use super::process_lease::ProcessLease;
use super::requests::attachments::Attachments;
use super::state::{Gateway, Shared};
use super::{ConfigError, GatewayArgs, Settings, Transport, dashboard, mcp};
use crate::runtime::admin::{self, Readiness};
use crate::runtime::metrics::Metrics;
use crate::runtime::shutdown;
use axum::Router;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long running calls get to end after the process was told to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// How long the API server may take for what a start needs.
const ASKING: Duration = Duration::from_secs(30);
/// How often to look whether the canary is due in a namespace that has requests.
const CANARY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(2);

/// Why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Flags that contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No API server.
    #[error("no API server: {0}; set KUBECONFIG, or run in a cluster")]
    Cluster(String),
    /// No keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The API server refused the gateway's account.
    #[error("{what} could not be written: {why}")]
    Refused {
        /// What.
        what: &'static str,
        /// What the API server said.
        why: String,
    },
    /// A taken port, mostly.
    #[error("{flag} {address}: {why}; choose another address, or end what listens there")]
    Listen {
        /// The flag.
        flag: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What the system said.
        why: std::io::Error,
    },
    /// Standard input and output.
    #[error(transparent)]
    Stdio(#[from] mcp::StdioError),
    /// The system.
    #[error("no signal can be waited for: {0}")]
    Signals(#[from] std::io::Error),
    /// It took too long.
    #[error("the API server did not answer within {} s: look whether it runs", ASKING.as_secs())]
    Silent,
}

/// Runs until it is told to stop.
pub async fn run(args: GatewayArgs) -> Result<(), RunError> {
    let settings = args.settings()?;
    let stop = shutdown::on_signal()?;
    if settings.transport == Transport::Stdio {
        return run_stdio(settings, stop).await;
    }
    let listener = bind("--listen", args.listen).await?;
    // Bound early, so that a taken port is told before anything is written.
    drop(bind("--admin-listen", args.admin_listen).await?);
    let client = kube::Client::try_default().await.map_err(|error| RunError::Cluster(error.to_string()))?;
    let metrics = Metrics::default();
    let keys = in_time(Keys::load(client.clone(), &settings.system_namespace)).await??;
    let gateway = assemble(client, settings, keys, GatewayMetrics::register(&metrics), stop.clone());
    let created = in_time(gateway.process.create()).await?;
    created.map_err(|error| RunError::Refused { what: "the Lease of this process", why: super::brief(&error) })?;

    // Background work outlives the stop signal by the drain: waits that end still look at the mirror and the Lease.
    let background = CancellationToken::new();
    let tasks = TaskTracker::new();
    let readiness = Readiness::default();
    readiness.wait_for("watches", "the lists were not read yet");
    tasks.spawn(run_hub(Arc::clone(&gateway), background.clone()));
    tasks.spawn(run_lease(Arc::clone(&gateway), background.clone()));
    tasks.spawn(run_canary(Arc::clone(&gateway), background.clone()));
    tasks.spawn(watch_readiness(Arc::clone(&gateway), readiness.clone(), stop.clone(), background.clone()));
    let site = dashboard::site(&gateway, &metrics);
    tasks.spawn(dashboard::run(site.clone(), background.clone()));
    let admin = tokio::spawn(admin::serve(args.admin_listen, metrics, readiness, background.clone()));
    tracing::info!(address = %args.listen, process = gateway.process.name(), "serving");

    serve(&gateway, &site, listener).await;
    background.cancel();
    tasks.close();
    tasks.wait().await;
    if let Ok(Err(error)) = admin.await {
        tracing::warn!(%error, "the admin port failed");
    }
    Ok(())
}

/// Serves one local client over standard input and output, as the user of the kubeconfig.
async fn run_stdio(settings: Settings, stop: CancellationToken) -> Result<(), RunError> {
    let client = kube::Client::try_default().await.map_err(|error| RunError::Cluster(error.to_string()))?;
    let namespace = settings.namespace.clone();
    let gateway = assemble(client.clone(), settings, Keys::random(), GatewayMetrics::default(), stop);
    let end = CancellationToken::new();
    let mirror = {
        let (gateway, end) = (Arc::clone(&gateway), end.clone());
        tokio::spawn(async move { gateway.hub.run(client, Some(&namespace), end).await })
    };
    let served = mcp::serve_stdio(gateway).await;
    end.cancel();
    drop(mirror.await);
    Ok(served?)
}

/// The shared handles of one process. Nothing runs yet.
pub fn assemble(client: kube::Client, settings: Settings, keys: Keys, metrics: GatewayMetrics, stop: CancellationToken) -> Shared {
    let process = ProcessLease::new(client.clone(), &settings.system_namespace);
    Arc::new(Gateway {
        hub: Hub::default(),
        auth: Auth::new(client.clone(), &settings.audience, metrics.clone()),
        keys,
        drivers: Drivers::new(client.clone()),
        canary: Canary::new(client.clone(), metrics.clone()),
        attachments: Attachments::new(client.clone(), process.name(), metrics.clone()),
        activity: Activity::new(client.clone()),
        process,
        metrics,
        stop,
        settings,
        client,
    })
}

async fn in_time<T>(asked: impl Future<Output = T>) -> Result<T, RunError> {
    tokio::time::timeout(ASKING, asked).await.map_err(|_| RunError::Silent)
}

async fn bind(flag: &'static str, address: SocketAddr) -> Result<tokio::net::TcpListener, RunError> {
    tokio::net::TcpListener::bind(address).await.map_err(|why| RunError::Listen { flag, address, why })
}

/// Serves until stopped; then announces the end, lets running calls end, and cuts what is left after the drain.
async fn serve(gateway: &Shared, site: &dashboard::Site, listener: tokio::net::TcpListener) {
    let cut = CancellationToken::new();
    let router = router(gateway, site, &cut);
    let announced = CancellationToken::new();
    let announcing = {
        let (gateway, announced) = (Arc::clone(gateway), announced.clone());
        tokio::spawn(async move {
            gateway.stop.cancelled().await;
            gateway.attachments.freeze();
            gateway.process.announce_shutdown().await;
            announced.cancel();
        })
    };
    let serving = listen::serve(listener, router, Limits::default(), announced.clone());
    let drained = async {
        announced.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        () = serving => {}
        () = drained => tracing::warn!("some calls did not end in time"),
    }
    cut.cancel();
    announcing.abort();
}

/// Every route of the service port. `cut` is cancelled when the drain is over.
fn router(gateway: &Shared, site: &dashboard::Site, cut: &CancellationToken) -> Router {
    let router = Router::new().route("/healthz", axum::routing::get(|| async { "ok\n" })).merge(mcp::router(gateway, cut));
    if gateway.settings.dashboard { router.merge(dashboard::router(site)) } else { router }
}

async fn run_hub(gateway: Shared, stop: CancellationToken) {
    gateway.hub.run(gateway.client.clone(), gateway.settings.watch_namespace.as_deref(), stop).await;
}

async fn run_lease(gateway: Shared, stop: CancellationToken) {
    gateway.process.run(stop).await;
}

async fn run_canary(gateway: Shared, stop: CancellationToken) {
    let asking = async {
        let mut tick = tokio::time::interval(CANARY);
        loop {
            tick.tick().await;
            let requests = gateway.hub.requests.all();
            let mut namespaces: HashSet<String> = requests.iter().filter_map(|r| r.metadata.namespace.clone()).collect();
            namespaces.insert(gateway.settings.namespace.clone());
            for namespace in namespaces.iter().filter(|namespace| gateway.canary.due(namespace)) {
                gateway.canary.ask(namespace).await;
            }
            let sessions = gateway.hub.sessions.all();
            gateway.drivers.keep_only(&sessions.iter().filter_map(|s| s.metadata.uid.clone()).collect());
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = asking => {}
        () = gateway.canary.watch_policies(stop.clone()) => {}
    }
}

async fn watch_readiness(gateway: Shared, readiness: Readiness, stop: CancellationToken, end: CancellationToken) {
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            () = stop.cancelled() => {
                readiness.wait_for("process", "it was told to stop");
                return;
            }
            _ = tick.tick() => {}
        }
        let stale = gateway.hub.stale();
        if stale.is_empty() {
            readiness.ready("watches");
        } else {
            readiness.wait_for("watches", stale.join("; "));
        }
    }
}
