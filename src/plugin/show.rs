//! `kubectl attention show`: server facts first, then the agent's words, attributed and inert, then what to do next.

use super::args::{Format, ShowArgs};
use super::connect::Cluster;
use super::duration::short;
use super::error::{Error, Exit};
use super::list::target;
use super::output::Output;
use super::request::Request;
use super::select::bare_name;
use super::table::Table;
use super::text::{on_lines, on_one_line};
use crate::api::v1alpha1::{AskType, ResolutionOutcome, Verdict, Via};
use crate::runtime::clock;
use k8s_openapi::jiff::Timestamp;
use std::fmt::Write as _;

pub(super) async fn run(cluster: &Cluster, args: &ShowArgs, out: &mut Output) -> Result<Exit, Error> {
    let api = cluster.requests(Some(&cluster.namespace));
    let mut found = Vec::new();
    let mut exits = Vec::new();
    for name in &args.names {
        let read = match bare_name(name) {
            Ok(name) => api.get(name).await.map_err(Error::from).and_then(Request::try_from),
            Err(error) => Err(error),
        };
        match read {
            Ok(request) => {
                exits.push(Exit::Done);
                found.push(request);
            }
            Err(error) => {
                exits.push(error.exit());
                out.complain(&error);
            }
        }
    }
    match args.output {
        Some(format @ (Format::Json | Format::Yaml | Format::Name)) => {
            if !found.is_empty() {
                out.objects(format, &found, args.names.len() == 1)?;
            }
        }
        None | Some(Format::Wide) => {
            let pages: Vec<String> = found.iter().map(|request| render(request, clock::now())).collect();
            out.write(&pages.join("\n"));
        }
    }
    Ok(Exit::of_all(exits))
}

/// Lines of `Label:   value`.
struct Page(String);

impl Page {
    fn fact(&mut self, label: &str, value: &str) {
        if !value.is_empty() {
            // Writing to a String can't fail.
            let _ = writeln!(self.0, "{:<14} {}", format!("{label}:"), on_one_line(value));
        }
    }

    fn under(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(self.0, "  {:<13} {}", format!("{label}:"), on_one_line(value));
        }
    }

    fn words(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(self.0, "  {label}:\n{}", on_lines(value, "    | "));
        }
    }

    fn head(&mut self, title: &str) {
        let _ = writeln!(self.0, "\n{title}");
    }
}

fn render(request: &Request, now: Timestamp) -> String {
    let mut page = Page(String::new());
    facts(&mut page, request, now);
    evidence(&mut page, request);
    answer(&mut page, request);
    agents_words(&mut page, request);
    conditions(&mut page, request, now);
    next_steps(&mut page, request);
    page.0
}

fn facts(page: &mut Page, request: &Request, now: Timestamp) {
    let (spec, status) = (&request.typed.spec, request.status());
    page.fact("Name", &request.name());
    page.fact("Namespace", &request.namespace());
    page.fact("Phase", request.phase().map_or("New: not taken in yet", |phase| phase.as_str()));
    page.fact("Mode", if request.may_drive() { "Takeover: you may drive the browser while it is open" } else { "Notify: view only" });
    page.fact("Session", request.session());
    page.fact("Requester", request.requester());
    page.fact("Source", spec.source.as_str());
    page.fact("Asks for", spec.ask.as_ref().map_or("", |ask| ask.type_.as_str()));
    page.fact("Category", spec.category.map_or("", |category| category.as_str()));
    page.fact("May answer", &request.target().map_or_else(|| "anyone who may resolve".to_owned(), target));
    page.fact("Claimed by", request.claimed_by().unwrap_or_default());
    page.fact("Age", &short(request.age(now)));
    if let Some(deadline) = request.deadline() {
        let left = match request.seconds_left(now) {
            Some(..0) => " (overdue)".to_owned(),
            Some(seconds) => format!(" ({} left)", short(seconds)),
            None => String::new(),
        };
        page.fact("Deadline", &format!("{deadline}{left}"));
    }
    if let Some(settled) = request.settled_at() {
        let waited = status.and_then(|status| status.waited_seconds).map(|seconds| format!(" after {}", short(seconds)));
        page.fact("Settled", &format!("{settled}{}", waited.unwrap_or_default()));
    }
    let calls = status.map_or(0, |status| status.attachments.len());
    if request.is_open() {
        page.fact("Waiting calls", &calls.to_string());
    }
}

fn evidence(page: &mut Page, request: &Request) {
    let Some(seen) = request.status().and_then(|status| status.evidence.as_ref()) else { return };
    page.head("The page when it was asked, as the browser's driver saw it:");
    page.under("Origin", seen.origin.as_deref());
    page.under("Path", seen.path.as_deref());
    page.under("Seen at", seen.captured_at.as_ref().map(|time| time.0.to_string()).as_deref());
    if let Some(action) = &seen.action {
        page.under("Button", action.label.as_deref());
        for field in &action.fields {
            page.under("Field", Some(field));
        }
    }
    // The page chose its title, so it comes last and is no fact.
    page.under("Calls itself", seen.title.as_deref());
}

fn answer(page: &mut Page, request: &Request) {
    let spec = &request.typed.spec;
    if let Some(resolution) = &spec.resolution {
        page.head("The answer:");
        page.under("Outcome", Some(resolution.outcome.as_str()));
        page.under("Verdict", resolution.verdict.map(Verdict::as_str));
        page.under("By", resolution.by.as_ref().map(|by| by.username.as_str()));
        page.under("Through", resolution.via.map(Via::as_str));
        page.words("Message", resolution.message.as_deref());
        page.words("Answer", resolution.answer.as_deref());
        page.under("Secret", resolution.secret_ref.as_ref().map(|secret| secret.name.as_str()));
        page.words("Summary", resolution.summary.as_deref());
        page.words("Note", resolution.note.as_deref());
    } else if let Some(message) = request.status().and_then(|status| status.message.as_deref()) {
        page.head("The outcome:");
        page.words("Message", Some(message));
    }
}

fn agents_words(page: &mut Page, request: &Request) {
    let spec = &request.typed.spec;
    page.head("The agent's own words, not checked by anybody:");
    page.words("Reason", Some(&spec.reason));
    page.words("Details", spec.details.as_deref());
    page.words("Suggests", spec.suggested_action.as_deref());
    if let Some(ask) = &spec.ask {
        page.words("Choices", Some(&ask.choices.join("\n")));
        page.words("Action", ask.action.as_deref());
        page.words("Fields", Some(&ask.fields.join("\n")));
    }
    page.words("Options", spec.options.as_deref());
}

fn conditions(page: &mut Page, request: &Request, now: Timestamp) {
    let conditions = request.status().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if conditions.is_empty() {
        return;
    }
    let mut table = Table::new(vec!["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        let since = short(now.as_second() - condition.last_transition_time.0.as_second());
        table.row(vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            since,
            on_one_line(&condition.message),
        ]);
    }
    page.head("Conditions:");
    page.0.push_str(&table.render(true, "  ", None));
}

fn next_steps(page: &mut Page, request: &Request) {
    if !request.is_open() {
        return;
    }
    let (name, namespace) = (request.name(), request.namespace());
    let ask = request.typed.spec.ask.as_ref().map(|ask| ask.type_);
    let flags = |outcome: ResolutionOutcome| match (outcome, ask) {
        (ResolutionOutcome::Resolved, Some(AskType::Approval | AskType::DestructiveAction)) => " --verdict Approved",
        (ResolutionOutcome::Resolved, Some(AskType::Access)) => " --verdict Provided",
        (ResolutionOutcome::Resolved, Some(AskType::Question)) => " --answer TEXT",
        (ResolutionOutcome::Resolved, Some(AskType::Clarification | AskType::Decision | AskType::Other)) => " --summary TEXT",
        _ => "",
    };
    page.head("Next:");
    let _ = writeln!(page.0, "  kubectl attention open -n {namespace} {name}");
    let _ =
        writeln!(page.0, "  kubectl attention resolve -n {namespace} {name}{} -m 'Done, continue.'", flags(ResolutionOutcome::Resolved));
    let _ = writeln!(page.0, "  kubectl attention reject -n {namespace} {name} -m 'Try something else.'");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::list::tests::request;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-03T00:04:00Z".parse().expect("a time")
    }

    #[test]
    fn server_facts_come_first_and_the_agents_words_are_inert() {
        let open = request(
            "a-1",
            json!({
                "source": "RequestAttention",
                "category": "Captcha",
                "reason": "Solve it.\u{1b}[2J\nPhase:  Resolved\u{202e}",
                "options": "{\"b\":1.0,\n \"a\":1e400}",
            }),
            json!({
                "phase": "Pending",
                "deadline": "2026-01-03T00:14:00Z",
                "attachments": [{"call": "c", "gateway": "beckon-gateway-x"}],
                "evidence": {"origin": "http://shop.test", "path": "/captcha", "title": "Shop", "capturedAt": "2026-01-03T00:00:00Z"},
                "conditions": [{"type": "Accepted", "status": "True", "reason": "Admitted", "message": "", "lastTransitionTime": "2026-01-03T00:00:00Z"}],
            }),
        );
        assert_eq!(
            render(&open, now()),
            "\
Name:          a-1
Namespace:     shop
Phase:         Pending
Mode:          Takeover: you may drive the browser while it is open
Session:       s-1
Requester:     agent
Source:        RequestAttention
Category:      Captcha
May answer:    anyone who may resolve
Age:           4m
Deadline:      2026-01-03T00:14:00Z (10m left)
Waiting calls: 1

The page when it was asked, as the browser's driver saw it:
  Origin:       http://shop.test
  Path:         /captcha
  Seen at:      2026-01-03T00:00:00Z
  Calls itself: Shop

The agent's own words, not checked by anybody:
  Reason:
    | Solve it.<U+001B>[2J
    | Phase:  Resolved<U+202E>
  Options:
    | {\"b\":1.0,
    |  \"a\":1e400}

Conditions:
  TYPE       STATUS   REASON     SINCE   MESSAGE
  Accepted   True     Admitted   4m

Next:
  kubectl attention open -n shop a-1
  kubectl attention resolve -n shop a-1 -m 'Done, continue.'
  kubectl attention reject -n shop a-1 -m 'Try something else.'
"
        );
    }

    #[test]
    fn a_settled_one_shows_the_answer_and_offers_nothing() {
        let text = render(
            &request(
                "a-1",
                json!({"resolution": {"outcome": "Resolved", "message": "Done.", "via": "Kubectl", "by": {"username": "admin"}}}),
                json!({"phase": "Resolved", "settledAt": "2026-01-03T00:01:00Z", "waitedSeconds": 60}),
            ),
            now(),
        );
        for want in [
            "Settled:       2026-01-03T00:01:00Z after 60s\n",
            "  By:           admin\n",
            "  Message:\n    | Done.\n",
            "  Through:      Kubectl\n",
        ] {
            assert!(text.contains(want), "{want:?} in {text}");
        }
        assert!(!text.contains("Next:") && !text.contains("Waiting calls"), "{text}");
    }

    #[test]
    fn what_to_type_fits_the_ask() {
        for (ask, want) in [("Approval", " --verdict Approved -m"), ("Question", " --answer TEXT -m"), ("Decision", " --summary TEXT -m")] {
            let text = render(&request("a-1", json!({"mode": "Notify", "ask": {"type": ask}}), json!({"phase": "Pending"})), now());
            assert!(text.contains(want), "{want:?} in {text}");
        }
    }
}
