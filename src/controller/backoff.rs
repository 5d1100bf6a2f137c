//! How often each object's pass has failed in a row.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Failures in a row, by uid.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, u32>>);

impl Backoff {
    /// One more failure; how many there were before it.
    pub fn failed(&self, uid: &str) -> u32 {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(uid.to_owned()).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        before
    }

    /// How many failures there are in a row.
    #[must_use]
    pub fn count(&self, uid: &str) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).copied().unwrap_or_default()
    }

    /// It succeeded, or the object is gone.
    pub fn reset(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    #[test]
    fn success_starts_anew() {
        let backoff = Backoff::default();
        assert_eq!((backoff.failed("a"), backoff.failed("a"), backoff.failed("b")), (0, 1, 0));
        backoff.reset("a");
        assert_eq!(backoff.failed("a"), 0);
    }
}
