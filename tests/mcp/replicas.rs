//! Losing a replica loses nothing.

use crate::client::{Events, Mcp};
use crate::world::{World, attached, attachments};
use beckon::api::v1alpha1::BrowserSession;
use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use serde_json::json;

#[tokio::test]
async fn the_answer_comes_through_the_other_replica_in_the_same_session() {
    let mut world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    let (_, mut events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    world.gateways[0].process.kill();
    assert_eq!(events.next().await, None, "the stream just ends");
    // The older revisions' client knows nothing of replicas: its session id must do.
    let elsewhere = agent.at(world.port(1));
    let (_, mut events) = elsewhere.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    events.progress().await;
    world.until(&name, "attached to both processes", |r| attachments(r).len() == 2).await;
    world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "still here"}));
    assert_eq!(events.structured().await["message"], "still here");
}

#[tokio::test]
async fn a_stopping_replica_announces_it_and_sends_its_callers_on() {
    let mut world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    let (_, mut events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    events.progress().await;
    let request = world.the_request("an attached request", attached).await;
    let (name, process) = (request.name_any(), attachments(&request).remove(0));
    world.gateways[0].process.terminate();
    let answer = events.structured().await;
    assert_eq!((&answer["status"], &answer["request_id"]), (&json!("pending"), &json!(name)));
    let leases: Api<Lease> = Api::namespaced(world.plane.admin().await, "beckon-system");
    let lease = leases.get(&process).await.expect("the Lease is kept");
    assert_eq!(lease.annotations().get("beckon.dev/shutting-down").map(String::as_str), Some("true"));
    let request = world.request(&name).await;
    assert_eq!(attachments(&request), [process], "the controller sees whose call it was");
    assert!(request.spec.cancel.is_none());
    let (_, events) = agent.at(world.port(1)).start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    world.until(&name, "attached to the other", |r| attachments(r).len() == 2).await;
    world.answer("operator", &name, &json!({"outcome": "Rejected", "message": "no"}));
    assert_eq!(events.structured().await["message"], "no");
}

#[tokio::test]
async fn a_session_id_is_its_owners_and_ends_when_it_is_ended() {
    let world = World::start(2, &[]).await;
    let agent = world.legacy("agent").await;
    let list = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    for n in [0, 1, 0] {
        assert!(Events::of(agent.at(world.port(n)).post(list.clone(), &[]).await).answer().await["result"]["tools"].is_array());
    }
    let thief = Mcp { token: world.plane.token("agent-2"), ..agent.clone() };
    assert_eq!(thief.post(list.clone(), &[]).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(thief.at(world.port(1)).post(list.clone(), &[]).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(thief.send("DELETE", "", &[]).await.status(), StatusCode::NOT_FOUND, "nobody ends another's");
    assert!(agent.post(list.clone(), &[]).await.status().is_success());
    assert_eq!(agent.send("DELETE", "", &[]).await.status(), StatusCode::NO_CONTENT);
    // The other replica has the session too, and forgets it as well.
    assert_eq!(agent.post(list.clone(), &[]).await.status(), StatusCode::NOT_FOUND);
    crate::support::eventually("the end of the session at the other replica", || async {
        agent.at(world.port(1)).post(list.clone(), &[]).await.status() == StatusCode::NOT_FOUND
    })
    .await;
    // One that starts later knows it at once.
    let late = world.gateway(&[]);
    late.ready().await;
    assert_eq!(agent.at(late.port).post(list.clone(), &[]).await.status(), StatusCode::NOT_FOUND);
    let forged = Mcp { session: Some("c29tZXRoaW5nLWVsc2U".into()), ..agent.clone() };
    assert_eq!(forged.post(list, &[]).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stopping_replica_still_says_which_session_it_made() {
    let mut world = World::start(1, &[]).await;
    world.nobody_takes_in();
    let agent = world.legacy("agent").await;
    let (_, mut events) = agent.start("create_session", "{}", Some("p")).await;
    events.progress().await;
    world.gateways[0].process.terminate();
    let answer = events.structured().await;
    let made = answer["session_id"].as_str().expect("a session id");
    let sessions: Api<BrowserSession> = Api::namespaced(world.plane.admin().await, &world.namespace);
    let session = sessions.get(made).await.expect("the session that it made");
    assert!(session.status.is_none() && session.spec.close.is_none(), "it still starts");
}
