//! How a gateway starts, or says why it does not.

use crate::support::ControlPlane;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

fn gateway(plane: &ControlPlane, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_beckon"));
    command.arg("gateway").args(flags).env("KUBECONFIG", plane.kubeconfig()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn a_configuration_that_can_not_be_is_refused_with_the_flags_it_is_about() {
    let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (flags, parts) in [
        (vec!["--captcha", "attention", "--admin", "false"], vec!["--captcha attention", "--admin"]),
        (vec!["--minAttentionWait", "2h", "--attentionTimeout", "1h"], vec!["--minAttentionWait", "--attentionTimeout"]),
        (vec!["--captcha", "attention", "--transport", "stdio"], vec!["--captcha attention", "--transport stdio"]),
        (vec!["--namespace", "Not One"], vec!["--namespace", "Not One"]),
        (vec!["--attentionTimout", "1h"], vec!["--attentionTimeout"]),
        (vec!["--attentionTimeout", "soon"], vec!["attention.timeoutSeconds"]),
        (vec!["--listen", &taken], vec!["--listen", &taken, "choose another address"]),
    ] {
        let done = gateway(plane, &flags).output();
        let done = tokio::time::timeout(Duration::from_secs(30), done).await.expect("an end").unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && parts.iter().all(|part| said.contains(*part)), "{flags:?}: {said}");
        // A plain line, whatever the log looks like; the flags' own parser has its own.
        let line = said.lines().any(|line| line.starts_with("beckon gateway: ") || line.starts_with("error: "));
        assert!(line, "{flags:?}: {said}");
    }
}

#[tokio::test]
async fn a_taken_admin_port_is_told_with_its_flag_by_both_roles() {
    let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (role, flags) in [("gateway", &["--listen", "127.0.0.1:0"][..]), ("controller", &["--browser-image", "none"])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_beckon"));
        command.arg(role).args(flags).args(["--admin-listen", &taken]).env("KUBECONFIG", plane.kubeconfig()).kill_on_drop(true);
        let done = tokio::time::timeout(Duration::from_secs(30), command.output()).await.expect("an end").unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let begins = format!("beckon {role}: --admin-listen {taken}: Address already in use");
        let line = said.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("{role}: {said}"));
        assert!(line.ends_with("; choose another address, or end what listens there"), "{line}");
    }
}

#[tokio::test]
async fn standard_input_and_output_serve_the_page_tools_and_send_attention_to_http() {
    let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
    let namespace = plane.namespace("stdio").await;
    let mut child = gateway(plane, &["--transport", "stdio", "--namespace", &namespace])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "request_attention", "arguments": {"reason": "r", "session_id": "s"}}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_attention_result", "arguments": {}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "cancel_attention", "arguments": {"request_id": "a-1"}}}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}),
    ];
    for message in messages {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut answers = std::collections::BTreeMap::new();
    while answers.len() < 6 {
        let line =
            tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.expect("a line in time").unwrap().expect("a line");
        let message: Value = serde_json::from_str(&line).unwrap();
        answers.insert(message["id"].as_i64().unwrap(), message["result"].clone());
    }
    for id in [1, 2, 4] {
        assert_eq!(
            (&answers[&id]["isError"], &answers[&id]["structuredContent"]["code"]),
            (&json!(true), &json!("ATTENTION_REQUIRES_HTTP"))
        );
    }
    assert_eq!(answers[&3]["structuredContent"], json!({"sessions": []}));
    for tool in answers[&5]["tools"].as_array().unwrap() {
        let (name, text) = (tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap());
        assert_eq!(name.ends_with("attention") || name.contains("attention_"), text.contains("ATTENTION_REQUIRES_HTTP"), "{name}: {text}");
        assert!(!text.contains("CAPTCHA"), "{text}");
    }
    drop(input);
    assert!(tokio::time::timeout(Duration::from_secs(20), child.wait()).await.expect("an end").unwrap().success());
}

#[tokio::test]
async fn who_does_not_begin_the_protocol_is_told_and_nothing_of_it_is_logged() {
    let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
    let mut child = gateway(plane, &["--transport", "stdio", "--captcha", "off"])
        .env("BECKON_LOG", "trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "type", "arguments": {"text": "hunter2hunter2"}}});
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    drop(input);
    let done = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output()).await.expect("an end").unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("before initialize"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
