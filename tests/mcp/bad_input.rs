//! Wrong calls and wrong callers: a clear error that names the field, and nothing changed.

use crate::client::{Events, Mcp};
use crate::world::{World, attached};
use http::StatusCode;
use http_body_util::BodyExt as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};

#[tokio::test]
async fn a_wrong_argument_is_named_and_nothing_is_created() {
    let world = World::start(1, &[]).await;
    let (agent, other) = (world.modern("agent"), world.modern("agent-2"));
    let session = world.session(&agent).await;
    let foreign = world.session(&other).await;
    let closed = world.session(&agent).await;
    agent.structured("close_session", &json!({"session_id": closed})).await;
    let ask = |more: Value| {
        let mut args = json!({"session_id": session, "reason": "r"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    for (args, code, part) in [
        (ask(json!({"session_id": "s-nope"})), "SESSION_NOT_FOUND", "s-nope"),
        (ask(json!({"session_id": "../../etc"})), "SESSION_NOT_FOUND", "etc"),
        (ask(json!({"session_id": foreign})), "SESSION_NOT_FOUND", "create_session"),
        (ask(json!({"session_id": closed})), "SESSION_CLOSED", "create a new one"),
        (json!({"reason": "r"}), "INVALID_ARGUMENT", "session_id"),
        (json!({"session_id": session}), "INVALID_ARGUMENT", "reason"),
        (ask(json!({"mode": "drive"})), "INVALID_ARGUMENT", "mode"),
        (ask(json!({"max_wait_seconds": -1})), "INVALID_ARGUMENT", "max_wait_seconds"),
        (ask(json!({"max_wait_seconds": 1.5})), "INVALID_ARGUMENT", "max_wait_seconds"),
        (ask(json!({"max_wait_seconds": "60"})), "INVALID_ARGUMENT", "max_wait_seconds"),
        (ask(json!({"reason": "x".repeat(2001)})), "INVALID_ARGUMENT", "reason"),
        (ask(json!({"reason": "a\u{7}b"})), "INVALID_ARGUMENT", "reason"),
        (ask(json!({"reason": "  "})), "INVALID_ARGUMENT", "reason"),
        (ask(json!({"options": "x".repeat(32_767)})), "INVALID_ARGUMENT", "options"),
        (ask(json!({"options": "x".repeat(2 << 20)})), "INVALID_ARGUMENT", "options"),
        (ask(json!({"idempotency_key": ""})), "INVALID_ARGUMENT", "idempotency_key"),
        (ask(json!({"urgent": true})), "INVALID_ARGUMENT", "urgent"),
    ] {
        let (told, message) = agent.failure("request_attention", &args).await;
        assert!(told == code && message.contains(part), "{part}: {told}: {message}");
    }
    assert!(world.requests().await.is_empty());
    for id in ["a-aaaaaaaaaaaaaaaaaaaaaaaaaa", "", "A B", "x/../y"] {
        let unknown = agent.structured("get_attention_result", &json!({"request_id": id})).await;
        assert_eq!(unknown, json!({"status": "rejected", "message": "Unknown attention request", "request_id": id}));
    }
    let none = agent.structured("get_attention_result", &json!({"session_id": session})).await;
    assert_eq!(none, json!({"status": "rejected", "message": "Unknown attention request"}));
    let unknown = agent.structured("cancel_attention", &json!({"request_id": "a-nope"})).await;
    assert_eq!(unknown["message"], "Unknown attention request");
}

#[tokio::test]
async fn another_principals_request_is_unknown_and_a_settled_one_stays() {
    let world = World::start(1, &[]).await;
    let (agent, other) = (world.modern("agent"), world.modern("agent-2"));
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r","max_wait_seconds":1e30}"#, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    for tool in ["get_attention_result", "cancel_attention"] {
        let unknown = other.structured(tool, &json!({"request_id": name})).await;
        assert_eq!(unknown, json!({"status": "rejected", "message": "Unknown attention request", "request_id": name}));
    }
    world.answer("operator", &name, &json!({"outcome": "Resolved"}));
    let result = events.structured().await;
    assert_eq!(agent.structured("cancel_attention", &json!({"request_id": name})).await, result, "too late changes nothing");
    assert!(world.request(&name).await.spec.cancel.is_none());
}

/// Header names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

#[tokio::test]
async fn who_is_nobody_gets_no_further() {
    let world = World::start(1, &["--allowed-host", "beckon.example.com", "--allowed-origin", "https://app.example.com"]).await;
    let token = world.plane.token("agent");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let good = format!("Bearer {token}");
    let cases: [(Headers<'_>, StatusCode, &str); 9] = [
        (&[], StatusCode::UNAUTHORIZED, "no token"),
        (&[("authorization", "Bearer")], StatusCode::UNAUTHORIZED, "malformed"),
        (&[("authorization", "Bearer a b")], StatusCode::UNAUTHORIZED, "malformed"),
        (&[("authorization", "Basic abc")], StatusCode::UNAUTHORIZED, "malformed"),
        (&[("authorization", "Bearer nonsense")], StatusCode::UNAUTHORIZED, "does not accept this token"),
        (&[("authorization", &good), ("host", "evil.example.com")], StatusCode::FORBIDDEN, "--allowed-host"),
        (&[("authorization", &good), ("origin", "https://evil.example.com")], StatusCode::FORBIDDEN, "--allowed-origin"),
        (&[("authorization", &good), ("origin", "null")], StatusCode::FORBIDDEN, "--allowed-origin"),
        (&[("host", "evil.example.com")], StatusCode::FORBIDDEN, "--allowed-host"),
    ];
    for (headers, status, part) in cases {
        let response = Mcp::modern(world.port(0), "").post(list.clone(), headers).await;
        assert_eq!(response.status(), status, "{headers:?}");
        assert_eq!(response.headers().contains_key("www-authenticate"), status == StatusCode::UNAUTHORIZED);
        let body: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(part) && !message.contains("nonsense"), "{message}");
    }
    let agent = Mcp::legacy(world.port(0), &token).await;
    let allowed = agent.post(list, &[("host", "beckon.example.com"), ("origin", "https://app.example.com")]).await;
    assert!(Events::of(allowed).answer().await["result"]["tools"].is_array());
    let log = world.gateways[0].process.log();
    assert!(!log.contains(&token) && !log.contains("nonsense"), "no token in the log");
}

#[tokio::test]
async fn a_viewer_may_ask_for_nothing() {
    let world = World::start(1, &[]).await;
    let viewer = world.modern("viewer");
    let (code, message) = viewer.failure("create_session", &json!({})).await;
    assert!(code == "FORBIDDEN" && message.contains("create on browsersessions"), "{code}: {message}");
    let (code, message) = viewer.failure("request_attention", &json!({"mode": "notify", "reason": "r"})).await;
    assert!(code == "FORBIDDEN" && message.contains("create on attentionrequests"), "{code}: {message}");
    assert!(world.requests().await.is_empty());
}
