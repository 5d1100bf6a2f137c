//! A client whose calls end, and whose watches show that they go on.

use http::{Request, Response};
use kube::api::ListParams;
use kube::client::{Body, ClientBuilder};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;
use tower::{Layer, Service};

/// The longest that one call may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// How many objects one page of a list has.
const PAGE: u32 = 500;
/// More pages than any API server can hold objects for.
const MOST_PAGES: usize = 2000;

/// A call that failed or took too long.
#[derive(Debug, Error)]
pub enum CallError {
    /// The API server refused it, or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// No reply in time.
    #[error("the API server did not reply within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    /// A list that goes on and on.
    #[error("the API server's list has no end: gave up after {} pages", MOST_PAGES)]
    Endless,
}

impl CallError {
    /// The API server's refusal.
    #[must_use]
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status),
            Self::Kube(_) | Self::Timeout | Self::Endless => None,
        }
    }

    /// Somebody else wrote first, or the object is another one than was seen.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }

    /// There is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    /// There is such an object already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }
}

/// Waits for a call, but not for ever.
///
/// # Errors
/// When it fails or takes longer than [`CALL_TIMEOUT`].
pub async fn call<T>(what: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(CALL_TIMEOUT, what).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(CallError::Timeout),
    }
}

/// Lists by a field of the kind, and keeps of each object what `keep` says. Selectable fields are served from 1.32 on: an older
/// server answers 400, and is asked for everything, so `keep` has to look at the field too.
///
/// # Errors
/// As [`call`], and when the list has no end.
pub async fn list_by_field<K, T>(api: &Api<K>, field: &str, value: &str, keep: impl Fn(&K) -> Option<T>) -> Result<Vec<T>, CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    match pages(api, ListParams::default().fields(&format!("{field}={}", escaped(value))), &keep).await {
        Err(CallError::Kube(kube::Error::Api(status))) if status.code == 400 => pages(api, ListParams::default(), &keep).await,
        found => found,
    }
}

/// A value in a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Lists page by page, so that neither a call nor this process has to carry a long history.
async fn pages<K, T>(api: &Api<K>, params: ListParams, keep: &impl Fn(&K) -> Option<T>) -> Result<Vec<T>, CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut kept = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = call(api.list(&params)).await?;
        kept.extend(page.items.iter().filter_map(keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(kept),
        }
    }
    Err(CallError::Endless)
}

/// A connection on which nothing comes for this long is dead. Watches, on which nothing may happen for long, are ended by the
/// API server before that.
pub const SILENCE: Duration = Duration::from_secs(super::watch::TIMEOUT_SECONDS as u64 + 30);

/// A client of the configured API server.
///
/// # Errors
/// When the configuration can't be used.
pub fn connect(config: Config, progress: &WatchProgress) -> kube::Result<Client> {
    Ok(ClientBuilder::try_from(bounded(config, SILENCE))?.with_layer(progress).build())
}

/// The same configuration, with connections that end when nothing comes for `silence`, and calls that are tried once. Calls have
/// an end of their own; the lists and the openings of watches, which kube makes by itself, would otherwise wait for ever at a
/// server that went silent. And whoever calls tries again in its own time: kube would do so 15 times with pauses that double,
/// so that a watch that was refused by a busy server stays away for minutes after the server is well.
#[must_use]
pub fn bounded(mut config: Config, silence: Duration) -> Config {
    config.read_timeout = Some(silence);
    // The time counts from a request, not from when its connection was last used.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    config
}

/// When each watch was last opened. A watch is opened anew after its timeout at the latest, so one that is not is dead.
#[derive(Clone, Debug, Default)]
pub struct WatchProgress(Arc<Mutex<BTreeMap<String, Instant>>>);

impl WatchProgress {
    fn seen(&self, watch: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(watch, Instant::now());
    }

    /// When a watch was last opened: the path that it watches, and its label selector after a space if it has one.
    #[must_use]
    pub fn opened(&self, watch: &str) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(watch).copied()
    }

    /// The watch that has made no progress for the longest time, and for how long.
    #[must_use]
    pub fn oldest(&self) -> Option<(String, Duration)> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().min_by_key(|(_, at)| **at).map(|(watch, at)| (watch.clone(), at.elapsed()))
    }
}

impl<S> Layer<S> for WatchProgress {
    type Service = WatchProgressService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WatchProgressService { inner, progress: self.clone() }
    }
}

/// Notes the successful opening of watches.
#[derive(Clone, Debug)]
pub struct WatchProgressService<S> {
    inner: S,
    progress: WatchProgress,
}

impl<S, B> Service<Request<Body>> for WatchProgressService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watch = watched(request.uri());
        let progress = self.progress.clone();
        let reply = self.inner.call(request);
        Box::pin(async move {
            let response = reply.await?;
            if let Some(watch) = watch.filter(|_| response.status().is_success()) {
                progress.seen(watch);
            }
            Ok(response)
        })
    }
}

/// The resource and selector that a request watches.
fn watched(uri: &http::Uri) -> Option<String> {
    let query = uri.query()?;
    let parts = || query.split('&');
    if !parts().any(|part| part == "watch=true") {
        return None;
    }
    let selector = parts().find_map(|part| part.strip_prefix("labelSelector=")).unwrap_or_default();
    Some(format!("{} {selector}", uri.path()).trim_end().to_owned())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::api::ObjectList;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    /// A server that says `words` to each connection, and then nothing more for ever.
    async fn silent(words: &'static [u8]) -> http::Uri {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                assert_ne!(socket.read(&mut [0; 1024]).await.expect("a request"), 0);
                socket.write_all(words).await.expect("a client");
                kept.push(socket);
            }
        });
        format!("http://{address}").parse().expect("an address")
    }

    #[tokio::test]
    async fn nothing_waits_for_ever_at_a_server_that_went_silent() {
        for words in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{\"items\":["] {
            assert!(list(silent(words).await).await.is_err(), "{words:?}");
        }
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_by_whoever_calls() {
        let busy = silent(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy").await;
        let Err(kube::Error::Api(status)) = list(busy).await else { panic!("it is told") };
        assert_eq!(status.code, 503);
    }

    async fn list(server: http::Uri) -> kube::Result<ObjectList<ConfigMap>> {
        let client = Client::try_from(bounded(Config::new(server), Duration::from_millis(200))).expect("a client");
        let api = Api::<ConfigMap>::default_namespaced(client);
        timeout(Duration::from_secs(20), api.list(&ListParams::default())).await.expect("it ends soon")
    }

    /// Knows no field selectors, and has this many pages of one object each; what is asked of it is counted.
    fn old_server(pages: usize, asked: Arc<AtomicUsize>) -> Client {
        let answer = move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let page: usize = query.split('&').find_map(|part| part.strip_prefix("continue=")).map_or(1, |n| n.parse().expect("a page"));
            let (code, body) = if query.contains("fieldSelector=") {
                (
                    400,
                    json!({"kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400, "message": "field label not supported"}),
                )
            } else {
                asked.fetch_add(1, Ordering::SeqCst);
                let next = if page < pages { (page + 1).to_string() } else { String::new() };
                let item = json!({"metadata": {"name": format!("c-{page}")}, "data": {"kept": page.is_multiple_of(2).to_string()}});
                (200, json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": next}, "items": [item]}))
            };
            std::future::ready(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_long_history_on_an_old_server_is_read_page_by_page_and_to_an_end() {
        let keep = |map: &ConfigMap| (map.data.as_ref()?.get("kept")? == "true").then(|| map.name_any());
        let asked = Arc::new(AtomicUsize::new(0));
        let api = Api::<ConfigMap>::default_namespaced(old_server(5, asked.clone()));
        assert_eq!(list_by_field(&api, "data.kept", "true", keep).await.expect("a list"), ["c-2", "c-4"]);
        assert_eq!(asked.swap(0, Ordering::SeqCst), 5);
        let api = Api::<ConfigMap>::default_namespaced(old_server(usize::MAX, asked.clone()));
        assert!(matches!(list_by_field(&api, "data.kept", "true", keep).await, Err(CallError::Endless)));
        assert_eq!(asked.load(Ordering::SeqCst), MOST_PAGES);
    }

    #[test]
    fn a_value_is_one_value_in_a_selector() {
        assert_eq!(escaped(r"cn=ann,ou=a\b"), r"cn\=ann\,ou\=a\\b");
    }

    #[test]
    fn only_watches_count() {
        for (uri, want) in [
            ("/api/v1/pods?watch=true&timeoutSeconds=60", Some("/api/v1/pods")),
            ("/api/v1/pods?&watch=true&labelSelector=a%3Db", Some("/api/v1/pods a%3Db")),
            ("/api/v1/pods?limit=500", None),
            ("/api/v1/pods", None),
        ] {
            assert_eq!(watched(&uri.parse().expect("a uri")).as_deref(), want, "{uri}");
        }
    }
}
