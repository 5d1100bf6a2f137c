//! Who may write what in a request: the admission policy, rule by rule.

use crate::world::{
    Who, World, administrator, agent, ask, cluster_admin, controller, fine, gateway, operator, other_agent, other_operator, plain, refused,
    viewer,
};
use serde_json::{Value, json};

on_both!(
    who_writes_is_named,
    answering_needs_the_verb,
    nobody_answers_their_own_question,
    a_target_is_who_answers,
    the_gateway_writes_for_others_alone,
    cancelling_is_the_requesters,
    claims_and_extensions_need_the_verb,
    passing_on_is_the_targets_or_an_administrators,
    what_is_quoted_is_current,
    no_patch_deletes,
    the_requesters_alone_acknowledges,
);

fn resolved() -> Value {
    json!({"resolution": {"outcome": "Resolved", "message": "done"}})
}

/// An answer that fits a type.
fn answer(kind: &str) -> Value {
    let verdict = match kind {
        "Takeover" => "Done",
        "Approval" | "DestructiveAction" => "Approved",
        "Access" => "Provided",
        _ => "Answered",
    };
    json!({"resolution": {"outcome": "Resolved", "verdict": verdict, "answer": "a", "summary": "s"}})
}

async fn who_writes_is_named(w: World) {
    let made = fine(w.create(&agent(), plain()).await);
    let name = w.open(plain()).await;
    let patched = fine(w.write(&operator(), &name, resolved()).await);
    let by = &patched["spec"]["resolution"]["by"];
    assert_eq!((&made["spec"]["requester"]["username"], &by["username"]), (&json!("crawler"), &json!("olga")));
    if w.stamps {
        assert_eq!((&made["spec"]["requester"]["uid"], &by["uid"]), (&json!("uid-of-crawler"), &json!("uid-of-olga")));
        assert_eq!(patched["spec"]["resolution"]["via"], "Kubectl");
        // Of the extras, those that are configured; a user without uid has none.
        let person = other_operator().extra("beckon.dev/person", "otto@example.com").extra("example.com/other", "x");
        let second = w.open(plain()).await;
        let by = fine(w.write(&person, &second, resolved()).await)["spec"]["resolution"]["by"].clone();
        assert_eq!(by, json!({"username": "otto", "extra": {"beckon.dev/person": ["otto@example.com"]}}));
    } else {
        let says = "say who you are";
        let nameless = w.open(plain()).await;
        refused(w.merge(&operator(), &nameless, json!({"spec": resolved()})).await, 422, says);
        refused(w.merge(&agent(), &nameless, json!({"spec": {"cancel": {}}})).await, 422, says);
        let since = "2026-01-01T00:00:00Z";
        refused(w.merge(&operator(), &nameless, json!({"spec": {"claim": {"since": since}}})).await, 422, says);
        refused(w.merge(&operator(), &nameless, json!({"spec": {"extensions": [{"seconds": 60}]}})).await, 422, says);
        refused(w.merge(&operator(), &nameless, json!({"spec": {"retargets": [{"target": {"user": "u"}}]}})).await, 422, says);
    }
}

async fn answering_needs_the_verb(w: World) {
    let name = w.open(plain()).await;
    for who in [agent(), other_agent()] {
        let says = format!("{} may not answer attention requests here (RBAC verb resolve", who.name);
        refused(w.dry_write(&who, &name, resolved()).await, 403, &says);
    }
    // Who may not even patch is stopped by RBAC.
    for who in [viewer(), Who::new("nobody"), controller()] {
        refused(w.dry_write(&who, &name, resolved()).await, 403, "cannot patch resource");
    }
    for who in [operator(), other_operator(), administrator(), cluster_admin()] {
        fine(w.dry_write(&who, &name, resolved()).await);
    }
    // No general role brings the verb along.
    for role in ["edit", "admin"] {
        let group = format!("test:{role}");
        w.bind(&group, role).await;
        refused(w.dry_write(&Who::new("eve").group(&group).group("beckon:agents"), &name, resolved()).await, 403, "RBAC verb resolve");
    }
}

async fn nobody_answers_their_own_question(w: World) {
    let both = operator().group("beckon:agents");
    for kind in ["Question", "Approval", "DestructiveAction", "Access", "Decision"] {
        let own = fine(w.create(&both, ask(kind)).await)["metadata"]["name"].as_str().unwrap().to_owned();
        fine(w.status(&controller(), &own, crate::world::pending()).await);
        refused(w.dry_write(&both, &own, answer(kind)).await, 403, &format!("you can't answer your own request of type {kind}"));
        fine(w.dry_write(&other_operator(), &own, answer(kind)).await);
        // The gateway, in its own name, is held to it too.
        let mut for_her = answer(kind);
        for_her["resolution"]["by"] = json!({"username": "olga"});
        for_her["resolution"]["via"] = json!("Dashboard");
        refused(w.dry_write(&gateway(), &own, for_her).await, 403, "you can't answer your own request");
    }
    for kind in ["", "Takeover", "Clarification", "Other"] {
        let spec = if kind.is_empty() { plain() } else { ask(kind) };
        let own = fine(w.create(&both, spec).await)["metadata"]["name"].as_str().unwrap().to_owned();
        fine(w.status(&controller(), &own, crate::world::pending()).await);
        fine(w.dry_write(&both, &own, if kind.is_empty() { resolved() } else { answer(kind) }).await);
    }
    // What an operator raised is no agent's question.
    let mut raised = ask("Approval");
    raised["source"] = json!("Operator");
    raised["requester"] = json!({"username": "olga"});
    let name = fine(w.create(&gateway(), raised).await)["metadata"]["name"].as_str().unwrap().to_owned();
    fine(w.status(&controller(), &name, crate::world::pending()).await);
    fine(w.dry_write(&operator(), &name, answer("Approval")).await);
}

async fn a_target_is_who_answers(w: World) {
    let targeted = |target: Value| {
        let mut spec = plain();
        spec["target"] = target;
        spec
    };
    let mine = w.open(targeted(json!({"user": "olga"}))).await;
    let says = "this request is for user olga";
    refused(w.dry_write(&other_operator(), &mine, resolved()).await, 403, says);
    refused(w.dry_write(&administrator(), &mine, resolved()).await, 403, says);
    refused(w.dry_write(&cluster_admin(), &mine, resolved()).await, 403, says);
    fine(w.dry_write(&operator(), &mine, resolved()).await);

    // A group is whatever the authenticator says, for instance a claim of OIDC; RBAC need not know it.
    let ours = w.open(targeted(json!({"group": "claims:finance"}))).await;
    refused(w.dry_write(&operator(), &ours, resolved()).await, 403, "this request is for group claims:finance");
    fine(w.dry_write(&operator().group("claims:finance"), &ours, resolved()).await);
    refused(w.dry_write(&agent().group("claims:finance"), &ours, resolved()).await, 403, "RBAC verb resolve");

    let theirs = w.open(targeted(json!({"admins": true}))).await;
    refused(w.dry_write(&operator(), &theirs, resolved()).await, 403, "this request is for administrators");
    fine(w.dry_write(&administrator(), &theirs, resolved()).await);

    // The last target counts, and nobody passes a request to themselves to answer it.
    let both = json!({"retargets": [{"target": {"user": "otto"}}], "resolution": {"outcome": "Resolved"}});
    refused(w.dry_write(&other_operator(), &mine, both).await, 403, says);
    fine(w.write(&operator(), &mine, json!({"retargets": [{"target": {"user": "otto"}}]})).await);
    refused(w.dry_write(&operator(), &mine, resolved()).await, 403, "this request is for user otto");
    fine(w.dry_write(&other_operator(), &mine, resolved()).await);
}

async fn the_gateway_writes_for_others_alone(w: World) {
    let name = w.open(plain()).await;
    let says = "the gateway acts only for somebody else";
    let answer = |by: &str, via: Value| json!({"resolution": {"outcome": "Resolved", "by": {"username": by}, "via": via}});
    refused(w.dry_write(&gateway(), &name, answer(&gateway().name, json!("Dashboard"))).await, 403, says);
    refused(w.dry_write(&gateway(), &name, answer("olga", json!("Kubectl"))).await, 403, says);
    refused(w.dry_write(&gateway(), &name, answer("olga", Value::Null)).await, 403, says);
    for via in ["Dashboard", "API"] {
        fine(w.dry_write(&gateway(), &name, answer("olga", json!(via))).await);
        // Nobody else says so.
        let reply = w.dry_write(&operator(), &name, answer("olga", json!(via))).await;
        if w.stamps {
            assert_eq!(fine(reply)["spec"]["resolution"]["via"], "Kubectl");
        } else {
            refused(reply, 403, "via: Dashboard and via: API are the gateway's to say");
        }
    }
    let mut own = plain();
    own["requester"] = json!({"username": gateway().name});
    refused(w.create(&gateway(), own).await, 403, says);

    // Only the gateway knows of calls that wait and where a request came from.
    for (field, value) in [("waiter", "Required"), ("source", "RequestAttention"), ("source", "Run"), ("source", "Operator")] {
        let mut spec = plain();
        spec[field] = json!(value);
        refused(w.create(&agent(), spec.clone()).await, 403, "only the gateway opens a request with waiter Required or a source other");
        w.open_by_gateway(spec).await;
    }
    for who in [operator(), agent(), cluster_admin()] {
        let completion = json!({"completion": {"reason": "AgentResumed"}});
        refused(w.dry_write(&who, &name, completion).await, 403, "completion and ack are the gateway's to write");
    }
    let completion = json!({"completion": {"reason": "AgentResumed", "by": {"username": "crawler"}}});
    fine(w.dry_write(&gateway(), &name, completion).await);
}

async fn cancelling_is_the_requesters(w: World) {
    let name = w.open(plain()).await;
    let cancel = json!({"cancel": {"reason": "never mind"}});
    for who in [operator(), other_agent(), administrator(), cluster_admin()] {
        refused(w.dry_write(&who, &name, cancel.clone()).await, 403, "only the requester, crawler, can cancel this request");
    }
    let for_another = json!({"cancel": {"by": {"username": "indexer"}}});
    refused(w.dry_write(&gateway(), &name, for_another).await, 403, "only the requester, crawler, can cancel this request");
    fine(w.dry_write(&gateway(), &name, json!({"cancel": {"by": {"username": "crawler"}}})).await);
    fine(w.dry_write(&agent(), &name, cancel).await);
}

async fn claims_and_extensions_need_the_verb(w: World) {
    let name = w.open(plain()).await;
    let claim = json!({"claim": {"since": "2026-01-01T00:00:00Z"}});
    let extension = json!({"extensions": [{"seconds": 600}]});
    for write in [&claim, &extension] {
        refused(w.dry_write(&agent(), &name, write.clone()).await, 403, "crawler may not claim or extend attention requests here");
        fine(w.dry_write(&operator(), &name, write.clone()).await);
    }
    fine(w.write(&operator(), &name, claim).await);
    refused(w.merge(&agent(), &name, json!({"spec": {"claim": null}})).await, 403, "may not claim or extend");
    // A claim is an announcement, not a lock.
    fine(w.write(&other_operator(), &name, json!({"claim": {"since": "2026-01-01T00:00:01Z", "by": null}})).await);
    fine(w.merge(&operator(), &name, json!({"spec": {"claim": null}})).await);
}

async fn passing_on_is_the_targets_or_an_administrators(w: World) {
    let to = |user: &str| json!({"retargets": [{"target": {"user": user}}]});
    let open = w.open(plain()).await;
    fine(w.dry_write(&operator(), &open, to("otto")).await);
    refused(w.dry_write(&agent(), &open, to("otto")).await, 403, "crawler may not retarget this request");
    let mut spec = plain();
    spec["target"] = json!({"user": "olga"});
    let mine = w.open(spec.clone()).await;
    refused(w.dry_write(&other_operator(), &mine, to("otto")).await, 403, "otto may not retarget this request");
    fine(w.dry_write(&operator(), &mine, to("otto")).await);
    fine(w.dry_write(&administrator(), &mine, to("otto")).await);
    spec["target"] = json!({"group": "claims:finance"});
    let ours = w.open(spec.clone()).await;
    refused(w.dry_write(&operator(), &ours, to("otto")).await, 403, "may not retarget");
    fine(w.dry_write(&operator().group("claims:finance"), &ours, to("otto")).await);
    spec["target"] = json!({"admins": true});
    let theirs = w.open(spec).await;
    refused(w.dry_write(&operator(), &theirs, to("otto")).await, 403, "may not retarget");
    fine(w.dry_write(&administrator(), &theirs, to("otto")).await);
}

async fn what_is_quoted_is_current(w: World) {
    let name = w.open(plain()).await;
    fine(w.status(&gateway(), &name, json!({"evidence": {"digest": "seen"}})).await);
    let expecting = |expected: Value| json!({"resolution": {"outcome": "Resolved", "expected": expected}});
    let generation = w.get(&name).await["metadata"]["generation"].as_i64().unwrap();
    refused(w.dry_write(&operator(), &name, expecting(json!({"generation": generation + 1}))).await, 422, "stale: this request is at");
    refused(w.dry_write(&operator(), &name, expecting(json!({"evidenceDigest": "other"}))).await, 422, "stale: the evidence is not");
    let retarget = |generation: i64| json!({"retargets": [{"target": {"user": "otto"}, "expected": {"generation": generation}}]});
    refused(w.dry_write(&operator(), &name, retarget(generation + 1)).await, 422, "stale: this request is at");
    fine(w.dry_write(&operator(), &name, retarget(generation)).await);
    fine(w.dry_write(&operator(), &name, expecting(json!({"generation": generation, "evidenceDigest": "seen"}))).await);
    // What was quoted before somebody else's claim is stale.
    fine(w.write(&other_operator(), &name, json!({"claim": {"since": "2026-01-01T00:00:00Z"}})).await);
    refused(w.dry_write(&operator(), &name, expecting(json!({"generation": generation}))).await, 422, "stale: this request is at");
    let unseen = w.open(plain()).await;
    refused(w.dry_write(&operator(), &unseen, expecting(json!({"evidenceDigest": "seen"}))).await, 422, "stale: the evidence is not");
}

/// With an owner that does not exist the garbage collector deletes the request half a second later.
async fn no_patch_deletes(w: World) {
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]);
    let name = w.open(plain()).await;
    let says = "changing ownerReferences or finalizers needs the right to delete";
    for metadata in [json!({"ownerReferences": owner}), json!({"finalizers": ["example.com/hold"]})] {
        for who in [agent(), operator(), gateway()] {
            refused(w.merge(&who, &name, json!({"metadata": metadata})).await, 403, says);
        }
        let object = json!({"metadata": metadata, "spec": plain()});
        refused(w.create_object(&agent(), object).await, 403, says);
    }
    fine(w.merge(&administrator(), &name, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await);
    refused(w.merge(&operator(), &name, json!({"metadata": {"finalizers": null}})).await, 403, says);
    fine(w.merge(&administrator(), &name, json!({"metadata": {"finalizers": null}})).await);
    for who in [agent(), operator(), gateway(), viewer()] {
        let deleted = w.requests(&who).delete(&name, &kube::api::DeleteParams::default()).await;
        assert!(matches!(deleted, Err(kube::Error::Api(status)) if status.code == 403), "{} deleted it", who.name);
    }
}

async fn the_requesters_alone_acknowledges(w: World) {
    let name = w.open(plain()).await;
    fine(w.write(&operator(), &name, resolved()).await);
    fine(w.status(&controller(), &name, json!({"phase": "Resolved"})).await);
    let generation = w.get(&name).await["metadata"]["generation"].clone();
    let ack = |by: &str| json!({"ack": {"key": "k", "generation": generation, "by": {"username": by}}});
    refused(w.dry_write(&gateway(), &name, ack("indexer")).await, 403, "only the requester, crawler, can acknowledge the answer");
    refused(w.dry_write(&agent(), &name, ack("crawler")).await, 403, "completion and ack are the gateway's to write");
    fine(w.dry_write(&gateway(), &name, ack("crawler")).await);
}
