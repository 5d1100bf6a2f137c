//! The arbiter at work: the pure state machine of `domain::control`, with the clock, and with everybody who has to be told.

use super::tabs::Tabs;
use crate::domain::control::{Arbiter, Ended, Refusal, Taken};
use crate::domain::names::hex;
use crate::domain::tools::Class;
use crate::driver::{ControlGrant, ControlState, TakeControl};
use crate::runtime::clock::now;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rand::Rng as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The arbiter of this session.
pub struct Control {
    arbiter: Mutex<Arbiter>,
    /// Who has the hands.
    pub state: watch::Sender<ControlState>,
    /// Whether a person's input could reach the page.
    pub gate: watch::Sender<bool>,
    tabs: Arc<Tabs>,
    /// An agent's action ended, or somebody gave up: who waits looks again.
    moved: Notify,
    timer: Notify,
    /// The machine's clock and our own, at the same moment.
    began: (Timestamp, Instant),
}

/// An agent's tool that runs. Dropping it ends the action.
pub struct Action {
    control: Arc<Control>,
    class: Class,
}

impl Drop for Action {
    fn drop(&mut self) {
        if self.class == Class::Change {
            self.control.with(|arbiter, _| arbiter.acted());
            self.control.moved.notify_waiters();
        }
    }
}

/// A `take` that waits. Dropping it gives up.
struct Waiter<'a> {
    control: &'a Control,
    lease: String,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.control.with(|arbiter, _| arbiter.withdraw(&self.lease));
    }
}

impl Control {
    /// The agent has the hands.
    #[must_use]
    pub fn new(tabs: Arc<Tabs>) -> Arc<Self> {
        Arc::new(Self {
            arbiter: Mutex::default(),
            state: watch::Sender::default(),
            gate: watch::Sender::new(false),
            tabs,
            moved: Notify::new(),
            timer: Notify::new(),
            began: (now(), Instant::now()),
        })
    }

    /// The time, by a clock that nobody can set: one that is set back would keep a grant alive that nobody renews.
    fn clock(&self) -> Timestamp {
        let (start, since) = self.began;
        let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Lets time take effect until stopped: a grant that is not renewed dies without anybody asking.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.with(|arbiter, _| arbiter.next_change());
            let changed = self.timer.notified();
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed => {}
                () = self.until(next) => {}
            }
        }
    }

    /// Gives a person the hands, when the agent's action in progress has ended.
    ///
    /// # Errors
    /// When another person has them.
    pub async fn take(&self, ask: TakeControl) -> Result<ControlGrant, Refusal> {
        let lease = unguessable();
        let mut taken = self.with(|arbiter, now| arbiter.take(ask, lease.clone(), now))?;
        let waiter = Waiter { control: self, lease };
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if taken == Taken::Waiting {
                taken = self.with(|arbiter, now| arbiter.claim(&waiter.lease, now))?;
            }
            match taken {
                Taken::Granted(grant) => return Ok(grant),
                Taken::Waiting => moved.await,
            }
        }
    }

    /// Keeps a grant alive.
    ///
    /// # Errors
    /// When it is dead.
    pub fn renew(&self, lease: &str, extend: bool) -> Result<ControlGrant, Refusal> {
        self.with(|arbiter, now| arbiter.renew(lease, extend, now))
    }

    /// The holder hands back.
    ///
    /// # Errors
    /// When the lease holds nothing.
    pub fn release(&self, lease: &str) -> Result<(), Refusal> {
        self.with(|arbiter, now| arbiter.release(lease, now))
    }

    /// A request is settled: its control ends.
    pub fn settled(&self, request: &str) {
        self.with(|arbiter, now| arbiter.settled(request, now));
        self.moved.notify_waiters();
    }

    /// Whether an event of a person's input may reach the page.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit_input(&self, lease: &str) -> Result<(), Refusal> {
        self.with(|arbiter, now| arbiter.admit_input(lease, now))
    }

    /// Whether an agent's tool may run.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit_tool(self: &Arc<Self>, class: Class) -> Result<Action, Refusal> {
        self.with(|arbiter, now| arbiter.admit_tool(class, now))?;
        Ok(Action { control: self.clone(), class })
    }

    /// The agent begins to look at the page.
    #[must_use]
    pub fn look(&self) -> u64 {
        self.with(Arbiter::look)
    }

    /// The agent has looked at the page, beginning when [`Control::look`] said so.
    pub fn observed(&self, since: u64) {
        self.with(|arbiter, now| arbiter.observed(since, now));
    }

    /// Who has the hands, now.
    #[must_use]
    pub fn now(&self) -> ControlState {
        self.with(|arbiter, now| {
            arbiter.pass_time(now);
            arbiter.state()
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut Arbiter, Timestamp) -> R) -> R {
        let mut arbiter = self.arbiter.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock();
        let before = arbiter.next_change();
        let result = change(&mut arbiter, now);
        let ended = arbiter.tick(now);
        let (state, gate, after) = (arbiter.state(), arbiter.gate_open(), arbiter.next_change());
        // Told under the lock, so that nobody sees an older state last.
        self.state.send_if_modified(|known| replace(known, state));
        self.gate.send_if_modified(|known| replace(known, gate));
        if let Some(why) = ended {
            // After a hand-back no reference of before is good.
            self.tabs.forget_references();
            tracing::info!(why = word(why), "control went back to the agent");
        }
        drop(arbiter);
        if after != before {
            self.timer.notify_one();
        }
        result
    }

    async fn until(&self, time: Option<Timestamp>) {
        match time {
            None => std::future::pending().await,
            Some(time) => {
                let wait = Duration::try_from(time.duration_since(self.clock())).unwrap_or_default();
                // A little later than the instant, so that it has passed.
                tokio::time::sleep(wait + Duration::from_millis(1)).await;
            }
        }
    }
}

fn word(why: Ended) -> &'static str {
    match why {
        Ended::Released => "released",
        Ended::Settled => "settled",
        Ended::Idle => "idle",
        Ended::Ceiling => "ceiling",
        Ended::Away => "away",
    }
}

fn replace<T: PartialEq>(known: &mut T, new: T) -> bool {
    let changed = *known != new;
    *known = new;
    changed
}

fn unguessable() -> String {
    let mut bytes = [0_u8; 16];
    rand::rng().fill_bytes(&mut bytes);
    hex(bytes)
}
