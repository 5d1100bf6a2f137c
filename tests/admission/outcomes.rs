//! The state machine: set once, first wins, for ever, and the phase agrees with the stored decision, whoever writes.

use crate::world::{World, agent, ask, cluster_admin, controller, fine, gateway, operator, other_operator, plain, refused};
use serde_json::{Value, json};

on_both!(
    an_answer_needs_an_open_request,
    the_first_decision_wins,
    the_phase_agrees_with_the_decision,
    what_is_settled_stays_settled,
    the_times_are_stamped_once,
    lists_only_grow_and_only_while_open,
    an_acknowledgement_is_of_a_settled_answer,
);

fn resolved() -> Value {
    json!({"resolution": {"outcome": "Resolved", "message": "done"}})
}
fn completed() -> Value {
    json!({"completion": {"reason": "AgentResumed", "by": {"username": agent().name}}})
}
fn cancelled() -> Value {
    json!({"cancel": {"reason": "no longer needed"}})
}
const ENDS: &[&str] = &["Resolved", "Rejected", "Timeout", "Cancelled"];

/// An open request that the controller has settled so.
async fn settled(w: &World, phase: &str) -> String {
    let name = w.open(plain()).await;
    match phase {
        "Resolved" => drop(fine(w.write(&operator(), &name, resolved()).await)),
        "Cancelled" => drop(fine(w.write(&agent(), &name, cancelled()).await)),
        _ => {}
    }
    fine(w.status(&controller(), &name, json!({"phase": phase, "settledAt": "2026-01-01T01:00:00Z"})).await);
    name
}

async fn an_answer_needs_an_open_request(w: World) {
    let unseen = w.created(plain()).await;
    refused(w.write(&operator(), &unseen, resolved()).await, 422, "this request is not open yet");
    refused(w.write(&gateway(), &unseen, completed()).await, 422, "this request is not open yet");
    // Who asked may think better of it before anybody has seen it.
    fine(w.write(&agent(), &unseen, cancelled()).await);
    for phase in ["Rejected", "Timeout"] {
        let late = settled(&w, phase).await;
        let says = format!("this request is already settled: {phase}");
        refused(w.write(&operator(), &late, resolved()).await, 422, &says);
        refused(w.write(&gateway(), &late, completed()).await, 422, &says);
        refused(w.write(&agent(), &late, cancelled()).await, 422, &says);
        refused(w.write(&cluster_admin(), &late, resolved()).await, 422, &says);
    }
}

async fn the_first_decision_wins(w: World) {
    let answered = w.open(plain()).await;
    fine(w.write(&operator(), &answered, resolved()).await);
    let says = "this request was already answered: Resolved by olga";
    let other = json!({"resolution": {"outcome": "Rejected", "message": null}});
    refused(w.merge(&other_operator(), &answered, json!({"spec": other})).await, 422, says);
    refused(w.merge(&operator(), &answered, json!({"spec": {"resolution": null}})).await, 422, says);
    refused(w.merge(&operator(), &answered, json!({"spec": {"resolution": {"message": "edited"}}})).await, 422, says);
    refused(w.merge(&cluster_admin(), &answered, json!({"spec": {"resolution": {"by": {"username": "root"}}}})).await, 422, says);
    refused(w.write(&gateway(), &answered, completed()).await, 422, says);
    refused(w.write(&agent(), &answered, cancelled()).await, 422, says);

    let completed_name = w.open(plain()).await;
    fine(w.write(&gateway(), &completed_name, completed()).await);
    let says = "this request was already completed: AgentResumed";
    refused(w.write(&operator(), &completed_name, resolved()).await, 422, says);
    refused(w.write(&agent(), &completed_name, cancelled()).await, 422, says);
    refused(w.merge(&gateway(), &completed_name, json!({"spec": {"completion": null}})).await, 422, says);

    let cancelled_name = w.open(plain()).await;
    fine(w.write(&agent(), &cancelled_name, cancelled()).await);
    let says = "this request was already cancelled";
    refused(w.write(&operator(), &cancelled_name, resolved()).await, 422, says);
    refused(w.merge(&agent(), &cancelled_name, json!({"spec": {"cancel": null}})).await, 422, says);

    let both = json!({"resolution": {"outcome": "Resolved"}, "cancel": {}});
    let open = w.open(plain()).await;
    refused(w.write(&operator(), &open, both).await, 422, "only one of resolution, completion and cancel");
}

async fn the_phase_agrees_with_the_decision(w: World) {
    let contradiction = "status.phase contradicts spec.resolution, spec.completion or spec.cancel";
    let (open, yes, no, done, gone) =
        (w.open(plain()).await, w.open(plain()).await, w.open(plain()).await, w.open(plain()).await, w.open(plain()).await);
    fine(w.write(&operator(), &yes, resolved()).await);
    fine(w.write(&operator(), &no, json!({"resolution": {"outcome": "Rejected"}})).await);
    fine(w.write(&gateway(), &done, completed()).await);
    fine(w.write(&agent(), &gone, cancelled()).await);
    for (name, allowed) in [
        (&open, ["Rejected", "Timeout", "Cancelled"].as_slice()),
        (&yes, &["Resolved"]),
        (&no, &["Rejected"]),
        (&done, &["Resolved"]),
        (&gone, &["Cancelled"]),
    ] {
        for phase in ENDS {
            let reply = w.dry_status(&controller(), name, json!({"phase": phase})).await;
            if allowed.contains(phase) { drop(fine(reply)) } else { refused(reply, 422, contradiction) }
        }
    }
    // What was written while identities were not enforced may be refused, whatever it was; other reasons don't do.
    for name in [&yes, &done, &gone] {
        let because = |reason: &str| {
            let condition =
                json!({"type": "Settled", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"phase": "Rejected", "conditions": [condition]})
        };
        fine(w.dry_status(&controller(), name, because("IdentityNotEnforced")).await);
        refused(w.dry_status(&controller(), name, because("SessionClosed")).await, 422, contradiction);
        refused(w.dry_status(&controller(), name, because("Whatever")).await, 422, "unknown reason of Settled");
    }
}

async fn what_is_settled_stays_settled(w: World) {
    for phase in ENDS {
        let name = settled(&w, phase).await;
        for other in ENDS.iter().chain(&["Pending"]).filter(|other| other != &phase) {
            refused(w.status(&controller(), &name, json!({"phase": other})).await, 422, &format!("status.phase {phase} is final"));
        }
        refused(w.status(&controller(), &name, json!({"phase": null})).await, 422, "status.phase can't be removed");
        refused(w.status(&controller(), &name, Value::Null).await, 422, "status.phase can't be removed");
    }
    refused(w.status(&controller(), &settled(&w, "Timeout").await, json!({"phase": "Done"})).await, 422, "Unsupported value");
}

async fn the_times_are_stamped_once(w: World) {
    let name = w.open(plain()).await;
    let says = "status times are stamped once; a deadline may only move later";
    for status in [
        json!({"openedAt": "2026-01-01T00:00:01Z"}),
        json!({"openedAt": null}),
        json!({"deadline": "2026-01-01T05:59:59Z"}),
        json!({"deadline": null}),
    ] {
        refused(w.status(&controller(), &name, status).await, 422, says);
    }
    fine(w.status(&controller(), &name, json!({"deadline": "2026-01-01T07:00:00Z"})).await);
    let late = settled(&w, "Timeout").await;
    refused(w.status(&controller(), &late, json!({"settledAt": "2026-01-02T00:00:00Z"})).await, 422, says);

    let once = "evidence, executionStateVersionAtClose and a consumed receipt are set once";
    fine(w.status(&gateway(), &name, json!({"evidence": {"digest": "d"}})).await);
    refused(w.status(&gateway(), &name, json!({"evidence": {"digest": "e"}})).await, 422, once);
    refused(w.status(&gateway(), &name, json!({"evidence": null})).await, 422, once);
    fine(w.status(&controller(), &name, json!({"executionStateVersionAtClose": 3})).await);
    refused(w.status(&controller(), &name, json!({"executionStateVersionAtClose": 4})).await, 422, once);
    refused(w.status(&gateway(), &name, json!({"receipt": {"state": "Consumed"}})).await, 422, "a receipt is consumed by spec.ack only");
}

async fn lists_only_grow_and_only_while_open(w: World) {
    let name = w.open(plain()).await;
    let two = json!([{"seconds": 60, "by": {"username": "olga"}}, {"seconds": 60, "by": {"username": "olga"}}]);
    refused(w.write(&operator(), &name, json!({"extensions": two})).await, 422, "append one at a time");
    fine(w.write(&operator(), &name, json!({"extensions": [{"seconds": 60}]})).await);
    let rewritten = json!({"extensions": [{"seconds": 61, "by": {"username": "olga"}}]});
    refused(w.write(&operator(), &name, rewritten).await, 422, "is append-only");
    refused(w.merge(&operator(), &name, json!({"spec": {"extensions": null}})).await, 422, "is append-only");
    refused(w.write(&operator(), &name, json!({"extensions": []})).await, 422, "is append-only");
    let stored = w.get(&name).await["spec"]["extensions"][0].clone();
    fine(w.write(&operator(), &name, json!({"extensions": [stored, {"seconds": 120}]})).await);
    refused(w.write(&operator(), &name, json!({"retargets": [{"by": {"username": "olga"}}]})).await, 422, "spec.retargets[0].target");
    let claim = json!({"claim": {"since": "2026-01-01T00:00:00Z"}});
    fine(w.write(&operator(), &name, claim.clone()).await);
    fine(w.write(&other_operator(), &name, json!({"claim": {"since": "2026-01-01T00:00:01Z", "by": null}})).await);

    fine(w.write(&operator(), &name, resolved()).await);
    let says = "claim, extensions and retargets change only while the request is open";
    let unseen = w.created(plain()).await;
    for name in [&name, &unseen, &settled(&w, "Timeout").await] {
        refused(w.write(&operator(), name, json!({"claim": {"since": "2026-01-01T00:00:09Z"}})).await, 422, says);
    }
    refused(w.write(&operator(), &unseen, json!({"extensions": [{"seconds": 60}]})).await, 422, says);
    refused(w.write(&operator(), &unseen, json!({"retargets": [{"target": {"user": "u"}}]})).await, 422, says);
    // A claim moves the version that clients quote, and a status doesn't.
    let open = w.open(plain()).await;
    let before = w.get(&open).await["metadata"]["generation"].as_i64();
    fine(w.status(&controller(), &open, json!({"message": "m"})).await);
    assert_eq!(w.get(&open).await["metadata"]["generation"].as_i64(), before);
    let claimed = fine(w.write(&operator(), &open, claim).await)["metadata"]["generation"].as_i64();
    assert_eq!(claimed, before.map(|generation| generation + 1));
}

async fn an_acknowledgement_is_of_a_settled_answer(w: World) {
    let ack = |generation: i64| json!({"ack": {"key": "k", "generation": generation, "by": {"username": agent().name}}});
    let open = w.open(ask("Approval")).await;
    refused(w.write(&gateway(), &open, ack(1)).await, 422, "only a settled answer can be acknowledged");
    let timeout = settled(&w, "Timeout").await;
    refused(w.write(&gateway(), &timeout, ack(1)).await, 422, "only a settled answer can be acknowledged");

    fine(w.write(&operator(), &open, json!({"resolution": {"outcome": "Rejected", "verdict": "Denied"}})).await);
    fine(w.status(&controller(), &open, json!({"phase": "Rejected"})).await);
    let generation = w.get(&open).await["metadata"]["generation"].as_i64().unwrap();
    refused(w.write(&gateway(), &open, ack(generation - 1)).await, 422, "stale: this request is at generation");
    fine(w.write(&gateway(), &open, ack(generation)).await);
    refused(w.write(&gateway(), &open, json!({"ack": {"key": "l"}})).await, 422, "this answer was already acknowledged");
    refused(w.merge(&gateway(), &open, json!({"spec": {"ack": null}})).await, 422, "this answer was already acknowledged");
    fine(w.status(&gateway(), &open, json!({"receipt": {"state": "Consumed"}})).await);
    refused(w.status(&gateway(), &open, json!({"receipt": {"state": "Pending"}})).await, 422, "a consumed receipt are set once");

    // The execution's version at the close has to be quoted when there is one, and only then.
    let run = w.open(plain()).await;
    fine(w.write(&operator(), &run, resolved()).await);
    fine(w.status(&controller(), &run, json!({"phase": "Resolved", "executionStateVersionAtClose": 7})).await);
    let generation = w.get(&run).await["metadata"]["generation"].as_i64().unwrap();
    refused(w.write(&gateway(), &run, ack(generation)).await, 422, "its execution closed at 7");
    let mut right = ack(generation);
    right["ack"]["executionStateVersion"] = json!(7);
    fine(w.write(&gateway(), &run, right).await);
}
