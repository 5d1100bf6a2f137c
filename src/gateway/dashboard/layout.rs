//! The frame of every page.

use super::assets::url;
use super::icons;
use k8s_openapi::jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

/// A place of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Open requests.
    Attention,
    /// Browser sessions.
    Sessions,
    /// Settled requests.
    History,
    /// How to use all this.
    Help,
    /// None of them.
    Nowhere,
}

/// What the frame says on every page.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Who is signed in.
    pub user: String,
    /// Where MCP creates objects.
    pub namespace: String,
    /// The number of open requests that the person may see.
    pub open: usize,
    /// Now.
    pub now: Timestamp,
}

/// A page of a signed-in person.
pub(super) struct Page<'a> {
    /// Its title.
    pub title: &'a str,
    /// Which place is current.
    pub place: Place,
    /// The module that runs it.
    pub script: &'a str,
    /// Whether the content has the whole width, without a margin.
    pub wide: bool,
    /// What is in it.
    pub content: Markup,
}

/// Renders a page.
pub(super) fn page(frame: &Frame, page: &Page<'_>) -> Markup {
    let link = |place: Place, to: &str, name: &str, icon: Markup, count: Option<usize>| {
        html! {
            a href=(to) aria-current=[(place == page.place).then_some("page")] {
                (icon) (name)
                @if let Some(count) = count { span.count data-open-count hidden[count == 0] aria-hidden="true" { (shown(count)) } }
            }
        }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&if frame.open > 0 { format!("({}) {}", frame.open, page.title) } else { page.title.to_owned() }))
                meta name="beckon-user" content=(frame.user);
                meta name="beckon-now" content=(frame.now.as_millisecond());
                script type="module" src=(url(page.script)) {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                nav.rail aria-label="Main" {
                    span.mark { (icons::mark()) }
                    (link(Place::Attention, "/attention", "Attention", icons::bell(), Some(frame.open)))
                    (link(Place::Sessions, "/sessions", "Sessions", icons::window(), None))
                    (link(Place::History, "/history", "History", icons::clock(), None))
                    (link(Place::Help, "/help", "Help", icons::question(), None))
                }
                header.top {
                    p.where { "Beckon" @if !frame.namespace.is_empty() { span { " · namespace " (frame.namespace) } } }
                    span.link-state role="status" hidden {}
                    form.me method="post" action="/logout" {
                        bdi title="Signed in" { (frame.user) }
                        button.plain type="submit" { "Sign out" }
                    }
                }
                p #open-count .sr role="status" aria-live="polite" { (open_text(frame.open)) }
                main #main .wide[page.wide] tabindex="-1" { (page.content) }
                div.toasts role="status" aria-live="polite" {}
            }
        }
    }
}

/// A page of nobody in particular: log in, and what goes wrong there.
pub(super) fn door(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head(title)) }
            body {
                main.door { div { p.brand { (icons::mark()) "Beckon" } (content) } }
            }
        }
    }
}

/// A designed end: one sentence, one way on.
pub(super) fn dead_end(title: &str, sentence: &str, to: &str, way: &str) -> Markup {
    html! {
        div.empty {
            (icons::large_window())
            h1 { (title) }
            p { (sentence) }
            a.button href=(to) { (way) }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover";
        meta name="color-scheme" content="light dark";
        meta name="robots" content="noindex";
        title { (title) " · Beckon" }
        link rel="icon" type="image/svg+xml" href=(url("icon.svg"));
        @for style in ["base.css", "pages.css", "live.css"] { link rel="stylesheet" href=(url(style)); }
    }
}

fn shown(count: usize) -> String {
    if count > 99 { "99+".to_owned() } else { count.to_string() }
}

fn open_text(count: usize) -> String {
    match count {
        0 => "No open requests".to_owned(),
        1 => "1 open request".to_owned(),
        n => format!("{n} open requests"),
    }
}
