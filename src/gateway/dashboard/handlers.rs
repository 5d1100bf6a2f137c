//! The pages' handlers: read, check, render.

use super::attention::{self, Item, Reader, Sought};
use super::cookie::Visit;
use super::layout::{self, Frame, Page, Place};
use super::model::{self, Request};
use super::rights::Seer;
use super::{Site, help, request, rights, sessions};
use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use crate::gateway::auth::Principal;
use crate::gateway::live::control;
use crate::gateway::rest::{self, Problem};
use crate::runtime::clock;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path, Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::StatusCode;
use http::request::Parts;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// The most rows of History.
const HISTORY: usize = 500;

/// A person with a cookie; everybody else is sent to the door.
pub(super) struct Visitor {
    /// Who.
    pub who: Arc<Principal>,
    /// Their visit.
    pub visit: Visit,
}

impl FromRequestParts<Site> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Response> {
        if let Some(visit) = site.visit(&parts.headers, clock::now()) {
            return Ok(Self { who: Arc::new(visit.who.clone()), visit });
        }
        // A link on another site comes without the cookie, which is of this site alone. Asked again from here, it comes along.
        let from_elsewhere = parts.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
        let is_page = parts.headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
        if from_elsewhere && is_page {
            return Err(
                html! { (maud::DOCTYPE) html lang="en" { head { meta http-equiv="refresh" content="0"; title { "Beckon" } } body {} } }
                    .into_response(),
            );
        }
        let next: String = url::form_urlencoded::byte_serialize(parts.uri.path().as_bytes()).collect();
        Err(Redirect::to(&format!("/login?next={next}")).into_response())
    }
}

impl OptionalFromRequestParts<Site> for Visitor {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Option<Self>, Self::Rejection> {
        Ok(<Self as FromRequestParts<Site>>::from_request_parts(parts, site).await.ok())
    }
}

/// Asks for a part of a page alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    part: Option<String>,
}

/// A page that could not be made.
pub(super) struct Broken(Problem, String);

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Self(problem, String::new())
    }
}

impl From<crate::gateway::auth::AccessUnknown> for Broken {
    fn from(error: crate::gateway::auth::AccessUnknown) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let Self(problem, user) = self;
        let (title, sentence, to, way) = match problem.status {
            StatusCode::NOT_FOUND => (
                "This is gone",
                "There is no such request or session any more. Settled requests are kept until their time to live ends.",
                "/attention",
                "Open requests",
            ),
            StatusCode::FORBIDDEN => (
                "This is not yours to see",
                "Your account may not see requests and sessions of this namespace.",
                "/attention",
                "Open requests",
            ),
            _ => (
                "This can't be shown now",
                "The server is starting, or the API server did not answer. Nothing is lost: try again in a moment.",
                // The address of this very page.
                "",
                "Try again",
            ),
        };
        let frame = Frame { user, namespace: String::new(), open: 0, now: clock::now() };
        let page =
            Page { title, place: Place::Attention, script: "plain.js", wide: false, content: layout::dead_end(title, sentence, to, way) };
        (problem.status, layout::page(&frame, &page)).into_response()
    }
}

/// Every address that is none of ours.
pub(super) async fn nowhere(State(site): State<Site>, visitor: Option<Visitor>) -> Response {
    let sentence = "There is no page at this address.";
    let content = layout::dead_end("Nothing is here", sentence, "/attention", "Open requests");
    let page = match visitor {
        Some(visitor) => {
            let page = Page { title: "Nothing is here", place: Place::Nowhere, script: "plain.js", wide: false, content };
            layout::page(&frame(&site, &visitor, 0, clock::now()), &page)
        }
        None => layout::door("Nothing is here", &content),
    };
    (StatusCode::NOT_FOUND, page).into_response()
}

/// `GET /help`.
pub(super) async fn help(State(site): State<Site>, visitor: Visitor) -> Result<Markup, Broken> {
    let open = count(&site, &visitor).await?;
    let page = Page { title: "Help", place: Place::Help, script: "help.js", wide: false, content: help::page() };
    Ok(layout::page(&frame(&site, &visitor, open, clock::now()), &page))
}

/// `GET /attention`.
pub(super) async fn attention(State(site): State<Site>, visitor: Visitor) -> Result<Markup, Broken> {
    let now = clock::now();
    let all = rights::visible_requests(&site, &visitor.who).await?;
    let mut open: Vec<(Request, Arc<AttentionRequest>)> =
        all.into_iter().map(|object| (Request::of(&object), object)).filter(|(view, _)| view.is_open()).collect();
    open.sort_by(|(a, _), (b, _)| (a.urgency(), a.opened, &a.name).cmp(&(b.urgency(), b.opened, &b.name)));
    let sessions: Vec<_> = open.iter().map(|(_, object)| session_of(&site, object)).collect();
    let mut seer = Seer::new(&site, &visitor.who);
    let mut items = Vec::with_capacity(open.len());
    for ((view, object), session) in open.iter().zip(&sessions) {
        let may = seer.may("resolve", "attentionrequests", &view.namespace).await?;
        items.push((Item { object, view: view.clone(), session: session.as_deref() }, Reader { me: &visitor.who, may }));
    }
    let (script, content) = if items.is_empty() && rights::blind(&site, &visitor.who, "attentionrequests").await? {
        ("plain.js", not_yours(&site, &visitor, "attention requests"))
    } else {
        ("attention.js", attention::page(&items, now))
    };
    Ok(layout::page(
        &frame(&site, &visitor, items.len(), now),
        &Page { title: "Attention", place: Place::Attention, script, wide: false, content },
    ))
}

/// `GET /history`.
pub(super) async fn history(State(site): State<Site>, visitor: Visitor, Query(sought): Query<Sought>) -> Result<Markup, Broken> {
    let now = clock::now();
    let all = rights::visible_requests(&site, &visitor.who).await?;
    let (open, mut settled): (Vec<_>, Vec<_>) =
        all.into_iter().map(|object| (Request::of(&object), object)).partition(|(view, _)| view.is_open());
    let when = |view: &Request| view.settled.as_ref().and_then(|s| s.at).unwrap_or(view.opened);
    settled.sort_by(|(a, _), (b, _)| (when(b), &b.name).cmp(&(when(a), &a.name)));
    settled.retain(|(view, object)| sought.fits(view, object));
    let more = settled.len() > HISTORY;
    settled.truncate(HISTORY);
    let sessions: Vec<_> = settled.iter().map(|(_, object)| session_of(&site, object)).collect();
    let items: Vec<Item<'_>> = settled
        .iter()
        .zip(&sessions)
        .map(|((view, object), session)| Item { object, view: view.clone(), session: session.as_deref() })
        .collect();
    let content = if items.is_empty() && rights::blind(&site, &visitor.who, "attentionrequests").await? {
        not_yours(&site, &visitor, "attention requests")
    } else {
        attention::history(&items, more, &sought)
    };
    Ok(layout::page(
        &frame(&site, &visitor, open.len(), now),
        &Page { title: "History", place: Place::History, script: "plain.js", wide: false, content },
    ))
}

/// `GET /attention/{namespace}/{name}`.
pub(super) async fn request(
    State(site): State<Site>,
    visitor: Visitor,
    Path((namespace, name)): Path<(String, String)>,
    Query(part): Query<Part>,
) -> Result<Markup, Broken> {
    let now = clock::now();
    let user = visitor.who.username.clone();
    let broken = |problem: Problem| Broken(problem, user.clone());
    if !site.gateway.auth.may(&visitor.who, "get", "attentionrequests", &namespace, Some(&name)).await? {
        return Err(broken(Problem::from(StatusCode::FORBIDDEN)));
    }
    let object = match site.gateway.hub.requests.get(&namespace, &name) {
        Some(object) => object,
        None => rest::fetch(&site, &namespace, &name).await.map_err(broken)?,
    };
    let session = session_of(&site, &object);
    let item = Item { object: &object, view: Request::of(&object), session: session.as_deref() };
    let refused = match control::may_answer(&site, &visitor.who, &object).await {
        Ok(()) => None,
        Err(problem) if problem.status.is_server_error() => return Err(broken(problem)),
        // A request that is over or not taken in yet says nothing about the right.
        Err(problem) => (problem.status != StatusCode::CONFLICT).then_some(problem.detail),
    };
    let answer = refused.is_none();
    let (view, takeover) = match &session {
        Some(session) => {
            (control::may_view(&site, &visitor.who, session).await?, control::may_take_over(&site, &visitor.who, session).await?)
        }
        None => (false, false),
    };
    let may = request::May { answer, view, drive: answer || takeover };
    let all: Vec<(Request, Arc<AttentionRequest>)> = rights::visible_requests(&site, &visitor.who)
        .await?
        .into_iter()
        .map(|object| (Request::of(&object), object))
        .filter(|(view, _)| view.is_open())
        .collect();
    let of_it = |other: &AttentionRequest| match (&object.spec.session_ref, &other.spec.session_ref) {
        (Some(a), Some(b)) => a.name == b.name && (a.uid.is_none() || b.uid.is_none() || a.uid == b.uid),
        _ => false,
    };
    let mut others: Vec<Request> = all
        .iter()
        .filter(|(view, other)| view.namespace == namespace && view.name != name && of_it(other))
        .map(|(view, _)| view.clone())
        .collect();
    others.sort_by_key(Request::urgency);
    let next = all.iter().map(|(view, _)| view).filter(|view| view.name != name).min_by_key(|view| view.urgency());
    let cap = site.gateway.settings.attention_timeout;
    let latest = item.view.opened.saturating_add(cap).unwrap_or(item.view.opened);
    let title = if item.view.is_open() { "Open request" } else { "Settled request" };
    let around = request::Around { item, others: &others, next, me: &visitor.who, may, refused: refused.as_deref(), latest };
    if part.part.as_deref() == Some("side") {
        return Ok(request::side(&around, now));
    }
    let open = all.len();
    Ok(layout::page(
        &frame(&site, &visitor, open, now),
        &Page { title, place: Place::Attention, script: "request.js", wide: true, content: request::page(&around, now) },
    ))
}

/// `GET /sessions`.
pub(super) async fn sessions(State(site): State<Site>, visitor: Visitor) -> Result<Markup, Broken> {
    let now = clock::now();
    let mut all = rights::visible_sessions(&site, &visitor.who).await?;
    // Running ones first, the newest first.
    all.sort_by_key(|s| (model::session_ended(s), std::cmp::Reverse(s.creation_timestamp().map(|t| t.0)), s.name_any()));
    let (script, content) = if all.is_empty() && rights::blind(&site, &visitor.who, "browsersessions").await? {
        ("plain.js", not_yours(&site, &visitor, "browser sessions"))
    } else {
        ("sessions.js", sessions::page(&all.iter().map(Arc::as_ref).collect::<Vec<_>>(), now))
    };
    let open = count(&site, &visitor).await?;
    Ok(layout::page(&frame(&site, &visitor, open, now), &Page { title: "Sessions", place: Place::Sessions, script, wide: false, content }))
}

/// `GET /sessions/{namespace}/{name}`.
pub(super) async fn session(
    State(site): State<Site>,
    visitor: Visitor,
    Path((namespace, name)): Path<(String, String)>,
    Query(part): Query<Part>,
) -> Result<Response, Broken> {
    let now = clock::now();
    let who = &visitor.who;
    let user = who.username.clone();
    let broken = |problem: Problem| Broken(problem, user.clone());
    if !site.gateway.auth.may(who, "get", "browsersessions", &namespace, Some(&name)).await? {
        return Err(broken(Problem::from(StatusCode::FORBIDDEN)));
    }
    let session = rights::session(&site, &namespace, &name).map_err(broken)?;
    let may = sessions::May {
        view: control::may_view(&site, who, &session).await?,
        takeover: control::may_take_over(&site, who, &session).await?,
        close: rest::may_close(&site, who, &session).await?,
    };
    let all = rights::visible_requests(&site, who).await?;
    let open: Vec<(Request, Arc<AttentionRequest>)> =
        all.into_iter().map(|object| (Request::of(&object), object)).filter(|(view, _)| view.is_open()).collect();
    let mut open = open;
    open.sort_by_key(|(view, _)| view.urgency());
    let total = open.len();
    let items: Vec<Item<'_>> = open
        .iter()
        .filter(|(view, object)| view.namespace == namespace && object.spec.session_ref.as_ref().is_some_and(|named| named.name == name))
        .map(|(view, object)| Item { object, view: view.clone(), session: Some(&session) })
        .collect();
    if part.part.as_deref() == Some("side") {
        return Ok(Html(html! { (sessions::banner(&items)) (sessions::side(&session, may, now)) }.into_string()).into_response());
    }
    let page =
        Page { title: &name, place: Place::Sessions, script: "session.js", wide: true, content: sessions::one(&session, &items, may, now) };
    Ok(layout::page(&frame(&site, &visitor, total, now), &page).into_response())
}

/// For who may not see a list.
fn not_yours(site: &Site, visitor: &Visitor, what: &str) -> Markup {
    let (who, namespace) = (&visitor.who.username, &site.gateway.settings.namespace);
    let sentence = format!("{who} may not list {what} in namespace {namespace}: that takes a role such as beckon-viewer.");
    layout::dead_end("These are not yours to see", &sentence, "/help", "Help")
}

fn frame(site: &Site, visitor: &Visitor, open: usize, now: Timestamp) -> Frame {
    Frame { user: visitor.who.username.clone(), namespace: site.gateway.settings.namespace.clone(), open, now }
}

async fn count(site: &Site, visitor: &Visitor) -> Result<usize, Broken> {
    let all = rights::visible_requests(site, &visitor.who).await?;
    Ok(all.iter().filter(|object| Request::of(object).is_open()).count())
}

/// The session that a request is about, if it is still the same one.
pub(super) fn session_of(site: &Site, request: &AttentionRequest) -> Option<Arc<BrowserSession>> {
    let named = request.spec.session_ref.as_ref()?;
    let session = site.gateway.hub.sessions.get(&request.namespace()?, &named.name)?;
    (named.uid.is_none() || named.uid == session.metadata.uid).then_some(session)
}
