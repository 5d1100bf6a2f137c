//! The Attention page: what needs a person, and how soon. And History: what happened, and who decided.

use super::icons;
use super::model::{self, Ending, Request};
use super::text::plain;
use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Mode};
use crate::gateway::auth::Principal;
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

/// A request with the session it is about.
pub(super) struct Item<'a> {
    /// The object.
    pub object: &'a AttentionRequest,
    /// As shown.
    pub view: Request,
    /// Its session, while there is one.
    pub session: Option<&'a BrowserSession>,
}

/// Who looks at a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    /// Who.
    pub me: &'a Principal,
    /// Whether they may answer requests of its namespace.
    pub may: bool,
}

/// The page's content.
pub(super) fn page(items: &[(Item<'_>, Reader<'_>)], now: Timestamp) -> Markup {
    html! {
        div.head {
            h1 { "Attention" }
            p.news role="status" {}
            input #find type="search" placeholder="Find" aria-label="Find in open requests" hidden[items.is_empty()];
        }
        div #empty .empty hidden[!items.is_empty()] {
            (icons::calm())
            b { "Nobody needs you" }
            p { "A request appears here the moment an agent asks for a person." }
            a.button href="/history" { "See what was answered" }
        }
        div.table-wrap hidden[items.is_empty()] {
            table #requests aria-label="Open requests" {
                thead {
                    tr {
                        th.c-pick scope="col" { label { input #pick-all type="checkbox" aria-label="Select all requests"; } }
                        th.c-left scope="col" { "Time left" }
                        th.c-reason scope="col" { "Reason" }
                        th.c-session scope="col" { "Session and page" }
                        th.c-mode scope="col" { "Mode" }
                        th.c-wait scope="col" { "Waiting for" }
                        th.c-who scope="col" { "Claimed by" }
                    }
                }
                tbody { @for (item, reader) in items { (row(item, *reader, now)) } }
            }
            p.none .quiet role="status" hidden { "No open request has this in it." }
        }
        div.bulk role="region" aria-label="Selected requests" hidden {
            b data-number { "0 selected" }
            button type="button" data-act="resolve" .main { "Resolve selected…" }
            button type="button" data-act="reject" .danger { "Reject selected…" }
            button.plain type="button" data-none { "Clear" }
        }
    }
}

/// One row. It stays where it is when it settles, greyed, with its outcome.
pub(super) fn row(item: &Item<'_>, reader: Reader<'_>, now: Timestamp) -> Markup {
    let Item { object, view, .. } = item;
    let claim = object.spec.claim.as_ref().and_then(|claim| claim.by.as_ref());
    html! {
        tr .settled[!view.is_open()] data-key=(view.key()) data-ns=(view.namespace) data-name=(view.name) data-version=(view.version) data-deadline=(view.urgency()) {
            td.c-pick {
                @if view.is_open() && reader.may { label { input type="checkbox" aria-label=(format!("Select: {}", view.title)); } }
            }
            td.c-left {
                @if let Some(settled) = &view.settled { (outcome(settled.ending)) }
                @else if let Some(deadline) = view.deadline { (time_left(view.opened, deadline, now)) }
                @else { span.quiet { "being taken in" } }
            }
            td.c-reason { (link(view)) }
            td.c-session { (place(item)) }
            td.c-mode { (mode_tag(object)) }
            td.c-wait {
                @if view.is_open() { span data-since=(view.opened.as_millisecond()) { (model::span(now.duration_since(view.opened).as_secs())) } }
                @else if let Some(waited) = view.waited { (model::span(waited)) }
            }
            td.c-who data-none[claim.is_none() && !reader.may && view.is_open()] {
                @if let Some(settled) = &view.settled { @if let Some(by) = &settled.by { "by " bdi { (plain(by)) } } }
                @else if let Some(by) = claim { @if reader.me.is(claim) { b { "you" } } @else { bdi { (plain(&by.username)) } } }
                @else if reader.may && view.taken_in {
                    button.plain type="button" data-act="claim" aria-label=(format!("Claim: {}", view.title)) title="Show others that you are on it" { "Claim" }
                }
                @else { span.quiet { "–" } }
            }
        }
    }
}

/// Which settled requests to show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sought {
    q: String,
    outcome: String,
}

const ENDINGS: [Ending; 4] = [Ending::Resolved, Ending::Rejected, Ending::TimedOut, Ending::Cancelled];

impl Sought {
    /// Whether it is one of them: the outcome, and the text in anything that its row or the request says.
    pub(super) fn fits(&self, view: &Request, object: &AttentionRequest) -> bool {
        let Some(settled) = &view.settled else { return false };
        let text = self.q.trim().to_lowercase();
        let session = object.spec.session_ref.as_ref().map(|session| session.name.as_str());
        let origin = object.status.as_ref().and_then(|s| s.evidence.as_ref()?.origin.as_deref());
        let requester = object.spec.requester.as_ref().map(|by| by.username.as_str());
        let said = [
            Some(object.spec.reason.as_str()),
            Some(&view.name),
            session,
            origin,
            requester,
            settled.by.as_deref(),
            settled.message.as_deref(),
        ];
        (self.outcome.is_empty() || self.outcome == settled.ending.word())
            && (text.is_empty() || said.into_iter().flatten().any(|said| said.to_lowercase().contains(&text)))
    }

    fn is_all(&self) -> bool {
        self.q.trim().is_empty() && self.outcome.is_empty()
    }
}

/// What happened.
pub(super) fn history(items: &[Item<'_>], more: bool, sought: &Sought) -> Markup {
    html! {
        div.head {
            h1 { "History" }
            form.filter method="get" action="/history" role="search" {
                input #find type="search" name="q" value=(sought.q) maxlength="200" placeholder="Find" aria-label="Find in settled requests";
                select name="outcome" aria-label="Outcome" {
                    option value="" { "Every outcome" }
                    @for ending in ENDINGS { option value=(ending.word()) selected[sought.outcome == ending.word()] { (ending.word()) } }
                }
                button type="submit" { "Show" }
            }
            @if more { p.quiet { "The newest " (items.len()) ". Older ones: kubectl get attn" } }
        }
        @if items.is_empty() && !sought.is_all() {
            div.empty { (icons::clock()) b { "Nothing like this" } p { "No settled request fits." } a.button href="/history" { "Show all" } }
        } @else if items.is_empty() {
            div.empty { (icons::clock()) b { "Nothing has been answered yet" } p { "Settled requests stay here until their time to live ends." } a.button href="/attention" { "Open requests" } }
        } @else {
            div.table-wrap {
                table aria-label="Settled requests" {
                    thead {
                        tr {
                            th.c-left scope="col" { "Outcome" }
                            th.c-reason scope="col" { "Reason" }
                            th.c-session scope="col" { "Session and page" }
                            th.c-wait scope="col" { "Waited" }
                            th.c-who scope="col" { "Who" }
                            th.c-when scope="col" { "When" }
                        }
                    }
                    tbody { @for item in items { (past(item)) } }
                }
            }
        }
    }
}

fn past(item: &Item<'_>) -> Markup {
    let view = &item.view;
    let settled = view.settled.as_ref();
    html! {
        tr {
            td.c-left { @if let Some(settled) = settled { (outcome(settled.ending)) } }
            td.c-reason {
                (link(view))
                @if let Some(message) = settled.and_then(|s| s.message.as_deref()) { bdi.sub { "“" (plain(&super::text::first_line(message))) "”" } }
            }
            td.c-session { (place(item)) }
            td.c-wait { @if let Some(waited) = view.waited { (model::span(waited)) } }
            td.c-who data-none[settled.is_none_or(|s| s.by.is_none())] { @if let Some(by) = settled.and_then(|s| s.by.as_deref()) { bdi { (plain(by)) } } @else { span.quiet { "–" } } }
            td.c-when { @if let Some(at) = settled.and_then(|s| s.at) { (time(at)) } }
        }
    }
}

fn link(view: &Request) -> Markup {
    html! { a.row-link dir="auto" href=(format!("/attention/{}/{}", view.namespace, view.name)) { (plain(&view.title)) } }
}

fn place(item: &Item<'_>) -> Markup {
    let status = item.object.status.as_ref();
    let origin = status
        .and_then(|s| s.evidence.as_ref()?.origin.as_deref())
        .or_else(|| item.session?.status.as_ref()?.page.as_ref()?.origin.as_deref());
    html! {
        @if let Some(session) = &item.object.spec.session_ref { (session.name) } @else { span.quiet { "no session" } }
        @if let Some(origin) = origin { bdi.sub { (plain(origin)) } }
    }
}

/// The mode, as icon and word.
pub(super) fn mode_tag(object: &AttentionRequest) -> Markup {
    let mode = object.spec.mode;
    html! {
        span.tag .info[mode == Mode::Takeover] title=(match mode {
            Mode::Takeover => "The browser may be driven",
            Mode::Notify => "The browser may be looked at, not driven",
        }) { @match mode { Mode::Takeover => (icons::hand()), Mode::Notify => (icons::eye()) }
            (model::mode(mode)) }
    }
}

/// How it ended, as sign, word and colour.
pub(super) fn outcome(ending: model::Ending) -> Markup {
    let sign = match ending {
        model::Ending::Resolved => icons::check(),
        model::Ending::Rejected => icons::cross(),
        model::Ending::TimedOut => icons::hourglass(),
        model::Ending::Cancelled => icons::dash(),
    };
    html! { span class={ "tag " (ending.look()) } { (sign) (ending.word()) } }
}

/// The countdown.
pub(super) fn time_left(opened: Timestamp, deadline: Timestamp, now: Timestamp) -> Markup {
    html! {
        span.left data-until=(deadline.as_millisecond()) data-total=(deadline.duration_since(opened).as_secs().max(1))
            data-heat=(model::heat(opened, deadline, now)) { (icons::hourglass()) span data-text { (model::left(deadline, now)) } }
    }
}

/// A time that the scripts write in the viewer's zone.
pub(super) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at) data-at=(at.as_millisecond()) { (model::absolute(at)) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Phase, SessionRef};

    #[test]
    fn history_is_sought_by_outcome_and_by_what_is_said() {
        let spec = AttentionRequestSpec {
            reason: "Checkout shows a CAPTCHA.\nPlease.".into(),
            session_ref: Some(SessionRef { name: "shop-1".into(), uid: None }),
            ..AttentionRequestSpec::default()
        };
        let mut object = AttentionRequest::new("a-1", spec);
        let status = |phase| {
            Some(AttentionRequestStatus { phase, resolved_by: Some("Ann".into()), message: Some("Ça va".into()), ..Default::default() })
        };
        for (phase, q, outcome, want) in [
            (Phase::Resolved, "", "", true),
            (Phase::Resolved, " captcha ", "Resolved", true),
            (Phase::Resolved, "please", "", true),
            (Phase::Resolved, "SHOP", "", true),
            (Phase::Resolved, "ann", "", true),
            (Phase::Resolved, "ça", "", true),
            (Phase::Resolved, "bob", "", false),
            (Phase::Resolved, "", "Rejected", false),
            (Phase::Timeout, "", "Timed out", true),
            (Phase::Pending, "", "", false),
        ] {
            object.status = status(Some(phase));
            let sought = Sought { q: q.into(), outcome: outcome.into() };
            assert_eq!(sought.fits(&Request::of(&object), &object), want, "{phase:?} {q:?} {outcome:?}");
        }
    }
}
