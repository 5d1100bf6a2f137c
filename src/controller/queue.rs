//! The objects that wait for a pass. Each waits once, however often it is triggered; the first to come is the first to go; one
//! that is triggered during its pass waits again. Nothing is dropped while the queue is open.
//!
//! The order matters: a queue that serves its waiters in an arbitrary order (as a hash set does) can pass over the same one
//! for as long as others keep coming, and then a stored answer is recorded when the crowd is gone.

use super::index::Key;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// History gets every so many'th turn while both lanes wait.
const HISTORY_TURN: u64 = 16;

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Its life goes on: somebody may wait for it.
    Living,
    /// Only its history is left.
    History,
}

/// The objects of one kind that wait for a pass.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    turn: u64,
    living: VecDeque<Key>,
    history: VecDeque<Key>,
    /// The lane of each that waits. An entry of a lane that is not named here was moved to the other one.
    waiting: HashMap<Key, Lane>,
    /// The passes that run, and whether they have to be made again.
    running: HashMap<Key, Option<Lane>>,
    /// Whose time comes when; the number tells apart what comes at the same instant.
    timers: BTreeMap<(Instant, u64), (Key, Lane)>,
    timer_of: HashMap<Key, (Instant, u64)>,
    timer: u64,
}

impl State {
    fn push(&mut self, key: Key, lane: Lane) {
        match self.waiting.get(&key) {
            Some(Lane::Living) => return,
            Some(Lane::History) if lane == Lane::History => return,
            Some(Lane::History) | None => {}
        }
        self.waiting.insert(key.clone(), lane);
        match lane {
            Lane::Living => self.living.push_back(key),
            Lane::History => self.history.push_back(key),
        }
    }

    fn trigger(&mut self, key: Key, lane: Lane) {
        match self.running.get_mut(&key) {
            Some(again) => {
                if *again != Some(Lane::Living) {
                    *again = Some(lane);
                }
            }
            None => self.push(key, lane),
        }
    }

    fn take(&mut self, lane: Lane) -> Option<Key> {
        loop {
            let key = match lane {
                Lane::Living => self.living.pop_front(),
                Lane::History => self.history.pop_front(),
            }?;
            if self.waiting.get(&key) == Some(&lane) {
                self.waiting.remove(&key);
                return Some(key);
            }
        }
    }

    /// The next one, else when there is one.
    fn next(&mut self, now: Instant) -> Result<Key, Option<Instant>> {
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, lane) = entry.remove();
            self.timer_of.remove(&key);
            self.trigger(key, lane);
        }
        self.turn = self.turn.wrapping_add(1);
        let lanes = if self.turn.is_multiple_of(HISTORY_TURN) { [Lane::History, Lane::Living] } else { [Lane::Living, Lane::History] };
        let Some(key) = lanes.into_iter().find_map(|lane| self.take(lane)) else {
            return Err(self.timers.first_key_value().map(|((at, _), _)| *at));
        };
        // Its pass tells anew when it has to be looked at.
        self.stop_timer(&key);
        self.running.insert(key.clone(), None);
        Ok(key)
    }

    fn stop_timer(&mut self, key: &Key) {
        if let Some(timer) = self.timer_of.remove(key) {
            self.timers.remove(&timer);
        }
    }

    fn done(&mut self, key: Key, again: Option<(Instant, Lane)>) {
        // A pass of an earlier leadership says nothing.
        let Some(triggered) = self.running.remove(&key) else { return };
        match (triggered, again) {
            (Some(lane), _) => self.push(key, lane),
            (None, Some((at, lane))) => {
                self.timer = self.timer.wrapping_add(1);
                self.timer_of.insert(key.clone(), (at, self.timer));
                self.timers.insert((at, self.timer), (key, lane));
            }
            (None, None) => {}
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything, and collects from now on.
    pub fn open(&self) {
        *self.state() = State { open: true, ..State::default() };
    }

    /// Forgets everything, and collects nothing from now on.
    pub fn close(&self) {
        *self.state() = State::default();
    }

    /// Look at this one.
    pub fn trigger(&self, key: Key, lane: Lane) {
        let mut state = self.state();
        if state.open {
            state.trigger(key, lane);
            drop(state);
            self.told.notify_one();
        }
    }

    /// The next one to look at; tell with [`Self::done`] when that was done. Loses nothing when it is dropped. There is one who
    /// asks.
    pub async fn next(&self) -> Key {
        loop {
            let told = self.told.notified();
            let next = self.state().next(Instant::now());
            match next {
                Ok(key) => return key,
                Err(None) => told.await,
                Err(Some(at)) => tokio::select! { () = told => {} () = sleep_until(at) => {} },
            }
        }
    }

    /// A pass has ended; when to look again if nothing happens before.
    pub fn done(&self, key: Key, again: Option<(Instant, Lane)>) {
        self.state().done(key, again);
        self.told.notify_one();
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
#[path = "queue_tests.rs"]
mod tests;
