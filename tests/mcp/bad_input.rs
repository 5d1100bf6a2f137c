//! Wrong calls and wrong callers: a clear error that names the field, and nothing changed.

use crate::client::{Events, MODERN, Mcp};
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
        (ask(json!({"session_id": "s-nope"})), "SESSION_NOT_FOUND", "session_id: there is no session \"s-nope\" of yours"),
        (ask(json!({"session_id": "../../etc"})), "SESSION_NOT_FOUND", "etc"),
        (ask(json!({"session_id": foreign})), "SESSION_NOT_FOUND", "create_session"),
        (ask(json!({"session_id": foreign})), "SESSION_NOT_FOUND", "session_id: "),
        (ask(json!({"session_id": closed})), "SESSION_CLOSED", &format!("session_id: session {closed} is closed")),
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

/// A call of the newer revision, its parameters as they are given.
fn call(id: &str, params: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{meta},{params}}}}}"#)
}

const CALLS: Headers<'_> = &[("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "request_attention")];

#[tokio::test]
async fn a_body_that_is_no_message_says_why() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let ask = |arguments: &str| call("7", &format!(r#""name":"request_attention","arguments":{arguments}"#));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let invalid = [br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":""#, &b"\xff"[..], br#""}}"#].concat();
    let cases: Vec<(Vec<u8>, u16, i64, Value, &str)> = vec![
        (vec![], 400, -32700, Value::Null, "no valid JSON"),
        (b"{".to_vec(), 400, -32700, Value::Null, "column 1"),
        (invalid, 400, -32700, Value::Null, "unicode"),
        (ask(r#"{"max_wait_seconds":NaN}"#).into(), 400, -32700, Value::Null, "no valid JSON"),
        (format!("[{}]", ask("{}")).into(), 400, -32600, Value::Null, "batches"),
        (deep.into(), 400, -32600, Value::Null, "batches"),
        (b"null".to_vec(), 400, -32600, Value::Null, "object"),
        (ask("[]").into(), 400, -32602, json!(7), "params.arguments"),
        (ask(r#""{}""#).into(), 400, -32602, json!(7), "params.arguments"),
        (call("7", r#""arguments":{}"#).into(), 400, -32602, json!(7), "params.name"),
        (call("1.5", r#""name":"list_sessions""#).into(), 400, -32600, json!(1.5), "id must"),
        (call("null", r#""name":"list_sessions""#).into(), 400, -32600, Value::Null, "id must"),
        (ask("{}").replace("2.0", "1.0").into(), 400, -32600, json!(7), "jsonrpc"),
        (vec![b' '; 5 << 20], 413, -32600, Value::Null, "4194304 bytes"),
    ];
    for (body, status, code, id, part) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let (told, reply) = agent.raw(body, CALLS).await;
        let error = &reply["error"];
        assert_eq!((told.as_u16(), &error["code"], &reply["id"]), (status, &json!(code), &id), "{shown}: {reply}");
        assert!(error["message"].as_str().unwrap().contains(part), "{shown}: {reply}");
    }
    assert!(world.requests().await.is_empty());
}

#[tokio::test]
async fn an_argument_that_is_no_value_is_named() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.modern("agent");
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for (arguments, part) in [
        (r#"{"mode":"notify","reason":"a\ud800b"}"#, "reason can't be read: its text has half a surrogate pair"),
        (r#"{"mode":"notify","reason":"r","idempotency_key":"\udfff"}"#, "idempotency_key can't be read"),
        (&format!(r#"{{"mode":"notify","reason":{deep}}}"#), "reason can't be read: recursion limit"),
        (r#"{"mode":"notify","reason":"r","max_wait_seconds":-1e400}"#, "max_wait_seconds must be at least 0"),
        (r#"{"mode":"notify","reason":"first","reason":""}"#, "reason may not be empty"),
    ] {
        let (_, events) = agent.start("request_attention", arguments, None).await;
        let told = events.answer().await["result"]["structuredContent"].clone();
        assert_eq!(told["code"], "INVALID_ARGUMENT", "{told}");
        assert!(told["message"].as_str().unwrap().starts_with(part), "{told}");
    }
    assert!(world.requests().await.is_empty());
    // Above the cap is the cap, whatever is above it.
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r","max_wait_seconds":1e400}"#, None).await;
    assert_eq!(events.structured().await["status"], "pending");
    assert_eq!(world.requests().await.len(), 1);
}

#[tokio::test]
async fn a_wrong_header_is_named() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let list = call("7", r#""name":"list_sessions""#);
    let with = |more: Headers<'static>| {
        [&[("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "list_sessions")], more].concat()
    };
    for (more, status, part) in [
        (with(&[("accept", "")]), 406, "Accept"),
        (with(&[("accept", "application/json")]), 406, "text/event-stream"),
        (with(&[("content-type", "")]), 415, "Content-Type"),
        (with(&[("content-type", "text/plain")]), 415, "Content-Type"),
        (with(&[("mcp-protocol-version", "")]), 400, "MCP-Protocol-Version"),
        (with(&[("mcp-protocol-version", "1999-01-01")]), 400, "MCP-Protocol-Version"),
        (with(&[("mcp-method", "tools/list")]), 400, "Mcp-Method"),
        (with(&[("mcp-name", "navigate")]), 400, "Mcp-Name"),
    ] {
        let (told, reply) = agent.raw(list.clone(), &more).await;
        assert_eq!((told.as_u16(), &reply["id"]), (status, &json!(7)), "{more:?}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{more:?}: {reply}");
    }
    let (_, fine) = agent.raw(list, &with(&[("content-type", "application/json; charset=utf-8")])).await;
    assert_eq!(fine["result"]["structuredContent"], json!({"sessions": []}));
    for method in ["PUT", "GET", "DELETE"] {
        let response = agent.send(method, "", &with(&[])).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert!(response.headers().contains_key("allow"));
    }
}

#[tokio::test]
async fn a_session_of_the_older_revisions_that_is_none_says_what_to_do() {
    let world = World::start(1, &[]).await;
    let agent = world.legacy("agent").await;
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_sessions"}}).to_string();
    for (session, status, part) in [("nonsense", 404, "send initialize again"), ("", 400, "Mcp-Session-Id is missing")] {
        let (told, reply) = agent.raw(list.clone(), &[("mcp-session-id", session)]).await;
        assert_eq!((told.as_u16(), &reply["id"]), (status, &json!(7)), "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
    }
    let hello = |params: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}).to_string();
    for (params, part) in [
        (json!({}), "params.protocolVersion"),
        (json!({"protocolVersion": null, "capabilities": {}, "clientInfo": {}}), "params.protocolVersion"),
        (json!({"protocolVersion": "2025-06-18", "clientInfo": {}}), "params.capabilities"),
        (json!({"protocolVersion": "2025-06-18", "capabilities": {}}), "params.clientInfo"),
    ] {
        let (told, reply) = agent.raw(hello(params), &[("mcp-session-id", "")]).await;
        assert_eq!((told.as_u16(), &reply["error"]["code"]), (400, &json!(-32602)), "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
    }
    // A revision that nobody knows is answered with one that is served.
    let odd = hello(json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}));
    assert_eq!(agent.raw(odd, &[("mcp-session-id", ""), ("mcp-protocol-version", "")]).await.1["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_service_account_needs_a_token_that_is_made_for_beckon() {
    let world = World::start(1, &[]).await;
    let token = |audience: &str| {
        let audience = format!("--audience={audience}");
        let args = ["create", "token", "default", "-n", "beckon-system", "--duration=10m", &audience];
        let token = crate::support::succeeded(world.plane.kubectl("admin", &args));
        String::from_utf8(token).unwrap().trim().to_owned()
    };
    let list = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    // The API server's own audience: what every pod is given.
    let other = Mcp::modern(world.port(0), &token("https://kubernetes.default.svc"));
    let refused = other.post(list.clone(), &[]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let told: Value = serde_json::from_slice(&body).unwrap();
    assert!(told["message"].as_str().unwrap().contains("--audience beckon"), "{told}");
    let ours = Mcp::modern(world.port(0), &token("beckon"));
    assert_ne!(ours.post(list, &[]).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_can_be_no_name_is_not_asked_for() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.modern("agent");
    let asked = agent.structured("request_attention", &json!({"mode": "notify", "reason": "r"})).await;
    let name = asked["request_id"].as_str().unwrap();
    let (own, body) = (&world.namespace, json!({"message": "m"}));
    for name in
        [format!("{name}%2Fstatus"), format!("{name}%3FdryRun=All"), format!("..%2F..%2F{own}%2Fattentionrequests%2F{name}"), "A".into()]
    {
        let path = format!("attention/{own}/{name}");
        assert_eq!(world.rest("operator", "GET", &path, &json!(null)).await.0, StatusCode::NOT_FOUND, "{name}");
        let (status, told) = world.rest("operator", "POST", &format!("{path}/resolve"), &body).await;
        assert_eq!((status, &told["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")), "{name}");
    }
    let (status, _) = world.rest("operator", "POST", &format!("attention/{own}%2Fattentionrequests/{name}/resolve"), &body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(world.request(name).await.spec.resolution.is_none());
}
