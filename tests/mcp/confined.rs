//! A gateway that has rights in one namespace alone.

use crate::support::{ControlPlane, Options, poll_until, succeeded};
use crate::world::{World, attached};
use kube::ResourceExt as _;
use serde_json::json;
use std::time::Duration;

/// Its own control plane, since what the gateway's account may do is changed. It lives as long as the tests.
fn plane() -> &'static ControlPlane {
    Box::leak(Box::new(ControlPlane::start(&Options { scheduler: true, ..Options::default() })))
}

#[tokio::test]
async fn a_role_in_one_namespace_is_enough_and_elsewhere_nothing_is_served() {
    let plane = tokio::task::spawn_blocking(plane).await.unwrap();
    let world = World::without_gateways(plane).await;
    let elsewhere = plane.namespace("elsewhere").await;
    // As the chart does with watchNamespace: the same role, bound there.
    succeeded(plane.kubectl("admin", &["delete", "clusterrolebinding", "beckon-gateway-sessions"]));
    let binding = ["create", "rolebinding", "beckon-gateway-sessions", "--clusterrole=beckon-gateway"];
    let subject = ["--serviceaccount=beckon-system:beckon-gateway", "-n", &world.namespace];
    succeeded(plane.kubectl("admin", &[&binding[..], &subject].concat()));

    let only = format!("--watch-namespace={}", world.namespace);
    let world = world.with_gateways(2, &[&only]).await;
    let agent = world.legacy("agent").await;
    let session = world.session(&agent).await;
    let ask = json!({"session_id": session, "reason": "May I?"}).to_string();
    let (_, mut events) = agent.start("request_attention", &ask, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    // Seen and answered by a person through the other replica.
    let path = format!("attention/{}/{name}", world.namespace);
    let (status, shown) = world.rest("operator", "GET", &path, &json!(null)).await;
    assert_eq!((status.as_u16(), &shown["reason"]), (200, &json!("May I?")));
    let (status, _) = world.rest("operator", "POST", &format!("{path}/resolve"), &json!({"message": "Yes."})).await;
    assert_eq!(status.as_u16(), 200);
    let result = events.structured().await;
    assert_eq!((&result["status"], &result["message"], &result["resolved_by"]), (&json!("resolved"), &json!("Yes."), &json!("operator")));
    assert_eq!(agent.structured("close_session", &json!({"session_id": session})).await["closed"], true);
    // What is elsewhere is not there for it.
    let (status, told) = world.rest("operator", "GET", &format!("attention/{elsewhere}/a-1"), &json!(null)).await;
    assert!(matches!(status.as_u16(), 404 | 503), "{told}");

    // Without the flag it says what is missing, and takes no calls in.
    let lost = world.gateway(&[]);
    let missing = poll_until(Duration::from_secs(30), "why it is not ready", || async {
        lost.ask("readyz").await.map(|(_, text)| text).filter(|text| text.contains("--watch-namespace"))
    })
    .await;
    assert!(missing.contains("attentionrequests"), "{missing}");
}
