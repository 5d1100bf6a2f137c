//! The parts of a process that run as long as it does: one that ends before is a failure of the whole.

use std::collections::HashMap;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;

/// What a part tells of its end.
pub type End = Result<(), String>;

/// The parts, each under a name.
#[derive(Debug, Default)]
pub struct Parts {
    running: JoinSet<End>,
    names: HashMap<Id, &'static str>,
}

/// A part that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub name: &'static str,
    /// How, for a person.
    pub why: String,
}

impl Parts {
    /// Starts a part. It is aborted when this is dropped.
    pub fn start(&mut self, name: &'static str, part: impl Future<Output = End> + Send + 'static) {
        let id = self.running.spawn(part).id();
        self.names.insert(id, name);
    }

    /// Until one ends, whatever way; for ever when there is none.
    pub async fn ended(&mut self) -> Ended {
        match self.running.join_next_with_id().await {
            Some(ended) => self.told(ended),
            None => std::future::pending().await,
        }
    }

    /// Until all have ended, as they do once they are told to. Those that failed are named.
    pub async fn finish(mut self) -> Vec<Ended> {
        let mut failed = Vec::new();
        self.end(&mut failed).await;
        failed
    }

    /// The same, for at most this long. What has not ended then is named too, and aborted.
    pub async fn finish_within(mut self, limit: Duration) -> Vec<Ended> {
        let mut failed = Vec::new();
        if timeout(limit, self.end(&mut failed)).await.is_err() {
            failed.extend(self.names.drain().map(|(_, name)| Ended { name, why: "it did not end in time".to_owned() }));
        }
        failed
    }

    async fn end(&mut self, failed: &mut Vec<Ended>) {
        while let Some(ended) = self.running.join_next_with_id().await {
            let fine = matches!(ended, Ok((_, Ok(()))));
            let ended = self.told(ended);
            if !fine {
                failed.push(ended);
            }
        }
    }

    fn told(&mut self, ended: Result<(Id, End), JoinError>) -> Ended {
        let (id, why) = match ended {
            Ok((id, Ok(()))) => (id, "it ended by itself".to_owned()),
            Ok((id, Err(why))) => (id, why),
            // The panic itself is on standard error.
            Err(error) => (error.id(), if error.is_panic() { "it panicked" } else { "it was aborted" }.to_owned()),
        };
        Ended { name: self.names.remove(&id).unwrap_or("a part"), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_part_that_ends_is_named_however_it_ends() {
        for (part, why) in [("ends", "it ended by itself"), ("fails", "no port"), ("panics", "it panicked")] {
            let mut parts = Parts::default();
            parts.start("stays", std::future::pending());
            parts.start(part, async move {
                assert_ne!(part, "panics", "this is the panic of this test");
                if part == "fails" { Err("no port".to_owned()) } else { Ok(()) }
            });
            assert_eq!(parts.ended().await, Ended { name: part, why: why.to_owned() });
        }
    }

    #[tokio::test]
    async fn at_the_end_only_failures_are_told() {
        let mut parts = Parts::default();
        parts.start("good", async { Ok(()) });
        parts.start("bad", async { Err("no".to_owned()) });
        assert_eq!(parts.finish().await, [Ended { name: "bad", why: "no".into() }]);
    }

    #[tokio::test]
    async fn what_does_not_end_is_named_and_aborted() {
        let (kept, gone) = tokio::sync::oneshot::channel::<()>();
        let mut parts = Parts::default();
        parts.start("late", async move {
            let _kept = kept;
            std::future::pending().await
        });
        let failed = parts.finish_within(Duration::from_millis(10)).await;
        assert_eq!(failed, [Ended { name: "late", why: "it did not end in time".to_owned() }]);
        assert!(gone.await.is_err());
    }
}
