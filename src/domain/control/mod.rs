//! Who has the hands: the arbiter of one session.
//!
//! Agent actions and human input pass through it and nowhere else. One driver at a time. `take` waits for the agent's action in
//! progress, then holds; while a person holds control, or waits for it, the agent may look but not touch. The holder's grant
//! dies [`GRANT_SECONDS`] after its last renewal and stays dead: its holder takes again within the reconnect window.

#[cfg(test)]
mod tests;

use super::tools::Class;
use crate::driver::{ControlGrant, ControlState, GRANT_SECONDS, TakeControl};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

/// No time of a grant is longer than this, in seconds: a day.
const LONGEST: u64 = 86_400;
/// As many settled requests are remembered: twice what a session may have open.
const REMEMBERED: usize = 16;

/// Why somebody may not act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A person drives, or waits for the agent's action to end.
    Held(Box<ControlState>),
    /// The page may have changed under the agent, which has to look first.
    ObserveFirst,
    /// The lease is not, or no longer, the one that holds control.
    LeaseEnded,
}

/// Why control went back to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The holder handed back.
    Released,
    /// The request that it was bound to is settled.
    Settled,
    /// Nobody typed, clicked or extended.
    Idle,
    /// The person drove for as long as one may.
    Ceiling,
    /// The person's connection did not come back.
    Away,
}

/// What `take` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The person holds control.
    Granted(ControlGrant),
    /// The agent's action in progress has to end first; [`Arbiter::claim`] then grants.
    Waiting,
}

#[derive(Clone, Debug)]
struct Hold {
    ask: TakeControl,
    lease: String,
    since: Timestamp,
    renewed: Timestamp,
    last_input: Timestamp,
    ceiling: Timestamp,
    /// Dead for good: it was not renewed in time. The hold goes on until the reconnect window ends.
    dead: bool,
}

impl Hold {
    fn idle_until(&self) -> Timestamp {
        after(self.last_input, self.ask.idle_release_seconds)
    }

    fn grant_until(&self) -> Timestamp {
        after(self.renewed, GRANT_SECONDS)
    }

    fn away_until(&self) -> Timestamp {
        after(self.renewed, self.ask.reconnect_seconds.max(GRANT_SECONDS))
    }

    fn grant(&self, epoch: i64) -> ControlGrant {
        ControlGrant { lease: self.lease.clone(), epoch, idle_until: self.idle_until(), ceiling: self.ceiling }
    }

    /// Why it is over, if it is.
    fn over(&self, now: Timestamp) -> Option<Ended> {
        if now >= self.ceiling {
            Some(Ended::Ceiling)
        } else if now >= self.idle_until() {
            Some(Ended::Idle)
        } else if now >= self.away_until() {
            Some(Ended::Away)
        } else {
            None
        }
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    ask: TakeControl,
    lease: String,
    since: Timestamp,
}

/// The state machine. Every method first lets the time that has passed take effect.
#[derive(Clone, Debug, Default)]
pub struct Arbiter {
    epoch: i64,
    hold: Option<Hold>,
    waiting: Option<Waiting>,
    acting: bool,
    observe_first: bool,
    /// How often the agent was told to look first.
    changes: u64,
    clock: Timestamp,
    ended: Option<Ended>,
    /// The requests that were last said to be settled, the newest last.
    settled: VecDeque<String>,
}

impl Arbiter {
    /// A person asks for control. `lease` is a fresh unguessable name.
    ///
    /// The holder who asks again, from another window or after the connection was away, gets the new lease and keeps since,
    /// epoch and ceiling; the old lease is dead.
    ///
    /// # Errors
    /// [`Refusal::Held`] when another person holds control or waits for it.
    pub fn take(&mut self, ask: TakeControl, lease: String, now: Timestamp) -> Result<Taken, Refusal> {
        let now = self.pass(now);
        let ask = bounded(ask);
        if let Some(hold) = &mut self.hold {
            if hold.ask.holder != ask.holder {
                return Err(self.held());
            }
            *hold = Hold { ask, lease, since: hold.since, renewed: now, last_input: now, ceiling: hold.ceiling, dead: false };
            return Ok(Taken::Granted(hold.grant(self.epoch)));
        }
        if self.waiting.as_ref().is_some_and(|waiting| waiting.ask.holder != ask.holder) {
            return Err(self.held());
        }
        self.waiting = Some(Waiting { ask, lease: lease.clone(), since: now });
        self.claim(&lease, now)
    }

    /// Grants what [`Arbiter::take`] waits for, once the agent's action has ended.
    ///
    /// # Errors
    /// [`Refusal::LeaseEnded`] when nothing of that lease waits any more.
    pub fn claim(&mut self, lease: &str, now: Timestamp) -> Result<Taken, Refusal> {
        let now = self.pass(now);
        if let Some(hold) = self.hold.as_ref().filter(|hold| hold.lease == lease) {
            return Ok(Taken::Granted(hold.grant(self.epoch)));
        }
        let acting = self.acting;
        let Some(waiting) = self.waiting.take_if(|waiting| waiting.lease == lease && !acting) else {
            return if self.waiting.as_ref().is_some_and(|w| w.lease == lease) { Ok(Taken::Waiting) } else { Err(Refusal::LeaseEnded) };
        };
        self.epoch = self.epoch.saturating_add(1);
        let ceiling = after(now, waiting.ask.ceiling_seconds);
        let hold = Hold { ask: waiting.ask, lease: waiting.lease, since: now, renewed: now, last_input: now, ceiling, dead: false };
        let grant = hold.grant(self.epoch);
        self.hold = Some(hold);
        Ok(Taken::Granted(grant))
    }

    /// The caller of a `take` that waits has gone.
    pub fn withdraw(&mut self, lease: &str) {
        self.waiting.take_if(|waiting| waiting.lease == lease);
    }

    /// Keeps the grant alive; with `extend` also restarts the ceiling and the idle time.
    ///
    /// # Errors
    /// [`Refusal::LeaseEnded`] when the grant is dead or another's.
    pub fn renew(&mut self, lease: &str, extend: bool, now: Timestamp) -> Result<ControlGrant, Refusal> {
        let now = self.pass(now);
        let epoch = self.epoch;
        let hold = self.living(lease)?;
        hold.renewed = now;
        if extend {
            hold.last_input = now;
            hold.ceiling = hold.ceiling.max(after(now, hold.ask.ceiling_seconds));
        }
        Ok(hold.grant(epoch))
    }

    /// The holder hands back.
    ///
    /// # Errors
    /// [`Refusal::LeaseEnded`] when the lease holds nothing.
    pub fn release(&mut self, lease: &str, now: Timestamp) -> Result<(), Refusal> {
        self.pass(now);
        self.withdraw(lease);
        if self.hold.as_ref().is_some_and(|hold| hold.lease == lease) {
            self.end(Ended::Released);
            return Ok(());
        }
        Err(Refusal::LeaseEnded)
    }

    /// A takeover request is settled: the control that is bound to it ends, and the agent looks before it touches. Whoever hears
    /// of it says so, so it may be said again: that asks for no other look.
    pub fn settled(&mut self, request: &str, now: Timestamp) {
        self.pass(now);
        self.waiting.take_if(|waiting| waiting.ask.request.as_deref() == Some(request));
        if self.hold.as_ref().is_some_and(|hold| hold.ask.request.as_deref() == Some(request)) {
            self.end(Ended::Settled);
        } else if !self.settled.iter().any(|known| known == request) {
            self.look_first();
        }
        self.settled.retain(|known| known != request);
        self.settled.push_back(request.to_owned());
        if self.settled.len() > REMEMBERED {
            self.settled.pop_front();
        }
    }

    /// Whether one event of a person's input may reach the page. It restarts the idle time.
    ///
    /// # Errors
    /// [`Refusal::LeaseEnded`]: nothing may reach the page.
    pub fn admit_input(&mut self, lease: &str, now: Timestamp) -> Result<(), Refusal> {
        let now = self.pass(now);
        let hold = self.living(lease)?;
        hold.last_input = now;
        Ok(())
    }

    /// Whether an agent's tool may start. A Change tool that may has started: [`Arbiter::acted`] ends it.
    ///
    /// # Errors
    /// Why it may not. Read tools always may.
    pub fn admit_tool(&mut self, class: Class, now: Timestamp) -> Result<(), Refusal> {
        self.pass(now);
        match class {
            Class::Read => Ok(()),
            Class::Change if self.hold.is_some() || self.waiting.is_some() => Err(self.held()),
            Class::Change if self.observe_first => Err(Refusal::ObserveFirst),
            Class::Change => {
                self.acting = true;
                Ok(())
            }
        }
    }

    /// The agent's action in progress has ended.
    pub fn acted(&mut self) {
        self.acting = false;
    }

    /// The agent begins to look at the page. [`Arbiter::observed`] wants to know since when.
    pub fn look(&mut self, now: Timestamp) -> u64 {
        self.pass(now);
        self.changes
    }

    /// The agent has looked at the page, beginning at `since`. While a person drives that is no licence for afterwards, and a look
    /// that began before the hands came back may have seen the page as it was.
    pub fn observed(&mut self, since: u64, now: Timestamp) {
        self.pass(now);
        if self.hold.is_none() && since == self.changes {
            self.observe_first = false;
        }
    }

    /// Lets time take effect and says why control ended since the last call, if it did.
    pub fn tick(&mut self, now: Timestamp) -> Option<Ended> {
        self.pass(now);
        self.ended.take()
    }

    /// Lets time take effect and keeps what it ended for [`Arbiter::tick`].
    pub fn pass_time(&mut self, now: Timestamp) {
        self.pass(now);
    }

    /// When time alone next changes something.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        let hold = self.hold.as_ref()?;
        let grant = (!hold.dead).then(|| hold.grant_until());
        [grant, Some(hold.away_until()), Some(hold.idle_until()), Some(hold.ceiling)].into_iter().flatten().min()
    }

    /// Whether a person's input could reach the page now.
    #[must_use]
    pub fn gate_open(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.dead)
    }

    /// Who has the hands, as everybody may see it.
    #[must_use]
    pub fn state(&self) -> ControlState {
        let epoch = self.epoch;
        if let Some(hold) = &self.hold {
            return ControlState {
                holder: Some(hold.ask.holder.clone()),
                since: Some(hold.since),
                epoch,
                request: hold.ask.request.clone(),
                idle_until: Some(hold.idle_until()),
                ceiling: Some(hold.ceiling),
                pending: false,
                dead: hold.dead,
            };
        }
        self.waiting.as_ref().map_or(ControlState { epoch, ..ControlState::default() }, |waiting| ControlState {
            holder: Some(waiting.ask.holder.clone()),
            since: Some(waiting.since),
            epoch,
            request: waiting.ask.request.clone(),
            pending: true,
            ..ControlState::default()
        })
    }

    fn held(&self) -> Refusal {
        Refusal::Held(Box::new(self.state()))
    }

    fn living(&mut self, lease: &str) -> Result<&mut Hold, Refusal> {
        self.hold.as_mut().filter(|hold| !hold.dead && hold.lease == lease).ok_or(Refusal::LeaseEnded)
    }

    /// Time passes; it never goes back.
    fn pass(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        let now = self.clock;
        if let Some(ended) = self.hold.as_ref().and_then(|hold| hold.over(now)) {
            self.end(ended);
        }
        if let Some(hold) = self.hold.as_mut().filter(|hold| now >= hold.grant_until()) {
            hold.dead = true;
        }
        now
    }

    fn end(&mut self, why: Ended) {
        self.hold = None;
        self.epoch = self.epoch.saturating_add(1);
        self.look_first();
        self.ended = Some(why);
    }

    fn look_first(&mut self) {
        self.observe_first = true;
        self.changes = self.changes.wrapping_add(1);
    }
}

fn after(time: Timestamp, seconds: u64) -> Timestamp {
    let step = SignedDuration::from_secs(i64::try_from(seconds.min(LONGEST)).unwrap_or(i64::MAX));
    time.checked_add(step).unwrap_or(Timestamp::MAX)
}

/// Zero seconds of control would be none at all.
fn bounded(mut ask: TakeControl) -> TakeControl {
    ask.idle_release_seconds = ask.idle_release_seconds.clamp(1, LONGEST);
    ask.reconnect_seconds = ask.reconnect_seconds.clamp(1, LONGEST);
    ask.ceiling_seconds = ask.ceiling_seconds.clamp(1, LONGEST);
    ask
}
