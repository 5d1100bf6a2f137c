//! `kubectl attention resolve` and `reject`: the answer is one merge patch as the person who runs it.
//!
//! A second person whose answer equals the first gets success from the API server, so `by` in the reply is compared.

use super::args::{DecideArgs, Format};
use super::connect::Cluster;
use super::error::{Error, Exit};
use super::output::Output;
use super::request::Request;
use super::select::{Query, bare_name};
use crate::api::v1alpha1::{AskType, Phase, Principal, ResolutionOutcome, Verdict};
use futures::{StreamExt as _, stream};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// How many answers travel at once.
const AT_ONCE: usize = 8;

/// What a person decided, about which requests.
pub(super) struct Decision<'a> {
    pub outcome: ResolutionOutcome,
    pub args: &'a DecideArgs,
}

pub(super) async fn run(cluster: &Cluster, decision: &Decision<'_>, out: &mut Output) -> Result<Exit, Error> {
    let chosen = choose(cluster, decision, out).await?;
    if chosen.is_empty() {
        return Ok(Exit::Done);
    }
    let me = cluster.whoami().await?;
    let single = chosen.len() == 1;
    let mut replies = stream::iter(chosen.iter().map(|which| answer(cluster, decision, which, &me))).buffered(AT_ONCE);
    let mut exits = Vec::new();
    let mut answered = Vec::new();
    while let Some(reply) = replies.next().await {
        match reply {
            Ok(request) => {
                exits.push(Exit::Done);
                match decision.args.output {
                    None | Some(Format::Wide) => out.line(&format!("{} {}", request.resource_name(), done(decision.outcome))),
                    Some(Format::Name) => out.line(&request.resource_name()),
                    Some(Format::Json | Format::Yaml) => answered.push(request),
                }
            }
            Err(error) => {
                exits.push(error.exit());
                out.complain(&error);
            }
        }
    }
    if let Some(format @ (Format::Json | Format::Yaml)) = decision.args.output
        && !answered.is_empty()
    {
        out.objects(format, &answered, single)?;
    }
    Ok(Exit::of_all(exits))
}

fn done(outcome: ResolutionOutcome) -> &'static str {
    match outcome {
        ResolutionOutcome::Resolved => "resolved",
        ResolutionOutcome::Rejected => "rejected",
    }
}

/// A request that is to be answered.
struct Which {
    namespace: String,
    name: String,
}

async fn choose(cluster: &Cluster, decision: &Decision<'_>, out: &mut Output) -> Result<Vec<Which>, Error> {
    let args = decision.args;
    if !args.names.is_empty() {
        let mut chosen: Vec<Which> = Vec::new();
        for name in &args.names {
            let name = bare_name(name)?;
            if !chosen.iter().any(|which| which.name == name) {
                chosen.push(Which { namespace: cluster.namespace.clone(), name: name.to_owned() });
            }
        }
        return Ok(chosen);
    }
    let query = Query { all_namespaces: args.all_namespaces, selector: args.selector.as_deref(), phases: None };
    let found = query.run(cluster).await?;
    if found.is_empty() {
        out.remark("No open attention requests found.");
    }
    if found.len() > 1 && !args.yes {
        let names: Vec<String> = found.iter().map(|request| format!("  {}/{}", request.namespace(), request.name())).collect();
        let verb = match decision.outcome {
            ResolutionOutcome::Resolved => "resolve",
            ResolutionOutcome::Rejected => "reject",
        };
        return Err(Error::Usage(format!("this would {verb} {} requests:\n{}\nAdd --yes to do it.", found.len(), names.join("\n"))));
    }
    Ok(found.iter().map(|request| Which { namespace: request.namespace(), name: request.name() }).collect())
}

async fn answer(cluster: &Cluster, decision: &Decision<'_>, which: &Which, me: &Principal) -> Result<Request, Error> {
    let api = cluster.requests(Some(&which.namespace));
    let before = Request::try_from(api.get(&which.name).await?)?;
    let patch = patch(decision, &before, me);
    let reply = match api.patch(&which.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(reply) => Request::try_from(reply)?,
        Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
            // Refused: because somebody was first, or because the answer does not fit?
            let now = Request::try_from(api.get(&which.name).await?)?;
            let error = Error::Api(status);
            return Err(if now.is_open() { error } else { Error::Settled(format!("{}\n{}", error, outcome(&now))) });
        }
        Err(error) => return Err(error.into()),
    };
    let first = reply.typed.spec.resolution.as_ref().and_then(|resolution| resolution.by.as_ref());
    match first {
        Some(by) if !by.is(me) => Err(Error::Settled(format!("{} Your answer is the same and changed nothing.", outcome(&reply)))),
        _ => Ok(reply),
    }
}

/// How a request ended and who was first.
fn outcome(request: &Request) -> String {
    let ended = match request.phase() {
        Some(Phase::Resolved) => "was already resolved",
        Some(Phase::Rejected) => "was already rejected",
        Some(Phase::Timeout) => "had already timed out",
        Some(Phase::Cancelled) => "was already cancelled",
        None | Some(Phase::Pending) => "is settled",
    };
    let by = request.answered_by().map(|by| format!(" by {by}")).unwrap_or_default();
    let at = request.settled_at().map(|at| format!(" at {at}")).unwrap_or_default();
    format!("{} {ended}{by}{at}.", request.resource_name())
}

/// The one-line patch, with what was given. `by` is filled in for clusters that do not stamp it; one that does replaces it.
fn patch(decision: &Decision<'_>, request: &Request, me: &Principal) -> Value {
    let args = decision.args;
    let mut resolution = serde_json::Map::new();
    resolution.insert("outcome".into(), json!(decision.outcome));
    if let Some(verdict) = args.verdict.or_else(|| obvious_verdict(decision.outcome, request)) {
        resolution.insert("verdict".into(), json!(verdict));
    }
    for (key, value) in [("answer", &args.answer), ("summary", &args.summary), ("note", &args.note), ("message", &args.message)] {
        if let Some(value) = value {
            resolution.insert(key.into(), json!(value));
        }
    }
    resolution.insert("by".into(), json!(me));
    json!({"spec": {"resolution": resolution}})
}

/// The verdict that goes without saying. What gives an agent more than words is never implied.
fn obvious_verdict(outcome: ResolutionOutcome, request: &Request) -> Option<Verdict> {
    let ask = request.typed.spec.ask.as_ref()?.type_;
    match (outcome, ask) {
        (ResolutionOutcome::Resolved, AskType::Question | AskType::Clarification | AskType::Decision | AskType::Other) => {
            Some(Verdict::Answered)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::list::tests::request;

    fn args() -> DecideArgs {
        DecideArgs {
            names: vec!["a".into()],
            selector: None,
            all_open: false,
            all_namespaces: false,
            yes: false,
            message: None,
            verdict: None,
            answer: None,
            summary: None,
            note: None,
            output: None,
        }
    }

    fn me() -> Principal {
        Principal { username: "olga".into(), uid: Some("u-7".into()), extra: None }
    }

    #[test]
    fn the_patch_says_what_was_given_and_who_we_are() {
        let plain = args();
        let full = DecideArgs {
            message: Some("Done, continue.".into()),
            verdict: Some(Verdict::Done),
            answer: Some("42".into()),
            summary: Some("s".into()),
            note: Some("n".into()),
            ..args()
        };
        let by = json!({"username": "olga", "uid": "u-7"});
        let a = request("a", json!({}), json!({}));
        assert_eq!(patch(&plain.reject(), &a, &me()), json!({"spec": {"resolution": {"outcome": "Rejected", "by": by}}}));
        assert_eq!(
            patch(&full.resolve(), &a, &me()),
            json!({"spec": {"resolution": {"outcome": "Resolved", "verdict": "Done", "answer": "42", "summary": "s", "note": "n", "message": "Done, continue.", "by": by}}})
        );
    }

    #[test]
    fn an_approval_is_never_implied() {
        let ask = |type_: &str| request("a", json!({"mode": "Notify", "ask": {"type": type_}}), json!({}));
        for (type_, resolved) in [
            ("Question", Some(Verdict::Answered)),
            ("Clarification", Some(Verdict::Answered)),
            ("Decision", Some(Verdict::Answered)),
            ("Other", Some(Verdict::Answered)),
            ("Approval", None),
            ("DestructiveAction", None),
            ("Access", None),
            ("Takeover", None),
        ] {
            assert_eq!(obvious_verdict(ResolutionOutcome::Resolved, &ask(type_)), resolved, "{type_}");
            assert_eq!(obvious_verdict(ResolutionOutcome::Rejected, &ask(type_)), None, "{type_}");
        }
        assert_eq!(obvious_verdict(ResolutionOutcome::Resolved, &request("a", json!({}), json!({}))), None);
    }

    #[test]
    fn the_loser_is_told_who_was_first() {
        let answered = json!({"resolution": {"outcome": "Rejected", "by": {"username": "alice"}}});
        for (spec, status, want) in [
            (answered, json!({"phase": "Pending"}), "attentionrequest.beckon.dev/a was already rejected by alice."),
            (
                json!({}),
                json!({"phase": "Timeout", "settledAt": "2026-01-03T06:00:00Z"}),
                "attentionrequest.beckon.dev/a had already timed out at 2026-01-03T06:00:00Z.",
            ),
        ] {
            assert_eq!(outcome(&request("a", spec, status)), want);
        }
    }
}
