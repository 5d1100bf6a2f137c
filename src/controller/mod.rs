//! `beckon controller`: reconciles both kinds. One leader of N.
//!
//! Every process watches; the leader alone works. A pass over an object observes, decides by a rule of [`crate::domain`],
//! applies and records, and ends with the exact instant of the next one.

mod attention_request;
mod backoff;
pub mod browser_session;
mod caps;
mod context;
mod error;
mod index;
mod metrics;
mod queue;
mod settings;
mod superseded;
mod triggers;
mod watches;
mod work;

pub use settings::{ControllerArgs, PodSettings, Settings};

use crate::api::v1alpha1::AttentionRequest;
use crate::k8s::canary::{Canaries, News};
use crate::k8s::client::{self, WatchProgress};
use crate::k8s::events::Events;
use crate::k8s::lease::Candidate;
use crate::k8s::processes::Processes;
use crate::k8s::watch;
use crate::runtime::admin::{self, Readiness};
use crate::runtime::metrics::Metrics;
use crate::runtime::supervision::{Ended, Parts};
use crate::runtime::{clock, shutdown};
use context::{ClientOf, Context, Shared};
use futures::FutureExt as _;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// The Lease of the leader.
pub const LEADER_LEASE: &str = "beckon-controller";
/// The longest that an orderly end may take.
const END_SECONDS: u64 = 25;

/// Why the process ends.
#[derive(Debug, Error)]
pub enum Failure {
    /// The flags contradict each other.
    #[error(transparent)]
    Settings(#[from] crate::domain::deadline::FloorAboveCap),
    /// The API server's configuration can't be used.
    #[error("no configuration of an API server: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The client can't be made.
    #[error("no client of the API server: {0}")]
    Client(#[from] kube::Error),
    /// A port is taken, or signals can't be handled.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A part that must not end has ended.
    #[error("{} ended: {}", .0.name, .0.why)]
    Ended(Ended),
    /// The end took too long.
    #[error("the time for an orderly end, {} s, is over", END_SECONDS)]
    Late,
}

/// Runs until it is told to stop.
pub async fn run(args: ControllerArgs) -> ExitCode {
    match Box::pin(serve(&args)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!(%failure, "the controller ends");
            drop(writeln!(std::io::stderr(), "beckon controller: {failure}"));
            match failure {
                Failure::Settings(_) => ExitCode::from(2),
                Failure::Config(_) | Failure::Client(_) | Failure::Io(_) | Failure::Ended(_) | Failure::Late => ExitCode::FAILURE,
            }
        }
    }
}

async fn serve(args: &ControllerArgs) -> Result<(), Failure> {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "controller".into());
    let settings = Settings::new(args, format!("{host}-{:08x}", rand::random::<u32>()))?;
    if args.check {
        return Ok(());
    }
    let stop = shutdown::on_signal()?;
    let progress = WatchProgress::default();
    let client = client::connect(kube::Config::infer().await?, &progress)?;
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let admin_stop = CancellationToken::new();
    let admin = admin::serve(args.admin_listen, metrics.clone(), readiness.clone(), admin_stop.clone());
    let admin = async { admin.await.map_err(Failure::from) };
    let working = async {
        let result = control(client, progress, settings, &metrics, readiness, stop.clone()).await;
        admin_stop.cancel();
        result
    };
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(Duration::from_secs(END_SECONDS)).await;
        Err(Failure::Late)
    };
    tokio::select! {
        ended = async { tokio::try_join!(admin, working) } => ended.map(drop),
        late = late => late,
    }
}

/// Watches, and works while it leads, until `stop`.
///
/// # Errors
/// When a part ends that must not.
pub async fn control(
    client: Client,
    progress: WatchProgress,
    settings: Settings,
    metrics: &Metrics,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let (stores, writers) = watches::stores();
    // The watches and the Events outlive the work, which ends first.
    let rest = CancellationToken::new();
    let (events, posting) = Events::new(client.clone(), settings.identity.clone(), rest.clone());
    let lease = Duration::from_secs(settings.lease_duration);
    let candidate = Candidate::new(client.clone(), &settings.namespace, LEADER_LEASE, settings.identity.clone(), lease, clock::now);
    let canaries = Canaries::new(client.clone(), clock::now, client::CALL_TIMEOUT);
    let context: Shared = Arc::new(Context {
        client: ClientOf(client),
        clock: clock::now,
        settings,
        stores,
        index: index::Index::default(),
        triggers: triggers::Triggers::default(),
        processes: Processes::default(),
        canaries,
        ledger: caps::Ledger::default(),
        events,
        metrics: metrics::ControllerMetrics::new(metrics),
        backoff: backoff::Backoff::default(),
        superseded: superseded::Superseded::default(),
        asked_drivers: backoff::Backoff::default(),
    });
    let mut parts = Parts::default();
    watches::start(&context, writers, &readiness, &rest, &mut parts);
    parts.start("the posting of Events", posting.map(Ok));
    let (looked, end) = (context.clone(), rest.clone());
    parts.start("the look at the watches", async move {
        tokio::select! { () = end.cancelled() => {}, () = watch_progress(&looked, &progress, &readiness) => {} }
        Ok(())
    });
    let result = tokio::select! {
        () = lead(&context, &candidate, &stop) => Ok(()),
        ended = parts.ended() => Err(Failure::Ended(ended)),
    };
    rest.cancel();
    for Ended { name, why } in parts.finish().await {
        tracing::warn!(part = name, %why, "a part of the controller failed at its end");
    }
    result
}

/// Leads whenever it can. The Lease is given back when all work has ended.
async fn lead(context: &Shared, candidate: &Candidate, stop: &CancellationToken) {
    // A leader that has read nothing yet would judge by absence.
    let read = async {
        tokio::join!(
            context.stores.requests.wait_until_ready(),
            context.stores.sessions.wait_until_ready(),
            context.stores.pods.wait_until_ready(),
            context.stores.activity.wait_until_ready(),
        )
    };
    tokio::select! { () = stop.cancelled() => return, _ = read => {} }
    while let Some(leadership) = candidate.lead(stop).await {
        tracing::info!("this process leads");
        context.metrics.leader.set(1);
        let lost = leadership.lost();
        tokio::select! {
            // The fence is looked at before any work.
            biased;
            () = stop.cancelled() => {}
            () = lost.cancelled() => {}
            () = work::work(context, leadership.term()) => {}
        }
        context.triggers.close();
        context.metrics.leader.set(0);
        leadership.release().await;
    }
}

/// Tells by the readiness whether the watches go on.
async fn watch_progress(context: &Shared, progress: &WatchProgress, readiness: &Readiness) {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tick.tick().await;
        let Some((watch, age)) = progress.oldest() else { continue };
        context.metrics.watch_age_seconds.set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        if age.as_secs() > watch::DEAD_SECONDS {
            readiness.wait_for("watches", format!("no progress of {watch} for {} s", age.as_secs()));
        } else {
            readiness.ready("watches");
        }
    }
}

/// Looks at the requests of the gateway processes whose liveness changed.
fn tell_gateways(context: &Context) {
    for name in context.processes.changed(context.now()) {
        requests_of_gateway(context, &name);
    }
}

fn requests_of_gateway(context: &Context, name: &str) {
    for request in context.index.of_gateway(name) {
        context.triggers.request(request);
    }
}

/// Asks whether the policies are in force in a namespace, and tells what is new.
async fn ask_canary(context: &Context, namespace: &str) {
    match context.canaries.ask(namespace).await {
        News::None => return,
        News::Enforced => tracing::info!(namespace, "the admission policies are in force"),
        News::NotEnforced(why) => {
            tracing::error!(namespace, why, "the admission policies are NOT in force: no answer is honoured");
            warn_people(context, namespace);
        }
    }
    // What waited for this.
    for request in context.index.decided(namespace) {
        context.triggers.request(request);
    }
}

/// One Event on each unsettled request of a namespace would be noise: the first one says it.
fn warn_people(context: &Context, namespace: &str) {
    let first = context.index.first_of(namespace);
    let request = first.and_then(|name| context.stores.requests.get(&ObjectRef::<AttentionRequest>::new(&name).within(namespace)));
    if let Some(request) = request {
        let note = "The admission policies are not in force in this namespace: no answer is honoured until they are.";
        context.tell(request.as_ref(), true, "IdentityNotEnforced", "Verify", note);
    }
}
