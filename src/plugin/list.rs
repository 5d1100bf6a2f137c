//! `kubectl attention list`.

use super::args::{Format, ListArgs};
use super::connect::Cluster;
use super::duration::short;
use super::error::{Error, Exit};
use super::output::Output;
use super::request::Request;
use super::select::Query;
use super::table::Table;
use super::text::on_one_line;
use crate::api::v1alpha1::Target;
use crate::runtime::clock;
use k8s_openapi::jiff::Timestamp;

pub(super) async fn run(cluster: &Cluster, args: &ListArgs, out: &mut Output) -> Result<Exit, Error> {
    let phases = if args.all || !args.phase.is_empty() { Some(args.phase.as_slice()) } else { None };
    let query = Query { all_namespaces: args.all_namespaces, selector: args.selector.as_deref(), phases };
    let requests = query.run(cluster).await?;
    match args.output {
        Some(format @ (Format::Json | Format::Yaml | Format::Name)) => out.objects(format, &requests, false)?,
        None | Some(Format::Wide) if requests.is_empty() => {
            let what = if phases.is_none() { "open attention requests" } else { "attention requests" };
            let place = if args.all_namespaces { String::new() } else { format!(" in namespace {}", cluster.namespace) };
            out.remark(&format!("No {what}{place}."));
        }
        None | Some(Format::Wide) => {
            let look = Look { namespaces: args.all_namespaces, wide: args.output.is_some(), headers: !args.no_headers, width: out.width };
            out.write(&render(&requests, look, clock::now()));
        }
    }
    Ok(Exit::Done)
}

/// How the table looks.
#[derive(Clone, Copy)]
struct Look {
    namespaces: bool,
    wide: bool,
    headers: bool,
    width: Option<usize>,
}

fn render(requests: &[Request], look: Look, now: Timestamp) -> String {
    let mut titles = vec!["NAME", "SESSION", "MODE", "PHASE", "BY", "LEFT", "AGE"];
    if look.namespaces {
        titles.insert(0, "NAMESPACE");
    }
    if look.wide {
        titles.extend(["DEADLINE", "REQUESTER", "TARGET", "MESSAGE"]);
    }
    titles.push("REASON");
    let mut table = Table::new(titles);
    for request in requests {
        table.row(row(request, look, now));
    }
    table.render(look.headers, "", look.width)
}

fn row(request: &Request, look: Look, now: Timestamp) -> Vec<String> {
    let by = match (request.answered_by(), request.claimed_by()) {
        (Some(by), _) => by.to_owned(),
        (None, Some(by)) if request.is_open() => format!("{by} (claimed)"),
        (None, _) => String::new(),
    };
    let left = match request.seconds_left(now) {
        Some(..0) => "overdue".to_owned(),
        Some(seconds) => short(seconds),
        None => String::new(),
    };
    let mut cells = vec![
        request.name(),
        request.session().to_owned(),
        request.typed.spec.mode.as_str().to_owned(),
        request.phase().map_or("New", |phase| phase.as_str()).to_owned(),
        by,
        left,
        short(request.age(now)),
    ];
    if look.namespaces {
        cells.insert(0, request.namespace());
    }
    if look.wide {
        let message = request.status().and_then(|status| status.message.as_deref());
        let answered = request.typed.spec.resolution.as_ref().and_then(|resolution| resolution.message.as_deref());
        cells.extend([
            request.deadline().map(|deadline| deadline.to_string()).unwrap_or_default(),
            request.requester().to_owned(),
            request.target().map(target).unwrap_or_default(),
            message.or(answered).unwrap_or_default().to_owned(),
        ]);
    }
    cells.push(request.typed.spec.reason.clone());
    // Names of users and messages are as free as the agent's words.
    cells.iter().map(|cell| if cell.is_empty() { "-".to_owned() } else { on_one_line(cell) }).collect()
}

/// Who may answer, in short.
pub(super) fn target(target: &Target) -> String {
    match target {
        Target { user: Some(user), .. } => format!("user {user}"),
        Target { group: Some(group), .. } => format!("group {group}"),
        _ => "administrators".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A request with these fields over a small one.
    pub(in crate::plugin) fn request(name: &str, spec: Value, status: Value) -> Request {
        let mut object = json!({
            "apiVersion": "beckon.dev/v1alpha1",
            "kind": "AttentionRequest",
            "metadata": {"name": name, "namespace": "shop", "uid": "u-1", "creationTimestamp": "2026-01-03T00:00:00Z", "managedFields": [{"manager": "x"}]},
            "spec": {"reason": "Checkout shows a CAPTCHA.", "mode": "Takeover", "sessionRef": {"name": "s-1"}, "requester": {"username": "agent"}},
        });
        for (part, fields) in [("spec", spec), ("status", status)] {
            for (key, value) in fields.as_object().expect("an object") {
                object[part][key] = value.clone();
            }
        }
        Request::try_from(serde_json::from_value::<kube::core::DynamicObject>(object).expect("an object")).expect("a request")
    }

    fn three() -> Vec<Request> {
        let pending = |deadline: &str| json!({"phase": "Pending", "deadline": deadline});
        vec![
            request(
                "a-soon",
                json!({"claim": {"since": "2026-01-03T00:01:00Z", "by": {"username": "olga"}}}),
                pending("2026-01-03T00:14:00Z"),
            ),
            request("a-late", json!({"mode": "Notify", "reason": "Choose:\u{1b}[31m\n1 or 2?"}), pending("2026-01-03T00:01:00Z")),
            request(
                "a-done",
                json!({"resolution": {"outcome": "Resolved", "message": "Done, continue.", "by": {"username": "admin"}}, "target": {"group": "ops"}}),
                json!({"phase": "Resolved", "deadline": "2026-01-03T06:00:00Z"}),
            ),
        ]
    }

    fn now() -> Timestamp {
        "2026-01-03T00:04:00Z".parse().expect("a time")
    }

    #[test]
    fn the_table_reads_like_kubectls() {
        let look = Look { namespaces: false, wide: false, headers: true, width: None };
        assert_eq!(
            render(&three(), look, now()),
            "\
NAME     SESSION   MODE       PHASE      BY               LEFT      AGE   REASON
a-soon   s-1       Takeover   Pending    olga (claimed)   10m       4m    Checkout shows a CAPTCHA.
a-late   s-1       Notify     Pending    -                overdue   4m    Choose:<U+001B>[31m↵1 or 2?
a-done   s-1       Takeover   Resolved   admin            -         4m    Checkout shows a CAPTCHA.
"
        );
    }

    #[test]
    fn the_reason_is_cut_to_the_terminal() {
        let look = Look { namespaces: true, wide: false, headers: true, width: Some(97) };
        assert_eq!(
            render(&three()[..1], look, now()),
            "\
NAMESPACE   NAME     SESSION   MODE       PHASE     BY               LEFT   AGE   REASON
shop        a-soon   s-1       Takeover   Pending   olga (claimed)   10m    4m    Checkout shows…
"
        );
    }

    #[test]
    fn wide_tells_the_deadline_who_asked_who_may_answer_and_the_answer() {
        let look = Look { namespaces: false, wide: true, headers: false, width: None };
        assert_eq!(
            render(&three()[2..], look, now()),
            "a-done   s-1   Takeover   Resolved   admin   -   4m   2026-01-03T06:00:00Z   agent   group ops   Done, continue.   Checkout shows a CAPTCHA.\n"
        );
    }
}
