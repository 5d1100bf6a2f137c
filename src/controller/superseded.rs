//! Which versions of objects are known to be old, though the watch tells them still.
//!
//! A pass over such a version can only end in a conflict, and each conflict costs the API server as much as a write: right after a
//! write of ours, or after one that lost against somebody else's, a pass waits for the watch.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long the watch may lag before the API server itself is asked.
const LAG: Duration = Duration::from_secs(1);

/// What is to be made of a version that the watch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The newest that is known.
    Newest,
    /// Old: the newer one should be told before this instant.
    OldUntil(Instant),
    /// Old, and the watch lags for too long.
    Overdue,
}

/// The last version of each object that somebody has written over, by uid, and since when that is known.
#[derive(Debug, Default)]
pub struct Superseded(Mutex<HashMap<String, (String, Instant)>>);

impl Superseded {
    fn known(&self) -> MutexGuard<'_, HashMap<String, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody, perhaps we, wrote over this version.
    pub fn insert(&self, uid: String, version: String, now: Instant) {
        let mut known = self.known();
        // Known for long is known since then: a watch that has stopped does not begin anew with each attempt.
        if known.get(&uid).is_none_or(|(old, _)| *old != version) {
            known.insert(uid, (version, now));
        }
    }

    /// What this version is.
    pub fn told(&self, uid: &str, version: &str, now: Instant) -> Told {
        let mut known = self.known();
        match known.get(uid) {
            Some((old, since)) if old == version => {
                let until = *since + LAG;
                if now < until { Told::OldUntil(until) } else { Told::Overdue }
            }
            Some(_) => {
                known.remove(uid);
                Told::Newest
            }
            None => Told::Newest,
        }
    }

    /// The object is gone.
    pub fn remove(&self, uid: &str) {
        self.known().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_over_is_old_until_the_watch_tells_more() {
        let superseded = Superseded::default();
        let start = Instant::now();
        let told = |uid, version, after| superseded.told(uid, version, start + after);
        let wrote = |version: &str, after| superseded.insert("a".into(), version.into(), start + after);
        assert_eq!(told("a", "7", Duration::ZERO), Told::Newest);
        wrote("7", Duration::ZERO);
        assert_eq!((told("a", "7", Duration::ZERO), told("b", "7", Duration::ZERO)), (Told::OldUntil(start + LAG), Told::Newest));
        wrote("7", LAG / 2);
        assert_eq!(told("a", "7", LAG / 2), Told::OldUntil(start + LAG), "known since the first time");
        assert_eq!(told("a", "7", LAG), Told::Overdue);
        wrote("8", LAG);
        assert_eq!(told("a", "8", LAG), Told::OldUntil(start + 2 * LAG));
        assert_eq!(told("a", "9", LAG), Told::Newest);
        wrote("9", LAG);
        superseded.remove("a");
        assert!(superseded.known().is_empty(), "what the watch has told, or deleted, is kept no longer");
    }
}
