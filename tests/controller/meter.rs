//! What stands between a controller and the API server: it counts, delays, cuts off and crashes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use http::{Request, Response};
use kube::client::Body;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::{Layer, Service};
/// Counts writes, and lets nothing through after so many.
#[derive(Clone)]
pub struct Meter(Arc<Counts>);

struct Counts {
    writes: AtomicU64,
    /// Writes that still pass; none below zero. `i64::MAX`: all.
    left: AtomicI64,
    /// Whether the reply of the last write that passes is lost.
    lose_reply: bool,
    /// How long each write and each question takes longer.
    slower: Duration,
    /// Whether calls wait.
    cut: watch::Sender<bool>,
    /// Whether watches of requests are never opened.
    deaf: bool,
    seen: Mutex<Vec<String>>,
    questions: AtomicU64,
    crashed: CancellationToken,
}

impl Default for Meter {
    fn default() -> Self {
        Self::after(i64::MAX, false)
    }
}

impl Meter {
    /// Crashes at the write after `writes`; with `lose_reply`, at the reply of the last one that passes.
    pub fn after(writes: i64, lose_reply: bool) -> Self {
        Self::new(writes, lose_reply, Duration::ZERO, false)
    }

    /// Lets everything through, but late.
    pub fn slow(slower: Duration) -> Self {
        Self::new(i64::MAX, false, slower, false)
    }

    /// Opens no watch of requests: what was listed is all that is ever told.
    pub fn deaf() -> Self {
        Self::new(i64::MAX, false, Duration::ZERO, true)
    }

    /// Cuts the controller off, or lets what waits go on.
    pub fn cut(&self, cut: bool) {
        self.0.cut.send_replace(cut);
    }

    fn new(writes: i64, lose_reply: bool, slower: Duration, deaf: bool) -> Self {
        Self(Arc::new(Counts {
            writes: AtomicU64::new(0),
            left: AtomicI64::new(writes),
            lose_reply,
            slower,
            cut: watch::channel(false).0,
            deaf,
            seen: Mutex::default(),
            questions: AtomicU64::new(0),
            crashed: CancellationToken::new(),
        }))
    }

    /// How many writes there were, apart from the leader's Lease, Events and dry runs.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::SeqCst)
    }

    /// How often it was asked which requests are open.
    pub fn questions(&self) -> u64 {
        self.0.questions.load(Ordering::SeqCst)
    }

    /// What was written.
    pub fn seen(&self) -> Vec<String> {
        self.0.seen.lock().unwrap().clone()
    }

    /// Cancelled when the crash came.
    pub fn crashed(&self) -> CancellationToken {
        self.0.crashed.clone()
    }
}

impl<S> Layer<S> for Meter {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metered { inner, meter: self.clone() }
    }
}

#[derive(Clone)]
pub struct Metered<S> {
    inner: S,
    meter: Meter,
}

impl<S, B> Service<Request<Body>> for Metered<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = futures::future::BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let counts = self.meter.0.clone();
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
        let counted = request.method() != http::Method::GET
            && !query.contains("dryRun")
            && !path.contains("/events")
            && !path.contains("/leases/beckon-controller")
            && !path.ends_with("/leases");
        if counts.crashed.is_cancelled() || (counts.deaf && path.ends_with("/attentionrequests") && query.contains("watch=true")) {
            return Box::pin(std::future::pending());
        }
        let asks = path.ends_with("/attentionrequests") && query.contains("fieldSelector");
        if asks {
            counts.questions.fetch_add(1, Ordering::SeqCst);
        }
        let mut lost = false;
        if counted {
            let left = counts.left.fetch_sub(1, Ordering::SeqCst);
            if left <= 0 {
                counts.crashed.cancel();
                return Box::pin(std::future::pending());
            }
            lost = counts.lose_reply && left == 1;
            counts.writes.fetch_add(1, Ordering::SeqCst);
            counts.seen.lock().unwrap().push(format!("{} {path}", request.method()));
        }
        let reply = self.inner.call(request);
        Box::pin(async move {
            if counted || asks {
                tokio::time::sleep(counts.slower).await;
            }
            drop(counts.cut.subscribe().wait_for(|cut| !cut).await);
            let response = reply.await;
            if lost {
                counts.crashed.cancel();
                return std::future::pending().await;
            }
            response
        })
    }
}
