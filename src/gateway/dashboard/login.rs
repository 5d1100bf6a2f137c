//! The door: a one-time link, or a token.

use super::layout::door;
use maud::{Markup, html};

/// What the form says first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told<'a> {
    /// What was done.
    Well(&'a str),
    /// What went wrong the last time.
    Ill(&'a str),
}

/// The form for a token, with a word about what came before.
pub(super) fn form(next: &str, told: Option<Told<'_>>) -> Markup {
    door(
        "Sign in",
        &html! {
            h1 { "Sign in" }
            @match told {
                Some(Told::Ill(error)) => p.note.bad #told role="alert" { (error) },
                Some(Told::Well(done)) => p.note.good #told role="status" { (done) },
                None => {}
            }
            form method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                div {
                    label for="token" { "API token" }
                    input #token type="password" name="token" required autocomplete="off" spellcheck="false" autofocus aria-describedby=(if matches!(told, Some(Told::Ill(_))) { "told token-hint" } else { "token-hint" });
                    p.hint #token-hint { "A token that your cluster accepts. It is checked by the API server, and not kept." }
                }
                button.main type="submit" { "Sign in" }
            }
            div {
                h2 { "Or use a one-time link" }
                p.quiet { "This prints one. It works once, within 10 minutes." }
                pre { "kubectl attention open" }
            }
        },
    )
}

/// What a one-time link shows. Only the button uses it up, so that previews and scanners of links do not.
pub(super) fn link(code: &str, next: &str, user: &str) -> Markup {
    door(
        "Sign in",
        &html! {
            h1 { "Sign in with this link" }
            p { "You will be signed in as " bdi { b { (user) } } ", for 8 hours at most. The link works once." }
            form method="post" action="/login" {
                input type="hidden" name="code" value=(code);
                input type="hidden" name="next" value=(next);
                button.main type="submit" autofocus { "Sign in" }
            }
        },
    )
}

/// A way back to the form.
pub(super) fn used(sentence: &str) -> Markup {
    door(
        "Sign in",
        &html! {
            h1 { "This link does not work" }
            p role="alert" { (sentence) }
            a.button href="/login" { "Sign in another way" }
        },
    )
}
