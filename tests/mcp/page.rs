//! The page tools, through the gateway's pinned connection, to a real Chromium.

use crate::client::Mcp;
use crate::support::poll_until;
use crate::world::{World, attached};
use axum::routing::get;
use beckon::driver;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube::{ResourceExt as _, core::ObjectMeta};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// As the pod's user: Chromium sandboxes nothing as root.
const POD_UID: u32 = 10001;
const TOKEN: &str = "a-token-of-the-session-0123456789";

const PAGE: &str = r#"<!doctype html><title>Checkout</title><input aria-label="Code"><button onclick="document.title='Paid ' + document.querySelector('input').value; this.textContent='Thank you'">Pay</button>"#;

/// What nobody but the page may ever see.
const TYPED: &str = "4929-typed-by-agent-7711";

/// `beckon browser` at an address, as a pod would run it, telling all that it tells at all.
struct Pod {
    child: Child,
    directory: TempDir,
}

impl Drop for Pod {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Pod {
    fn start(address: &str, certificate: &str, key: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("beckon-test-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let binary = directory.path().join("beckon");
        // By another process: what is open for writing here is inherited by what other tests start meanwhile, and can't be run then.
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_beckon")).arg(&binary).status().unwrap().success());
        for (name, content) in [(driver::SECRET_TOKEN, TOKEN), (driver::SECRET_CERTIFICATE, certificate), (driver::SECRET_KEY, key)] {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let mut command = Command::new(&binary);
        command.args(["browser", "--flavour", "HeadlessShell", "--driver-dir"]).arg(directory.path());
        command.args(["--listen", &format!("{address}:{}", driver::PORT)]);
        let log = fs::File::create(directory.path().join("log")).unwrap();
        command.env_clear().env("PATH", "/usr/bin:/bin").env("BECKON_LOG", "trace");
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        if nix::unistd::geteuid().is_root() {
            command.uid(POD_UID).gid(POD_UID);
        }
        Self { child: command.spawn().unwrap(), directory }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }
}

fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec![driver::SERVER_NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    (made.pem(), key.serialize_pem())
}

async fn secret(world: &World, session: &str, certificate: &str) {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(format!("{session}-driver")), ..ObjectMeta::default() },
        string_data: Some(
            [(driver::SECRET_TOKEN, TOKEN), (driver::SECRET_CERTIFICATE, certificate)].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ),
        ..Secret::default()
    };
    Api::namespaced(world.plane.admin().await, &world.namespace).create(&PostParams::default(), &secret).await.unwrap();
}

async fn site() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/pay", get(|| async { axum::response::Html(PAGE) }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    origin
}

/// The reference of the first line that names this.
fn reference(snapshot: &str, what: &str) -> String {
    let line = snapshot.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in {snapshot}"));
    let (_, rest) = line.split_once("[ref=").unwrap();
    rest.split(']').next().unwrap().to_owned()
}

async fn look(agent: &Mcp, session: &str) -> String {
    let seen = agent.structured("snapshot", &json!({"session_id": session})).await;
    seen["snapshot"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_agent_drives_its_own_browser_and_a_request_shows_what_the_driver_saw() {
    let world = World::start(1, &[]).await;
    let (agent, origin) = (world.modern("agent"), site().await);
    let session = world.session(&agent).await;
    let (certificate, key) = certificate();
    let pod = Pod::start(&world.pod_ip, &certificate, &key);
    secret(&world, &session, &certificate).await;
    let of = |more: Value| {
        let mut args = json!({"session_id": session});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let url = format!("{origin}/pay?card=4242#now");
    poll_until(Duration::from_mins(1), "a browser", || async {
        let result = agent.call("navigate", &of(json!({"url": url}))).await;
        (result["isError"] != json!(true)).then_some(())
    })
    .await;
    let snapshot = look(&agent, &session).await;
    let typed = agent.structured("type", &of(json!({"ref": reference(&snapshot, "Code"), "text": TYPED}))).await;
    assert_eq!(typed["page"], json!({"origin": origin, "path": "/pay", "title": "Checkout"}));
    agent.structured("press_key", &of(json!({"key": "Tab"}))).await;
    agent.structured("click", &of(json!({"ref": reference(&snapshot, "Pay")}))).await;
    let waited = agent.structured("wait_for", &of(json!({"text": "Thank you"}))).await;
    assert_eq!(waited["page"]["title"], format!("Paid {TYPED}"));
    let picture = agent.call("screenshot", &of(json!({}))).await;
    let image = picture["content"].as_array().unwrap().iter().find(|block| block["type"] == "image").expect("a picture").clone();
    assert!(image["data"].as_str().unwrap().len() > 100 && picture["structuredContent"]["width"].is_i64(), "{}", image["mimeType"]);
    for (tool, args, code, part) in [
        ("click", json!({"ref": "e9999"}), "STALE_REFERENCE", ""),
        ("navigate", json!({"url": "file:///etc/passwd"}), "INVALID_ARGUMENT", "url"),
        ("wait_for", json!({}), "INVALID_ARGUMENT", "text"),
    ] {
        let (told, message) = agent.failure(tool, &of(args)).await;
        assert!(told == code && message.contains(part), "{tool}: {told}: {message}");
    }

    let ask = of(json!({"reason": "Please check.", "options": {"password": "hunter2"}})).to_string();
    let (_, events) = agent.start("request_attention", &ask, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    let request = world.until(&name, "evidence", |r| r.status.as_ref().is_some_and(|s| s.evidence.is_some())).await;
    let evidence = request.status.unwrap().evidence.unwrap();
    assert_eq!((evidence.origin, evidence.path.as_deref()), (Some(origin), Some("/pay")), "no query, no fragment");
    assert!(
        evidence.title.as_deref() == Some(format!("Paid {TYPED}").as_str()) && evidence.digest.is_some() && evidence.captured_at.is_some()
    );
    // Nobody reads it anywhere else, and nobody reads what was answered.
    let path = format!("attention/{}/{name}/resolve", world.namespace);
    let answered = "1234-answered-by-operator-9911";
    let answer = json!({"message": answered});
    let goes_on = async {
        assert_eq!(events.structured().await["message"], answered);
        // A look after the answer counts, whatever the gateway of the person's still does.
        look(&agent, &session).await;
        agent.structured("press_key", &of(json!({"key": "Tab"}))).await;
    };
    let (stored, ()) = tokio::join!(world.rest("operator", "POST", &path, &answer), goes_on);
    assert_eq!(stored.0.as_u16(), 200);
    for log in [pod.log(), world.gateways[0].process.log()] {
        assert!(log.contains("\"level\""), "a log");
        for secret in [TYPED, answered, TOKEN, "hunter2", "card=4242"] {
            assert!(!log.contains(secret), "{secret} in {log}");
        }
    }
    let leases: Api<Lease> = Api::namespaced(world.plane.admin().await, &world.namespace);
    let lease = leases.get(&format!("{session}-activity")).await.expect("the session's Lease");
    assert_eq!(lease.labels().get("beckon.dev/session"), Some(&session));
    assert_eq!(lease.owner_references().len(), 1);
}

#[tokio::test]
async fn a_stop_during_a_page_tool_is_answered_and_not_cut() {
    let mut world = World::start(1, &[]).await;
    let (agent, origin) = (world.modern("agent"), site().await);
    let session = world.session(&agent).await;
    let (certificate, key) = certificate();
    let _pod = Pod::start(&world.pod_ip, &certificate, &key);
    secret(&world, &session, &certificate).await;
    let url = format!("{origin}/pay");
    poll_until(Duration::from_mins(1), "a browser", || async {
        let result = agent.call("navigate", &json!({"session_id": session, "url": url})).await;
        (result["isError"] != json!(true)).then_some(())
    })
    .await;
    let waits = json!({"session_id": session, "text": "never there", "timeout_seconds": 300}).to_string();
    let older = world.legacy("agent").await;
    let mut calls = Vec::new();
    for client in [&agent, &older] {
        let (_, mut events) = client.start("wait_for", &waits, Some("p")).await;
        events.progress().await;
        calls.push(events);
    }
    world.gateways[0].process.terminate();
    for events in calls {
        let result = events.answer().await["result"].clone();
        assert_eq!((&result["isError"], &result["structuredContent"]["code"]), (&json!(true), &json!("SERVER_STOPPING")), "{result}");
        assert!(result["structuredContent"]["message"].as_str().unwrap().contains("snapshot"), "{result}");
    }
}

#[tokio::test]
async fn a_pod_that_serves_another_certificate_is_not_spoken_to() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let session = world.session(&agent).await;
    let ((served, key), (pinned, _)) = (certificate(), certificate());
    let _pod = Pod::start(&world.pod_ip, &served, &key);
    secret(&world, &session, &pinned).await;
    // Until the pod listens the connection itself fails; then the certificate does.
    poll_until(Duration::from_mins(1), "a refused certificate", || async {
        let (code, message) = agent.failure("snapshot", &json!({"session_id": session})).await;
        assert_eq!(code, "BROWSER_UNREACHABLE");
        message.contains("certificate").then_some(())
    })
    .await;
}
