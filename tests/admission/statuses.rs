//! Who may write which part of a status.

use crate::world::{World, administrator, agent, cluster_admin, controller, fine, gateway, operator, pending, plain, refused, reply};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

on_both!(a_status_is_for_our_own_accounts, each_account_has_its_fields, two_managers_lose_nothing, a_late_detach_takes_nothing);

async fn a_status_is_for_our_own_accounts(w: World) {
    let name = w.created(plain()).await;
    let status = json!({"phase": "Pending"});
    // By RBAC or, where a role is too broad, by the policy: nobody forges what was observed.
    for who in [agent(), operator(), administrator()] {
        refused(w.status(&who, &name, status.clone()).await, 403, "attentionrequests/status");
    }
    refused(w.status(&cluster_admin(), &name, status.clone()).await, 403, "root may not write the status of attention requests");
    refused(w.status(&gateway(), &name, status.clone()).await, 403, "the gateway writes status.attachments, evidence and receipt only");
    fine(w.status(&controller(), &name, status).await);
}

async fn each_account_has_its_fields(w: World) {
    let name = w.open(plain()).await;
    let attached = json!({"attachments": [{"call": "c", "gateway": "g"}]});
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "Waiting", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    for status in [json!({"message": "m"}), json!({"deadline": "2027-01-01T00:00:00Z"}), json!({"conditions": [condition("Accepted")]})] {
        refused(w.status(&gateway(), &name, status.clone()).await, 403, "the gateway writes status.attachments, evidence and receipt only");
        fine(w.dry_status(&controller(), &name, status).await);
    }
    refused(w.status(&gateway(), &name, json!({"openedAt": null})).await, 422, "status times are stamped once");
    refused(w.status(&controller(), &name, attached.clone()).await, 403, "the controller may only remove entries");
    fine(w.status(&gateway(), &name, attached).await);
    refused(w.status(&controller(), &name, json!({"attachments": [{"call": "c", "gateway": "h"}]})).await, 403, "may only remove entries");
    fine(w.status(&controller(), &name, json!({"conditions": [condition("Attached")]})).await);
    fine(w.status(&controller(), &name, json!({"attachments": null})).await);

    refused(w.status(&controller(), &name, json!({"evidence": {"digest": "d"}})).await, 403, "status.evidence is the gateway's");
    fine(w.status(&gateway(), &name, json!({"evidence": {"digest": "d"}, "receipt": {"state": "Pending"}})).await);
    let spec = fine(w.merge(&agent(), &name, json!({"status": {"message": "forged"}})).await);
    assert_eq!(spec["status"].get("message"), None, "a status that is sent to the object itself is dropped");
}

async fn apply(w: &World, who: &crate::world::Who, manager: &str, name: &str, status: Value) -> crate::world::Reply {
    let object = json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": name}, "status": status});
    let patch = Patch::Apply(&object);
    reply(w.requests(who).patch_status(name, &PatchParams::apply(manager).force(), &patch).await)
}

async fn two_managers_lose_nothing(w: World) {
    let name = w.created(plain()).await;
    fine(apply(&w, &controller(), "beckon-controller", &name, pending()).await);
    fine(apply(&w, &gateway(), "gateway-a", &name, json!({"attachments": [{"call": "c", "gateway": "gateway-a"}]})).await);
    let mut more = pending();
    more["message"] = json!("m");
    let now = fine(apply(&w, &controller(), "beckon-controller", &name, more).await);
    assert_eq!(now["status"]["attachments"][0]["gateway"], "gateway-a");
    let left = fine(apply(&w, &gateway(), "gateway-a", &name, json!({})).await);
    assert!(left["status"].get("attachments").is_none_or(|list| list == &json!([])));
    assert_eq!(left["status"]["message"], "m");
    refused(apply(&w, &controller(), "beckon-controller", "no-such-request", pending()).await, 404, "not found");
}

async fn a_late_detach_takes_nothing(w: World) {
    let name = w.open(plain()).await;
    let by = |gateway: &str| json!({"attachments": [{"call": "c", "gateway": gateway}]});
    fine(apply(&w, &gateway(), "gateway-a", &name, by("gateway-a")).await);
    fine(apply(&w, &gateway(), "gateway-b", &name, by("gateway-b")).await);
    let now = fine(apply(&w, &gateway(), "gateway-a", &name, json!({})).await);
    assert_eq!(now["status"]["attachments"][0]["gateway"], "gateway-b");
}
