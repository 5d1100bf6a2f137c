//! Sessions: which browsers there are, and one of them.

use super::attention::{Item, time};
use super::icons;
use super::live::{self, Access};
use super::model;
use super::text::plain;
use crate::api::v1alpha1::BrowserSession;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use maud::{Markup, html};

/// The list's content.
pub(super) fn page(sessions: &[&BrowserSession], now: Timestamp) -> Markup {
    html! {
        div.head { h1 { "Sessions" } }
        div #empty .empty hidden[!sessions.is_empty()] {
            (icons::large_window())
            b { "No browser is running" }
            p { "An agent opens one with create_session." }
            a.button href="/attention" { "Open requests" }
        }
        ul #sessions .cards hidden[sessions.is_empty()] { @for session in sessions { (card(session, now)) } }
    }
}

/// One session in the list.
pub(super) fn card(session: &BrowserSession, now: Timestamp) -> Markup {
    let status = session.status.as_ref();
    let page = status.and_then(|s| s.page.as_ref());
    let namespace = session.namespace().unwrap_or_default();
    let name = session.name_any();
    let open = status.map_or(0, |s| s.open_requests.len());
    html! {
        li.card .settled[model::session_ended(session)] data-key=(format!("{namespace}/{name}")) data-version=(session.resource_version().unwrap_or_default()) {
            div.body {
                div.tags {
                    (state_tag(session))
                    @if open > 0 { span.tag.warn { (icons::hand()) (open) " open" } }
                    @if let Some(holder) = status.and_then(|s| s.control.as_ref()?.holder.as_deref()) { span.tag.other { bdi { (plain(holder)) } " is driving" } }
                }
                a.row-link href=(format!("/sessions/{namespace}/{name}")) { (name) }
                span.sub {
                    @match page.and_then(|p| p.origin.as_deref()) { Some(origin) => bdi { (plain(origin)) }, None => "no page yet" }
                }
                @if let Some(title) = page.and_then(|p| p.title.as_deref()).filter(|t| !t.is_empty()) { bdi.sub { (plain(title)) } }
                @if let Some(owner) = &session.spec.owner { span.sub { "of " bdi { (plain(&owner.username)) } } }
                span.sub { (idle(session, now)) }
            }
        }
    }
}

/// The state of a session, as word and colour.
pub(super) fn state_tag(session: &BrowserSession) -> Markup {
    let (word, look) = model::session_state(session);
    html! { span class={ "tag " (look) } { (word) } }
}

fn idle(session: &BrowserSession, now: Timestamp) -> Markup {
    let status = session.status.as_ref();
    let idle = status.and_then(|s| s.idle.as_ref());
    let paused = idle.is_some_and(|i| i.remaining_seconds.is_some());
    let open = status.map_or(0, |s| s.open_requests.len());
    html! {
        @if model::session_ended(session) {
            @if let Some(message) = status.and_then(|s| s.message.as_deref()) { (plain(message)) } @else { "over" }
        } @else if paused {
            "idle clock paused" @if open > 0 { ": " (open) " open" }
        } @else if let Some(deadline) = idle.and_then(|i| i.deadline.as_ref()) {
            "idle lease: " span data-until=(deadline.0.as_millisecond()) { (model::left(deadline.0, now)) }
        } @else { "starting" }
    }
}

/// What the person may do with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct May {
    /// Watch its page.
    pub view: bool,
    /// Drive it without a request, and resize it.
    pub takeover: bool,
    /// End it.
    pub close: bool,
}

/// A session's content.
pub(super) fn one(session: &BrowserSession, open: &[Item<'_>], may: May, now: Timestamp) -> Markup {
    let ended = model::session_ended(session);
    let access = match (ended, may.view) {
        (true, _) => Access::Ended(Some(session)),
        (_, false) => Access::Forbidden,
        _ => Access::View { session, take: may.takeover },
    };
    html! {
        (banner(open))
        div.request {
            (live::view(&access, &session.namespace().unwrap_or_default(), None, may.takeover))
            (side(session, may, now))
        }
    }
}

/// How many requests the banner names.
const BANNERS: usize = 3;

/// The requests that wait, on top of the session's page.
pub(super) fn banner(open: &[Item<'_>]) -> Markup {
    html! {
        div #banner role="region" aria-label="Open requests of this session" {
            @for item in open.iter().take(BANNERS) {
                p.banner data-request {
                    (icons::hand()) a dir="auto" href=(format!("/attention/{}/{}", item.view.namespace, item.view.name)) { (plain(&item.view.title)) }
                    @if let Some(deadline) = item.view.deadline { span data-until=(deadline.as_millisecond()) {} }
                }
            }
            @if open.len() > BANNERS { p.banner { a href="/attention" { "and " (open.len() - BANNERS) " more" } } }
        }
    }
}

/// The rail. Also served alone, when something has changed.
pub(super) fn side(session: &BrowserSession, may: May, now: Timestamp) -> Markup {
    let status = session.status.as_ref();
    let page = status.and_then(|s| s.page.as_ref());
    let ended = model::session_ended(session);
    html! {
        aside.side aria-label="The session" data-ns=(session.namespace().unwrap_or_default()) data-name=(session.name_any())
            data-version=(session.resource_version().unwrap_or_default()) data-ended=[ended.then(|| { let (what, meaning) = model::session_end(session); format!("{what}. {meaning}") })] {
            div.scroll tabindex="0" role="group" aria-label="About the session" {
                section #facts aria-label="What the server knows" {
                    div.clock { h1 { (session.name_any()) } (state_tag(session)) }
                    dl.facts {
                        dt { "Page" }
                        dd {
                            @match page.and_then(|p| p.origin.as_deref()) { Some(origin) => bdi.origin { (plain(origin)) }, None => span.quiet { "none yet" } }
                            @if let Some(title) = page.and_then(|p| p.title.as_deref()) { bdi.sub { (plain(title)) } }
                        }
                        dt { "Owner" }
                        dd { @if let Some(owner) = &session.spec.owner { bdi { (plain(&owner.username)) } } @else { span.quiet { "unknown" } } }
                        @if !ended {
                            dt { "Control" }
                            dd {
                                @match status.and_then(|s| s.control.as_ref()?.holder.as_deref()) {
                                    Some(holder) => { bdi { b { (plain(holder)) } } " is driving" },
                                    None => "the agent",
                                }
                            }
                            dt { "Idle" }
                            dd { (idle(session, now)) }
                        }
                        dt { "Browser" }
                        dd {
                            (session.spec.browser.as_str())
                            @if let Some(size) = status.and_then(|s| s.viewport) { ", " (size.width) " × " (size.height) }
                        }
                        @if let Some(at) = &session.metadata.creation_timestamp { dt { "Opened" } dd { (time(at.0)) } }
                        @if let (false, Some(at)) = (ended, status.and_then(|s| s.ends_at.as_ref())) { dt { "Ends" } dd { (time(at.0)) } }
                        @if let Some(at) = status.and_then(|s| s.ended_at.as_ref()) { dt { "Ended" } dd { (time(at.0)) } }
                        @if let Some(message) = status.and_then(|s| s.message.as_deref()) { dt { "Message" } dd { (plain(message)) } }
                    }
                }
            }
            @if may.close && !ended { div.answer { button.danger #close-session type="button" { "Close session" } } }
        }
    }
}
