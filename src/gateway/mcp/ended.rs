//! The MCP sessions that their clients have ended, known to every replica: a mark for each in Beckon's own namespace, watched
//! by all. A session's id is a signed token, so that without a mark any replica would take an ended one up again.

use crate::domain::names::hex;
use crate::gateway::live::{Mark, Marks};
use crate::k8s::watch::Step;
use crate::runtime::clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long an ended session is remembered. Who ended one does not come back with it; this is for the messages that were on
/// the way.
const REMEMBERED: Duration = Duration::from_hours(1);
/// The most that are remembered. Beyond it the oldest are forgotten, long after their sessions were let go here; whether such
/// a one may be taken up again, its mark says.
const MOST: usize = 10_000;

/// Remembers which sessions have ended.
#[derive(Clone)]
pub(super) struct Ended {
    marks: Marks,
    /// By the name of the mark; when it was seen.
    known: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Ended {
    /// Knows none yet.
    pub(super) fn new(client: kube::Client, namespace: &str) -> Self {
        Self { marks: Marks::new(client, namespace), known: Arc::default() }
    }

    /// The client ended it. When this returns the other replicas are about to know.
    pub(super) async fn add(&self, session: &str) {
        self.remember(name(session));
        let now = clock::now();
        let until = SignedDuration::try_from(REMEMBERED).ok().and_then(|long| now.checked_add(long).ok()).unwrap_or(now);
        if let Err(error) = self.marks.set(Mark::EndedSession, &id(session), until, None).await {
            tracing::warn!(%error, "the end of an MCP session could not be told to the other gateways");
        }
    }

    /// Whether its client ended it, as far as is known here.
    pub(super) fn contains(&self, session: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&name(session)).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Whether its client ended it, on whichever replica. Asks: for a session that is about to be taken up.
    pub(super) async fn is_ended(&self, session: &str) -> bool {
        if self.contains(session) {
            return true;
        }
        match self.marks.exists(Mark::EndedSession, &id(session)).await {
            Ok(there) => there,
            // The mark is for tidiness; the caller's token is what protects.
            Err(error) => {
                tracing::debug!(%error, "it could not be asked whether an MCP session has ended");
                false
            }
        }
    }

    /// Learns of what ends elsewhere, until the token is cancelled. `gone` is told.
    pub(super) async fn watch(&self, gone: impl Fn() + Send, stop: CancellationToken) {
        let tell = |step: Step<Lease>| match step {
            Step::Applied(lease) | Step::Listed(lease) => {
                if self.remember(lease.name_any()) {
                    gone();
                }
            }
            // What is over is swept; an id is remembered here until its own time is over.
            Step::Deleted(_) | Step::Begun | Step::Complete | Step::Unreadable(_) => {}
            Step::Failed(error) => tracing::warn!(%error, "the watch of ended MCP sessions failed"),
        };
        self.marks.follow(Mark::EndedSession, tell, stop).await;
    }

    /// Whether it was not known before. It is known from now on.
    fn remember(&self, name: String) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, at| at.elapsed() < REMEMBERED);
        }
        if known.len() >= MOST
            && !known.contains_key(&name)
            && let Some(oldest) = known.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
        {
            known.remove(&oldest);
        }
        known.insert(name, Instant::now()).is_none()
    }
}

/// Who reads the mark does not learn the id.
fn id(session: &str) -> String {
    hex(Sha256::digest(session.as_bytes()).into_iter().take(16))
}

fn name(session: &str) -> String {
    Mark::EndedSession.name(&id(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;

    #[tokio::test]
    async fn an_end_is_marked_and_known_however_many_are_known_already() {
        let made = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&made);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            seen.lock().unwrap().push(request.method().to_string());
            let lease = serde_json::json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l"}});
            let reply = http::Response::new(Body::from(lease.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(reply) }
        });
        let ended = Ended::new(kube::Client::new(service, "ns"), "ns");
        for n in 0..MOST {
            assert!(ended.remember(name(&n.to_string())));
        }
        ended.add("one more").await;
        assert_eq!(*made.lock().unwrap(), ["POST"], "the mark, for the other replicas");
        assert!(ended.contains("one more"));
        assert_eq!(ended.known.lock().unwrap().len(), MOST);
    }
}
