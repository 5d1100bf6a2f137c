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
use crate::k8s::client::WatchProgress;
use crate::k8s::processes::Processes;
use crate::k8s::watch::DEAD_SECONDS;
use crate::runtime::admin::{self, Readiness};
use crate::runtime::metrics::Metrics;
use crate::runtime::supervision::{Ended, Parts};
use crate::runtime::tasks::Tasks;
use crate::runtime::{bind, clock, shutdown};
use axum::Router;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long running calls get to end after the process was told to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// How long they go on before they are told to answer: what they do meanwhile mostly ends.
const GO_ON: Duration = Duration::from_secs(15);
/// How long the API server may take for what a start needs.
const ASKING: Duration = Duration::from_secs(30);
/// How long the rest gets after that.
const LAST: Duration = Duration::from_secs(5);
/// How often to look whether the canary is due in a namespace that has requests.
const CANARY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(2);

/// Why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
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
    /// A part that must not end has ended.
    #[error("{} ended: {}", .0.name, .0.why)]
    Ended(Ended),
}

/// Runs until it is told to stop.
pub(super) async fn run(args: GatewayArgs) -> Result<(), RunError> {
    let settings = args.settings()?;
    if args.check {
        return Ok(());
    }
    let stop = shutdown::on_signal()?;
    let progress = WatchProgress::default();
    let client = connect(&progress).await?;
    if settings.transport == Transport::Stdio {
        return Box::pin(run_stdio(client, &progress, settings, stop)).await;
    }
    let listener = bind("--listen", args.listen).await?;
    // Bound early, so that a taken port is told before anything is written.
    let admin_listener = bind("--admin-listen", args.admin_listen).await?;
    let metrics = Metrics::default();
    let keys = in_time(Keys::load(client.clone(), &settings.system_namespace)).await??;
    let gateway = assemble(client, &progress, settings, keys, GatewayMetrics::register(&metrics), stop.clone());
    let created = in_time(gateway.process.create()).await?;
    created.map_err(|error| RunError::Refused { what: "the Lease of this process", why: super::brief(&error) })?;

    // Background work outlives the stop signal by the drain: waits that end still look at the mirror and the Lease.
    let background = CancellationToken::new();
    let readiness = Readiness::default();
    readiness.wait_for("watches", "the lists were not read yet");
    let site = dashboard::site(&gateway, &metrics);
    let mut parts = Parts::default();
    let started = || (Arc::clone(&gateway), background.clone());
    let (own, end) = started();
    parts.start("the mirror", async move {
        own.hub.run(own.client.clone(), own.settings.watch_namespace.as_deref(), end).await;
        Ok(())
    });
    let (own, end) = started();
    parts.start("the Lease", async move {
        own.process.run(end).await;
        Ok(())
    });
    let (own, end) = started();
    parts.start("the look at the other processes", async move {
        own.processes.watch(own.client.clone(), &own.settings.system_namespace, clock::now, end).await;
        Ok(())
    });
    let (own, end) = started();
    parts.start("the canary", async move {
        run_canary(&own, end).await;
        Ok(())
    });
    let (own, end) = started();
    let watched = readiness.clone();
    parts.start("the look at the watches", async move {
        tokio::select! { () = end.cancelled() => {}, () = watch_readiness(&own, &progress, &watched) => {} }
        Ok(())
    });
    let (dashboard, end) = (site.clone(), background.clone());
    parts.start("the dashboard", async move {
        dashboard::run(dashboard, end).await;
        Ok(())
    });
    let cut = CancellationToken::new();
    let (agents, sessions) = mcp::router(&gateway, &cut);
    let end = background.clone();
    parts.start("the sessions of MCP", async move {
        sessions.keep(end).await;
        Ok(())
    });
    let router = router(&gateway, &site, agents);
    let end = background.clone();
    parts.start("the admin port", async move {
        admin::serve_on(admin_listener, metrics, readiness, end).await.map_err(|error| error.to_string())
    });
    tracing::info!(address = %args.listen, process = gateway.process.name(), "serving");

    let served = supervised(&mut parts, &stop, async {
        serve(&gateway, router, listener, cut).await;
        Ok(())
    })
    .await;
    background.cancel();
    end_in_order(parts, &gateway.tasks).await;
    served
}

/// Waits for what was told to end, but not for long.
async fn end_in_order(parts: Parts, tasks: &Tasks) {
    let parts = async {
        let Ok(failed) = tokio::time::timeout(LAST, parts.finish()).await else {
            tracing::warn!("some parts of the gateway did not end in time");
            return;
        };
        for Ended { name, why } in failed {
            tracing::warn!(part = name, %why, "a part of the gateway failed at its end");
        }
    };
    tokio::join!(parts, tasks.finish(LAST));
}

/// Serves; when a part ends that must not, stops in order, and says which.
async fn supervised(
    parts: &mut Parts,
    stop: &CancellationToken,
    serving: impl Future<Output = Result<(), RunError>>,
) -> Result<(), RunError> {
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        biased;
        served = &mut serving => return served,
        ended = parts.ended() => ended,
    };
    tracing::error!(part = ended.name, why = %ended.why, "a part of the gateway ended: this process stops");
    // What waits here is handed on, as at any stop.
    stop.cancel();
    if let Err(error) = serving.await {
        tracing::warn!(%error, "serving failed too");
    }
    Err(RunError::Ended(ended))
}

async fn connect(progress: &WatchProgress) -> Result<kube::Client, RunError> {
    let config = kube::Config::infer().await.map_err(|error| RunError::Cluster(error.to_string()))?;
    crate::k8s::client::connect(config, progress).map_err(|error| RunError::Cluster(error.to_string()))
}

/// Serves one local client over standard input and output, as the user of the kubeconfig.
async fn run_stdio(client: kube::Client, progress: &WatchProgress, settings: Settings, stop: CancellationToken) -> Result<(), RunError> {
    let namespace = settings.namespace.clone();
    let gateway = assemble(client.clone(), progress, settings, Keys::random(), GatewayMetrics::default(), stop.clone());
    let end = CancellationToken::new();
    let mut parts = Parts::default();
    let (mirrored, ended) = (Arc::clone(&gateway), end.clone());
    parts.start("the mirror", async move {
        mirrored.hub.run(client, Some(&namespace), ended).await;
        Ok(())
    });
    let served = supervised(&mut parts, &stop, Box::pin(async { Ok(mcp::serve_stdio(Arc::clone(&gateway)).await?) })).await;
    end.cancel();
    end_in_order(parts, &gateway.tasks).await;
    served
}

/// The shared handles of one process. Nothing runs yet.
pub(super) fn assemble(
    client: kube::Client,
    progress: &WatchProgress,
    settings: Settings,
    keys: Keys,
    metrics: GatewayMetrics,
    stop: CancellationToken,
) -> Shared {
    let process = ProcessLease::new(client.clone(), &settings.system_namespace);
    let tasks = Tasks::new(metrics.panics.clone());
    Arc::new(Gateway {
        hub: Hub::new(progress),
        auth: Auth::new(client.clone(), &settings.audience, metrics.clone()),
        keys,
        drivers: Drivers::new(client.clone()),
        canary: Canary::new(client.clone(), metrics.clone()),
        attachments: Attachments::new(client.clone(), process.name(), metrics.clone(), stop.clone(), tasks.clone()),
        activity: Activity::new(client.clone(), tasks.clone()),
        process,
        processes: Processes::default(),
        metrics,
        stop,
        last_words: CancellationToken::new(),
        tasks,
        settings,
        client,
    })
}

async fn in_time<T>(asked: impl Future<Output = T>) -> Result<T, RunError> {
    tokio::time::timeout(ASKING, asked).await.map_err(|_| RunError::Silent)
}

async fn bind(flag: &'static str, address: SocketAddr) -> Result<tokio::net::TcpListener, RunError> {
    bind::bind(address).await.map_err(|why| RunError::Listen { flag, address, why })
}

/// Serves until stopped; then announces the end, lets running calls end, and tells by `cut` that the drain is over.
async fn serve(gateway: &Shared, router: Router, listener: tokio::net::TcpListener, cut: CancellationToken) {
    let announced = CancellationToken::new();
    let announcing = async {
        gateway.stop.cancelled().await;
        gateway.process.announce_shutdown().await;
        announced.cancel();
        std::future::pending::<()>().await;
    };
    let serving = listen::serve(listener, router, Limits::default(), &gateway.tasks, announced.clone());
    let drained = async {
        announced.cancelled().await;
        tokio::time::sleep(GO_ON).await;
        gateway.last_words.cancel();
        tokio::time::sleep(DRAIN.saturating_sub(GO_ON)).await;
    };
    tokio::select! {
        () = serving => {}
        () = announcing => {}
        () = drained => tracing::warn!("some calls did not end in time"),
    }
    cut.cancel();
}

/// Every route of the service port.
fn router(gateway: &Shared, site: &dashboard::Site, agents: Router) -> Router {
    let router = Router::new().route("/healthz", axum::routing::get(|| async { "ok\n" })).merge(agents);
    if gateway.settings.dashboard { router.merge(dashboard::router(site)) } else { router }
}

async fn run_canary(gateway: &Shared, stop: CancellationToken) {
    let asking = async {
        let mut tick = tokio::time::interval(CANARY);
        loop {
            tick.tick().await;
            // Until then a call that waits for an answer asks by itself.
            if gateway.hub.requests.is_complete() {
                let requests = gateway.hub.requests.all();
                let mut namespaces: BTreeSet<String> = requests.iter().filter_map(|r| r.metadata.namespace.clone()).collect();
                namespaces.insert(gateway.settings.namespace.clone());
                gateway.canary.ask_due(&namespaces).await;
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

/// Tells by the readiness whether the mirror is there and its watches go on, and that the process was told to stop.
async fn watch_readiness(gateway: &Shared, progress: &WatchProgress, readiness: &Readiness) {
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = gateway.stop.cancelled() => {
                readiness.wait_for("process", "it was told to stop");
                return std::future::pending().await;
            }
            _ = tick.tick() => {}
        }
        let mut stale = gateway.hub.stale();
        if let Some((watch, age)) = progress.oldest().filter(|(_, age)| age.as_secs() > DEAD_SECONDS) {
            stale.push(format!("no progress of {watch} for {} s", age.as_secs()));
        }
        if stale.is_empty() {
            readiness.ready("watches");
        } else {
            readiness.wait_for("watches", stale.join("; "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_stops_the_process_in_order() {
        let (mut parts, stop) = (Parts::default(), CancellationToken::new());
        parts.start("stays", std::future::pending());
        parts.start("the Lease", async { Ok(()) });
        let drained = std::cell::Cell::new(false);
        let serving = async {
            stop.cancelled().await;
            drained.set(true);
            Ok(())
        };
        let ended = supervised(&mut parts, &stop, serving).await.expect_err("a failure");
        assert!(drained.get() && ended.to_string().contains("the Lease"), "{ended}");
    }

    #[tokio::test]
    async fn an_orderly_stop_is_no_failure_whatever_ends_meanwhile() {
        let (mut parts, stop) = (Parts::default(), CancellationToken::new());
        parts.start("the Lease", async { Ok(()) });
        assert!(supervised(&mut parts, &stop, async { Ok(()) }).await.is_ok());
    }
}
