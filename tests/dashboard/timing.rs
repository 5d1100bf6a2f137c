//! How long a request is on its way, and an answer. Nothing here can fail for being slow: `cargo xtask bench` prints it.

use crate::client::{AT_MOST, api, open, replica, sign_in, up};
use crate::requests::{read_until, synced};
use crate::support::{Up, percentiles, unique};
use beckon::api::v1alpha1::Phase;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Instant;

const TIMES: usize = 50;
/// The newest revision of the protocol, in which a call stands alone.
const REVISION: &str = "2026-07-28";

/// Calls a tool as `agent`; the result.
async fn tool(up: &Up, name: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
    });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "_meta": meta, "name": name, "arguments": arguments } });
    let bearer = format!("Bearer {}", up.text("agentToken"));
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", REVISION),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    let reply = open(&replica(up, 0), "POST", "/mcp", &headers, &call.to_string()).await;
    let body = tokio::time::timeout(AT_MOST, reply.into_body().collect()).await.expect("a result in time").unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body);
    let mut messages =
        text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line)).filter_map(|line| serde_json::from_str(line).ok());
    let answer: Value = messages.find(|message: &Value| message["id"] == 1).unwrap_or_else(|| panic!("no result: {text}"));
    answer["result"]["structuredContent"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn until_a_request_is_shown_and_its_answer_is_back() {
    let up = up().await;
    let host = replica(up, 1);
    let cookie = sign_in(&host, &up.text("operatorToken")).await;
    let (mut feed, mut told) = synced(&host, &cookie).await;
    let (admin, operator) = (api(up, "admin").await, api(up, "operator").await);
    let mut changes = pin!(watcher(admin, watcher::Config::default()).applied_objects());
    let session = tool(up, "create_session", &json!({})).await["session_id"].as_str().unwrap().to_owned();

    let (mut shown, mut back, mut trips) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let reason = unique("measured");
        let arguments = json!({ "session_id": session, "mode": "notify", "reason": reason });
        let call = async { (tool(up, "request_attention", &arguments).await, Instant::now()) };
        let answer = async {
            let opened = async {
                loop {
                    let request = tokio::time::timeout(AT_MOST, changes.next()).await.expect("an open request").unwrap().unwrap();
                    if request.spec.reason == reason && request.status.as_ref().and_then(|status| status.phase) == Some(Phase::Pending) {
                        return (request.metadata.name.unwrap(), Instant::now());
                    }
                }
            };
            let title = format!(r#""title":"{reason}""#);
            let ((name, opened), seen) = tokio::join!(opened, read_until(&mut feed, &mut told, &title));
            told.clear();
            shown.push(seen.saturating_duration_since(opened));
            let asked = Instant::now();
            let decision = Patch::Merge(json!({ "spec": { "resolution": { "outcome": "Resolved" } } }));
            operator.patch(&name, &PatchParams::default(), &decision).await.unwrap();
            trips.push(asked.elapsed());
            Instant::now()
        };
        let ((result, returned), answered) = tokio::join!(call, answer);
        assert_eq!(result["status"], "resolved", "{result}");
        back.push(returned.saturating_duration_since(answered));
    }
    tool(up, "close_session", &json!({ "session_id": session })).await;
    println!("an open request is told to the Attention page of the other replica: {}", percentiles(shown));
    println!("an answer that is stored returns the agent's call: {}", percentiles(back));
    println!("beside them, storing an answer in the API server: {}", percentiles(trips));
}
