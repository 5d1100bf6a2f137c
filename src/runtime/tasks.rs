//! Work beside the call that began it. Each piece of it has an owner that waits for it at the end and cuts what does not end by
//! itself, and a panic in one is told: a bare `tokio::spawn` would lose both.

use futures::FutureExt as _;
use hyper::rt::Executor;
use prometheus_client::metrics::counter::Counter;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The tasks of one owner. Clones are the same owner.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    running: TaskTracker,
    cut: CancellationToken,
    panics: Counter,
}

impl Tasks {
    /// Owns nothing yet. `panics` counts the tasks that panicked.
    #[must_use]
    pub fn new(panics: Counter) -> Self {
        Self { panics, ..Self::default() }
    }

    /// Starts a task. It ends by itself, at the latest soon after its process was told to stop. Outside of a runtime, where
    /// everything has ended, it is dropped.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(self.own(name, work)));
        }
    }

    /// The same work with this owner, for a library that starts it.
    pub fn own<W>(&self, name: &'static str, work: W) -> impl Future<Output = ()> + Send + use<W>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (counted, cut, panics) = (self.running.token(), self.cut.clone(), self.panics.clone());
        // Boxed here, so that the size of the work does not count twice in the selection.
        let work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        async move {
            tokio::select! {
                () = cut.cancelled() => {}
                ended = work => if ended.is_err() {
                    // What it said is on standard error.
                    tracing::error!(task = name, "a task panicked");
                    panics.inc();
                }
            }
            drop(counted);
        }
    }

    /// Waits until all have ended, and cuts what has not within this time. Whether all ended by themselves.
    pub async fn finish(&self, within: Duration) -> bool {
        self.running.close();
        let in_time = tokio::time::timeout(within, self.running.wait()).await.is_ok();
        if !in_time {
            tracing::warn!(tasks = self.running.len(), "some work did not end in time and is cut");
        }
        self.cut.cancel();
        in_time
    }
}

/// What hyper starts for the streams of a connection.
impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.spawn("a stream of a connection", work);
    }
}

/// A task that lives no longer than what holds its handle. What it leaves behind on a panic is its holder's to see: it is told
/// only.
pub fn held(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    let work = async move {
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            tracing::error!(task = name, "a task panicked");
        }
    };
    #[expect(clippy::disallowed_methods, reason = "this is the replacement")]
    AbortOnDropHandle::new(tokio::spawn(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::oneshot;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn what_ends_by_itself_is_waited_for() {
        let tasks = Tasks::default();
        let (end, ended) = oneshot::channel::<()>();
        tasks.spawn("short", async { drop(ended.await) });
        let finishing = tasks.finish(LONG);
        let mut finishing = std::pin::pin!(finishing);
        assert!(futures::poll!(&mut finishing).is_pending());
        drop(end);
        assert!(finishing.await);
    }

    #[tokio::test]
    async fn what_does_not_end_is_cut() {
        let tasks = Tasks::default();
        let (held, dropped) = oneshot::channel::<()>();
        tasks.spawn("long", async {
            let _held = held;
            pending::<()>().await;
        });
        assert!(!tasks.finish(Duration::from_millis(20)).await);
        tokio::time::timeout(LONG, dropped).await.expect("it is dropped").expect_err("nothing was sent");
    }

    #[tokio::test]
    async fn a_panic_is_counted_and_takes_nobody_along() {
        let panics = Counter::default();
        let tasks = Tasks::new(panics.clone());
        tasks.spawn("panics", async { panic!("this is the panic of this test") });
        tasks.spawn("lives", async {});
        assert!(tasks.finish(LONG).await);
        assert_eq!(panics.get(), 1);
    }

    #[tokio::test]
    async fn a_held_task_ends_with_its_holder() {
        let (held_end, dropped) = oneshot::channel::<()>();
        let handle = held("held", async {
            let _held = held_end;
            pending::<()>().await;
        });
        drop(handle);
        tokio::time::timeout(LONG, dropped).await.expect("it is dropped").expect_err("nothing was sent");
    }

    #[test]
    fn outside_of_a_runtime_nothing_starts() {
        Tasks::default().spawn("late", async {});
    }
}
