//! The wait of a call on a request: attached while somebody reads, never settled by a lost connection.

use super::call::{Call, Failure, Wire};
use super::cancel::Meant;
use crate::api::v1alpha1::AttentionRequest;
use crate::domain::canary::Trust;
use crate::domain::outcome::{AgentResult, AgentStatus};
use crate::gateway::hub::Key;
use crate::gateway::requests::attachments::Attached;
use crate::gateway::requests::hands;
use crate::gateway::requests::others::others_wait;
use crate::gateway::requests::outcome::{Progress, moved, progress, still_open};
use crate::gateway::requests::store;
use crate::runtime::clock;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often a wait looks again although nothing was told: a decision that could not be vouched for yet, a lost wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long a call without progress is held beyond its time while it can't be stored that its client polls. Clients give up at
/// a minute, and an answer before that is better: who asks again is attached again.
const HELD_ON: Duration = Duration::from_secs(8);
/// Between two tries to store it.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// A call whose stream was cut waits for its client to come back to the same session for this long; then it gives up, and the
/// client finds the result with `get_attention_result`.
const COME_BACK: Duration = Duration::from_mins(10);
/// Without a grace the controller settles at once when the process announces its end; the call hands that over.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long an answer waits until its person's hands are off the browser. A grant that nobody renews is dead by then.
const HANDS_OFF: Duration = Duration::from_secs(2);

/// Waits and returns the tool's structured result.
pub(super) async fn wait(call: &Call, key: &Key) -> Result<Value, Failure> {
    call.gateway.metrics.open_waits.inc();
    let ended = Wait { call, key, attached: None }.run().await;
    call.gateway.metrics.open_waits.dec();
    ended
}

struct Wait<'a> {
    call: &'a Call,
    key: &'a Key,
    attached: Option<Attached>,
}

enum Woken {
    Look,
    LookAgain,
    Hold,
    GiveUp,
    Unread,
    ReadAgain,
    Cancelled(Meant),
    Stopping,
}

impl Wait<'_> {
    async fn run(&mut self) -> Result<Value, Failure> {
        let (call, id) = (self.call, self.key.1.as_str());
        let hold = call.gateway.settings.hold_without_progress;
        let mut hold_until = (!call.has_progress() && !hold.is_zero()).then(|| Instant::now() + hold);
        let held_at_most = hold_until.map(|at| at + HELD_ON);
        let mut request = call.gateway.hub.request(&self.key.0, id);
        let message = format!("Waiting for an operator to answer attention request {id}");
        let telling = call.keep_telling(&message);
        let mut telling = std::pin::pin!(telling);
        let mut reading = true;
        let mut give_up: Option<Instant> = None;
        let mut last_words: Option<Instant> = None;
        loop {
            let current = request.borrow_and_update().clone();
            if let Some(ended) = self.look(current, reading).await? {
                return Ok(ended);
            }
            let woken = tokio::select! {
                biased;
                changed = request.changed() => {
                    if changed.is_err() {
                        request = call.gateway.hub.request(&self.key.0, id);
                    }
                    Woken::Look
                }
                meant = call.cancelled() => Woken::Cancelled(meant),
                () = call.unread(), if reading && !call_resumed(call) => Woken::Unread,
                () = call.left_again(), if reading && call_resumed(call) => Woken::Look,
                () = call.read_again(), if !reading => Woken::ReadAgain,
                () = call.gateway.stop.cancelled(), if last_words.is_none() => Woken::Stopping,
                () = until(last_words) => return Ok(pending(id, &moved(id))),
                () = until(give_up) => Woken::GiveUp,
                () = until(hold_until), if reading => Woken::Hold,
                () = tokio::time::sleep(LOOK_AGAIN) => Woken::LookAgain,
                never = &mut telling => match never {},
            };
            match woken {
                Woken::Look => {}
                Woken::LookAgain => {
                    if let Some(attached) = &self.attached {
                        attached.ensure().await;
                    }
                }
                Woken::GiveUp => return Ok(pending(id, &still_open(id))),
                Woken::Hold => {
                    // Only what was attached needs somebody to stand for it.
                    let stored = self.attached.is_none() || call.gateway.attachments.mark_polling(self.key).await;
                    let again = Instant::now() + TRY_AGAIN;
                    if stored || held_at_most.is_none_or(|most| again > most) {
                        self.detach().await;
                        return Ok(pending(id, &still_open(id)));
                    }
                    hold_until = Some(again);
                }
                Woken::Unread => {
                    reading = false;
                    self.detach().await;
                    if !matches!(call.wire, Wire::Session { .. }) {
                        return Ok(pending(id, &still_open(id)));
                    }
                    give_up = Some(Instant::now() + COME_BACK);
                }
                Woken::ReadAgain => (reading, give_up) = (true, None),
                Woken::Cancelled(Meant::Timeout) => {
                    self.detach().await;
                    return Ok(pending(id, &still_open(id)));
                }
                Woken::Cancelled(Meant::Explicit) => return self.withdraw(&request).await,
                Woken::Stopping => {
                    // What waits here stays attached to this process, whose end is announced.
                    let grace = call.gateway.settings.reattach_grace;
                    if !grace.is_zero() {
                        return Ok(pending(id, &moved(id)));
                    }
                    last_words = Some(Instant::now() + LAST_WORDS);
                }
            }
        }
    }

    /// Looks at the request; the result when the wait is over.
    async fn look(&mut self, current: Option<Arc<AttentionRequest>>, reading: bool) -> Result<Option<Value>, Failure> {
        let id = self.key.1.as_str();
        let Some(current) = current else {
            // The mirror may err; what an agent is told is for good.
            let deleted = store::is_deleted(&self.call.gateway, self.key).await;
            return Ok(deleted.then(|| to_value(&AgentResult::deleted(id, Some(clock::now())))));
        };
        match progress(&current, clock::now()) {
            Progress::Settled(result) => Ok(Some(self.handed_over(&current, &result).await)),
            Progress::RateLimited(message) => Err(Failure::new("RATE_LIMITED", message)),
            Progress::Decided(result, stored) => match self.call.gateway.canary.trust(&self.key.0, stored).await {
                Trust::Honour => Ok(Some(self.handed_over(&current, &result).await)),
                // The controller settles it as it must be.
                Trust::Refuse | Trust::Hold => Ok(None),
            },
            Progress::Open if self.is_taken_out(&current).await => {
                // The client gave this call up, and told another replica.
                Ok(Some(pending(id, &still_open(id))))
            }
            Progress::Open if self.attached.is_none() && reading => {
                self.attached = Some(self.call.gateway.attachments.attach(self.key, &self.call.name).await);
                Ok(None)
            }
            Progress::Open | Progress::New => Ok(None),
        }
    }

    /// The result, once the person who answered no longer has the hands: the agent's next look counts.
    async fn handed_over(&self, request: &AttentionRequest, result: &AgentResult) -> Value {
        if matches!(result.status, AgentStatus::Resolved | AgentStatus::Rejected) && result.resolved_by.is_some() {
            hands::off(&self.call.gateway, request, HANDS_OFF).await;
        }
        to_value(result)
    }

    async fn is_taken_out(&mut self, current: &AttentionRequest) -> bool {
        let taken_out = match &mut self.attached {
            Some(attached) => attached.is_taken_out(current).await,
            None => false,
        };
        if taken_out {
            self.attached = None;
        }
        taken_out
    }

    async fn detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.detach().await;
        }
    }

    /// The agent does not want it any more: settled at once, unless another call waits on the same request.
    async fn withdraw(&mut self, request: &watch::Receiver<Option<Arc<AttentionRequest>>>) -> Result<Value, Failure> {
        let (call, id) = (self.call, self.key.1.as_str());
        let current = request.borrow().clone();
        let shared = match &current {
            Some(current) => others_wait(&call.gateway, self.key, &call.name, current).await,
            None => false,
        };
        if !shared {
            store::cancel(&call.gateway, &call.who, self.key, "The client cancelled the call.").await?;
        }
        self.detach().await;
        Ok(pending(id, &still_open(id)))
    }
}

/// Whether the call is read through a stream that came back.
fn call_resumed(call: &Call) -> bool {
    matches!(&call.wire, Wire::Session { resumed } if *resumed.borrow() > 0)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A normal answer of a call that is not held any longer.
pub(super) fn pending(id: &str, message: &str) -> Value {
    json!({"status": "pending", "message": message, "request_id": id})
}

/// The structured result.
pub(super) fn to_value(result: &AgentResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}
