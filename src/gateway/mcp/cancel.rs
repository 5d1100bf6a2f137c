//! A client's `notifications/cancelled`: a decision of the agent, or only its own clock.
//!
//! SDK clients send their own timeouts as cancellations. Such a one detaches; an explicit one settles the request. It may
//! arrive at another replica than the one that runs the call: hence the call's name, which both compute.

use crate::domain::names::hex;
use crate::gateway::hub::watched;
use rmcp::model::RequestId;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What a client meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The agent does not want it any more.
    Explicit,
    /// The client's own clock ran out, or its connection ended.
    Timeout,
}

/// Reads the reason of a `notifications/cancelled`. Without a reason it is explicit.
#[must_use]
pub(super) fn meant(reason: Option<&str>) -> Meant {
    const CLOCKS: &[&str] = &["timeout", "timed out", "time out", "timedout", "-32001", "deadline", "time limit", "took too long"];
    let reason = reason.unwrap_or_default().to_lowercase();
    if CLOCKS.iter().any(|word| reason.contains(word)) { Meant::Timeout } else { Meant::Explicit }
}

/// The name of a call of the older revisions: the same on every replica. `7` and `"7"` are two ids.
#[must_use]
pub(super) fn call_name(session: &str, request: &RequestId) -> String {
    let mut hash = Sha256::new();
    hash.update((session.len() as u64).to_be_bytes());
    hash.update(session.as_bytes());
    match request {
        RequestId::Number(number) => hash.update(number.to_be_bytes()),
        RequestId::String(text) => {
            hash.update([0]);
            hash.update(text.as_bytes());
        }
    }
    let digest = hex(hash.finalize());
    format!("c-{}", digest.get(..20).unwrap_or_default())
}

/// The running calls of this process.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<HashMap<String, watch::Sender<Option<Meant>>>>>);

/// A running call. Dropping it ends the entry.
pub struct Running {
    name: String,
    owner: Calls,
    told: watch::Receiver<Option<Meant>>,
}

impl Calls {
    /// Enters a call.
    pub fn enter(&self, name: &str) -> Running {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = calls.entry(name.to_owned()).or_insert_with(|| watch::Sender::new(None)).subscribe();
        Running { name: name.to_owned(), owner: self.clone(), told }
    }

    /// Tells a running call; `false`: it does not run here.
    pub fn tell(&self, name: &str, meant: Meant) -> bool {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(name).is_some_and(|call| call.send(Some(meant)).is_ok())
    }
}

impl Running {
    /// Until the client cancels.
    pub async fn cancelled(&self) -> Meant {
        let mut told = self.told.clone();
        match watched(&mut told, Option::is_some).await.flatten() {
            Some(meant) => meant,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut calls = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.get(&self.name).is_some_and(|call| call.receiver_count() <= 1) {
            calls.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_own_clock_is_no_decision() {
        for (reason, want) in [
            (None, Meant::Explicit),
            (Some(""), Meant::Explicit),
            (Some("user aborted"), Meant::Explicit),
            (Some("AbortError: This operation was aborted"), Meant::Explicit),
            (Some("McpError: MCP error -32001: Request timed out"), Meant::Timeout),
            (Some("request timeout"), Meant::Timeout),
            (Some("TimeoutError: The operation was aborted due to timeout"), Meant::Timeout),
            (Some("Request Timed Out"), Meant::Timeout),
            (Some("context deadline exceeded"), Meant::Timeout),
            (Some("Maximum total timeout exceeded"), Meant::Timeout),
        ] {
            assert_eq!(meant(reason), want, "{reason:?}");
        }
    }

    #[tokio::test]
    async fn a_call_is_told_by_its_name_and_only_while_it_runs() {
        let calls = Calls::default();
        let text = |id: &str| RequestId::String(id.into());
        let name = call_name("session", &RequestId::Number(7));
        assert_ne!(name, call_name("session", &RequestId::Number(8)));
        assert_ne!(name, call_name("session", &text("7")));
        assert_ne!(call_name("a", &text("b1")), call_name("ab", &text("1")));
        let running = calls.enter(&name);
        assert!(calls.tell(&name, Meant::Explicit));
        assert_eq!(running.cancelled().await, Meant::Explicit);
        assert!(!calls.tell("c-other", Meant::Explicit));
        drop(running);
        assert!(!calls.tell(&name, Meant::Explicit));
    }
}
