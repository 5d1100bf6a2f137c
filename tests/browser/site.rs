//! A web site of the test: pages by path, and what they tell back, in order.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::post;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What every page starts with: `say` tells the test, in order; `sayNow` before it goes on. `hang` never returns, and leaves the
/// processors to others.
const SAY: &str = "<!doctype html><meta charset=utf-8><script>
let chain = Promise.resolve();
const say = (text) => { chain = chain.then(() => fetch('/log', { method: 'POST', body: String(text) })).catch(() => {}); };
const sayNow = (text) => { const r = new XMLHttpRequest(); r.open('POST', '/log', false); r.send(String(text)); };
const hang = () => { const r = new XMLHttpRequest(); r.open('GET', '/never', false); r.send(); };
if (location.hash === '#framed') addEventListener('mousemove', () => say('hears'), { once: true });
</script>";

pub struct Site {
    address: String,
    log: watch::Sender<Vec<String>>,
}

#[derive(Clone)]
struct Shared {
    pages: Arc<HashMap<&'static str, String>>,
    log: watch::Sender<Vec<String>>,
}

impl Site {
    pub async fn start(pages: &[(&'static str, &str)]) -> Self {
        let pages = pages.iter().map(|(path, body)| (*path, format!("{SAY}{body}"))).collect();
        let log = watch::Sender::new(Vec::new());
        let shared = Shared { pages: Arc::new(pages), log: log.clone() };
        let router = Router::new().route("/log", post(told)).fallback(page).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, log }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// The same place under a name that Chromium takes for another site.
    pub fn other_site(&self, path: &str) -> String {
        self.url(path).replace("127.0.0.1", "localhost")
    }

    /// A page of another site that shows one of these in a frame at its upper left.
    pub async fn framed(&self, path: &str, (width, height): (u16, u16)) -> Self {
        let url = self.other_site(path);
        let frame =
            format!("<body style='margin:0'><iframe src='{url}#framed' style='border:0;width:{width}px;height:{height}px'></iframe>");
        Self::start(&[("/", &frame)]).await
    }

    pub fn told(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    pub fn forget(&self) {
        self.log.send_replace(Vec::new());
    }

    /// Waits until the pages have told something.
    pub async fn until(&self, what: &str, wanted: impl Fn(&[String]) -> bool) {
        let mut log = self.log.subscribe();
        assert!(
            tokio::time::timeout(crate::harness::SOON, log.wait_for(|told| wanted(told))).await.is_ok(),
            "{what}: the pages told {:?}",
            self.told()
        );
    }

    /// Whether the pages tell this in time.
    pub async fn tells(&self, wanted: &str, within: Duration) -> bool {
        let mut log = self.log.subscribe();
        tokio::time::timeout(within, log.wait_for(|told| told.iter().any(|text| text == wanted))).await.is_ok()
    }

    /// Waits until the pages have told this.
    pub async fn told_that(&self, wanted: &str) {
        self.until(wanted, |told| told.iter().any(|text| text == wanted)).await;
    }
}

async fn told(State(shared): State<Shared>, body: String) -> StatusCode {
    shared.log.send_modify(|log| log.push(body));
    StatusCode::NO_CONTENT
}

async fn page(State(shared): State<Shared>, uri: Uri) -> Response {
    match shared.pages.get(uri.path()) {
        _ if uri.path() == "/never" => std::future::pending().await,
        _ if uri.path() == "/download" => ([(header::CONTENT_DISPOSITION, "attachment; filename=x.bin")], vec![0_u8; 64]).into_response(),
        _ if uri.path() == "/program" => (StatusCode::FOUND, [(header::LOCATION, "zoommtg://x")]).into_response(),
        Some(body) => Html(body.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
