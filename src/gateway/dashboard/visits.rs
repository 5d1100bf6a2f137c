//! Visits that were ended by signing out. A cookie says by itself whose it is and until when, so that every replica can read
//! it; that it was signed out of is a mark that every replica watches. A copy of the cookie is then worth nothing.

use super::cookie::Visit;
use crate::gateway::live::{Mark, Marks};
use crate::k8s::watch::Step;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The visits that are over before their time.
#[derive(Clone)]
pub struct Visits {
    marks: Marks,
    ended: Arc<watch::Sender<HashSet<String>>>,
}

impl Visits {
    /// Knows of none yet.
    pub fn new(marks: Marks) -> Self {
        Self { marks, ended: Arc::new(watch::Sender::new(HashSet::new())) }
    }

    /// Whether somebody signed out of this visit.
    pub fn is_over(&self, visit: &Visit) -> bool {
        self.ended.borrow().contains(&visit.id)
    }

    /// Waits until somebody signs out of this visit.
    pub async fn over(&self, visit: &Visit) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as `self`.
        drop(ended.wait_for(|ended| ended.contains(&visit.id)).await);
    }

    /// Ends a visit, here at once and at every replica a moment later.
    pub async fn end(&self, visit: &Visit) {
        self.ended.send_if_modified(|ended| ended.insert(visit.id.clone()));
        if let Err(error) = self.marks.set(Mark::Visit, &visit.id, visit.hard_end(), None).await {
            tracing::warn!(%error, "a sign-out could not be recorded: other replicas believe the cookie until it ends");
        }
    }

    /// Watches the marks of all replicas until the token is cancelled.
    pub async fn run(&self, stop: CancellationToken) {
        let tell = |step| match step {
            Step::Applied(mark) | Step::Listed(mark) => {
                if let Some(id) = Mark::Visit.id(&mark) {
                    self.ended.send_if_modified(|ended| ended.insert(id.to_owned()));
                }
            }
            // Marks are deleted when the cookie has ended by itself.
            Step::Deleted(mark) => {
                if let Some(id) = Mark::Visit.id(&mark) {
                    self.ended.send_if_modified(|ended| ended.remove(id));
                }
            }
            Step::Begun | Step::Complete | Step::Unreadable(_) => {}
            Step::Failed(error) => tracing::warn!(%error, "the sign-outs of other replicas can't be watched"),
        };
        self.marks.follow(Mark::Visit, tell, stop).await;
    }
}
