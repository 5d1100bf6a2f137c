//! What a request may hold, and that what is asked never changes.

use crate::world::{World, agent, ask, cluster_admin, fine, gateway, plain, refused};
use serde_json::{Value, json};

on_both!(a_new_request_is_bounded, what_fits_is_taken, what_is_asked_never_changes, nothing_is_created_decided);

/// `plain` with one field set.
fn with(field: &str, value: Value) -> Value {
    let mut spec = plain();
    spec[field] = value;
    spec
}

async fn a_new_request_is_bounded(w: World) {
    let takeover = json!({"reason": "x"});
    let question = |field: &str, value: Value| {
        let mut spec = ask("Question");
        spec["ask"][field] = value;
        spec
    };
    let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
    for (spec, says) in [
        (takeover, "mode Takeover needs a sessionRef"),
        (with("ask", json!({"type": "Takeover"})), "ask.type Takeover goes with mode Takeover"),
        (json!({"sessionRef": {"name": "s"}, "ask": {"type": "Question"}, "reason": "x"}), "every other type with mode Notify"),
        (with("ask", json!({})), "spec.ask.type: Required value"),
        (with("reason", json!("")), "spec.reason"),
        (with("reason", json!("x".repeat(2001))), "spec.reason: Too long"),
        (json!({"mode": "Notify"}), "spec.reason: Required value"),
        (with("details", json!("x".repeat(4001))), "spec.details: Too long"),
        (with("suggestedAction", json!("x".repeat(501))), "spec.suggestedAction: Too long"),
        (with("options", json!("x".repeat(32_769))), "spec.options"),
        // Three bytes each: few enough characters, too many bytes.
        (with("options", json!("€".repeat(20_000))), "may not be longer than 32768 bytes"),
        (with("maxWaitSeconds", json!(-1)), "spec.maxWaitSeconds"),
        (with("maxWaitSeconds", json!(1.5)), "spec.maxWaitSeconds"),
        (with("reason", json!("a\u{7}b")), "may not contain control characters but line breaks and tabs"),
        (with("details", json!("a\u{1b}[31mb")), "may not contain control characters but line breaks and tabs"),
        (with("suggestedAction", json!("\u{9b}2J")), "may not contain control characters"),
        (with("options", json!("{}\u{0}")), "may not contain control characters"),
        (question("choices", json!(["yes", "no\u{8}"])), "may not contain control characters"),
        (with("mode", json!("notify")), "spec.mode: Unsupported value"),
        (with("source", json!("Elsewhere")), "spec.source: Unsupported value"),
        (with("category", json!("Boredom")), "spec.category: Unsupported value"),
        (with("waiter", json!("Maybe")), "spec.waiter: Unsupported value"),
        (with("target", json!({})), "exactly one of user, group and admins"),
        (with("target", json!({"user": "a", "group": "b"})), "exactly one of user, group and admins"),
        (with("target", json!({"admins": false})), "spec.target.admins"),
        (with("sessionRef", json!({"uid": "u"})), "spec.sessionRef.name: Required value"),
        (with("execution", json!({"expectedStateVersion": 1})), "spec.execution.id: Required value"),
        (with("idempotencyKey", json!("")), "spec.idempotencyKey"),
        (question("choices", json!([])), "spec.ask.choices"),
        (question("choices", json!(many)), "spec.ask.choices: Too many"),
        (question("choices", json!(["a", "a"])), "Duplicate value"),
        (question("action", json!("x".repeat(513))), "spec.ask.action: Too long"),
        (question("fields", json!(["x".repeat(1025)])), "spec.ask.fields[0]: Too long"),
    ] {
        refused(w.create(&agent(), spec).await, 422, says);
    }
    for (length, fits) in [(317, true), (318, false)] {
        let spec = with("requester", json!({"username": "u", "extra": {"k".repeat(length): ["v"]}}));
        let reply = w.create(&gateway(), spec).await;
        if fits {
            fine(reply);
        } else {
            refused(reply, 422, "a key may have at most 317 characters");
        }
    }
}

async fn what_fits_is_taken(w: World) {
    let options = format!("{{\"b\": 1.0, \"a\": 1e400, \"t\": \"{}\"}}", "€".repeat(10_000));
    let spec = json!({
        "mode": "Notify", "reason": "x".repeat(2000), "details": "€".repeat(4000), "suggestedAction": "x".repeat(500),
        "options": options, "maxWaitSeconds": 0, "category": "Stuck", "idempotencyKey": "k", "inputDigest": "d",
        "target": {"admins": true}, "execution": {"id": "run-1", "expectedStateVersion": 0},
        "ask": {"type": "Question", "choices": ["a", "b"], "expectsSecret": false, "action": "Pay", "fields": ["total: 1"]},
    });
    let stored = fine(w.create(&agent(), spec).await);
    assert_eq!(stored["spec"]["options"], options.as_str(), "token for token");
    assert_eq!(fine(w.create(&agent(), with("options", json!("x".repeat(32_768)))).await)["spec"]["waiter"], "None");
    fine(w.create(&agent(), with("reason", json!("first\r\n\tsecond, übung, 日本"))).await);
    // Above the cap is the cap, no error.
    fine(w.create(&agent(), with("maxWaitSeconds", json!(9_007_199_254_740_991_i64))).await);
    let takeover = fine(w.create(&agent(), json!({"sessionRef": {"name": "s"}, "reason": "x"})).await);
    assert_eq!((&takeover["spec"]["mode"], &takeover["spec"]["source"]), (&json!("Takeover"), &json!("Kubectl")));
    // A field that does not exist is not stored, and an explicit null is absence.
    let odd = fine(w.create(&agent(), json!({"mode": "Notify", "reason": "x", "details": null, "typo": 1})).await);
    assert!(odd["spec"].get("typo").is_none() && odd["spec"].get("details").is_none());
}

async fn what_is_asked_never_changes(w: World) {
    let full = json!({
        "mode": "Notify", "reason": "r", "details": "d", "suggestedAction": "s", "options": "{}", "maxWaitSeconds": 60, "category": "Stuck",
        "idempotencyKey": "k", "inputDigest": "d", "target": {"user": "u"}, "execution": {"id": "e"}, "sessionRef": {"name": "s"},
        "ask": {"type": "Question"},
    });
    let name = w.open(full).await;
    for (field, other) in [
        ("sessionRef", json!({"name": "t"})),
        ("ask", json!({"type": "Other"})),
        ("category", json!("Captcha")),
        ("details", json!("other")),
        ("suggestedAction", json!("other")),
        ("options", json!("[]")),
        ("maxWaitSeconds", json!(61)),
        ("execution", json!({"id": "f"})),
        ("target", json!({"user": "v"})),
        ("idempotencyKey", json!("l")),
        ("inputDigest", json!("e")),
        ("source", json!("Run")),
        ("mode", json!("Takeover")),
        ("reason", json!("other")),
        ("waiter", json!("Required")),
        ("requester", json!({"username": "mallory"})),
    ] {
        let says = format!("spec.{field}: Forbidden: is immutable");
        for who in [agent(), gateway(), cluster_admin()] {
            refused(w.merge(&who, &name, json!({"spec": {field: other}})).await, 422, &says);
        }
        // A default comes back, what is required may not go, and everything else may not go either.
        if !["source", "mode", "reason", "waiter", "requester"].contains(&field) {
            refused(w.merge(&agent(), &name, json!({"spec": {field: null}})).await, 422, &says);
        }
    }
    let bare = w.open(plain()).await;
    refused(w.merge(&agent(), &bare, json!({"spec": {"details": "more"}})).await, 422, "spec.details: Forbidden: is immutable");
    fine(w.merge(&agent(), &bare, json!({"metadata": {"labels": {"a": "b"}}})).await);
}

async fn nothing_is_created_decided(w: World) {
    let by = json!({"username": agent().name});
    for (field, value) in [
        ("resolution", json!({"outcome": "Resolved", "by": by})),
        ("completion", json!({"reason": "HandoverEnded", "by": by})),
        ("cancel", json!({"by": by})),
        ("claim", json!({"since": "2026-01-01T00:00:00Z", "by": by})),
        ("extensions", json!([{"seconds": 60, "by": by}])),
        ("retargets", json!([{"target": {"user": "u"}, "by": by}])),
        ("ack", json!({"key": "k", "generation": 1, "by": by})),
    ] {
        for who in [agent(), cluster_admin(), gateway()] {
            let mut spec = with(field, value.clone());
            if who == gateway() {
                spec["requester"] = json!({"username": agent().name});
            }
            refused(w.create(&who, spec).await, 422, "a request can't be created already answered");
        }
    }
    // A status that is sent along is dropped.
    let object = json!({"spec": plain(), "status": {"phase": "Resolved", "message": "done"}});
    assert!(fine(w.create_object(&agent(), object).await).get("status").is_none());
}
