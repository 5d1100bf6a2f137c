//! The seed's contract, by kubectl alone.

use crate::world::{World, attached};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::time::Duration;

const OPTIONS: &str = r#"{"b":1.0,"a":1e400,"b":[ -0.0 , 10000000000000000000000000001],"é":"\u0041\/\ud83d\ude00"}"#;

#[tokio::test]
async fn a_person_with_kubectl_answers_and_the_call_returns_exactly_that() {
    let world = World::start(1, &[]).await;
    let agent = world.legacy("agent").await;
    let session = world.session(&agent).await;
    let arguments =
        format!(r#"{{"session_id":"{session}","reason":"A CAPTCHA.","mode":"takeover","options":{OPTIONS},"max_wait_seconds":1800}}"#);
    let (id, mut events) = agent.start("request_attention", &arguments, Some("p")).await;
    let progress = events.progress().await;
    assert_eq!(progress["progressToken"], format!("p-{id}"));
    let request = world.the_request("an attached request", attached).await;
    let name = request.name_any();
    assert!(progress["message"].as_str().unwrap().contains(&name), "{progress}");
    assert!(name.starts_with("a-"));
    assert_eq!(request.spec.options.as_deref(), Some(OPTIONS), "token for token");
    assert_eq!(request.spec.requester.as_ref().unwrap().username, "agent");
    let spec = serde_json::to_value(&request.spec).unwrap();
    assert_eq!((&spec["source"], &spec["mode"], &spec["waiter"]), (&json!("RequestAttention"), &json!("Takeover"), &json!("Required")));
    assert_eq!((&spec["maxWaitSeconds"], &spec["sessionRef"]["name"]), (&json!(1800), &json!(session)));

    world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "Done, continue."}));
    let result = events.structured().await;
    let at = result["resolved_at"].as_i64().expect("milliseconds");
    assert_eq!(
        result,
        json!({"status": "resolved", "message": "Done, continue.", "resolved_by": "operator", "resolved_at": at, "request_id": name})
    );
    let again = agent.structured("get_attention_result", &json!({"request_id": name})).await;
    assert_eq!(again, result, "a late look says the same");
    let newest = agent.structured("get_attention_result", &json!({})).await;
    assert_eq!(newest, result, "a cut caller never learned the id");
}

#[tokio::test]
async fn without_an_id_it_is_the_newest_of_many_in_one_second_at_whichever_replica() {
    let world = World::start(2, &[]).await;
    let agent = world.modern("agent");
    let other = agent.at(world.port(1));
    let mut waiting = Vec::new();
    for n in 0..6 {
        let ask = json!({"mode": "notify", "reason": format!("request {n}")}).to_string();
        let (_, mut events) = agent.start("request_attention", &ask, Some("p")).await;
        let asked = events.progress().await["message"].as_str().unwrap().to_owned();
        let (_, mut newest) = other.start("get_attention_result", "{}", Some("q")).await;
        assert_eq!(newest.progress().await["message"], asked, "of {n} older ones");
        waiting.push((events, newest));
    }
}

#[tokio::test]
async fn rejected_without_a_message_omits_it_also_on_the_newer_protocol() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let session = world.session(&agent).await;
    let arguments = json!({"session_id": session, "reason": "May I?", "mode": "notify"}).to_string();
    let (_, mut events) = agent.start("request_attention", &arguments, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    world.answer("operator-2", &name, &json!({"outcome": "Rejected"}));
    let result = events.structured().await;
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["status", "resolved_by", "resolved_at", "request_id"]);
    assert_eq!((&result["status"], &result["resolved_by"]), (&json!("rejected"), &json!("operator-2")));
}

#[tokio::test]
async fn tools_say_what_they_take_and_give_in_both_eras() {
    let world = World::start(1, &["--minAttentionWait", "10m", "--captcha", "off"]).await;
    let agent = world.legacy("agent").await;
    let body = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    let listed = crate::client::Events::of(agent.post(body, &[]).await).answer().await;
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    for tool in &tools {
        assert!(tool["inputSchema"].is_object() && tool["outputSchema"].is_object() && tool["annotations"].is_object(), "{tool}");
    }
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).cloned().unwrap_or_else(|| panic!("{name}"));
    let description = find("request_attention")["description"].as_str().unwrap().to_owned();
    assert!(description.contains("at least 10 minutes") && description.contains("No hand-off of CAPTCHAs"), "{description}");
    for name in
        ["create_session", "list_sessions", "close_session", "navigate", "snapshot", "click", "type", "press_key", "screenshot", "wait_for"]
    {
        find(name);
    }
    let modern = world.modern("agent");
    assert_eq!(modern.structured("list_sessions", &json!({})).await, json!({"sessions": []}));
}

#[tokio::test]
async fn sessions_belong_to_their_principal() {
    let world = World::start(1, &[]).await;
    let (agent, other) = (world.modern("agent"), world.modern("agent-2"));
    let session = world.session(&agent).await;
    let of = |value: &Value| value["sessions"].as_array().unwrap().iter().map(|s| s["session_id"].clone()).collect::<Vec<_>>();
    assert_eq!(of(&agent.structured("list_sessions", &json!({})).await), [json!(session)]);
    assert_eq!(of(&other.structured("list_sessions", &json!({})).await), Vec::<Value>::new());
    assert_eq!(other.failure("close_session", &json!({"session_id": session})).await.0, "SESSION_NOT_FOUND");
    for _ in 0..2 {
        let closed = agent.structured("close_session", &json!({"session_id": session})).await;
        assert_eq!(closed, json!({"session_id": session, "closed": true}));
    }
    assert_eq!(agent.failure("navigate", &json!({"session_id": session, "url": "https://example.com"})).await.0, "SESSION_CLOSED");
}

#[tokio::test]
async fn progress_comes_at_once_and_every_25_seconds() {
    let world = World::start(1, &[]).await;
    let (legacy, modern) = (world.legacy("agent").await, world.modern("agent"));
    let waits = [("older", &legacy), ("newer", &modern)].map(|(era, agent)| async move {
        let ask = json!({"mode": "notify", "reason": era}).to_string();
        let asked = std::time::Instant::now();
        let (_, mut events) = agent.start("request_attention", &ask, Some("p")).await;
        let first = events.progress().await;
        let at_once = asked.elapsed();
        let second = events.progress().await;
        let after = asked.elapsed();
        assert!(at_once < Duration::from_secs(5), "{era}: the first after {at_once:?}");
        // The third would come at 50.
        assert!((25.0..48.0).contains(&after.as_secs_f64()), "{era}: the second after {after:?}");
        assert!(first["progress"].as_f64() < second["progress"].as_f64(), "{era}: it grows");
    });
    futures::future::join_all(waits).await;
}

#[tokio::test]
async fn a_call_on_a_request_that_is_deleted_is_told_at_once() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    let deleted = world.plane.kubectl("admin", &["delete", "attn", &name, "-n", &world.namespace, "--wait=false"]);
    assert!(deleted.status.success());
    let result = events.structured().await;
    assert_eq!((&result["status"], &result["message"]), (&json!("rejected"), &json!("The attention request was deleted.")));
    let late = agent.structured("get_attention_result", &json!({"request_id": name})).await;
    assert_eq!(late["message"], "Unknown attention request");
}
