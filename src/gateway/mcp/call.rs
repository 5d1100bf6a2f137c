//! One tool call: who makes it, how it is told of progress, and how it learns that nobody waits for it any more.

use super::cancel::{Calls, Meant, Running};
use crate::gateway::auth::Principal;
use crate::gateway::hub::watched;
use crate::gateway::state::Shared;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const ASKING: Duration = Duration::from_secs(15);
/// Between two progress messages.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(25);
/// The reason of a cancellation follows the cancellation within this.
const REASON_FOLLOWS: Duration = Duration::from_millis(500);

/// Why a tool call failed. Agents may match on the code.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Stable.
    pub code: &'static str,
    /// Names the field and what to do.
    pub message: String,
    /// More fields of the structured error.
    pub more: Map<String, Value>,
}

impl Failure {
    /// A failure without further fields.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), more: Map::new() }
    }

    /// An argument is wrong.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new("INVALID_ARGUMENT", message)
    }

    /// The API server refused or did not answer.
    pub fn api(what: &str, error: &kube::Error) -> Self {
        // The server's own words, which may quote what the caller sent: for the caller alone, never for a log.
        let said = |message: &str| message.chars().take(300).collect::<String>();
        if let kube::Error::Api(status) = error
            && (400..500).contains(&status.code)
        {
            let code = if status.code == 403 { "FORBIDDEN" } else { "REFUSED" };
            return Self::new(code, format!("{what}: {}", said(&status.message)));
        }
        Self::new("UNAVAILABLE", format!("{what}: {}; try again", crate::gateway::brief(error)))
    }

    /// The process ends before the call did.
    pub fn stopping() -> Self {
        let message = "this server stops, and the call has not ended: what it does may have happened, or happen still; take a snapshot first, \
                       then go on in the same session";
        Self::new("SERVER_STOPPING", message)
    }

    /// What the API server answers, within 15 s.
    pub async fn asked<T>(what: &str, asked: impl Future<Output = T>) -> Result<T, Self> {
        tokio::time::timeout(ASKING, asked)
            .await
            .map_err(|_| Self::new("UNAVAILABLE", format!("{what}: the API server did not answer; try again")))
    }

    /// The structured content.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"code": self.code, "message": self.message});
        if let Some(fields) = value.as_object_mut() {
            fields.extend(self.more.clone());
        }
        value
    }

    /// The text copy.
    pub fn text(&self) -> String {
        if self.message.starts_with(self.code) { self.message.clone() } else { format!("{}: {}", self.code, self.message) }
    }
}

/// What a call's client is like.
pub enum Wire {
    /// HTTP, a session of the older revisions: a cut stream may come back.
    Session {
        /// How many streams came back to the session.
        resumed: watch::Receiver<usize>,
    },
    /// HTTP, the newer revision: a cut stream ends the call.
    Stateless,
    /// Standard input and output.
    Stdio,
}

/// A tool call.
pub struct Call {
    /// The shared handles.
    pub gateway: Shared,
    /// The verified caller.
    pub who: Arc<Principal>,
    /// How it is connected.
    pub wire: Wire,
    /// Its name: in `status.attachments`, and for cancellations.
    pub name: String,
    /// Where progress goes, when the caller gave a token.
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
    sent: AtomicU32,
    stopped: CancellationToken,
    reader: Option<CancellationToken>,
    running: Running,
}

/// The parts of a [`Call`].
pub struct NewCall {
    /// The shared handles.
    pub gateway: Shared,
    /// The verified caller.
    pub who: Arc<Principal>,
    /// How it is connected.
    pub wire: Wire,
    /// Its name.
    pub name: String,
    /// Where progress goes.
    pub progress: Option<(Peer<RoleServer>, ProgressToken)>,
    /// Cancelled by the library.
    pub stopped: CancellationToken,
    /// Cancelled when nobody reads the response.
    pub reader: Option<CancellationToken>,
}

impl Call {
    /// Enters a call.
    pub fn enter(calls: &Calls, new: NewCall) -> Self {
        let running = calls.enter(&new.name);
        Self {
            gateway: new.gateway,
            who: new.who,
            wire: new.wire,
            name: new.name,
            progress: new.progress,
            sent: AtomicU32::new(0),
            stopped: new.stopped,
            reader: new.reader,
            running,
        }
    }

    /// Whether the caller is told of progress.
    pub const fn has_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Tells the caller that it is still going on.
    pub async fn tell(&self, message: &str) {
        if let Some((peer, token)) = &self.progress {
            let n = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
            let param = ProgressNotificationParam::new(token.clone(), f64::from(n)).with_message(message);
            // A client that does not read is seen by its stream.
            drop(tokio::time::timeout(Duration::from_secs(5), peer.notify_progress(param)).await);
        }
    }

    /// Tells at once, and then every 25 s.
    pub async fn keep_telling(&self, message: &str) -> std::convert::Infallible {
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.tell(message).await;
        }
    }

    /// Until the client takes the call back, and what it meant.
    pub async fn cancelled(&self) -> Meant {
        tokio::select! {
            meant = self.running.cancelled() => meant,
            () = self.stopped.cancelled() => {
                // The library stops the call before it tells why.
                tokio::time::timeout(REASON_FOLLOWS, self.running.cancelled()).await.unwrap_or(Meant::Timeout)
            }
        }
    }

    /// Until nobody reads the response.
    pub async fn unread(&self) {
        match &self.reader {
            Some(reader) => reader.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Until a client of the older revisions came back to its session.
    pub async fn read_again(&self) {
        match &self.wire {
            Wire::Session { resumed } => {
                if watched(&mut resumed.clone(), |count| *count > 0).await.is_none() {
                    std::future::pending::<()>().await;
                }
            }
            Wire::Stateless | Wire::Stdio => std::future::pending().await,
        }
    }

    /// Until a client that came back is gone again.
    pub async fn left_again(&self) {
        match &self.wire {
            Wire::Session { resumed } => {
                if watched(&mut resumed.clone(), |count| *count == 0).await.is_none() {
                    std::future::pending::<()>().await;
                }
            }
            Wire::Stateless | Wire::Stdio => std::future::pending().await,
        }
    }

    /// Runs `work` with progress to the caller, and gives it up when nobody wants it any more, or when the process is about to
    /// end: an answer that says so is better than a stream that is cut.
    pub async fn while_wanted<T>(&self, message: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.gateway.last_words.cancelled() => Err(Failure::stopping()),
            never = self.keep_telling(message) => match never {},
            _ = self.cancelled() => Err(Failure::new("CANCELLED", "the call was cancelled by its client")),
            () = self.unread(), if matches!(self.wire, Wire::Stateless) => Err(Failure::new("CANCELLED", "the client is gone")),
        }
    }
}
