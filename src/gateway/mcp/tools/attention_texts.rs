//! What agents are told about asking a person.

use crate::gateway::{Settings, Transport};
use std::fmt::Write as _;
use std::time::Duration;

/// The description of `request_attention`: when to ask, how long it waits, and what the answers mean.
pub(super) fn request_attention(settings: &Settings) -> String {
    if settings.transport == Transport::Stdio {
        return elsewhere("Asks an operator for help.");
    }
    let mut text = String::from(
        "Asks an operator for help and blocks until the operator answers, the request times out, or it is cancelled. While it is open, \
         the operator can watch this session's browser and, in mode takeover, drive it.\n\
         Ask when a person is needed: a two-factor prompt, a payment, a password, a judgment call. Do not ask for what you can do yourself, \
         and try other ways first when a tool merely failed. A rejected request must not be asked again unchanged.\n",
    );
    text.push_str(if settings.captcha {
        "A CAPTCHA is such a case: this server does not detect or solve CAPTCHAs; hand the page to an operator with this tool.\n"
    } else {
        "No hand-off of CAPTCHAs is expected here: do not ask an operator to solve one.\n"
    });
    if !settings.dashboard {
        text.push_str("The dashboard is off here: operators answer with kubectl and cannot drive the browser.\n");
    }
    let cap = words(settings.attention_timeout);
    let floor = settings.min_attention_wait;
    let floor = if floor.is_zero() {
        "there is no minimum".to_owned()
    } else {
        format!("at least {}: a smaller max_wait_seconds is raised to it, so that a human has time to respond", words(floor))
    };
    _ = write!(
        text,
        "max_wait_seconds: 0 or absent waits up to {cap}; positive waits that long ({floor}), never longer than {cap}.\n\
         Results: resolved (done, continue), rejected (give up or try something else; or the session or the server ended, the message says \
         which), timeout, cancelled. pending means that the request is still open: call get_attention_result with its request_id, do not \
         ask again. If the connection drops, get_attention_result returns the same result. After an operator has driven the browser, take \
         a snapshot before you act."
    );
    text
}

/// The description of `get_attention_result`.
pub(super) fn get_attention_result(settings: &Settings) -> String {
    if settings.transport == Transport::Stdio {
        return elsewhere("Returns the result of an attention request.");
    }
    "Returns the result of an attention request: at once when it is settled, otherwise it blocks the same way as request_attention. Use it \
     after a dropped connection, a client timeout, or a pending result. Without request_id it is your newest request (of session_id, if \
     given). An unknown id returns rejected with \"Unknown attention request\"."
        .to_owned()
}

/// The description of `cancel_attention`.
pub(super) fn cancel_attention(settings: &Settings) -> String {
    if settings.transport == Transport::Stdio {
        return elsewhere("Withdraws an attention request.");
    }
    "Withdraws an open attention request of yours: its result becomes cancelled. A request that is settled already keeps its result, which \
     is returned."
        .to_owned()
}

/// No operator is reached over standard input and output.
fn elsewhere(what: &str) -> String {
    format!("{what} Not over this connection: it answers ATTENTION_REQUIRES_HTTP. Go on without a person, or end.")
}

fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        s if s >= 3600 && s.is_multiple_of(3600) => plural(s / 3600, "hour"),
        s if s >= 60 && s.is_multiple_of(60) => plural(s / 60, "minute"),
        s => plural(s, "second"),
    }
}

fn plural(n: u64, unit: &str) -> String {
    if n == 1 { format!("1 {unit}") } else { format!("{n} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    #[test]
    fn the_agent_is_told_the_floor_the_cap_and_when_to_ask() {
        let text = request_attention(&settings(&[]));
        for part in [
            "at least 30 minutes",
            "6 hours",
            "CAPTCHA is such a case",
            "must not be asked again unchanged",
            "do not ask again",
            "snapshot before you act",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = request_attention(&settings(&["--minAttentionWait", "0", "--captcha", "off", "--attentionTimeout", "90s"]));
        for part in ["there is no minimum", "90 seconds", "No hand-off of CAPTCHAs is expected"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = request_attention(&settings(&["--admin", "false"]));
        assert!(text.contains("kubectl"), "{text}");
        let local = settings(&["--transport", "stdio"]);
        for text in [request_attention(&local), get_attention_result(&local), cancel_attention(&local)] {
            assert!(text.contains("ATTENTION_REQUIRES_HTTP") && !text.contains("CAPTCHA"), "{text}");
        }
    }
}
