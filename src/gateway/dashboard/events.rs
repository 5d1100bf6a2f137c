//! The live feed: what changed, as rendered rows, to whoever may see it. A feed begins with all there is, so that one that
//! broke and came back has missed nothing.

use super::attention::{self, Item, Reader};
use super::handlers::{Visitor, session_of};
use super::model::{self, Request};
use super::rights::{self, Seer};
use super::{Site, sessions};
use crate::api::v1alpha1::AttentionRequest;
use crate::gateway::auth::AccessUnknown;
use crate::gateway::hub::Key;
use crate::gateway::rest::Problem;
use crate::runtime::clock;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, StatusCode};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc;

/// Events that a slow page has not taken; then the feed waits for it.
const WAITING: usize = 64;
/// What settled so long ago is told again to a page that comes back: its rows say how they ended.
const RECENT: SignedDuration = SignedDuration::from_mins(30);
/// The most of those.
const RECENT_MOST: usize = 256;
/// How often a feed looks whether the mirror is current.
const LOOK: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What a page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum View {
    /// Rows of requests.
    Attention,
    /// Cards of sessions.
    Sessions,
    /// The number of open requests alone.
    #[default]
    Count,
}

/// The feed's query.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    view: View,
}

/// `GET /events?view=attention|sessions|count`.
pub(super) async fn feed(State(site): State<Site>, visitor: Option<Visitor>, Query(asked): Query<Asked>) -> Response {
    // No redirect: a feed is not a page.
    let Some(visitor) = visitor else {
        return Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "sign in").into_response();
    };
    if let Err(problem) = rights::ready(&site) {
        return problem.into_response();
    }
    let Ok(place) = std::sync::Arc::clone(&site.feeds).try_acquire_owned() else {
        return Problem::unavailable("this gateway feeds as many pages as it can: try again later").into_response();
    };
    let (to, from) = mpsc::channel(WAITING);
    let tasks = site.gateway.tasks.clone();
    tasks.spawn("a feed", async move {
        let (requests, sessions) = site.gateway.hub.subscribe();
        let left = visitor.visit.ends().duration_since(clock::now()).unsigned_abs();
        let feed = Feed {
            seer: Seer::new(&site, &visitor.who),
            site: site.clone(),
            view: asked.view,
            to,
            open: HashSet::new(),
            count: None,
            stale: false,
        };
        tokio::select! {
            _ = feed.run(requests, sessions) => {}
            () = site.gateway.stop.cancelled() => {}
            () = site.visits.over(&visitor.visit) => {}
            // The page comes back with the cookie that it has by then.
            () = tokio::time::sleep(left) => {}
        }
        drop(place);
    });
    let stream = futures::stream::unfold(from, |mut from| async move { from.recv().await.map(|event| (Ok::<_, Infallible>(event), from)) });
    let sse = Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response()
}

struct Feed {
    site: Site,
    seer: Seer,
    view: View,
    to: mpsc::Sender<Event>,
    /// The open requests that the page knows of, so that a new one is announced once.
    open: HashSet<Key>,
    count: Option<usize>,
    /// Whether the page was told that what it shows may be old.
    stale: bool,
}

/// The page is gone, or a right could not be checked: the page comes back by itself.
enum Over {
    Gone,
    Unknown,
}

impl From<AccessUnknown> for Over {
    fn from(_: AccessUnknown) -> Self {
        Self::Unknown
    }
}

impl Feed {
    async fn run(mut self, mut requests: Receiver<Key>, mut sessions: Receiver<Key>) -> Result<Infallible, Over> {
        self.all().await?;
        let mut look = tokio::time::interval(LOOK);
        loop {
            let (keys, of_sessions) = tokio::select! {
                () = self.to.closed() => return Err(Over::Gone),
                _ = look.tick() => {
                    self.current().await?;
                    continue;
                }
                first = requests.recv() => (drain(first, &mut requests), false),
                first = sessions.recv() => (drain(first, &mut sessions), true),
            };
            match keys {
                // Behind by too much to tell what changed.
                None => self.all().await?,
                Some(keys) if of_sessions && self.view == View::Sessions => {
                    for key in keys {
                        self.session(&key).await?;
                    }
                }
                Some(keys) if !of_sessions => {
                    for key in keys {
                        self.asked(&key).await?;
                        if self.view == View::Attention {
                            self.request(&key).await?;
                        }
                    }
                    self.counted().await?;
                }
                Some(_) => {}
            }
        }
    }

    /// Everything there is, and then that it is everything.
    async fn all(&mut self) -> Result<(), Over> {
        let now = clock::now();
        self.send("hello", &json!({"now": now.as_millisecond()})).await?;
        let mut open: Vec<Key> = Vec::new();
        let mut settled: Vec<(Timestamp, Key)> = Vec::new();
        self.open.clear();
        for object in self.site.gateway.hub.requests.all() {
            let (view, key) = (Request::of(&object), key(&object));
            if let Some(end) = view.settled {
                settled.extend(end.at.filter(|at| now.duration_since(*at) < RECENT).map(|at| (at, key)));
                continue;
            }
            if view.taken_in {
                self.open.insert(key.clone());
            }
            open.push(key);
        }
        match self.view {
            View::Attention => {
                settled.sort_unstable_by(|a, b| b.cmp(a));
                settled.truncate(RECENT_MOST);
                for key in open.iter().chain(settled.iter().map(|(_, key)| key)) {
                    self.request(key).await?;
                }
            }
            View::Sessions => {
                for object in self.site.gateway.hub.sessions.all() {
                    self.session(&(object.namespace().unwrap_or_default(), object.name_any())).await?;
                }
            }
            View::Count => {}
        }
        self.count = None;
        self.counted().await?;
        self.send("synced", &json!({"open": self.count.unwrap_or_default()})).await
    }

    /// Announces a request that is open for the first time, on whatever page the person is.
    async fn asked(&mut self, key: &Key) -> Result<(), Over> {
        let (namespace, name) = key;
        let object = self.site.gateway.hub.requests.get(namespace, name);
        let Some(view) = object.map(|object| Request::of(&object)).filter(|view| view.taken_in && view.is_open()) else {
            self.open.remove(key);
            return Ok(());
        };
        if !self.open.insert(key.clone()) || !self.seer.may_list("attentionrequests", namespace).await? {
            return Ok(());
        }
        self.send("asked", &json!({"key": view.key(), "title": view.title})).await
    }

    async fn request(&mut self, (namespace, name): &Key) -> Result<(), Over> {
        if !self.seer.may_list("attentionrequests", namespace).await? {
            return Ok(());
        }
        let named = format!("{namespace}/{name}");
        let Some(object) = self.site.gateway.hub.requests.get(namespace, name) else {
            return self.send("gone", &json!({"key": named})).await;
        };
        let session = session_of(&self.site, &object);
        let item = Item { object: &object, view: Request::of(&object), session: session.as_deref() };
        let (open, version) = (item.view.is_open(), item.view.version.clone());
        let may = self.seer.may("resolve", "attentionrequests", namespace).await?;
        let html = attention::row(&item, Reader { me: self.seer.who(), may }, clock::now()).into_string();
        self.send("attention", &json!({"key": named, "html": html, "open": open, "version": version})).await
    }

    async fn session(&mut self, (namespace, name): &Key) -> Result<(), Over> {
        if !self.seer.may_list("browsersessions", namespace).await? {
            return Ok(());
        }
        let named = format!("{namespace}/{name}");
        let Some(session) = self.site.gateway.hub.sessions.get(namespace, name) else {
            return self.send("gone", &json!({"key": named})).await;
        };
        let html = sessions::card(&session, clock::now()).into_string();
        let version = session.resource_version();
        self.send("session", &json!({"key": named, "html": html, "ended": model::session_ended(&session), "version": version})).await
    }

    /// Tells the page when the mirror can no longer be trusted, and when it can be again.
    async fn current(&mut self) -> Result<(), Over> {
        let stale = !self.site.gateway.hub.stale().is_empty();
        if stale == self.stale {
            return Ok(());
        }
        self.stale = stale;
        self.send("stale", &json!({"stale": stale})).await
    }

    async fn counted(&mut self) -> Result<(), Over> {
        let seen = self.seer.requests(self.site.gateway.hub.requests.all()).await?;
        let open = seen.iter().filter(|object| Request::of(object).is_open()).count();
        if self.count == Some(open) {
            return Ok(());
        }
        self.count = Some(open);
        self.send("count", &json!({"open": open})).await
    }

    async fn send(&self, name: &str, data: &Value) -> Result<(), Over> {
        self.to.send(Event::default().event(name).data(data.to_string())).await.map_err(|_| Over::Gone)
    }
}

fn key(object: &AttentionRequest) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The keys that changed, each once. `None`: too many were missed.
fn drain(first: Result<Key, RecvError>, from: &mut Receiver<Key>) -> Option<HashSet<Key>> {
    let mut keys = HashSet::from([first.ok()?]);
    loop {
        match from.try_recv() {
            Ok(key) => drop(keys.insert(key)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(keys),
            Err(TryRecvError::Lagged(_)) => return None,
        }
    }
}
