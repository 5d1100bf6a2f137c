//! Accepts the connections of the service port. None is held for a peer that says nothing, or that is not there any more: a
//! client that vanished without a word must be seen as gone, since a request waits only for so long for it to come back.

use crate::runtime::tasks::Tasks;
use axum::Router;
use axum::body::Body;
use axum::middleware::{self, Next};
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use nix::sys::socket::{setsockopt, sockopt};
use pin_project_lite::pin_project;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceExt as _;

/// What a peer has to keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A request's head must arrive within this, and so must the next one: longer than proxies keep idle connections.
    pub head: Duration,
    /// A peer that acknowledges nothing for this long is gone.
    pub gone: Duration,
    /// Once the last call of before a stop has its answer, its client gets this long for what the answer makes it ask.
    pub after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(75), gone: Duration::from_mins(1), after: Duration::from_secs(2) }
    }
}

/// After a failed accept, which is the lack of file descriptors mostly.
const PAUSE: Duration = Duration::from_millis(200);
/// More than the open requests of an installation, on one connection of a proxy.
const STREAMS: u32 = 1024;
/// What tells HTTP/2 from HTTP/1.1.
const PREFACE: usize = 24;

/// Serves until the token is cancelled, and then until the running calls have ended. Meanwhile who asks more is still answered, and
/// new connections are let in, for one call each: a client looks an answer up in the list of tools, which it may have to ask for
/// on the connection that the answer came on, and who balances calls learns of a stop a moment late. Connections run among `tasks`.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, tasks: &Tasks, stop: CancellationToken) {
    let (calls, connections, end) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
    let running = calls.clone();
    let router = router.layer(middleware::from_fn(move |request, next| counted(running.token(), request, next)));
    let serve = |stream, keep| {
        let connection = connection(stream, router.clone(), limits, tasks.clone(), keep, end.clone());
        tasks.spawn("a connection", connections.track_future(connection));
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept(&listener, |stream| serve(stream, true)) => {}
    }
    calls.close();
    let ending = async {
        calls.wait().await;
        tokio::time::sleep(limits.after).await;
    };
    tokio::select! {
        () = ending => {}
        () = accept(&listener, |stream| serve(stream, false)) => {}
    }
    drop(listener);
    end.cancel();
    connections.close();
    connections.wait().await;
}

/// Counts a call until its response was read to the end, or is given up.
async fn counted(token: TaskTrackerToken, request: Request<Body>, next: Next) -> Response {
    next.run(request).await.map(|inner| Body::new(Counted { inner, _token: token }))
}

pin_project! {
    /// The body of a call that is counted.
    struct Counted {
        #[pin]
        inner: Body,
        _token: TaskTrackerToken,
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Accepts without end.
async fn accept(listener: &TcpListener, mut take: impl FnMut(TcpStream)) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => take(stream),
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection until the peer closes it, or the token is cancelled and the running call has ended. Without `keep` it
/// ends with its first call.
async fn connection(stream: TcpStream, router: Router, limits: Limits, tasks: Tasks, keep: bool, stop: CancellationToken) {
    if let Err(error) = prepare(&stream, limits) {
        tracing::debug!(%error, "a connection could not be set up");
    }
    let mut builder = auto::Builder::new(tasks);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head).keep_alive(keep);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(limits.gone / 3).keep_alive_timeout(limits.gone / 3);
    // WebSockets over HTTP/2 begin with it.
    builder.http2().max_concurrent_streams(STREAMS).enable_connect_protocol();
    let io = TokioIo::new(Begins { stream, read: 0, within: Box::pin(tokio::time::sleep(limits.head)) });
    let service = TowerToHyperService::new(router.map_request(|request: Request<Incoming>| request.map(Body::new)));
    let mut serving = std::pin::pin!(builder.serve_connection_with_upgrades(io, service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended");
    }
}

/// Small messages leave at once, and a peer that is gone is noticed.
fn prepare(stream: &TcpStream, limits: Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let seconds = u32::try_from(limits.gone.as_secs() / 3).unwrap_or(u32::MAX).max(1);
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &seconds)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &seconds)?;
    setsockopt(stream, sockopt::TcpKeepCount, &2)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &u32::try_from(limits.gone.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// A stream whose first bytes must come in time: before them there is no protocol yet that could have a limit.
struct Begins {
    stream: TcpStream,
    read: usize,
    within: Pin<Box<Sleep>>,
}

impl AsyncRead for Begins {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read = self.read.saturating_add(buffer.filled().len() - before);
        if polled.is_pending() && self.read < PREFACE && self.within.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Begins {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const WITHIN: Duration = Duration::from_secs(20);

    async fn start(head: Duration) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let slow = get(|| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            "done"
        });
        let router = Router::new().route("/", get(|| async { "hello" })).route("/slow", slow);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let limits = Limits { head, after: Duration::from_millis(500), ..Limits::default() };
        let ended = stop.clone();
        let serving = tokio::spawn(async move { serve(listener, router, limits, &Tasks::default(), ended).await });
        (address, stop, serving)
    }

    async fn all_of(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        tokio::time::timeout(WITHIN, stream.read_to_string(&mut text)).await.expect("the server ends it in time").unwrap();
        text
    }

    #[tokio::test]
    async fn who_does_not_finish_a_head_is_let_go() {
        let (address, _stop, _) = start(Duration::from_millis(200)).await;
        for begun in [&b""[..], b"P", b"POST /", b"POST / HTTP/1.1\r\nhost: localhost\r\n", b"PRI * HTTP/2.0\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            let said = all_of(&mut stream).await;
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{begun:?}: {said}");
        }
    }

    #[tokio::test]
    async fn a_slow_answer_outlives_the_limit_of_the_head() {
        let (address, _stop, _) = start(Duration::from_millis(200)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(all_of(&mut stream).await.ends_with("done"));
    }

    /// A connection whose slow call runs, and one that was answered. They are taken in turn: once this has its answer, that runs.
    async fn slow_and_idle(address: SocketAddr) -> (TcpStream, TcpStream) {
        let mut running = TcpStream::connect(address).await.unwrap();
        running.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        idle.read_exact(&mut [0; 12]).await.unwrap();
        (running, idle)
    }

    /// Reads the slow answer, and no further.
    async fn done(stream: &mut TcpStream) {
        let mut answer = String::new();
        while !answer.ends_with("done") {
            let byte = tokio::time::timeout(WITHIN, stream.read_u8()).await.expect("the answer in time").expect("no end before it");
            answer.push(char::from(byte));
        }
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.expect("who comes late is let in");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        all_of(&mut stream).await
    }

    #[tokio::test]
    async fn a_stop_lets_running_calls_end() {
        let (address, stop, serving) = start(Duration::from_mins(1)).await;
        let (mut running, mut idle) = slow_and_idle(address).await;
        stop.cancel();
        all_of(&mut idle).await;
        assert!(all_of(&mut running).await.ends_with("done"));
        tokio::time::timeout(WITHIN, serving).await.expect("an end").unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn who_learns_of_a_stop_by_an_answer_can_still_ask_about_it() {
        let (address, stop, serving) = start(Duration::from_mins(1)).await;
        let (mut running, _idle) = slow_and_idle(address).await;
        stop.cancel();
        assert!(ask(address).await.ends_with("hello"), "while a call is running");
        let mut silent = TcpStream::connect(address).await.expect("who says nothing is let in, but holds nothing up");
        done(&mut running).await;
        assert!(ask(address).await.ends_with("hello"), "after the last answer");
        tokio::time::timeout(WITHIN, serving).await.expect("an end").unwrap();
        all_of(&mut silent).await;
        assert!(TcpStream::connect(address).await.is_err());
    }

    /// A client that sends its next call on the connection of the answer does so before it can know that this would be closed.
    #[tokio::test]
    async fn the_connection_of_a_last_answer_takes_one_more_call() {
        let (address, stop, serving) = start(Duration::from_mins(1)).await;
        let (mut stream, _idle) = slow_and_idle(address).await;
        stop.cancel();
        done(&mut stream).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        assert!(all_of(&mut stream).await.ends_with("hello"));
        tokio::time::timeout(WITHIN, serving).await.expect("an end").unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed_by_the_system() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (stream, _) = accepted.unwrap();
        prepare(&stream, Limits::default()).unwrap();
        assert_eq!(nix::sys::socket::getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(), 60_000);
        assert!(nix::sys::socket::getsockopt(&stream, sockopt::KeepAlive).unwrap());
        assert!(stream.nodelay().unwrap());
    }
}
