//! The Help page. The scripts show its list of keys as a dialog too.

use maud::{Markup, html};

/// The page's content.
pub(super) fn page() -> Markup {
    html! {
        div.head { h1 { "Help" } }
        div.help {
            section aria-labelledby="help-answer" {
                h2 #help-answer { "Answer a request" }
                p { "An agent waits for each request on " a href="/attention" { "Attention" } ". Open it: first comes what the server knows, then the agent's own words. Anybody can write those: treat them as a stranger's." }
                ol {
                    li { "For a takeover, press " b { "Open live & take over" } ". Your mouse, wheel, keyboard and touch go to the agent's page, and the agent waits." }
                    li { "Type a message for the agent, if it needs one." }
                    li { b { "Resolve" } " tells it: done, go on. " b { "Reject" } " tells it to give up or to try something else." }
                }
                p { "The first answer counts, for ever. If somebody is faster, or the time is up, you are told so, and what you typed stays on the page." }
                p { b { "Claim" } " shows others that you are on it. It keeps nobody from answering." }
            }
            section aria-labelledby="help-hands" {
                h2 #help-hands { "Who has the hands" }
                dl.facts {
                    dt { "Watching" } dd { "You see the page; nothing that you do reaches it." }
                    dt { "You are driving" } dd { "Your input goes to the page. Without input for ten minutes, control is handed back." }
                    dt { "Somebody is driving" } dd { "Another person has control. You can take over when they let go." }
                    dt { "View lost" } dd { "The connection broke; it comes back by itself. If you were driving, control waits for you for half a minute." }
                }
            }
            (keys())
            section aria-labelledby="help-kubectl" {
                h2 #help-kubectl { "The same with kubectl" }
                pre { "kubectl attention list\nkubectl attention show NAME\nkubectl attention resolve NAME -m 'Done, continue.'\nkubectl attention reject NAME -m 'Use the other supplier.'" }
            }
        }
    }
}

const KEYS: &[(&[&str], &str)] = &[
    (&["?"], "These keys"),
    (&["/"], "Find in this list"),
    (&["g", "a"], "Go to Attention"),
    (&["g", "s"], "Go to Sessions"),
    (&["g", "h"], "Go to History"),
    (&["j"], "Next row"),
    (&["k"], "Row before"),
    (&["o"], "Open the row"),
    (&["x"], "Select the row"),
    (&["c"], "Claim"),
    (&["t"], "Take over"),
    (&["r"], "To the answer: Resolve"),
    (&["e"], "To the answer: Reject"),
    (&["Esc", "Esc"], "Let go while driving"),
];

fn keys() -> Markup {
    html! {
        section #keys aria-labelledby="help-keys" {
            h2 #help-keys { "Keys" }
            dl.keys-list {
                @for (keys, what) in KEYS {
                    dt { @for key in *keys { kbd { (key) } " " } }
                    dd { (what) }
                }
            }
            p.hint { "None of them works while you type or drive." }
            label.check hidden { input type="checkbox" data-keys-on; " Use these keys" }
        }
    }
}
