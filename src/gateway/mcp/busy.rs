//! Which sessions of the older revisions have a call in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts the calls of each session.
#[derive(Clone, Default)]
pub(super) struct Busy(Arc<Mutex<HashMap<String, usize>>>);

/// A call in flight.
pub(super) struct InFlight {
    owner: Busy,
    session: String,
}

impl Busy {
    /// Enters a call of a session.
    pub(super) fn enter(&self, session: &str) -> InFlight {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(session.to_owned()).or_default() += 1;
        InFlight { owner: self.clone(), session: session.to_owned() }
    }

    /// Whether a session has a call in flight.
    pub(super) fn any(&self, session: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(session)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut calls = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = calls.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_busy_while_any_call_runs() {
        let busy = Busy::default();
        let (first, second) = (busy.enter("s"), busy.enter("s"));
        drop(first);
        assert!(busy.any("s") && !busy.any("t"));
        drop(second);
        assert!(!busy.any("s"));
    }
}
