//! What surrounds a call on the wire: the response's headers and first byte leave at once, comments keep it alive, and the call
//! knows whether anybody still reads it.

use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
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
pub struct Pace {
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
pub struct Reader(pub CancellationToken);

/// The streams by which clients of the older revisions came back to a session.
#[derive(Clone, Default)]
pub struct Resumed(Arc<Mutex<HashMap<String, watch::Sender<usize>>>>);

impl Resumed {
    /// How many such streams of a session are open, and every change.
    pub fn watch(&self, session: &str) -> watch::Receiver<usize> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, count| *count.borrow() > 0 || count.receiver_count() > 0);
        sessions.entry(session.to_owned()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

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
        let sessions = self.owner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = sessions.get(&self.session) {
            count.send_modify(|count| *count = count.saturating_sub(1));
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
    Silent(Pending, Duration),
    Stream(BodyDataStream),
    End,
}

/// The layer.
pub async fn guard(resumed: Resumed, pace: Pace, mut request: Request, next: Next) -> Response {
    let session = header(&request, "mcp-session-id");
    let returns = request.method() == http::Method::GET && request.headers().contains_key("last-event-id");
    let counted = session.filter(|_| returns).map(|session| resumed.open(&session));
    let gone = CancellationToken::new();
    request.extensions_mut().insert(Reader(gone.clone()));
    let streams = request.method() == http::Method::POST;
    let mut answer: Pending = Box::pin(next.run(request));
    let early = tokio::select! {
        response = &mut answer => Some(response),
        () = tokio::time::sleep(pace.patience), if streams => None,
    };
    if let Some(response) = early {
        return response.map(|inner| Body::new(Guarded { inner, gone: Some(gone), counted }));
    }
    let stages = futures::stream::unfold(Stage::Silent(answer, pace.comment), step);
    let inner = Body::from_stream(stages);
    let mut response = Response::new(Body::new(Guarded { inner, gone: Some(gone), counted }));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn step(stage: Stage) -> Option<(Result<Bytes, axum::Error>, Stage)> {
    const NOTHING: Bytes = Bytes::from_static(b":\n\n");
    match stage {
        Stage::Silent(mut answer, comment) => tokio::select! {
            response = &mut answer => {
                if is_stream(&response) {
                    return Some((Ok(NOTHING), Stage::Stream(response.into_body().into_data_stream())));
                }
                let empty = response.status() == StatusCode::ACCEPTED;
                let body = to_bytes(response.into_body(), LARGEST).await.unwrap_or_default();
                let event = if empty || body.is_empty() { NOTHING } else { Bytes::from([b"data: ", body.as_ref(), b"\n\n"].concat()) };
                Some((Ok(event), Stage::End))
            }
            () = tokio::time::sleep(comment) => Some((Ok(NOTHING), Stage::Silent(answer, comment))),
        },
        Stage::Stream(mut stream) => stream.next().await.map(|item| (item, Stage::Stream(stream))),
        Stage::End => None,
    }
}

fn is_stream(response: &Response) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// A header as text.
pub fn header(request: &Request, name: &str) -> Option<String> {
    request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
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
        Request::builder().method("POST").uri("/").body(Body::empty()).unwrap()
    }

    #[tokio::test]
    async fn a_silent_handler_gets_headers_and_a_byte_at_once_and_comments_after() {
        let app = app(&Resumed::default(), |_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Response::new(Body::from("{}"))
            })
        });
        let response = app.oneshot(post()).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.starts_with(":\n\n:\n\n") && text.ends_with("data: {}\n\n"), "{text:?}");
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
