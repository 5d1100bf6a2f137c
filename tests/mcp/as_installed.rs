//! How long an agent waits, with the settings as they are installed and the controller itself. It takes a minute, so it is the
//! first by name.

use crate::client::Events;
use crate::support::poll_until;
use crate::world::World;
use beckon::api::v1alpha1::{AttentionRequest, BrowserSession, BrowserSessionSpec, Principal};
use kube::api::{Api, PostParams};
use serde_json::json;
use std::time::Duration;

/// A session that its agent made by kubectl. Nobody runs its pod.
async fn session(world: &World, name: &str, lifetime: Option<i64>) {
    let api: Api<BrowserSession> = Api::namespaced(world.plane.user("agent").await, &world.namespace);
    let spec =
        BrowserSessionSpec { owner: Some(Principal::named("agent")), max_lifetime_seconds: lifetime, ..BrowserSessionSpec::default() };
    api.create(&PostParams::default(), &BrowserSession::new(name, spec)).await.unwrap();
    poll_until(Duration::from_secs(30), "a session with an end", || async {
        api.get(name).await.unwrap().status.and_then(|status| status.ends_at)
    })
    .await;
}

/// The open request with this reason.
async fn opened(world: &World, reason: &str) -> AttentionRequest {
    poll_until(Duration::from_secs(30), "an open request", || async {
        let mut all = world.requests().await;
        all.retain(|request| request.spec.reason == reason && request.status.as_ref().is_some_and(|status| status.deadline.is_some()));
        all.pop()
    })
    .await
}

#[tokio::test]
async fn a_wait_has_a_floor_and_a_cap_and_ends_with_its_session() {
    let world = World::with_controller().await.with_gateways(1, &[]).await;
    let agent = world.legacy("agent").await;

    // First, since it takes a minute: a lifetime that ends while the agent waits for longer.
    session(&world, "short", Some(60)).await;
    let ask = json!({"session_id": "short", "mode": "notify", "reason": "outlives its session"}).to_string();
    let (_, expiring) = agent.start("request_attention", &ask, Some("short")).await;
    let request = opened(&world, "outlives its session").await;
    let end = Api::<BrowserSession>::namespaced(world.plane.admin().await, &world.namespace).get("short").await.unwrap();
    assert_eq!(request.status.unwrap().deadline, end.status.unwrap().ends_at, "never later than the session's hard end");

    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    let listed = Events::of(agent.post(body, &[]).await).answer().await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "request_attention").expect("the tool");
    let description = tool["description"].as_str().unwrap();
    assert!(description.contains("at least 30 minutes"), "{description}");

    for (wait, seconds) in [
        (json!(1), 1800),
        (json!(1799), 1800),
        (json!(1801), 1801),
        (json!(21_600), 21_600),
        (json!(21_601), 21_600),
        (json!(1e18), 21_600),
        (json!(0), 21_600),
        (json!(null), 21_600),
    ] {
        let reason = format!("waits {wait}");
        let ask = json!({"mode": "notify", "reason": reason, "max_wait_seconds": wait}).to_string();
        let (_, waiting) = agent.start("request_attention", &ask, Some("p")).await;
        let status = opened(&world, &reason).await.status.unwrap();
        let waits = status.deadline.unwrap().0.duration_since(status.opened_at.unwrap().0);
        assert_eq!(waits.as_secs(), seconds, "{wait}");
        drop(waiting);
    }
    let before = world.requests().await.len();
    for (wait, why) in [
        (json!(-1), "max_wait_seconds must be at least 0"),
        (json!(-1e30), "max_wait_seconds must be at least 0"),
        (json!(1.5), "max_wait_seconds must be a whole number"),
        (json!("60"), "max_wait_seconds must be a whole number"),
        (json!(true), "max_wait_seconds must be a whole number"),
    ] {
        let (code, message) = agent.failure("request_attention", &json!({"mode": "notify", "reason": "r", "max_wait_seconds": wait})).await;
        assert_eq!(code, "INVALID_ARGUMENT", "{wait}: {message}");
        assert!(message.contains(why), "{wait}: {message}");
    }
    assert_eq!(world.requests().await.len(), before, "nothing was asked");

    let result = expiring.structured().await;
    assert_eq!(
        (&result["status"], &result["message"]),
        (&json!("rejected"), &json!("The session expired while the attention request was open.")),
        "{result}"
    );
    assert!(result.get("resolved_by").is_none(), "{result}");
}
