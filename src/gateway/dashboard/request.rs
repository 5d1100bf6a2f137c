//! A request's page: what the server knows, then what the agent says, the live view, the answer.

use super::attention::{Item, mode_tag, outcome, time, time_left};
use super::icons;
use super::live::{self, Access};
use super::model::{self, Settled};
use super::text::plain;
use crate::api::v1alpha1::{AskType, AttentionRequest, Mode};
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

/// What the person may do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct May {
    /// Answer.
    pub answer: bool,
    /// Watch the session's page.
    pub view: bool,
    /// Drive it while the request is open.
    pub drive: bool,
}

/// The page's content.
pub fn page(item: &Item<'_>, may: May, now: Timestamp) -> Markup {
    let access = match (item.session, item.object.spec.session_ref.as_ref()) {
        (_, None) => Access::NoSession,
        (None, Some(_)) => Access::Ended,
        (Some(session), _) if model::session_ended(session) => Access::Ended,
        (Some(_), _) if !may.view => Access::Forbidden,
        (Some(session), _) => Access::View { session, take: may.drive && item.view.is_open() && item.object.spec.mode == Mode::Takeover },
    };
    html! {
        div.request {
            (live::view(&access, &item.view.namespace, Some(&item.view.name), may.drive))
            (side(item, may, now))
        }
    }
}

/// The rail. Also served alone, when something has changed.
pub fn side(item: &Item<'_>, may: May, now: Timestamp) -> Markup {
    let view = &item.view;
    html! {
        aside.side aria-label="The request" data-ns=(view.namespace) data-name=(view.name) data-version=(view.version)
            data-standing=(if view.is_open() { "open" } else { "settled" }) {
            div.scroll {
                (facts(item, now))
                (words(item.object))
            }
            @match &view.settled {
                Some(settled) => (verdict(settled, view.waited)),
                None => (answer(item, may)),
            }
        }
    }
}

fn facts(item: &Item<'_>, now: Timestamp) -> Markup {
    let Item { object, view, session } = item;
    let evidence = object.status.as_ref().and_then(|s| s.evidence.as_ref());
    let page = session.and_then(|s| s.status.as_ref()?.page.as_ref());
    let origin = evidence.and_then(|e| e.origin.as_deref()).or_else(|| page.and_then(|p| p.origin.as_deref()));
    let title = evidence.and_then(|e| e.title.as_deref()).or_else(|| page.and_then(|p| p.title.as_deref()));
    html! {
        section #facts aria-label="What the server knows" {
            div.clock {
                h1 { (heading(object.spec.mode, view.is_open())) }
                @if let (None, Some(deadline)) = (&view.settled, view.deadline) { (time_left(view.opened, deadline, now)) }
            }
            dl.facts {
                dt { @if view.is_open() { "Waiting for" } @else { "Waited" } }
                dd {
                    @if view.is_open() { span data-since=(view.opened.as_millisecond()) { (model::span(now.duration_since(view.opened).as_secs())) } }
                    @else if let Some(waited) = view.waited { (model::span(waited)) }
                    @else { span.quiet { "–" } }
                }
                dt { "Page" }
                dd {
                    @if let Some(origin) = origin { bdi.origin { (plain(origin)) } } @else { span.quiet { "not recorded" } }
                    @if let Some(title) = title { bdi.sub { (plain(title)) } }
                }
                dt { "Session" }
                dd {
                    @match (&object.spec.session_ref, session) {
                        (Some(named), Some(_)) => a href=(format!("/sessions/{}/{}", view.namespace, named.name)) { (named.name) },
                        (Some(named), None) => { (named.name) span.quiet { " (gone)" } },
                        (None, _) => span.quiet { "none" },
                    }
                }
                dt { "Mode" }
                dd { (mode_tag(object)) @if object.spec.mode == Mode::Notify { " view only" } }
                dt { "Asked by" }
                dd { @if let Some(by) = &object.spec.requester { bdi { (plain(&by.username)) } } @else { span.quiet { "unknown" } } }
                dt { "Opened" }
                dd { (time(view.opened)) }
                @if let Some(target) = model::target(object) { dt { "For" } dd { bdi { (plain(&target)) } } }
                @if let Some(by) = object.spec.claim.as_ref().and_then(|c| c.by.as_ref()) { dt { "Claimed by" } dd { bdi { (plain(&by.username)) } } }
                dt { "Request" }
                dd.quiet { (view.namespace) "/" (view.name) }
            }
        }
    }
}

const fn heading(mode: Mode, open: bool) -> &'static str {
    match (mode, open) {
        (Mode::Takeover, true) => "An agent asks you to take over",
        (Mode::Takeover, false) => "An agent asked to be taken over",
        (Mode::Notify, true) => "An agent asks you something",
        (Mode::Notify, false) => "An agent asked something",
    }
}

/// The agent's own words: quoted, attributed, text and nothing else.
fn words(object: &AttentionRequest) -> Markup {
    let spec = &object.spec;
    let choices = spec.ask.as_ref().map(|ask| ask.choices.as_slice()).unwrap_or_default();
    html! {
        section.words aria-label="In the agent's words" {
            header { (icons::robot()) "The agent's words, not the server's" }
            blockquote.foldable #reason { (plain(&spec.reason)) }
            @if let Some(details) = &spec.details { h2 { "Details" } blockquote.foldable { (plain(details)) } }
            @if let Some(action) = &spec.suggested_action { h2 { "It suggests" } blockquote.foldable { (plain(action)) } }
            @if !choices.is_empty() {
                h2 { "It offers these answers" }
                div.choices { @for choice in choices { button type="button" data-choice { (plain(choice)) } } }
            }
            @if let Some(options) = &spec.options { h2 { "Options, as it sent them" } pre.foldable #options { (plain(options)) } }
        }
    }
}

fn answer(item: &Item<'_>, may: May) -> Markup {
    let effects = match item.object.spec.ask.as_ref().map(|ask| ask.type_) {
        Some(AskType::Approval | AskType::DestructiveAction) => "Resolve approves it. Reject denies it.",
        _ => "Resolve: done, go on. Reject: give up or try something else.",
    };
    html! {
        section #answer .answer aria-label="Your answer" {
            @if !may.answer {
                p.note { "You can look at this request, but not answer it: that takes the verb resolve on attentionrequests, and being the one it is for." }
            } @else {
                div {
                    label for="message" { "Message for the agent" }
                    textarea #message maxlength="4000" placeholder="What did you do, or what should it do?" {}
                }
                div.pair {
                    button.danger type="button" data-act="reject" { "Reject" }
                    button.main type="button" data-act="resolve" { "Resolve" }
                }
                p.hint { (effects) }
            }
        }
    }
}

fn verdict(settled: &Settled, waited: Option<i64>) -> Markup {
    html! {
        section #answer .answer aria-label="The outcome" {
            div.verdict tabindex="-1" role="status" {
                div { (outcome(settled.ending)) @if let Some(by) = &settled.by { " by " bdi { b { (plain(by)) } } } }
                @if let Some(message) = &settled.message { p.said { (plain(message)) } }
                p.quiet {
                    @if let Some(at) = settled.at { (time(at)) }
                    @if let Some(waited) = waited { " · after " (model::span(waited)) }
                }
            }
            div #unsent .note.warn hidden { div { p { "Your message was not sent, since the request was settled first:" } pre {} } }
            a.button href="/attention" { "Next open request" }
        }
    }
}
