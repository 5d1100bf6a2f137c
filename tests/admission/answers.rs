//! An answer fits what was asked.

use crate::world::{World, ask, fine, operator, refused};
use futures::future::join_all;
use serde_json::{Value, json};

on_both!(only_the_verdicts_that_fit, a_resolved_question_says_something, a_choice_is_one_of_the_choices, a_secret_stays_out_of_the_object);

const TYPES: &[&str] = &["", "Takeover", "Question", "Approval", "DestructiveAction", "Access", "Clarification", "Decision", "Other"];
const VERDICTS: &[&str] = &["", "Approved", "Denied", "Provided", "Answered", "Done", "Failed"];

/// What design and documentation promise, apart from the rule's own text.
fn fits(kind: &str, outcome: &str, verdict: &str) -> bool {
    match kind {
        "" => verdict.is_empty(),
        "Takeover" => matches!((outcome, verdict), (_, "") | ("Resolved", "Done") | ("Rejected", "Failed")),
        "Approval" | "DestructiveAction" => matches!((outcome, verdict), ("Resolved", "Approved") | ("Rejected", "" | "Denied")),
        "Access" => matches!((outcome, verdict), ("Resolved", "Provided") | ("Rejected", "" | "Denied")),
        _ => matches!((outcome, verdict), ("Resolved", "Answered") | ("Rejected", "")),
    }
}

fn request(kind: &str) -> Value {
    if kind.is_empty() { crate::world::plain() } else { ask(kind) }
}

async fn only_the_verdicts_that_fit(w: World) {
    join_all(TYPES.iter().map(async |kind| {
        let name = w.open(request(kind)).await;
        for outcome in ["Resolved", "Rejected"] {
            for verdict in VERDICTS {
                let mut resolution = json!({"outcome": outcome, "message": "m", "summary": "s"});
                if !verdict.is_empty() {
                    resolution["verdict"] = json!(verdict);
                }
                let reply = w.dry_write(&operator(), &name, json!({"resolution": resolution})).await;
                if fits(kind, outcome, verdict) {
                    fine(reply);
                } else {
                    let says =
                        if kind.is_empty() { "asks for no verdict".into() } else { format!("a request of type {kind} is answered with") };
                    refused(reply, 422, &says);
                }
            }
        }
    }))
    .await;
}

async fn a_resolved_question_says_something(w: World) {
    let question = w.open(ask("Question")).await;
    let answered = |more: Value| {
        let mut resolution = json!({"outcome": "Resolved", "verdict": "Answered"});
        resolution.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"resolution": resolution})
    };
    refused(w.dry_write(&operator(), &question, answered(json!({}))).await, 422, "a question needs an answer");
    fine(w.dry_write(&operator(), &question, answered(json!({"answer": "42"}))).await);
    fine(w.dry_write(&operator(), &question, answered(json!({"message": "see the mail"}))).await);
    fine(w.dry_write(&operator(), &question, json!({"resolution": {"outcome": "Rejected"}})).await);
    for (field, bound) in [("answer", 2000), ("summary", 2000), ("note", 500), ("message", 4000)] {
        let long = answered(json!({"answer": "a", field: "x".repeat(bound + 1)}));
        refused(w.dry_write(&operator(), &question, long).await, 422, &format!("spec.resolution.{field}: Too long"));
    }
    for kind in ["Clarification", "Decision", "Other"] {
        let name = w.open(ask(kind)).await;
        refused(w.dry_write(&operator(), &name, answered(json!({"answer": "a"}))).await, 422, "needs a summary");
        fine(w.dry_write(&operator(), &name, answered(json!({"summary": "s"}))).await);
        fine(w.dry_write(&operator(), &name, json!({"resolution": {"outcome": "Rejected"}})).await);
    }
}

async fn a_choice_is_one_of_the_choices(w: World) {
    let mut spec = ask("Question");
    spec["ask"]["choices"] = json!(["red", "blue"]);
    let name = w.open(spec).await;
    let choose = |answer: &str| json!({"resolution": {"outcome": "Resolved", "verdict": "Answered", "answer": answer}});
    refused(w.dry_write(&operator(), &name, choose("green")).await, 422, "the answer must be one of ask.choices");
    fine(w.dry_write(&operator(), &name, choose("blue")).await);
}

async fn a_secret_stays_out_of_the_object(w: World) {
    let mut spec = ask("Access");
    spec["ask"]["expectsSecret"] = json!(true);
    let name = w.open(spec).await;
    let provide = |field: &str, value: Value| json!({"resolution": {"outcome": "Resolved", "verdict": "Provided", field: value}});
    let secret = json!({"name": "code"});
    refused(w.dry_write(&operator(), &name, provide("answer", json!("123456"))).await, 422, "use secretRef, never answer");
    // Naming a Secret needs the right to read it, else the agent would be handed any Secret.
    refused(w.dry_write(&operator(), &name, provide("secretRef", secret.clone())).await, 403, "naming a Secret needs the right to read it");
    w.bind("test:secret-readers", "edit").await;
    fine(w.dry_write(&operator().group("test:secret-readers"), &name, provide("secretRef", secret.clone())).await);
    let open = w.open(ask("Access")).await;
    let both = json!({"resolution": {"outcome": "Resolved", "verdict": "Provided", "answer": "a", "secretRef": secret}});
    refused(w.dry_write(&operator(), &open, both).await, 422, "answer or secretRef, not both");
}
