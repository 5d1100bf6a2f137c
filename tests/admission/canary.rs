//! What the canary says of each state of the policies, and what holds without them.

use crate::support::{ControlPlane, Options, eventually, succeeded};
use crate::world::{Reply, World, agent, controller, fine, gateway, operator, plain, refused};
use serde_json::{Value, json};
use std::fs;
use std::sync::OnceLock;

/// Asks as this account does.
async fn canary(w: &World, who: &crate::world::Who) -> Reply {
    let spec = json!({"mode": "Notify", "reason": "canary", "requester": {"username": "canary-forged"}});
    w.dry_create(who, "beckon-policy-canary", spec).await
}

fn kubectl(plane: &ControlPlane, args: &[&str]) {
    succeeded(plane.kubectl("admin", args));
}

/// Waits until the canary tells this: `None` is that it was let through.
async fn tells(w: &World, says: Option<&str>) {
    eventually(&format!("the canary says {says:?}"), async || match (canary(w, &controller()).await, says) {
        (Err(refusal), Some(says)) => refusal.code == 403 && refusal.text.contains(says),
        (Ok(_), None) => true,
        _ => false,
    })
    .await;
}

fn forged_answer() -> Value {
    json!({"resolution": {"outcome": "Resolved", "by": {"username": "root"}}})
}

/// One plane and one test, since each state changes the policies for everybody.
#[tokio::test]
async fn only_what_is_in_force_is_told_as_good() {
    static OWN: OnceLock<ControlPlane> = OnceLock::new();
    let options = Options { controller_manager: false, audit: true, ..Options::default() };
    let plane = OWN.get_or_init(|| ControlPlane::start(&options));
    let w = World::of(plane, true).await;
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config/admission/");
    let file = |name: &str| format!("{config}{name}.yaml");

    // All in place. Stamping skips the gateway, so the gateway can't tell whether it works.
    tells(&w, Some("beckon-policy/1 stamped=true")).await;
    refused(canary(&w, &gateway()).await, 403, "beckon-policy/1 stamped=false");
    refused(canary(&w, &agent()).await, 403, "beckon-policy/1 stamped=true");
    let name = w.open(plain()).await;
    fine(w.write(&operator(), &name, json!({"resolution": {"outcome": "Rejected", "message": "no"}})).await);
    audit_names_who_decided(&w, &name).await;

    // Without stamping nothing is lost but comfort.
    kubectl(plane, &["delete", "-f", &file("requests-stamp")]);
    tells(&w, Some("beckon-policy/1 stamped=false")).await;
    let name = w.open(json!({"mode": "Notify", "reason": "x", "requester": {"username": agent().name}})).await;
    // The two stamps go one after the other.
    let bare = json!({"resolution": {"outcome": "Resolved"}});
    eventually("nobody is stamped", async || w.dry_write(&operator(), &name, bare.clone()).await.is_err()).await;
    refused(w.write(&operator(), &name, bare.clone()).await, 422, "say who you are");
    refused(w.write(&operator(), &name, forged_answer()).await, 403, "requester and by must be you (olga)");

    // Without the checks a name can be forged; the canary tells, and the rules of the kind still hold.
    kubectl(plane, &["delete", "validatingadmissionpolicybinding", "beckon-requests"]);
    tells(&w, None).await;
    let forged = fine(w.write(&agent(), &name, forged_answer()).await);
    assert_eq!(forged["spec"]["resolution"]["by"]["username"], "root");
    refused(w.status(&controller(), &name, json!({"phase": "Timeout"})).await, 422, "status.phase contradicts");
    let void = json!({"type": "Settled", "status": "True", "reason": "IdentityNotEnforced", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    fine(w.status(&controller(), &name, json!({"phase": "Rejected", "conditions": [void]})).await);
    kubectl(plane, &["apply", "-f", &file("requests")]);
    tells(&w, Some("beckon-policy/1 stamped=false")).await;

    // A binding that only audits enforces nothing.
    let audits = r#"{"spec":{"validationActions":["Audit"]}}"#;
    kubectl(plane, &["patch", "validatingadmissionpolicybinding", "beckon-requests", "--type=merge", "-p", audits]);
    tells(&w, None).await;
    kubectl(plane, &["apply", "-f", &file("requests")]);
    tells(&w, Some("beckon-policy/1")).await;

    // A selector can leave a namespace out: the canary is asked in each.
    let elsewhere = r#"{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"beckon":"on"}}}}}"#;
    kubectl(plane, &["patch", "validatingadmissionpolicybinding", "beckon-requests", "--type=merge", "-p", elsewhere]);
    tells(&w, None).await;
    kubectl(plane, &["label", "namespace", &w.namespace, "beckon=on"]);
    tells(&w, Some("beckon-policy/1")).await;

    // The policy itself gone, the binding left.
    kubectl(plane, &["delete", "validatingadmissionpolicy", "beckon-requests"]);
    tells(&w, None).await;
    for name in ["requests-stamp", "requests"] {
        kubectl(plane, &["apply", "-f", &file(name)]);
    }
    tells(&w, Some("beckon-policy/1 stamped=true")).await;
}

async fn audit_names_who_decided(w: &World, name: &str) {
    let log = w.plane.audit_log().expect("an audit log");
    let decided = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut decisions = events
            .filter(|event| event["objectRef"]["name"] == name)
            .filter_map(|event| event["annotations"]["beckon-requests/decision"].as_str().map(str::to_owned));
        decisions.next()
    };
    eventually("the decision is in the audit log", async || decided().is_some()).await;
    assert_eq!(decided().as_deref(), Some("Rejected by olga via Kubectl"));
}
