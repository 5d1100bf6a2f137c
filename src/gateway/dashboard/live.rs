//! The live view's frame; the scripts fill it.

use super::icons;
use super::layout::dead_end;
use super::model;
use crate::api::v1alpha1::BrowserSession;
use kube::ResourceExt as _;
use maud::{Markup, html};

/// What of a session the person may see.
pub(super) enum Access<'a> {
    /// Its page, live.
    View {
        /// The session.
        session: &'a BrowserSession,
        /// Whether they may also drive.
        take: bool,
    },
    /// Its page is not theirs to see.
    Forbidden,
    /// Its browser is gone; the session, where there is a record of it.
    Ended(Option<&'a BrowserSession>),
    /// There is none.
    NoSession,
}

/// The live view, or why there is none.
pub(super) fn view(access: &Access<'_>, namespace: &str, request: Option<&str>, may_resize: bool) -> Markup {
    let (session, take) = match access {
        Access::View { session, take } => (*session, *take),
        Access::Forbidden => {
            return none("You may not see this page", "Watching it takes the verb view on browsersessions in this namespace.");
        }
        Access::Ended(session) => {
            let (title, sentence) =
                session.map_or(("The session has ended", "Its browser is gone, and so is its record."), model::session_end);
            return none(title, sentence);
        }
        Access::NoSession => return none("No browser is part of this", "The agent asks a question without a browser session."),
    };
    html! {
        section.live aria-label="Live view" data-ns=(namespace) data-session=(session.name_any()) data-request=[request] data-hands="watch" {
            div.bar {
                span.pill role="status" { span { span data-text { "Connecting" } span data-age aria-hidden="true" {} } }
                span.countdown role="timer" hidden {}
                button type="button" data-act="keep" hidden { "Keep control" }
                span.gap {}
                @if take { button.main type="button" data-act="take" { "Open live & take over" } }
                button type="button" data-act="let-go" hidden { "Let go" }
                button.only-touch type="button" data-act="keys" hidden aria-label="Keyboard" { (icons::keyboard()) }
                @if may_resize { button type="button" data-act="resize" { "Resize agent browser" } }
            }
            div.tabs role="tablist" aria-label="Tabs of the browser" {}
            div.place {
                div.ways role="group" aria-label="Buttons of the agent's browser" hidden {
                    button type="button" data-go="back" aria-label="Back" title="Back" { "←" }
                    button type="button" data-go="forward" aria-label="Forward" title="Forward" { "→" }
                    button type="button" data-go="reload" aria-label="Reload the page" title="Reload the page" { "↻" }
                    button type="button" data-go="close" aria-label="Close the tab" title="Close the tab" { "✕" }
                }
                p.address {}
            }
            div.stage {
                div.screen {
                    canvas width="1280" height="800" role="img" aria-label="The agent's page" {}
                    textarea.keys tabindex="-1" autocapitalize="off" autocomplete="off" autocorrect="off" spellcheck="false"
                        aria-label="Keyboard of the agent's page. Press Escape twice to let go." {}
                    div.over {}
                }
            }
            noscript { p.note.warn { "The live view needs scripts of this site." } }
        }
    }
}

fn none(title: &str, sentence: &str) -> Markup {
    html! { section.live aria-label="Live view" { div.stage { (dead_end(title, sentence, "/sessions", "Sessions")) } } }
}
