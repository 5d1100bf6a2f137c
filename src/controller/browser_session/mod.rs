//! A pass over a browser session: observe, decide, build, apply, record. An end is recorded before anything is removed.

mod apply;
pub mod build;
mod driver;
mod observe;
mod status;

use super::context::{Next, Shared};
use super::error::{During as _, Error};
use super::metrics::{KindLabel, ReasonLabel};
use crate::api::v1alpha1::{BrowserSession, BrowserSessionStatus, SessionPhase};
use crate::domain::session::{self, Plan};
use crate::domain::time::{after, seconds_passed};
use crate::k8s::apply as write;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use observe::Observed;
pub(super) use observe::ends as hard_end;
use std::sync::Arc;
use tokio::time::Instant;

/// The label of metrics.
pub const KIND: &str = "BrowserSession";
/// How soon to look again at what should change by itself, in seconds.
const SOON_SECONDS: i64 = 5;

/// One pass.
///
/// # Errors
/// When a call fails; the next pass begins anew.
pub async fn reconcile(session: Arc<BrowserSession>, context: Shared) -> Result<Next, Error> {
    let since = Instant::now();
    let result = pass(&session, &context).await;
    context.count(KIND, since, &result);
    if result.is_ok() {
        context.backoff.reset(&session.uid().unwrap_or_default());
    }
    result
}

async fn pass(session: &BrowserSession, context: &Shared) -> Result<Next, Error> {
    // What it owns goes with it: the pod and the Secret name it as their owner.
    if session.metadata.deletion_timestamp.is_some() {
        return Ok(Next::NEVER);
    }
    let observed = observe::observe(session, context).await?;
    let now = context.now();
    let seen = observed.seen(session, &context.settings);
    match session::plan(&seen, now) {
        Plan::Create => {
            let waiting = apply::create(session, context).await?;
            let status = status::starting(session, &observed, waiting.as_deref(), &context.settings, now);
            record(session, &status, context).await?;
            // The pod's own events trigger the next pass; this is for when it could not be made.
            Ok(context.again(Some(after(now, SOON_SECONDS).min(session::wake(&seen)))))
        }
        Plan::Foreign => {
            let text = "A pod of this name belongs to something else.";
            let status = status::starting(session, &observed, Some(text), &context.settings, now);
            record(session, &status, context).await?;
            Ok(context.again(Some(after(now, SOON_SECONDS).min(session::wake(&seen)))))
        }
        Plan::Starting(waiting) => {
            let status = status::starting(session, &observed, waiting.as_deref(), &context.settings, now);
            record(session, &status, context).await?;
            Ok(context.again(Some(session::wake(&seen))))
        }
        Plan::Ready => {
            let sandbox = driver::sandbox(session, &observed, context).await;
            let status = status::ready(session, &observed, sandbox.as_ref(), &context.settings, now);
            apply::marks(&observed, &status, context).await?;
            let was = session.status.as_ref().and_then(|status| status.phase);
            if record(session, &status, context).await? && was != Some(SessionPhase::Ready) {
                context.tell(session, false, "Ready", "Start", "The browser answers.");
            }
            let look = (sandbox.is_none() && driver::worth_asking(session, context)).then(|| after(now, SOON_SECONDS));
            Ok(context.again([Some(session::wake(&seen)), look].into_iter().flatten().min()))
        }
        Plan::End(end) => {
            if end.phase == SessionPhase::Expired && observe::renewed_meanwhile(session, &observed, context, now).await? {
                return Ok(context.again(Some(after(now, 1))));
            }
            let status = status::ended(session, &observed, &end, &context.settings, now);
            if record(session, &status, context).await? {
                context.metrics.ended.get_or_create(&ReasonLabel { reason: end.phase.as_str() }).inc();
                let warning = end.phase == SessionPhase::Crashed;
                context.tell(session, warning, end.phase.as_str(), "End", end.message.clone());
            }
            // What was recorded comes through the watch; then it is acted upon.
            Ok(context.again(Some(after(now, SOON_SECONDS))))
        }
        Plan::CleanUp => clean_up(session, &observed, now, context).await,
    }
}

/// Writes the status where it differs.
async fn record(session: &BrowserSession, status: &BrowserSessionStatus, context: &Shared) -> Result<bool, Error> {
    let api = context.api::<BrowserSession>(&session.namespace().unwrap_or_default());
    let written = write::write_status(&api, session, session.status.as_ref(), status).await;
    let written = context.wrote(session, written).during("the status of a session")?;
    if written {
        context.metrics.writes.get_or_create(&KindLabel { kind: KIND }).inc();
    }
    Ok(written)
}

/// Removes the pod and the Secret of a session that has ended, then the session itself when its history is over.
async fn clean_up(session: &BrowserSession, observed: &Observed, now: Timestamp, context: &Shared) -> Result<Next, Error> {
    let holds = session.status.as_ref().is_some_and(|status| status.pod.is_some());
    if holds || observed.pod.is_some() {
        apply::remove(session, observed, context).await?;
    }
    let status = status::cleaned(session, observed, now);
    record(session, &status, context).await?;
    let ended = status.ended_at.as_ref().map_or(now, |time| time.0);
    let ttl = context.settings.history_ttl;
    if seconds_passed(ended, now) >= ttl && !holds {
        let api = context.api::<BrowserSession>(&session.namespace().unwrap_or_default());
        write::delete(&api, &session.name_any(), session.uid(), session.resource_version()).await.during("the deletion of a session")?;
        return Ok(context.again(Some(after(now, SOON_SECONDS))));
    }
    Ok(context.again_as_history(after(ended, ttl).max(after(now, 1))))
}
