//! Who may write what in a browser session.

use crate::world::{
    Reply, Who, World, administrator, agent, cluster_admin, controller, fine, gateway, operator, other_agent, refused, reply, viewer,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

on_both!(
    an_owner_is_who_creates,
    only_some_may_close,
    no_patch_deletes,
    a_session_is_not_reconfigured,
    the_end_is_final,
    each_account_has_its_part_of_the_status
);

async fn merge(w: &World, who: &Who, name: &str, patch: Value) -> Reply {
    reply(w.sessions(who).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await)
}

async fn status(w: &World, who: &Who, name: &str, status: Value) -> Reply {
    reply(w.sessions(who).patch_status(name, &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await)
}

/// Closes, saying who where the server doesn't.
async fn close(w: &World, who: &Who, name: &str) -> Reply {
    let by = if w.stamps { json!({}) } else { json!({"by": {"username": who.name}}) };
    merge(w, who, name, json!({"spec": {"close": by}})).await
}

async fn session(w: &World) -> String {
    fine(w.create_session(&agent(), json!({"spec": {}})).await)["metadata"]["name"].as_str().unwrap().to_owned()
}

async fn an_owner_is_who_creates(w: World) {
    let made = fine(w.create_session(&agent(), json!({"spec": {}})).await);
    assert_eq!((&made["spec"]["owner"]["username"], &made["spec"]["browser"]), (&json!("crawler"), &json!("Chromium")));
    let forged = json!({"spec": {"owner": {"username": "root", "uid": "u", "extra": {"beckon.dev/person": ["root"]}}}});
    let reply = w.create_session(&agent(), forged.clone()).await;
    if w.stamps {
        assert_eq!(fine(reply)["spec"]["owner"], json!({"username": "crawler", "uid": "uid-of-crawler"}));
        // Nothing but the owner is needed, and that is filled in.
        fine(w.create_session(&agent(), json!({})).await);
    } else {
        refused(reply, 403, "owner and by must be you (crawler)");
        let nameless = json!({"spec": {"owner": {"uid": "u"}}});
        refused(w.create_session(&agent(), nameless).await, 422, "spec.owner.username: Required value");
    }
    assert_eq!(fine(w.create_session(&gateway(), forged).await)["spec"]["owner"]["username"], "root");
    let own = json!({"spec": {"owner": {"username": gateway().name}}});
    refused(w.create_session(&gateway(), own).await, 403, "the gateway acts only for somebody else");
    for who in [viewer(), operator()] {
        refused(w.create_session(&who, json!({"spec": {}})).await, 403, "cannot create resource");
    }
    for spec in [
        json!({"startURL": "file:///etc/passwd"}),
        json!({"startURL": "javascript:alert(1)"}),
        json!({"proxy": "http://user:password@proxy:3128"}),
        json!({"locale": ""}),
        json!({"locale": "en --no-sandbox"}),
        json!({"locale": "-x"}),
        json!({"timezone": ""}),
        json!({"timezone": "../../etc/passwd"}),
        json!({"timezone": ":/etc/passwd"}),
        json!({"timezone": "Europe/Paris "}),
        json!({"userAgent": ""}),
        json!({"userAgent": "a\r\nX-Y: z"}),
        json!({"userAgent": "Bröwser"}),
        json!({"viewport": {"width": 10, "height": 800}}),
        json!({"viewport": {"width": 1280, "height": 4000}}),
        json!({"browser": "Firefox"}),
        json!({"idleTimeoutSeconds": 59}),
        json!({"humanTimeoutSeconds": 86_401}),
        json!({"approve": "Never"}),
        json!({"nodeSelector": {"disk": "x".repeat(64)}}),
        json!({"nodeSelector": {"k".repeat(318): "x"}}),
    ] {
        refused(w.create_session(&agent(), json!({"spec": spec})).await, 422, "spec.");
    }
    for spec in [
        json!({"locale": "zh-Hant-TW", "timezone": "America/Argentina/Buenos_Aires", "userAgent": "Mozilla/5.0 (X11; Linux x86_64) ~"}),
        json!({"locale": "de", "timezone": "Etc/GMT+5"}),
        json!({"timezone": "UTC"}),
    ] {
        let mut spec = spec;
        spec["owner"] = json!({"username": "crawler"});
        fine(w.create_session(&agent(), json!({"spec": spec})).await);
    }
    let closed = json!({"spec": {"close": {"by": {"username": "crawler"}}}});
    refused(w.create_session(&agent(), closed).await, 422, "a session can't be created closed");
}

async fn only_some_may_close(w: World) {
    let says = "may not close this session";
    let name = session(&w).await;
    refused(close(&w, &other_agent(), &name).await, 403, says);
    w.bind("test:edit", "edit").await;
    refused(close(&w, &Who::new("eve").group("test:edit").group("beckon:agents"), &name).await, 403, says);
    refused(close(&w, &viewer(), &name).await, 403, "cannot patch resource");
    let by = fine(close(&w, &agent(), &name).await)["spec"]["close"]["by"]["username"].clone();
    assert_eq!(by, "crawler");
    let again = json!({"spec": {"close": {"reason": "mine"}}});
    refused(merge(&w, &operator(), &name, again).await, 422, "this session was already closed");
    refused(merge(&w, &agent(), &name, json!({"spec": {"close": null}})).await, 422, "this session was already closed");

    for who in [operator(), administrator(), cluster_admin()] {
        let name = session(&w).await;
        assert_eq!(fine(close(&w, &who, &name).await)["spec"]["close"]["by"]["username"], who.name.as_str());
    }
    let forged = session(&w).await;
    let as_owner = json!({"spec": {"close": {"by": {"username": "crawler"}}}});
    let reply = merge(&w, &operator(), &forged, as_owner.clone()).await;
    if w.stamps {
        assert_eq!(fine(reply)["spec"]["close"]["by"]["username"], "olga");
    } else {
        refused(reply, 403, "owner and by must be you (olga)");
        refused(merge(&w, &agent(), &forged, json!({"spec": {"close": {}}})).await, 422, "say who you are");
    }
    let for_her = session(&w).await;
    fine(merge(&w, &gateway(), &for_her, as_owner).await);
    let itself = json!({"spec": {"close": {"by": {"username": gateway().name}}}});
    refused(merge(&w, &gateway(), &session(&w).await, itself).await, 403, "the gateway acts only for somebody else");
}

/// With an owner that does not exist the garbage collector deletes the session.
async fn no_patch_deletes(w: World) {
    let name = session(&w).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]);
    for metadata in [json!({"ownerReferences": owner}), json!({"finalizers": ["example.com/hold"]})] {
        for who in [agent(), other_agent(), gateway()] {
            refused(merge(&w, &who, &name, json!({"metadata": metadata})).await, 403, "needs the right to delete");
        }
        refused(w.create_session(&agent(), json!({"metadata": metadata, "spec": {}})).await, 403, "needs the right to delete");
    }
    fine(merge(&w, &administrator(), &name, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await);
    fine(merge(&w, &administrator(), &name, json!({"metadata": {"finalizers": null}})).await);
}

async fn a_session_is_not_reconfigured(w: World) {
    let name = session(&w).await;
    for (field, value) in [
        ("owner", json!({"username": "indexer"})),
        ("browser", json!("HeadlessShell")),
        ("startURL", json!("https://example.com")),
        ("viewport", json!({"width": 800, "height": 600})),
        ("locale", json!("fr")),
        ("timezone", json!("Europe/Paris")),
        ("userAgent", json!("x")),
        ("proxy", json!("http://proxy:3128")),
        ("idleTimeoutSeconds", json!(60)),
        ("maxLifetimeSeconds", json!(60)),
        ("approve", json!("None")),
        ("human", json!(false)),
        ("humanTimeoutSeconds", json!(60)),
        ("resources", json!({"cpuLimit": "8"})),
        ("nodeSelector", json!({"a": "b"})),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("runtimeClassName", json!("gvisor")),
        ("serviceAccountName", json!("root")),
        ("downloads", json!({"mode": "Keep"})),
        ("network", json!({"mode": "Any"})),
    ] {
        for who in [agent(), gateway(), cluster_admin()] {
            let reply = merge(&w, &who, &name, json!({"spec": {field: value}})).await;
            refused(reply, 422, &format!("spec.{field}: Forbidden: is immutable"));
        }
    }
    let schema = serde_json::to_value(&beckon::api::crds()[1]).unwrap();
    let fields = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].as_object().unwrap().len();
    assert_eq!(fields, 21, "a new field of the spec needs a line above: it is immutable, or says why not");
}

async fn the_end_is_final(w: World) {
    for phase in ["Closed", "Crashed", "Expired"] {
        let name = session(&w).await;
        fine(status(&w, &controller(), &name, json!({"phase": "Ready"})).await);
        fine(status(&w, &controller(), &name, json!({"phase": phase})).await);
        for other in ["Pending", "Ready", "Closed", "Crashed", "Expired"].iter().filter(|other| **other != phase) {
            let reply = status(&w, &controller(), &name, json!({"phase": other})).await;
            refused(reply, 422, &format!("status.phase {phase} is final"));
        }
        refused(status(&w, &controller(), &name, Value::Null).await, 422, "status.phase can't be removed");
    }
}

async fn each_account_has_its_part_of_the_status(w: World) {
    let name = session(&w).await;
    let theirs = [
        json!({"control": {"holder": "olga", "epoch": 1}}),
        json!({"page": {"origin": "https://example.com"}}),
        json!({"viewport": {"width": 800, "height": 600}}),
        json!({"captchaHandovers": 1, "failedSteps": 2, "repeatedSteps": 3}),
    ];
    for part in &theirs {
        refused(status(&w, &controller(), &name, part.clone()).await, 403, "of the status are the gateway's");
        fine(status(&w, &gateway(), &name, part.clone()).await);
    }
    refused(status(&w, &controller(), &name, json!({"control": {"holder": "otto"}})).await, 403, "of the status are the gateway's");
    for part in [
        json!({"phase": "Ready"}),
        json!({"message": "m"}),
        json!({"pod": {"name": "p", "ip": "10.0.0.1"}}),
        json!({"openRequests": ["a"]}),
    ] {
        let reply = status(&w, &gateway(), &name, part.clone()).await;
        refused(
            reply,
            403,
            "the gateway writes control, page, viewport, captchaHandovers, failedSteps and repeatedSteps of the status only",
        );
        fine(status(&w, &controller(), &name, part).await);
    }
    // What belongs to a browser that is gone may go with it.
    fine(status(&w, &controller(), &name, json!({"control": null, "page": null})).await);
    for who in [agent(), operator(), administrator()] {
        refused(status(&w, &who, &name, json!({"phase": "Ready"})).await, 403, "browsersessions/status");
    }
    refused(status(&w, &cluster_admin(), &name, json!({"phase": "Ready"})).await, 403, "root may not write the status of browser sessions");
}
