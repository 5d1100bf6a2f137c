//! What has to be looked at. Watches tell it here; while nobody leads it is dropped, since a new leader looks at everything.

use super::index::Key;
use super::queue::{Lane, Queue};

/// The queues of a leader.
#[derive(Debug, Default)]
pub struct Triggers {
    /// Requests to look at.
    pub requests: Queue,
    /// Sessions to look at.
    pub sessions: Queue,
}

impl Triggers {
    /// Begins to collect triggers, with nothing of before.
    pub fn open(&self) {
        self.requests.open();
        self.sessions.open();
    }

    /// Drops triggers from now on.
    pub fn close(&self) {
        self.requests.close();
        self.sessions.close();
    }

    /// Look at this request, whose life goes on.
    pub fn request(&self, key: Key) {
        self.requests.trigger(key, Lane::Living);
    }

    /// Look at this session, whose life goes on.
    pub fn session(&self, key: Key) {
        self.sessions.trigger(key, Lane::Living);
    }
}
