//! What surrounds a call on the wire: the response's headers and first byte leave at once, comments keep it alive, and the call
//! knows whether anybody still reads it.

use super::message::Envelope;
use super::refusals;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use pin_project_lite::pin_project;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// When bytes leave although the handler is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// A handler that is silent for this long gets its stream opened for it.
    pub patience: Duration,
    /// Between two comments.
    pub comment: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { patience: Duration::from_millis(300), comment: Duration::from_secs(15) }
    }
}
/// The largest reply that is not a stream, in bytes.
const LARGEST: usize = 64 << 20;

/// Whether somebody reads the response of this call. In the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Reader(pub CancellationToken);

/// The streams by which clients of the older revisions came back to a session.
#[derive(Clone, Default)]
pub(super) struct Resumed(Arc<Mutex<HashMap<String, watch::Sender<usize>>>>);

impl Resumed {
    /// How many such streams of a session are open, and every change.
    pub(super) fn watch(&self, session: &str) -> watch::Receiver<usize> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, count| *count.borrow() > 0 || count.receiver_count() > 0);
        sessions.entry(session.to_owned()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Counts a stream of a session until it is dropped.
    fn open(&self, session: &str) -> Counted {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.entry(session.to_owned()).or_insert_with(|| watch::Sender::new(0)).send_modify(|count| *count += 1);
        Counted { owner: self.clone(), session: session.to_owned() }
    }
}

struct Counted {
    owner: Resumed,
    session: String,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut sessions = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = sessions.get(&self.session) {
            count.send_modify(|count| *count = count.saturating_sub(1));
            if *count.borrow() == 0 && count.receiver_count() == 0 {
                sessions.remove(&self.session);
            }
        }
    }
}

pin_project! {
    /// A body that tells when it is dropped before its end.
    struct Guarded<B> {
        #[pin]
        inner: B,
        gone: Option<CancellationToken>,
        counted: Option<Counted>,
    }

    impl<B> PinnedDrop for Guarded<B> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(gone) = this.project().gone.take() {
                gone.cancel();
            }
        }
    }
}

impl<B: HttpBody> HttpBody for Guarded<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.inner.poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            // Read to the end: nobody went away.
            *this.gone = None;
            *this.counted = None;
        }
        polled
    }
}

type Pending = Pin<Box<dyn Future<Output = Response> + Send>>;

enum Stage {
    Silent(Pending, Envelope, Duration),
    Stream(BodyDataStream),
    End,
}

/// The layer.
pub(super) async fn guard(resumed: Resumed, pace: Pace, mut request: Request, next: Next) -> Response {
    let session = header(&request, "mcp-session-id");
    let returns = request.method() == http::Method::GET && request.headers().contains_key("last-event-id");
    let envelope = request.extensions().get::<Envelope>().cloned().unwrap_or_default();
    let gone = CancellationToken::new();
    request.extensions_mut().insert(Reader(gone.clone()));
    // A client that goes before there is a response drops this very future.
    let unanswered = gone.clone().drop_guard();
    let mut answer: Pending = Box::pin(next.run(request));
    let early = tokio::select! {
        response = &mut answer => Some(response),
        // Only a tool can be silent for long; what else is late keeps its status.
        () = tokio::time::sleep(pace.patience), if envelope.is_call() => None,
    };
    let gone = Some(unanswered.disarm());
    if let Some(response) = early {
        // Only a session that is there, and the caller's, can be come back to.
        let counted = session.filter(|_| returns && response.status().is_success()).map(|session| resumed.open(&session));
        return response.map(|inner| Body::new(Guarded { inner, gone, counted }));
    }
    let stages = futures::stream::unfold(Stage::Silent(answer, envelope, pace.comment), step);
    let inner = Body::from_stream(stages);
    let mut response = Response::new(Body::new(Guarded { inner, gone, counted: None }));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn step(stage: Stage) -> Option<(Result<Bytes, axum::Error>, Stage)> {
    const NOTHING: Bytes = Bytes::from_static(b":\n\n");
    match stage {
        Stage::Silent(mut answer, envelope, comment) => tokio::select! {
            response = &mut answer => {
                if is_stream(&response) {
                    return Some((Ok(NOTHING), Stage::Stream(response.into_body().into_data_stream())));
                }
                // The status is gone, so that what is left must be a message of the protocol.
                let response = refusals::explained(response, &envelope).await;
                let body = to_bytes(response.into_body(), LARGEST).await.unwrap_or_default();
                let event = if body.is_empty() { NOTHING } else { Bytes::from([b"data: ", body.as_ref(), b"\n\n"].concat()) };
                Some((Ok(event), Stage::End))
            }
            () = tokio::time::sleep(comment) => Some((Ok(NOTHING), Stage::Silent(answer, envelope, comment))),
        },
        Stage::Stream(mut stream) => stream.next().await.map(|item| (item, Stage::Stream(stream))),
        Stage::End => None,
    }
}

fn is_stream(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// A header as text.
pub(super) fn header(request: &Request, name: &str) -> Option<String> {
    request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::any;
    use tower::ServiceExt as _;

    fn app(resumed: &Resumed, handler: impl Fn(Request) -> Pending + Clone + Send + Sync + 'static) -> Router {
        let resumed = resumed.clone();
        let pace = Pace { patience: Duration::from_millis(5), comment: Duration::from_millis(20) };
        Router::new()
            .route("/", any(move |request: Request| handler(request)))
            .layer(axum::middleware::from_fn(move |request, next| guard(resumed.clone(), pace, request, next)))
    }

    fn post() -> Request {
        let mut request = Request::builder().method("POST").uri("/").body(Body::empty()).unwrap();
        request.extensions_mut().insert(Envelope { method: "tools/call".into(), id: Some("7".into()), ..Envelope::default() });
        request
    }

    fn silent(
        response: impl Fn() -> Response + Clone + Send + Sync + 'static,
    ) -> impl Fn(Request) -> Pending + Clone + Send + Sync + 'static {
        move |_| {
            let response = response.clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                response()
            })
        }
    }

    #[tokio::test]
    async fn a_silent_handler_gets_headers_and_a_byte_at_once_and_comments_after() {
        let json = || Response::builder().header(CONTENT_TYPE, "application/json").body(Body::from("{}")).unwrap();
        let response = app(&Resumed::default(), silent(json)).oneshot(post()).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.starts_with(":\n\n:\n\n") && text.ends_with("data: {}\n\n"), "{text:?}");
    }

    #[tokio::test]
    async fn a_late_refusal_is_a_message_of_the_protocol() {
        let refused = || Response::builder().status(404).body(Body::from("Not Found: Session not found")).unwrap();
        let response = app(&Resumed::default(), silent(refused)).oneshot(post()).await.unwrap();
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let data = std::str::from_utf8(&body).unwrap().lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
        let message: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&message["id"], &message["error"]["code"]), (&serde_json::json!(7), &serde_json::json!(-32600)), "{data}");
    }

    #[tokio::test]
    async fn what_is_no_call_keeps_its_status_however_late_it_is() {
        let app = app(&Resumed::default(), silent(|| Response::builder().status(202).body(Body::empty()).unwrap()));
        let request = Request::builder().method("POST").uri("/").body(Body::empty()).unwrap();
        assert_eq!(app.oneshot(request).await.unwrap().status(), 202);
    }

    #[tokio::test]
    async fn a_client_that_goes_before_there_is_a_response_is_seen_too() {
        let (told, mut tell) = tokio::sync::mpsc::channel::<CancellationToken>(1);
        let app = app(&Resumed::default(), move |request| {
            let told = told.clone();
            Box::pin(async move {
                told.send(request.extensions().get::<Reader>().unwrap().0.clone()).await.unwrap();
                std::future::pending().await
            })
        });
        let request = Request::builder().method("POST").uri("/").body(Body::empty()).unwrap();
        let serving = tokio::spawn(app.oneshot(request));
        let gone = tell.recv().await.unwrap();
        assert!(!gone.is_cancelled());
        serving.abort();
        gone.cancelled().await;
    }

    #[tokio::test]
    async fn sessions_that_nobody_has_leave_nothing_behind() {
        let resumed = Resumed::default();
        let app = app(&resumed, |_| Box::pin(async { Response::builder().status(404).body(Body::empty()).unwrap() }));
        let count = resumed.watch("another's");
        for session in ["another's", "nobody's"] {
            let request =
                Request::builder().uri("/").header("mcp-session-id", session).header("last-event-id", "x-1").body(Body::empty()).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            assert_eq!(*count.borrow(), 0);
            drop(response);
        }
        drop(count);
        drop(resumed.open("s"));
        assert!(resumed.0.lock().unwrap().keys().all(|session| session == "another's"));
    }

    #[tokio::test]
    async fn a_quick_answer_keeps_its_status_and_form() {
        let app = app(&Resumed::default(), |_| Box::pin(async { Response::builder().status(404).body(Body::from("no")).unwrap() }));
        let response = app.oneshot(post()).await.unwrap();
        assert_eq!(response.status(), 404);
        assert_eq!(&to_bytes(response.into_body(), 10).await.unwrap()[..], b"no");
    }

    #[tokio::test]
    async fn the_handler_learns_that_nobody_reads_any_more() {
        let (told, mut tell) = tokio::sync::mpsc::channel::<CancellationToken>(1);
        let app = app(&Resumed::default(), move |request| {
            let told = told.clone();
            Box::pin(async move {
                told.send(request.extensions().get::<Reader>().unwrap().0.clone()).await.unwrap();
                std::future::pending().await
            })
        });
        let response = app.oneshot(post()).await.unwrap();
        let gone = tell.recv().await.unwrap();
        assert!(!gone.is_cancelled());
        drop(response);
        gone.cancelled().await;
    }

    #[tokio::test]
    async fn a_read_answer_is_not_taken_for_a_loss() {
        let (told, mut tell) = tokio::sync::mpsc::channel::<CancellationToken>(1);
        let app = app(&Resumed::default(), move |request| {
            let told = told.clone();
            Box::pin(async move {
                told.send(request.extensions().get::<Reader>().unwrap().0.clone()).await.unwrap();
                Response::new(Body::from("done"))
            })
        });
        let response = app.oneshot(post()).await.unwrap();
        to_bytes(response.into_body(), 10).await.unwrap();
        assert!(!tell.recv().await.unwrap().is_cancelled());
    }

    #[tokio::test]
    async fn a_stream_that_comes_back_is_counted_while_it_is_read() {
        let resumed = Resumed::default();
        let count = resumed.watch("s1");
        let app = app(&resumed, |_| {
            Box::pin(async { Response::new(Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>())) })
        });
        let request =
            Request::builder().uri("/").header("mcp-session-id", "s1").header("last-event-id", "x-1").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(*count.borrow(), 1);
        drop(response);
        assert_eq!(*count.borrow(), 0);
        let plain = Request::builder().uri("/").header("mcp-session-id", "s1").body(Body::empty()).unwrap();
        let _standalone = app.oneshot(plain).await.unwrap();
        assert_eq!(*count.borrow(), 0);
    }
}
