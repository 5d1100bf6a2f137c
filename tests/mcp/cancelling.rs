//! A cancellation is a decision of the agent, or only its own clock.

use crate::world::{World, attached, attachments};
use kube::ResourceExt as _;
use serde_json::json;

const ASK: &str = r#"{"mode":"notify","reason":"r"}"#;
const CANCELLED: &str = "The client cancelled the attention request.";

#[tokio::test]
async fn an_explicit_one_settles_at_once_on_whichever_replica_it_arrives() {
    let world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    for (n, replica) in [(0, 0), (1, 1)] {
        let ask = json!({"mode": "notify", "reason": format!("r{n}")}).to_string();
        let (id, mut events) = agent.start("request_attention", &ask, Some("p")).await;
        let name = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        world.until(&name, "attached", attached).await;
        agent.at(world.port(replica)).cancel(id, "the user changed their mind").await;
        let request = world.until(&name, "cancelled", |r| r.spec.cancel.is_some()).await;
        assert_eq!(request.spec.cancel.unwrap().by.unwrap().username, "agent");
        let result = agent.structured("get_attention_result", &json!({"request_id": name})).await;
        assert_eq!((&result["status"], &result["message"]), (&json!("cancelled"), &json!(CANCELLED)));
        assert!(result.get("resolved_by").is_none());
    }
}

/// The call is known at the other replica a moment after its client hears of it.
#[tokio::test]
async fn one_that_overtakes_its_call_on_the_way_to_another_replica_is_not_lost() {
    let world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    for n in 0..6 {
        let ask = json!({"mode": "notify", "reason": format!("r{n}")}).to_string();
        let (id, mut events) = agent.start("request_attention", &ask, Some("p")).await;
        let name = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        agent.at(world.port(1)).cancel(id, "the user changed their mind").await;
        world.until(&name, "cancelled", |r| r.spec.cancel.is_some()).await;
    }
}

#[tokio::test]
async fn a_clients_own_timeout_only_detaches() {
    let world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    // The stream stays open: clients that run out of time do not close it. The message may come to another replica.
    for (n, replica) in [0, 1, 1].into_iter().enumerate() {
        let ask = json!({"mode": "notify", "reason": format!("r{n}")}).to_string();
        let (id, mut events) = agent.start("request_attention", &ask, Some("p")).await;
        let name = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        world.until(&name, "attached", attached).await;
        agent.at(world.port(replica)).cancel(id, "McpError: MCP error -32001: Request timed out").await;
        let request = world.until(&name, "detached", |r| attachments(r).is_empty()).await;
        assert!(request.spec.cancel.is_none());
        let again = agent.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await.1;
        world.until(&name, "attached again", attached).await;
        world.answer("operator", &name, &json!({"outcome": "Resolved"}));
        assert_eq!(again.structured().await["status"], "resolved");
    }
}

#[tokio::test]
async fn it_spares_a_request_that_another_call_waits_on() {
    let world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    let (first, _gone) = agent.start("request_attention", ASK, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    let other = crate::client::Mcp::legacy(world.port(1), &agent.token).await;
    let (_, mut waiting) = other.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    waiting.progress().await;
    world.until(&name, "both wait", |r| attachments(r).len() == 2).await;
    // To the replica that does not run it.
    agent.at(world.port(1)).cancel(first, "not needed any more").await;
    let request = world.until(&name, "one waits", |r| attachments(r).len() == 1).await;
    assert!(request.spec.cancel.is_none());
    world.answer("operator", &name, &json!({"outcome": "Resolved"}));
    assert_eq!(waiting.structured().await["status"], "resolved");
}

#[tokio::test]
async fn the_tool_withdraws_and_the_waiting_call_is_told() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let (_, events) = agent.start("request_attention", ASK, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    let told = agent.structured("cancel_attention", &json!({"request_id": name, "reason": "found it"})).await;
    assert_eq!((&told["status"], &told["message"], &told["request_id"]), (&json!("cancelled"), &json!(CANCELLED), &json!(name)));
    assert_eq!(events.structured().await, told);
    assert_eq!(world.request(&name).await.spec.cancel.unwrap().reason.as_deref(), Some("found it"));
}

#[tokio::test]
async fn it_is_not_held_back_by_what_a_lost_process_held() {
    let mut world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    let (_, mut lost) = agent.start("request_attention", ASK, Some("p")).await;
    lost.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    world.gateways[0].process.kill();
    let elsewhere = agent.at(world.port(1));
    let (id, mut waiting) = elsewhere.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    waiting.progress().await;
    world.until(&name, "attached to both processes", |r| attachments(r).len() == 2).await;
    elsewhere.cancel(id, "the user changed their mind").await;
    // Nobody removes what the lost process held here, as the controller would: its Lease alone tells.
    let request = world.until(&name, "cancelled", |r| r.spec.cancel.is_some()).await;
    assert_eq!(request.spec.cancel.unwrap().by.unwrap().username, "agent");
}

#[tokio::test]
async fn nor_when_it_arrives_at_a_replica_that_does_not_run_the_call() {
    let mut world = World::start(3, &[]).await;
    let agent = world.legacy("agent").await;
    let (_, mut lost) = agent.start("request_attention", ASK, Some("p")).await;
    lost.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    world.gateways[0].process.kill();
    let elsewhere = agent.at(world.port(1));
    let (id, mut waiting) = elsewhere.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    waiting.progress().await;
    world.until(&name, "attached to both processes", |r| attachments(r).len() == 2).await;
    agent.at(world.port(2)).cancel(id, "not needed any more").await;
    world.until(&name, "cancelled", |r| r.spec.cancel.is_some()).await;
    assert_eq!(waiting.structured().await["status"], "cancelled");
}
