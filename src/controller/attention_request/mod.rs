//! A pass over an attention request: observe, decide, take in or refuse, record, forget.

mod observe;
mod status;

use super::context::{Next, Shared};
use super::error::{During as _, Error};
use super::metrics::{KindLabel, ReasonLabel};
use crate::api::conditions::SettledReason;
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestStatus, Phase};
use crate::domain::attention::{self, Plan};
use crate::domain::caps::Admission;
use crate::domain::messages;
use crate::domain::outcome::Outcome;
use crate::domain::time::{after, seconds_passed};
use crate::k8s::apply;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use std::sync::Arc;
use tokio::time::Instant;

/// The label of metrics.
pub(super) const KIND: &str = "AttentionRequest";
/// A request that was refused by a cap is removed after this long, in seconds.
const REFUSED_TTL_SECONDS: i64 = 60;
/// How soon to look again at a request whose decision is held, or whose session can't be read, in seconds.
const HELD_SECONDS: i64 = 1;

/// One pass.
///
/// # Errors
/// When a call fails; the next pass begins anew.
pub(super) async fn reconcile(request: Arc<AttentionRequest>, context: Shared) -> Result<Next, Error> {
    let since = Instant::now();
    let result = pass(&request, &context).await;
    context.count(KIND, since, &result);
    if result.is_ok() {
        context.backoff.reset(&request.uid().unwrap_or_default());
    }
    result
}

async fn pass(request: &AttentionRequest, context: &Shared) -> Result<Next, Error> {
    if request.metadata.deletion_timestamp.is_some() {
        return Ok(Next::NEVER);
    }
    if let Some(outcome) = Outcome::recorded(request) {
        return forget(request, outcome.reason, context).await;
    }
    let observed = observe::observe(request, context).await;
    let now = context.now();
    let plan = attention::settle(&observed.seen(request, &context.settings), now);
    match plan {
        Plan::Settled => Ok(context.again(None)),
        Plan::Hold | Plan::Unknown => Ok(context.again(Some(after(now, HELD_SECONDS)))),
        Plan::Settle { outcome, at } => settle(request, &outcome, at, now, context).await,
        Plan::New(new) => {
            let api = match &context.settings.watch_namespace {
                Some(namespace) => context.api(namespace),
                None => kube::Api::all(context.client.0.clone()),
            };
            let admission =
                context.ledger.decide(&context.index, &api, request, context.settings.caps).await.during("the open requests")?;
            let caps = context.settings.caps;
            match admission {
                Admission::Admitted => {
                    let status = status::opened(request, &new, now);
                    if write(request, &status, context).await? {
                        context.tell(request, false, "Opened", "Admit", "The request is open.");
                    }
                    Ok(context.again(Some(crate::domain::deadline::near(now, new.deadline))))
                }
                Admission::SessionFull => refuse(request, messages::session_cap(caps.per_session), now, context).await,
                Admission::TotalFull => refuse(request, messages::total_cap(caps.total), now, context).await,
            }
        }
        Plan::Open(open) => {
            let status = status::open(request, &open, &observed.waiting, &observed.gone, now);
            let newly_near = open.near && !status::was_near(request);
            if write(request, &status, context).await? && newly_near {
                context.tell(request, true, "DeadlineNear", "Wait", "80 % of the wait are over.");
            }
            Ok(context.again(Some(open.wake)))
        }
    }
}

/// Writes the status where it differs.
async fn write(request: &AttentionRequest, status: &AttentionRequestStatus, context: &Shared) -> Result<bool, Error> {
    let api = context.api::<AttentionRequest>(&request.namespace().unwrap_or_default());
    let written = apply::write_status(&api, request, request.status.as_ref(), status).await;
    let written = context.wrote(request, written).during("the status of a request")?;
    if written {
        context.metrics.writes.get_or_create(&KindLabel { kind: KIND }).inc();
    }
    Ok(written)
}

#[expect(clippy::cast_precision_loss, reason = "an f64 counts the seconds of far more than any wait")]
fn seconds(waited: i64) -> f64 {
    waited as f64
}

async fn settle(request: &AttentionRequest, outcome: &Outcome, at: Timestamp, now: Timestamp, context: &Shared) -> Result<Next, Error> {
    let status = status::settled(request, outcome, at, now);
    write(request, &status, context).await?;
    let metrics = &context.metrics;
    metrics.settled.get_or_create(&ReasonLabel { reason: outcome.reason.as_str() }).inc();
    metrics.wait_seconds.observe(seconds(status.waited_seconds.unwrap_or_default()));
    if let (Phase::Timeout, Some(deadline)) = (outcome.phase, &status.deadline) {
        metrics.deadline_lag_seconds.observe(now.duration_since(deadline.0).as_secs_f64().max(0.0));
    }
    let warning =
        matches!(outcome.reason, SettledReason::IdentityNotEnforced | SettledReason::SessionCrashed | SettledReason::SessionEvicted);
    let note = if outcome.reason == SettledReason::Answered {
        format!("A person answered: {}.", outcome.phase.as_str())
    } else {
        outcome.message.clone().unwrap_or_default()
    };
    context.tell(request, warning, outcome.reason.as_str(), "Settle", note);
    Ok(context.again_as_history(after(now, ttl(outcome.reason, context))))
}

async fn refuse(request: &AttentionRequest, message: String, now: Timestamp, context: &Shared) -> Result<Next, Error> {
    let outcome = Outcome::of(Phase::Rejected, SettledReason::RateLimited, message);
    settle(request, &outcome, now, now, context).await
}

fn ttl(reason: SettledReason, context: &Shared) -> i64 {
    if reason == SettledReason::RateLimited { REFUSED_TTL_SECONDS } else { context.settings.history_ttl }
}

/// Removes a settled request when its time is over, which runs from the later of settling and consumption.
async fn forget(request: &AttentionRequest, reason: SettledReason, context: &Shared) -> Result<Next, Error> {
    let status = request.status.as_ref();
    let settled = status.and_then(|status| status.settled_at.as_ref()).map(|time| time.0);
    let consumed = status.and_then(|status| status.receipt.as_ref()?.consumed_at.as_ref()).map(|time| time.0);
    let now = context.now();
    // A settled request without a time is one that somebody restored: its history begins now.
    let since = settled.max(consumed).unwrap_or(now);
    let ttl = ttl(reason, context);
    if seconds_passed(since, now) >= ttl {
        let api = context.api::<AttentionRequest>(&request.namespace().unwrap_or_default());
        apply::delete(&api, &request.name_any(), request.uid(), request.resource_version()).await.during("the deletion of a request")?;
        return Ok(context.again(Some(after(now, HELD_SECONDS))));
    }
    Ok(context.again_as_history(after(since, ttl)))
}
