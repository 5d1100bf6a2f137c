//! A retry is the same request.

use crate::client::Mcp;
use crate::world::{World, attached};
use futures::future::join_all;
use kube::ResourceExt as _;
use serde_json::json;

#[tokio::test]
async fn twenty_at_once_on_two_replicas_are_one_request() {
    let world = World::start(2, &[]).await;
    let agent = world.modern("agent");
    let session = world.session(&agent).await;
    for key in [Some("order-17"), None] {
        let before = world.requests().await.len();
        let mut args = json!({"session_id": session, "reason": format!("Pay? {key:?}"), "options": [1.0]});
        if let Some(key) = key {
            args["idempotency_key"] = json!(key);
        }
        let args = args.to_string();
        let callers = (0..20).map(|n| {
            let (client, args) = (agent.at(world.port(n % 2)), args.clone());
            async move { client.start("request_attention", &args, Some("p")).await.1 }
        });
        let mut streams = join_all(callers).await;
        for stream in &mut streams {
            stream.progress().await;
        }
        let all = world.requests().await;
        assert_eq!(all.len(), before + 1, "{key:?}");
        let request = all.into_iter().find(|r| r.spec.resolution.is_none()).unwrap();
        let name = request.name_any();
        world
            .until(&name, "both replicas attached", |r| {
                let mut gateways = crate::world::attachments(r);
                gateways.sort();
                gateways.dedup();
                gateways.len() == 2
            })
            .await;
        world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "yes"}));
        for result in join_all(streams.into_iter().map(crate::client::Events::structured)).await {
            assert_eq!((&result["request_id"], &result["message"]), (&json!(name), &json!("yes")));
        }
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_answer_and_another_question_is_a_conflict() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.modern("agent");
    let ask = |reason: &str, key: Option<&str>| {
        let mut args = json!({"mode": "notify", "reason": reason});
        args["idempotency_key"] = key.map_or(serde_json::Value::Null, |key| json!(key));
        args
    };
    let first = agent.structured("request_attention", &ask("r", Some("k"))).await;
    let name = first["request_id"].as_str().unwrap().to_owned();
    let (code, message) = agent.failure("request_attention", &ask("other", Some("k"))).await;
    assert!(code == "IDEMPOTENCY_CONFLICT" && message.contains("idempotency_key"), "{message}");
    world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "once"}));
    let retried = agent.structured("request_attention", &ask("r", Some("k"))).await;
    assert_eq!((&retried["request_id"], &retried["message"]), (&json!(name), &json!("once")), "also when it is settled");
    let another = Mcp::modern(world.port(0), &world.plane.token("agent-2"));
    let theirs = another.structured("request_attention", &ask("r", Some("k"))).await;
    assert_ne!(theirs["request_id"], json!(name), "a key is its principal's");

    let unkeyed = agent.structured("request_attention", &ask("r2", None)).await["request_id"].clone();
    assert_eq!(agent.structured("request_attention", &ask("r2", None)).await["request_id"], unkeyed, "while it is open");
    world.answer("operator", unkeyed.as_str().unwrap(), &json!({"outcome": "Rejected"}));
    let next = agent.structured("request_attention", &ask("r2", None)).await;
    assert_eq!(next["status"], "pending");
    assert_ne!(next["request_id"], unkeyed, "asked anew after it settled");
    assert!(!attached(&world.request(next["request_id"].as_str().unwrap()).await));
}
