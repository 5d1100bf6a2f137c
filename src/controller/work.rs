//! What a leader does, until it is dropped.

use super::context::{Shared, retry};
use super::error::{Category, Error};
use super::{Failure, ask_canary, attention_request, browser_session, tell_gateways, watches};
use crate::domain::session;
use crate::k8s::apply;
use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::applier;
use kube::runtime::controller::{self, Action, Error as ControllerError};
use kube::runtime::reflector::{Lookup, ObjectRef};
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How many passes of one kind run at once.
const AT_ONCE: u16 = 32;
/// How many canaries are asked at once.
const CANARIES_AT_ONCE: usize = 4;
/// How often old Leases of gateway processes are looked for.
const SWEEP: Duration = Duration::from_mins(5);

/// Works until it is dropped.
///
/// # Errors
/// When a part ends that must not.
pub(super) async fn work(context: &Shared) -> Result<(), Failure> {
    context.ledger.reset().await;
    let queues = context.triggers.open();
    let config = || controller::Config::default().concurrency(AT_ONCE);

    let requests = applier(
        |request, context| Box::pin(attention_request::reconcile(request, context)),
        |request, error, context| retry(request.as_ref(), error, &context),
        context.clone(),
        context.stores.requests.clone(),
        received(queues.requests),
        config(),
    );
    let sessions = applier(
        |session, context| Box::pin(browser_session::reconcile(session, context)),
        |session, error, context| retry(session.as_ref(), error, &context),
        context.clone(),
        context.stores.sessions.clone(),
        received(queues.sessions),
        config(),
    );
    let others = async {
        watches::everything(context).await;
        tick(context).await;
    };
    tokio::select! {
        () = report(attention_request::KIND, requests) => {}
        () = report(browser_session::KIND, sessions) => {}
        () = others => {}
    }
    Err(Failure::Ended("the work of the leader"))
}

fn received<T: Send + 'static>(queue: mpsc::Receiver<T>) -> impl Stream<Item = Result<T, Infallible>> {
    stream::unfold(queue, |mut queue| async move { queue.recv().await.map(|trigger| (Ok(trigger), queue)) })
}

/// The one place that logs what passes ended with.
async fn report<K>(kind: &'static str, passes: impl Stream<Item = Result<(ObjectRef<K>, Action), ControllerError<Error, Infallible>>>)
where
    K: Lookup + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(pass) = passes.next().await {
        match pass {
            Ok((object, _)) => tracing::debug!(kind, %object, "a pass ended"),
            // It was deleted while it waited for its pass.
            Err(ControllerError::ObjectNotFound(object)) => tracing::debug!(kind, %object, "gone"),
            Err(ControllerError::ReconcilerFailed(error, object)) => match error.category() {
                Category::Conflict => tracing::debug!(kind, %object, %error, "somebody else wrote first"),
                category @ (Category::Refused | Category::Unreachable | Category::Internal) => {
                    tracing::warn!(kind, %object, category = category.as_str(), %error, "a pass failed and is tried again");
                }
            },
            Err(ControllerError::RunnerError(error)) => tracing::error!(kind, %error, "passes can't run"),
            Err(ControllerError::QueueError(never)) => match never {},
        }
    }
}

/// What is due by the clock.
async fn tick(context: &Shared) {
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut swept: Option<Instant> = None;
    loop {
        second.tick().await;
        tell_gateways(context).await;
        let now = context.now();
        let due = context.canaries.due(&context.index.namespaces(), now);
        stream::iter(due).for_each_concurrent(CANARIES_AT_ONCE, |namespace| async move { ask_canary(context, &namespace).await }).await;
        count(context);
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            swept = Some(Instant::now());
            sweep(context).await;
        }
    }
}

fn count(context: &Shared) {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    context.metrics.not_enforced.set(number(context.canaries.not_enforced(context.now())));
    let alive = context.stores.sessions.state().iter().filter(|s| !session::ended(s.status.as_ref().and_then(|s| s.phase))).count();
    context.metrics.sessions.set(number(alive));
}

/// Removes the Leases of gateway processes that are long gone.
async fn sweep(context: &Shared) {
    let api = context.api::<Lease>(&context.settings.namespace);
    for name in context.processes.old(context.now()) {
        if let Err(error) = apply::delete(&api, &name, None, None).await {
            tracing::warn!(%error, "the lease of a gateway process that is gone could not be removed");
        }
    }
}
