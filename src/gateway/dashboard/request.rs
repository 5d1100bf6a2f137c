//! A request's page: what the server knows, then what the agent says, the live view, the answer.

use super::attention::{Item, mode_tag, outcome, time, time_left};
use super::icons;
use super::live::{self, Access};
use super::model::{self, Request, Settled};
use super::options;
use super::text::plain;
use crate::api::v1alpha1::{Ask, AskType, AttentionRequest, BrowserSession, Mode};
use crate::gateway::auth::Principal;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use maud::{Markup, html};

/// What the person may do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct May {
    /// Answer.
    pub answer: bool,
    /// Watch the session's page.
    pub view: bool,
    /// Drive it while the request is open.
    pub drive: bool,
}

/// A request with what belongs around it.
pub(super) struct Around<'a> {
    /// The request.
    pub item: Item<'a>,
    /// Other open requests of its session.
    pub others: &'a [Request],
    /// The open request to go on with.
    pub next: Option<&'a Request>,
    /// Who looks.
    pub me: &'a Principal,
    /// What they may do.
    pub may: May,
    /// Why they may not answer.
    pub refused: Option<&'a str>,
    /// The latest time that extensions can move the deadline to.
    pub latest: Timestamp,
}

/// The page's content.
pub(super) fn page(around: &Around<'_>, now: Timestamp) -> Markup {
    let Around { item, may, .. } = around;
    let access = match (item.session, item.object.spec.session_ref.as_ref()) {
        (_, None) => Access::NoSession,
        (None, Some(_)) => Access::Ended(None),
        (Some(session), _) if model::session_ended(session) => Access::Ended(Some(session)),
        (Some(_), _) if !may.view => Access::Forbidden,
        (Some(session), _) => Access::View { session, take: may.drive && item.view.is_open() && item.object.spec.mode == Mode::Takeover },
    };
    html! {
        div.request {
            (live::view(&access, &item.view.namespace, Some(&item.view.name), may.drive))
            (side(around, now))
        }
    }
}

/// The rail. Also served alone, when something has changed.
pub(super) fn side(around: &Around<'_>, now: Timestamp) -> Markup {
    let view = &around.item.view;
    html! {
        aside.side aria-label="The request" data-ns=(view.namespace) data-name=(view.name) data-version=(view.version)
            data-standing=(if view.is_open() { "open" } else { "settled" }) {
            div.scroll tabindex="0" role="group" aria-label="What is asked" {
                (facts(around, now))
                @if expects_secret(around.item.object) && view.is_open() {
                    p.note.warn { "This asks for a secret. Don't type it into the message, which others can read in the request. Take over and type it into the page, or answer with kubectl and a Secret." }
                }
                (words(around.item.object, around.may.answer && view.is_open()))
                (lesser(around))
            }
            @match &view.settled {
                Some(settled) => (verdict(settled, around)),
                None => (answer(&around.item, around.refused)),
            }
        }
    }
}

fn facts(around: &Around<'_>, now: Timestamp) -> Markup {
    let Item { object, view, session } = &around.item;
    let evidence = object.status.as_ref().and_then(|s| s.evidence.as_ref());
    let page = session.and_then(|s| s.status.as_ref()?.page.as_ref());
    let origin = evidence.and_then(|e| e.origin.as_deref()).or_else(|| page.and_then(|p| p.origin.as_deref()));
    let title = evidence.and_then(|e| e.title.as_deref()).or_else(|| page.and_then(|p| p.title.as_deref()));
    html! {
        section #facts aria-label="What the server knows" {
            div.clock {
                h1 { (heading(object.spec.mode, view.is_open())) }
                (mode_tag(object))
                @if let (None, Some(deadline)) = (&view.settled, view.deadline) { (time_left(view.opened, deadline, now)) }
                @if view.is_open() && around.may.answer { (extend(view, around.latest)) }
            }
            dl.facts {
                dt { @if view.is_open() { "Waiting for" } @else { "Waited" } }
                dd {
                    @if view.is_open() { span data-since=(view.opened.as_millisecond()) { (model::span(now.duration_since(view.opened).as_secs())) } }
                    @else if let Some(waited) = view.waited { (model::span(waited)) }
                    @else { span.quiet { "being recorded" } }
                }
                dt { "Page" }
                dd {
                    @if let Some(origin) = origin { bdi.origin { (plain(origin)) } } @else { span.quiet { "not recorded" } }
                    @if let Some(title) = title.filter(|title| !title.is_empty()) { bdi.sub { (plain(title)) } }
                }
                dt { "Session" }
                dd { (session_of(object, *session)) }
                @if let Some(target) = model::target(object) { dt { "For" } dd { bdi { (plain(&target)) } } }
                (claim(around))
                @if !around.others.is_empty() {
                    dt { "Also open" }
                    dd { @for other in around.others { a.also dir="auto" href=(format!("/attention/{}/{}", other.namespace, other.name)) { (plain(&other.title)) } } }
                }
            }
        }
    }
}

/// What the server knows and few ask for.
fn lesser(around: &Around<'_>) -> Markup {
    let Item { object, view, .. } = &around.item;
    html! {
        section aria-label="More that the server knows" {
            dl.facts {
                dt { "Asked by" }
                dd { @if let Some(by) = &object.spec.requester { bdi { (plain(&by.username)) } } @else { span.quiet { "unknown" } } }
                dt { "Opened" }
                dd { (time(view.opened)) }
                dt { "Request" }
                dd.quiet { (view.namespace) "/" (view.name) }
            }
        }
    }
}

fn expects_secret(object: &AttentionRequest) -> bool {
    object.spec.ask.as_ref().is_some_and(|ask| ask.expects_secret == Some(true))
}

fn session_of(object: &AttentionRequest, session: Option<&BrowserSession>) -> Markup {
    html! {
        @match (&object.spec.session_ref, session) {
            (Some(named), Some(session)) => {
                a href=(format!("/sessions/{}/{}", object.namespace().unwrap_or_default(), named.name)) { (named.name) }
                @if model::session_ended(session) { " " (super::sessions::state_tag(session)) }
            },
            (Some(named), None) => { (named.name) span.quiet { " (gone)" } },
            (None, _) => span.quiet { "none" },
        }
    }
}

/// "I am on it": shown to others, and it keeps nobody from answering.
fn claim(around: &Around<'_>) -> Markup {
    let item = &around.item;
    let by = item.object.spec.claim.as_ref().and_then(|claim| claim.by.as_ref());
    let mine = around.me.is(by);
    let may = item.view.is_open() && around.may.answer && item.view.taken_in;
    html! {
        @if by.is_some() || may {
            dt { "Claimed by" }
            dd.with-act {
                @match by {
                    Some(_) if mine => b { "you" },
                    Some(by) => bdi { (plain(&by.username)) },
                    None => span.quiet { "nobody" },
                }
                @if may && !mine {
                    button.plain type="button" data-act="claim" title="Show others that you are on it" { @if by.is_some() { "Claim instead" } @else { "Claim" } }
                }
            }
        }
    }
}

/// How much time one press gives, in minutes.
const MORE: i64 = 30;

fn extend(view: &Request, latest: Timestamp) -> Markup {
    html! {
        @if view.deadline.is_some_and(|deadline| deadline < latest) {
            button.plain type="button" data-act="extend" data-seconds=(MORE * 60) title="Moves the deadline, as far as this server allows" { "+" (MORE) " min" }
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
fn words(object: &AttentionRequest, may_pick: bool) -> Markup {
    let spec = &object.spec;
    let choices = spec.ask.as_ref().map(|ask| ask.choices.as_slice()).unwrap_or_default();
    html! {
        section.words aria-label="In the agent's words" {
            header { (icons::robot()) "The agent's words, not the server's" }
            @if let Some(category) = spec.category { p.why { span.tag { (model::category(category)) } } }
            blockquote.foldable #reason { (plain(&spec.reason)) }
            @if let Some(details) = &spec.details { h2 { "Details" } blockquote.foldable { (plain(details)) } }
            @if let Some(action) = &spec.suggested_action { h2 { "It suggests" } blockquote.foldable { (plain(action)) } }
            @if let Some(ask) = &spec.ask { (claims(ask)) }
            @if !choices.is_empty() {
                h2 { "It offers these answers" }
                div.choices { @for choice in choices { button type="button" data-choice dir="auto" disabled[!may_pick] { (plain(choice)) } } }
            }
            @if let Some(options) = &spec.options {
                h2 { "Options, as it sent them" }
                pre.foldable #options { (plain(options)) }
                @let picks = if choices.is_empty() { options::choices(options) } else { Vec::new() };
                @if !picks.is_empty() {
                    h2 { "Answers in them" }
                    div.choices { @for choice in &picks { button type="button" data-choice dir="auto" disabled[!may_pick] { (plain(choice)) } } }
                }
            }
        }
    }
}

/// What an approval is about, as the agent claims it.
fn claims(ask: &Ask) -> Markup {
    html! {
        @if ask.type_ != AskType::Takeover { h2 { "It asks for" } p.claim { (model::ask(ask.type_)) } }
        @if let Some(action) = &ask.action { h2 { "The button, as it says" } blockquote.foldable { (plain(action)) } }
        @if !ask.fields.is_empty() {
            h2 { "The form, as it says" }
            ul.claim { @for field in &ask.fields { li dir="auto" { (plain(field)) } } }
        }
    }
}

fn answer(item: &Item<'_>, refused: Option<&str>) -> Markup {
    let ask = item.object.spec.ask.as_ref();
    let needs_words =
        ask.is_some_and(|ask| matches!(ask.type_, AskType::Question | AskType::Clarification | AskType::Decision | AskType::Other));
    let effects = match item.object.spec.ask.as_ref().map(|ask| ask.type_) {
        Some(AskType::Approval | AskType::DestructiveAction) => "Resolve approves it. Reject denies it.",
        _ => "Resolve: done, go on. Reject: give up or try something else.",
    };
    html! {
        section #answer .answer aria-label="Your answer" data-state=(if refused.is_none() { "open" } else { "shown" }) data-needs-words[needs_words] {
            @if let Some(why) = refused {
                p.note { "You can look at this request, but not answer it: " (plain(why)) "." }
            } @else {
                div {
                    label for="message" { "Message for the agent" }
                    textarea #message maxlength="4000" placeholder="What did you do, or what should it do?" aria-describedby="failed" {}
                }
                p #failed .note.bad role="alert" hidden {}
                div.pair {
                    button.danger type="button" data-act="reject" { "Reject" }
                    button.main type="button" data-act="resolve" { "Resolve" }
                }
                p.hint { (effects) }
            }
        }
    }
}

fn verdict(settled: &Settled, around: &Around<'_>) -> Markup {
    html! {
        section #answer .answer aria-label="The outcome" data-state="settled" data-mine[settled.by.as_ref() == Some(&around.me.username)] {
            div.verdict tabindex="-1" role="status" {
                div { (outcome(settled.ending)) @if let Some(by) = &settled.by { " by " bdi { b { (plain(by)) } } } }
                @if let Some(message) = &settled.message { p.said { (plain(message)) } }
                p.quiet {
                    @if let Some(at) = settled.at { (time(at)) }
                    @if let Some(waited) = around.item.view.waited { " · after " (model::span(waited)) }
                }
            }
            div #unsent .note.warn hidden { div { p { "Your message was not sent, since the request was settled first:" } pre tabindex="0" {} } }
            @match around.next {
                Some(next) => a.button href=(format!("/attention/{}/{}", next.namespace, next.name)) { "Next open request" },
                None => a.button href="/attention" { "No more open requests" },
            }
        }
    }
}
