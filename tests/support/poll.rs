//! Waiting for what must happen, with a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

/// How often to look.
const EVERY: Duration = Duration::from_millis(50);

/// Asks until there is an answer; fails the test, naming `what`, when there is none in time.
pub async fn poll_until<T, F, Fut>(at_most: Duration, what: &str, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + at_most;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {at_most:?}");
        tokio::time::sleep(EVERY).await;
    }
}

/// [`poll_until`] for a condition, with 30 s.
pub async fn eventually<F, Fut>(what: &str, mut holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    poll_until(Duration::from_secs(30), what, || {
        let answer = holds();
        async move { answer.await.then_some(()) }
    })
    .await;
}
