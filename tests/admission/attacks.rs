//! What somebody who wants to answer in another's name, or not at all, would try.

use crate::world::{
    Who, World, agent, ask, cluster_admin, controller, fine, gateway, operator, other_operator, pending, plain, refused, reply,
};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

on_both!(
    a_forged_requester,
    a_forged_by,
    answering_ones_own,
    editing_what_is_settled,
    replacing_with_an_old_copy,
    applying_by_force,
    a_second_and_a_late_answer,
    recreating_under_the_same_name,
    the_gateways_account_outside_its_bounds,
    impersonating_without_the_right,
);

fn resolved() -> Value {
    json!({"resolution": {"outcome": "Resolved", "message": "done"}})
}

/// Forged in every part.
fn forged() -> Value {
    json!({"username": "root", "uid": "uid-of-root", "extra": {"beckon.dev/person": ["root@example.com"]}})
}

async fn a_forged_requester(w: World) {
    let mut spec = plain();
    spec["requester"] = forged();
    let made = w.create(&agent(), spec.clone()).await;
    if w.stamps {
        assert_eq!(fine(made)["spec"]["requester"], json!({"username": "crawler", "uid": "uid-of-crawler"}));
    } else {
        refused(made, 403, "requester and by must be you (crawler)");
    }
    let object = json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": "applied"}, "spec": spec});
    let applied = w.requests(&agent()).patch("applied", &PatchParams::apply("me").force(), &Patch::Apply(&object)).await;
    if w.stamps {
        assert_eq!(fine(reply(applied))["spec"]["requester"], json!({"username": "crawler", "uid": "uid-of-crawler"}));
    } else {
        refused(reply(applied), 403, "requester and by must be you (crawler)");
        // The right name, but a uid or an extra that is not the caller's.
        for part in [json!({"uid": "uid-of-root"}), json!({"extra": {"beckon.dev/person": ["root@example.com"]}})] {
            let mut spec = plain();
            spec["requester"] = part;
            spec["requester"]["username"] = json!("crawler");
            refused(w.create(&agent(), spec).await, 403, "requester and by must be you (crawler)");
        }
    }
}

async fn a_forged_by(w: World) {
    let writes = [
        json!({"resolution": {"outcome": "Resolved", "by": forged()}}),
        json!({"claim": {"since": "2026-01-01T00:00:00Z", "by": forged()}}),
        json!({"extensions": [{"seconds": 60, "by": forged()}]}),
        json!({"retargets": [{"target": {"user": "otto"}, "by": forged()}]}),
    ];
    for write in writes {
        let name = w.open(plain()).await;
        let written = w.write(&operator(), &name, write.clone()).await;
        if w.stamps {
            let spec = fine(written)["spec"].clone();
            let by = ["/resolution/by", "/claim/by", "/extensions/0/by", "/retargets/0/by"].iter().find_map(|path| spec.pointer(path));
            assert_eq!(by, Some(&json!({"username": "olga", "uid": "uid-of-olga"})), "{write}");
        } else {
            refused(written, 403, "requester and by must be you (olga)");
        }
    }
    let name = w.open(plain()).await;
    let cancelled = w.write(&agent(), &name, json!({"cancel": {"by": forged()}})).await;
    if w.stamps {
        drop(fine(cancelled));
    } else {
        refused(cancelled, 403, "requester and by must be you (crawler)");
    }
    // A JSON patch and a JSON patch's escape are no way around.
    let name = w.open(plain()).await;
    let patch = json!([{"op": "add", "path": "/spec/resolution", "value": {"outcome": "Resolved", "by": forged(), "via": "Dashboard"}}]);
    let patch: Patch<DynamicObject> = Patch::Json(serde_json::from_value(patch).unwrap());
    let written = reply(w.requests(&operator()).patch(&name, &PatchParams::default(), &patch).await);
    if w.stamps {
        let resolution = fine(written)["spec"]["resolution"].clone();
        assert_eq!((&resolution["by"]["username"], &resolution["via"]), (&json!("olga"), &json!("Kubectl")));
    } else {
        refused(written, 403, "requester and by must be you (olga)");
    }
}

async fn answering_ones_own(w: World) {
    let name = w.open(ask("Approval")).await;
    let approve = json!({"resolution": {"outcome": "Resolved", "verdict": "Approved"}});
    refused(w.write(&agent(), &name, approve.clone()).await, 403, "RBAC verb resolve");
    let also_operator = agent().group("beckon:operators");
    refused(w.write(&also_operator, &name, approve).await, 403, "you can't answer your own request of type Approval");
}

async fn editing_what_is_settled(w: World) {
    let name = w.open(plain()).await;
    fine(w.write(&operator(), &name, resolved()).await);
    fine(w.status(&controller(), &name, json!({"phase": "Resolved", "message": "done"})).await);
    for who in [operator(), agent(), gateway(), cluster_admin()] {
        for patch in [
            json!({"spec": {"resolution": null}}),
            json!({"spec": {"resolution": {"outcome": "Rejected"}}}),
            json!({"spec": {"reason": "other"}}),
        ] {
            let refusal = w.merge(&who, &name, patch).await.expect_err("an edit of what is settled");
            assert_eq!(refusal.code, 422, "{refusal:?}");
        }
    }
}

async fn replacing_with_an_old_copy(w: World) {
    let name = w.open(plain()).await;
    let old = w.requests(&other_operator()).get(&name).await.unwrap();
    fine(w.write(&operator(), &name, resolved()).await);
    // `kubectl replace` of the copy as it was read, and without its version.
    let stale = w.requests(&other_operator()).replace(&name, &PostParams::default(), &old).await;
    refused(reply(stale), 409, "the object has been modified");
    let mut unversioned = old;
    unversioned.metadata.resource_version = None;
    let replaced = reply(w.requests(&other_operator()).replace(&name, &PostParams::default(), &unversioned).await);
    let refusal = replaced.expect_err("an answer was taken back");
    assert!(refusal.code == 422, "{refusal:?}");
    assert_eq!(w.get(&name).await["spec"]["resolution"]["by"]["username"], "olga");
}

async fn applying_by_force(w: World) {
    let name = w.open(plain()).await;
    fine(w.write(&operator(), &name, resolved()).await);
    let apply = async |who: &Who, resolution: Value| {
        let object =
            json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": name}, "spec": resolution});
        reply(w.requests(who).patch(&name, &PatchParams::apply("mine").force(), &Patch::Apply(&object)).await)
    };
    let other = json!({"reason": "a look, please", "resolution": {"outcome": "Rejected"}});
    refused(apply(&other_operator(), other).await, 422, "this request was already answered: Resolved by olga");
    // The manifest that made the request, applied again: the answer is not its to clear.
    let kept = fine(apply(&agent(), plain()).await);
    assert_eq!(kept["spec"]["resolution"]["outcome"], "Resolved");
}

async fn a_second_and_a_late_answer(w: World) {
    let name = w.open(plain()).await;
    fine(w.write(&operator(), &name, resolved()).await);
    // The identical answer is told as a success, with the first one's name in the reply, which is why clients compare it.
    let again = fine(w.merge(&other_operator(), &name, json!({"spec": resolved()})).await);
    assert_eq!(again["spec"]["resolution"]["by"]["username"], "olga");
    let late = w.open(plain()).await;
    fine(w.status(&controller(), &late, json!({"phase": "Timeout"})).await);
    refused(w.write(&operator(), &late, resolved()).await, 422, "this request is already settled: Timeout");
}

async fn recreating_under_the_same_name(w: World) {
    let name = w.open(plain()).await;
    let old = w.get(&name).await;
    w.requests(&cluster_admin()).delete(&name, &DeleteParams::default()).await.unwrap();
    fine(w.create_object(&agent(), json!({"metadata": {"name": name}, "spec": plain()})).await);
    fine(w.status(&controller(), &name, pending()).await);
    // An answer to the one that is gone says which one it meant.
    let pinned = json!({"metadata": {"uid": old["metadata"]["uid"]}, "spec": resolved()});
    let refusal = w.merge(&operator(), &name, pinned).await.expect_err("another request was answered");
    assert!(refusal.code == 409 || refusal.code == 422, "{refusal:?}");
    // A status is pinned by the version; a uid alone would be ignored there.
    let stale = json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "status": {"phase": "Timeout"}});
    let written = w.requests(&controller()).patch_status(&name, &PatchParams::default(), &Patch::Merge(&stale)).await;
    refused(reply(written), 409, "the object has been modified");
}

async fn the_gateways_account_outside_its_bounds(w: World) {
    let name = w.open(plain()).await;
    let kubectl = json!({"resolution": {"outcome": "Resolved", "by": {"username": "olga"}, "via": "Kubectl"}});
    refused(w.write(&gateway(), &name, kubectl).await, 403, "answers with via: Dashboard or API");
    let as_itself = json!({"resolution": {"outcome": "Resolved", "by": {"username": gateway().name}, "via": "Dashboard"}});
    refused(w.write(&gateway(), &name, as_itself).await, 403, "the gateway acts only for somebody else");
    // The same account name in another namespace is nobody.
    let stranger = Who::new("system:serviceaccount:default:beckon-gateway").group("beckon:agents");
    let for_her = json!({"resolution": {"outcome": "Resolved", "by": {"username": "olga"}, "via": "Dashboard"}});
    let says = if w.stamps { "RBAC verb resolve" } else { "requester and by must be you" };
    refused(w.write(&stranger, &name, for_her).await, 403, says);
    for (verb, resource) in [
        ("resolve", "beckon.dev/attentionrequests"),
        ("administer", "beckon.dev/attentionrequests"),
        ("delete", "beckon.dev/attentionrequests"),
        ("takeover", "beckon.dev/browsersessions"),
        ("impersonate", "/users"),
    ] {
        assert!(!w.may(&gateway(), verb, resource).await, "the gateway may {verb} {resource}");
    }
}

async fn impersonating_without_the_right(w: World) {
    let name = w.open(plain()).await;
    for user in ["agent", "operator", "viewer"] {
        let config = w.plane.config(user).await;
        let client = cluster_admin().through(config);
        let api = kube::Api::<beckon::api::v1alpha1::AttentionRequest>::namespaced(client, &w.namespace);
        let refusal = api.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": resolved()}))).await.unwrap_err();
        assert!(matches!(&refusal, kube::Error::Api(status) if status.code == 403 && status.message.contains("impersonate")), "{refusal}");
    }
}
