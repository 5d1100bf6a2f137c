//! Who waits is in the object: attached, polling, cut, back again.

use crate::world::{World, attached, attachments};
use kube::ResourceExt as _;
use serde_json::json;

#[tokio::test]
async fn without_a_token_the_call_answers_pending_and_the_client_counts_as_polling() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.legacy("agent").await;
    let first = agent.structured("request_attention", &json!({"mode": "notify", "reason": "r"})).await;
    let name = first["request_id"].as_str().unwrap().to_owned();
    assert_eq!(first["status"], "pending");
    assert!(first["message"].as_str().unwrap().contains("get_attention_result"), "{first}");
    world.until(&name, "only the polling client", |r| attachments(r) == ["client"]).await;
    // A call that waits speaks for the client from then on.
    let (_, mut events) = agent.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    events.progress().await;
    world.until(&name, "attached and no longer polling", |r| attached(r) && !attachments(r).contains(&"client".to_owned())).await;
    drop(events);
    world.until(&name, "detached", |r| attachments(r).is_empty()).await;
    assert!(world.request(&name).await.spec.cancel.is_none(), "a lost connection settles nothing");
    world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "late"}));
    assert_eq!(agent.structured("get_attention_result", &json!({"request_id": name})).await["message"], "late");
}

#[tokio::test]
async fn a_cut_stream_of_the_newer_protocol_only_detaches() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let (_, mut events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    drop(events);
    let cut = world.until(&name, "detached", |r| attachments(r).is_empty()).await;
    assert!(cut.spec.cancel.is_none());
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    world.until(&name, "attached again by the same question", attached).await;
    world.answer("operator", &name, &json!({"outcome": "Resolved"}));
    assert_eq!(events.structured().await["request_id"], json!(name));
    assert_eq!(world.requests().await.len(), 1);
}

#[tokio::test]
async fn a_client_that_comes_back_reads_on_also_when_it_was_answered_meanwhile() {
    let world = World::start(1, &[]).await;
    let agent = world.legacy("agent").await;
    for answered_while_away in [false, true] {
        let reason = format!("r {answered_while_away}");
        let (_, mut events) = agent.start("request_attention", &json!({"mode": "notify", "reason": reason}).to_string(), Some("p")).await;
        let id = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        world.until(&id, "attached", attached).await;
        let last = events.last_id.clone().expect("an event id");
        drop(events);
        world.until(&id, "detached", |r| attachments(r).is_empty()).await;
        let answer = json!({"outcome": "Resolved", "message": "welcome back"});
        if answered_while_away {
            world.answer("operator", &id, &answer);
        }
        let back = agent.resume(&last).await;
        if !answered_while_away {
            world.until(&id, "attached again", attached).await;
            world.answer("operator", &id, &answer);
        }
        let result = back.structured().await;
        assert_eq!((&result["message"], &result["request_id"]), (&json!("welcome back"), &json!(id)));
    }
}
