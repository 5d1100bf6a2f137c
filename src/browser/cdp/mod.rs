//! The one connection to Chromium: its debugging pipe, in flat sessions. Nothing outside this folder knows the wire.
//!
//! Every call has a time limit; every pending call fails at once when the pipe closes or its tab crashes. Screencast frames never
//! queue: each goes to the newest-wins slot of its tab. Events are handed to one [`Sink`] in order, without a queue that could
//! overflow: a dialog that opened is never missed.

mod pipe;
mod wire;

pub(in crate::browser) use wire::pixels;

use crate::runtime::supervision::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(super) use wire::{Event, Frame};

/// Messages that wait for Chromium to read its pipe.
const OUT_QUEUE: usize = 1024;
/// How long a call may take when nothing else is said.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(10);
/// What Chromium says, and does nothing, in the moment between two documents of a tab.
const BETWEEN: &str = "Not attached to an active page";
/// When it is asked again.
const AGAIN: Duration = Duration::from_millis(20);
/// These reach a crashed tab and revive it.
const REVIVING: &[&str] = &["Page.navigate", "Page.navigateToHistoryEntry", "Page.reload", "Target.closeTarget"];

/// Why Chromium did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdpError {
    /// Chromium is gone.
    #[error("Chromium is gone")]
    Closed,
    /// The tab's renderer crashed, or the tab is closed.
    #[error("the tab crashed or was closed")]
    Crashed,
    /// No reply in time.
    #[error("{0} was not answered in time")]
    Timeout(&'static str),
    /// Chromium does not read its pipe.
    #[error("Chromium does not take commands")]
    Busy,
    /// Chromium said no.
    #[error("{method}: {message}")]
    Refused {
        /// The command.
        method: &'static str,
        /// Chromium's words.
        message: String,
    },
    /// The reply was of another shape.
    #[error("the reply to {0} was not understood")]
    Reply(&'static str),
}

/// What is told everything that Chromium says by itself. It must not block.
pub trait Sink: Send + Sync + 'static {
    /// An event, in order.
    fn event(&self, cdp: &Cdp, event: &Event<'_>);
    /// A screencast frame of a session.
    fn frame(&self, cdp: &Cdp, session: &str, frame: Frame);
}

type Answer = Result<Box<RawValue>, CdpError>;

/// The session, the method, and who waits.
type Call = (Option<Arc<str>>, &'static str, oneshot::Sender<Answer>);

#[derive(Default)]
struct Pending {
    calls: HashMap<u64, Call>,
    crashed: HashSet<Arc<str>>,
    closed: bool,
}

struct Inner {
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    pending: Mutex<Pending>,
    gone: CancellationToken,
}

/// The connection. Cheap to clone.
#[derive(Clone)]
pub struct Cdp(Arc<Inner>);

impl Cdp {
    /// Starts the two parts that read and write the pipe. They do nothing more once it has closed, and end with `over`.
    ///
    /// # Errors
    /// When the descriptors are no pipe.
    pub fn start(read: OwnedFd, write: OwnedFd, sink: Arc<dyn Sink>, parts: &mut Parts, over: &CancellationToken) -> std::io::Result<Self> {
        let (out, queue) = mpsc::channel(OUT_QUEUE);
        let inner = Inner { out, next: AtomicU64::new(1), pending: Mutex::default(), gone: CancellationToken::new() };
        let cdp = Self(Arc::new(inner));
        pipe::start((read, write), queue, &cdp, sink, parts, over)?;
        Ok(cdp)
    }

    /// Ends when the pipe has closed.
    pub async fn closed(&self) {
        self.0.gone.cancelled().await;
    }

    /// Calls the browser.
    ///
    /// # Errors
    /// See [`CdpError`].
    pub async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, CdpError> {
        self.call_within(CALL_LIMIT, method, params).await
    }

    /// Calls the browser with a time limit of its own.
    ///
    /// # Errors
    /// See [`CdpError`].
    pub async fn call_within<T: DeserializeOwned>(&self, limit: Duration, method: &'static str, params: Value) -> Result<T, CdpError> {
        self.begin(None, method, &params).await?.within(limit).await
    }

    /// Sends without waiting for the reply.
    ///
    /// # Errors
    /// When the queue to Chromium is full or gone.
    pub fn fire(&self, method: &'static str, params: &Value) -> Result<(), CdpError> {
        self.send_now(None, method, params).map(drop)
    }

    /// A session of a target.
    #[must_use]
    pub fn session(&self, id: &str) -> Session {
        Session { cdp: self.clone(), id: id.into() }
    }

    /// Registers a call and queues it: the reply can be waited for later, or dropped.
    async fn begin(&self, session: Option<Arc<str>>, method: &'static str, params: &Value) -> Result<Reply, CdpError> {
        let (id, reply) = self.register(session.as_ref(), method)?;
        let message = wire::command(id, session.as_deref(), method, params);
        match tokio::time::timeout(CALL_LIMIT, self.0.out.send(message)).await {
            Ok(Ok(())) => Ok(reply),
            Ok(Err(_)) => Err(CdpError::Closed),
            Err(_) => Err(CdpError::Busy),
        }
    }

    fn begin_now(&self, session: Option<Arc<str>>, method: &'static str, params: &Value) -> Result<Reply, CdpError> {
        let (id, reply) = self.register(session.as_ref(), method)?;
        self.0.out.try_send(wire::command(id, session.as_deref(), method, params)).map_err(|error| queue_error(&error))?;
        Ok(reply)
    }

    fn register(&self, session: Option<&Arc<str>>, method: &'static str) -> Result<(u64, Reply), CdpError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (tx, rx) = oneshot::channel();
        let mut pending = self.pending();
        if pending.closed {
            return Err(CdpError::Closed);
        }
        if session.is_some_and(|session| pending.crashed.contains(session)) && !REVIVING.contains(&method) {
            return Err(CdpError::Crashed);
        }
        pending.calls.insert(id, (session.cloned(), method, tx));
        Ok((id, Reply { cdp: self.clone(), id, method, answer: rx }))
    }

    fn send_now(&self, session: Option<&str>, method: &'static str, params: &Value) -> Result<u64, CdpError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.out.try_send(wire::command(id, session, method, params)).map_err(|error| queue_error(&error))?;
        Ok(id)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, id: u64, answer: impl FnOnce(&'static str) -> Answer) {
        // A reply without a call is one whose caller did not wait.
        if let Some((_, method, tx)) = self.pending().calls.remove(&id) {
            drop(tx.send(answer(method)));
        }
    }

    /// Fails what a crashed session's callers wait for. New calls fail at once until it is revived.
    fn crashed(&self, session: &str) {
        let mut pending = self.pending();
        pending.crashed.insert(session.into());
        let revives = |method: &str| REVIVING.contains(&method);
        let lost: Vec<u64> = pending
            .calls
            .iter()
            .filter(|(_, (of, method, _))| of.as_deref() == Some(session) && !revives(method))
            .map(|(id, _)| *id)
            .collect();
        for (_, _, tx) in lost.into_iter().filter_map(|id| pending.calls.remove(&id)) {
            drop(tx.send(Err(CdpError::Crashed)));
        }
    }

    fn revived(&self, session: &str) {
        self.pending().crashed.remove(session);
    }

    /// Fails everything of a session that is no more.
    fn detached(&self, session: &str) {
        let mut pending = self.pending();
        let lost: Vec<u64> = pending.calls.iter().filter(|(_, (of, ..))| of.as_deref() == Some(session)).map(|(id, _)| *id).collect();
        for (_, _, tx) in lost.into_iter().filter_map(|id| pending.calls.remove(&id)) {
            drop(tx.send(Err(CdpError::Crashed)));
        }
        pending.crashed.remove(session);
    }

    /// Fails every call, the ones to come included.
    pub fn close(&self) {
        let mut pending = self.pending();
        pending.closed = true;
        for (_, (_, _, tx)) in pending.calls.drain() {
            drop(tx.send(Err(CdpError::Closed)));
        }
        drop(pending);
        self.0.gone.cancel();
    }
}

fn queue_error(error: &mpsc::error::TrySendError<Vec<u8>>) -> CdpError {
    match error {
        mpsc::error::TrySendError::Full(_) => CdpError::Busy,
        mpsc::error::TrySendError::Closed(_) => CdpError::Closed,
    }
}

/// A target's session.
#[derive(Clone)]
pub struct Session {
    cdp: Cdp,
    id: Arc<str>,
}

impl Session {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The connection.
    #[must_use]
    pub fn cdp(&self) -> &Cdp {
        &self.cdp
    }

    /// Calls the target.
    ///
    /// # Errors
    /// See [`CdpError`].
    pub async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, CdpError> {
        self.call_within(CALL_LIMIT, method, params).await
    }

    /// Calls the target with a time limit of its own, and again for as long as it is between two documents.
    ///
    /// # Errors
    /// See [`CdpError`].
    pub async fn call_within<T: DeserializeOwned>(&self, limit: Duration, method: &'static str, params: Value) -> Result<T, CdpError> {
        let deadline = Instant::now() + limit;
        loop {
            let reply = self.cdp.begin(Some(self.id.clone()), method, &params).await?;
            match reply.within(deadline.saturating_duration_since(Instant::now())).await {
                Err(CdpError::Refused { message, .. }) if message == BETWEEN && Instant::now() + AGAIN < deadline => sleep(AGAIN).await,
                done => return done,
            }
        }
    }

    /// Sends without waiting for the reply.
    ///
    /// # Errors
    /// When the queue to Chromium is full or gone.
    pub fn fire(&self, method: &'static str, params: &Value) -> Result<(), CdpError> {
        self.cdp.send_now(Some(&self.id), method, params).map(drop)
    }

    /// Sends now; the reply may be waited for later.
    ///
    /// # Errors
    /// When the queue to Chromium is full or gone, or the tab crashed.
    pub fn begin(&self, method: &'static str, params: &Value) -> Result<Reply, CdpError> {
        self.cdp.begin_now(Some(self.id.clone()), method, params)
    }
}

/// A reply that may come. Dropping it forgets the call.
pub struct Reply {
    cdp: Cdp,
    id: u64,
    method: &'static str,
    answer: oneshot::Receiver<Answer>,
}

impl Reply {
    /// Waits for it.
    ///
    /// # Errors
    /// See [`CdpError`].
    pub async fn within<T: DeserializeOwned>(mut self, limit: Duration) -> Result<T, CdpError> {
        let raw = match tokio::time::timeout(limit, &mut self.answer).await {
            Ok(Ok(answer)) => answer?,
            Ok(Err(_)) => return Err(CdpError::Closed),
            Err(_) => return Err(CdpError::Timeout(self.method)),
        };
        serde_json::from_str(raw.get()).map_err(|_| CdpError::Reply(self.method))
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.cdp.pending().calls.remove(&self.id);
    }
}
