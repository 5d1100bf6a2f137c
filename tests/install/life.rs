//! A release from its installation to its end.

use crate::client::Mcp;
use crate::release::{Forward, RELEASE, Release, SYSTEM};
use crate::rights;
use crate::support::eventually;
use crate::web;
use serde_json::json;

const BROWSERS: &str = "browsers";

/// What processes that are long gone have left, and what is there to be swept.
const LEFT_OVER: &str = r#"kubectl apply -n beckon-system -f - <<'END'
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: beckon-gateway-longgone
  labels: {beckon.dev/role: gateway}
  annotations: {beckon.dev/shutting-down: "true"}
spec: {holderIdentity: longgone, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: beckon-login-link-longgone
  labels: {beckon.dev/role: login-link}
  annotations: {beckon.dev/expires: "1700000000"}
END"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_release_lives_through_an_upgrade_and_leaves_what_it_says() {
    let values = [&format!("sessionNamespace={BROWSERS}") as &str, "replicas=1"];
    let release = Release::install(BROWSERS, &values, |plane| {
        assert!(plane.shell(LEFT_OVER).output().unwrap().status.success());
    });
    let pods = release.run(&format!("kubectl get pods -n {SYSTEM} --no-headers"));
    let words: Vec<_> = pods.split_whitespace().skip(1).take(3).collect();
    assert!(pods.lines().count() == 1 && words == ["2/2", "Running", "0"], "{pods}");
    release.give_rights();

    let forward = release.forward();
    let agent = release.agent(&forward);
    let session = session(&release, &agent).await;
    answered_by_kubectl(&release, &agent, &session).await;
    withdrawn_and_unheard_of(&release, &agent, &session).await;
    opened_by_the_plugin(&release).await;
    drained(&release, &agent).await;

    // A request waits while everything is replaced.
    let (_, cut) =
        agent.start("request_attention", &json!({"session_id": session, "reason": "through the upgrade"}).to_string(), None).await;
    let name = open_request(&release, "through the upgrade").await;
    release.upgrade(&["replicas=2", "history.ttlSeconds=3"]);
    drop((cut, forward));
    let deployment = release.run(&format!("kubectl get deployment {RELEASE} -n {SYSTEM} -o jsonpath={{.status.readyReplicas}}"));
    assert_eq!(deployment, "2");
    let forward = release.forward();
    let agent = release.agent(&forward);
    let (_, back) = agent.start("get_attention_result", &json!({"session_id": session, "request_id": name}).to_string(), None).await;
    assert_eq!(release.get("attn", &name)["status"]["phase"], "Pending");
    resolve(&release, &name);
    let result = back.structured().await;
    assert_eq!((&result["status"], &result["resolved_by"]), (&json!("resolved"), &json!("operator")), "{result}");

    // History ends, and so does a session that its agent closes, with its pod and its Secret.
    agent.structured("close_session", &json!({"session_id": session})).await;
    eventually("everything of the session is gone", async || {
        ["pods", "secrets", "bsess", "attn"].iter().all(|kind| !release.names(kind).iter().any(|name| name.contains(&session)))
            && release.names("attn").is_empty()
    })
    .await;
    eventually("what was left over is swept", async || !release.run(&format!("kubectl get leases -n {SYSTEM}")).contains("longgone")).await;
    rights::each_is_used_and_none_is_missing(&release).await;

    // What people made outlives the release.
    let kept = self::session(&release, &agent).await;
    release.run(&format!("kubectl create -n {BROWSERS} -f config/samples/notify.yaml"));
    open_request(&release, "The total of invoice 4711 is not the sum of its lines.").await;
    release.uninstall();
    assert_eq!(release.run("kubectl get validatingadmissionpolicies,mutatingadmissionpolicies -o name"), "");
    assert_eq!(
        release.run(&format!("kubectl get deployments,services,serviceaccounts -n {SYSTEM} -o name")).trim(),
        "serviceaccount/default"
    );
    assert_eq!(release.names("attn"), ["invoice-needs-a-look"]);
    assert_eq!(release.names("bsess"), [kept.as_str()]);
    assert_eq!(release.names("pods"), [kept.as_str()], "nobody is there to end it");
    // The garbage collector is.
    release.run(&format!("kubectl delete -n {BROWSERS} bsess,attn --all"));
    eventually("the pod goes with its session", async || release.names("pods").is_empty() && release.names("secrets").is_empty()).await;
}

/// A new session whose browser answers.
pub async fn session(release: &Release, agent: &Mcp) -> String {
    let session = agent.structured("create_session", &json!({})).await["session_id"].as_str().unwrap().to_owned();
    let page = format!("http://127.0.0.1:{}/healthz", agent.port);
    agent.structured("navigate", &json!({"session_id": session, "url": page})).await;
    release
        .the("bsess", "a session that is ready and shows its page", |one| {
            one["metadata"]["name"] == session.as_str() && one["status"]["phase"] == "Ready" && !one["status"]["page"].is_null()
        })
        .await;
    let pod = release.get("pod", &session);
    let ready = |kind: &str| pod["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == kind && c["status"] == "True");
    assert!(ready("Ready"), "{}", pod["status"]);
    session
}

/// The name of the open request with this reason.
pub async fn open_request(release: &Release, reason: &str) -> String {
    let open = release.the("attn", "an open request", |one| one["spec"]["reason"] == reason && one["status"]["phase"] == "Pending").await;
    open["metadata"]["name"].as_str().unwrap().to_owned()
}

pub fn resolve(release: &Release, name: &str) {
    let patch = r#"{"spec":{"resolution":{"outcome":"Resolved","message":"done"}}}"#;
    release.run(&format!("kubectl patch attn {name} -n {} --context operator --type=merge -p '{patch}'", release.namespace));
}

pub async fn answered_by_kubectl(release: &Release, agent: &Mcp, session: &str) {
    let asked = json!({"session_id": session, "reason": "a look, please"});
    let (_, call) = agent.start("request_attention", &asked.to_string(), Some("p")).await;
    let name = open_request(release, "a look, please").await;
    resolve(release, &name);
    let result = call.structured().await;
    assert_eq!(
        (&result["status"], &result["message"], &result["resolved_by"], &result["request_id"]),
        (&json!("resolved"), &json!("done"), &json!("operator"), &json!(name)),
        "{result}"
    );
    release.run(&format!("kubectl wait attn/{name} -n {} --for=condition=Settled --timeout=30s", release.namespace));
}

/// Withdrawn by its agent; and what nobody knows.
async fn withdrawn_and_unheard_of(release: &Release, agent: &Mcp, session: &str) {
    let asked = json!({"session_id": session, "reason": "never mind"});
    let (_, call) = agent.start("request_attention", &asked.to_string(), Some("p")).await;
    let name = open_request(release, "never mind").await;
    agent.structured("cancel_attention", &json!({"request_id": name})).await;
    assert_eq!(call.structured().await["status"], "cancelled");
    assert_eq!(agent.failure("navigate", &json!({"session_id": "s-unknown", "url": "about:blank"})).await.0, "SESSION_NOT_FOUND");
    assert_eq!(agent.structured("get_attention_result", &json!({"request_id": "a-unknown"})).await["message"], "Unknown attention request");
    let orphan = r#"{"apiVersion":"beckon.dev/v1alpha1","kind":"AttentionRequest","metadata":{"name":"orphan"},"spec":{"reason":"x","sessionRef":{"name":"s-unknown"}}}"#;
    release.run(&format!("echo '{orphan}' | kubectl create -n {} -f -", release.namespace));
    release.run(&format!("kubectl wait attn/orphan -n {} --for=condition=Settled --timeout=30s", release.namespace));
}

/// What a drain asks for is refused while a request of the session is open, and granted afterwards.
async fn drained(release: &Release, agent: &Mcp) {
    let session = session(release, agent).await;
    let evict = || {
        let body = format!(r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{session}","namespace":"{BROWSERS}"}}}}"#);
        let path = format!("/api/v1/namespaces/{BROWSERS}/pods/{session}/eviction");
        let done = release.plane.shell(&format!("echo '{body}' | kubectl create --raw {path} -f -")).output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let asked = json!({"session_id": session, "reason": "before the drain"});
    let (_, call) = agent.start("request_attention", &asked.to_string(), Some("p")).await;
    let name = open_request(release, "before the drain").await;
    let protected = || release.get("pod", &session)["metadata"]["labels"]["beckon.dev/protected"] == "true";
    eventually("the pod is protected", async || protected()).await;
    eventually("the budget knows of it", async || {
        let budget = release.get("pdb", &format!("{RELEASE}-browsers"));
        budget["status"]["currentHealthy"] == 1 && budget["status"]["disruptionsAllowed"] == 0
    })
    .await;
    let (granted, said) = evict();
    assert!(!granted && said.contains("TooManyRequests") && said.contains("disruption budget"), "{said}");

    resolve(release, &name);
    assert_eq!(call.structured().await["status"], "resolved");
    eventually("the pod is no longer protected", async || !protected()).await;
    let (granted, said) = evict();
    assert!(granted, "{said}");
    eventually("the pod is gone", async || !release.names("pods").contains(&session)).await;
}

/// `kubectl attention open`: the Service is found, the port is forwarded with the rights that docs/platform.md names, and the
/// link logs its maker in.
async fn opened_by_the_plugin(release: &Release) {
    let page = std::fs::read_to_string("docs/platform.md").unwrap();
    let lines: Vec<_> = page.lines().filter(|line| line.contains(" beckon-forward")).collect();
    assert!(lines.len() >= 2, "docs/platform.md says who may forward a port");
    for line in lines {
        release.run(&line.replace("--group=support", "--user=operator"));
    }
    release.run(&format!("kubectl create -n {} -f config/samples/question.yaml", release.namespace));
    let open = format!("kubectl attention open which-supplier --print -n {} --context operator", release.namespace);
    let opened = Forward::start(release.plane, &open);
    let host = format!("127.0.0.1:{}", opened.port);
    let path = opened.line.trim().strip_prefix(&format!("http://{host}")).expect("a link").to_owned();
    let page = web::send(&host, "GET", &path, &[], "").await;
    assert!(page.status == 200 && page.text.contains("operator"), "{}", page.text);
    let origin = format!("http://{host}");
    let form = [("origin", origin.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    let entered = web::send(&host, "POST", "/login", &form, path.strip_prefix("/login?").expect("the door")).await;
    assert_eq!(
        (entered.status.as_u16(), &entered.headers["location"]),
        (303, &format!("/attention/{BROWSERS}/which-supplier").parse().unwrap())
    );
    let page = web::with_cookie(&host, &entered.cookie(), "GET", "/attention", "").await;
    assert!(page.status == 200 && page.text.contains("which-supplier"), "{}", page.text);
    assert!(opened.interrupt().success());
    release.run(&format!(
        "kubectl attention resolve which-supplier --verdict answered --answer Acme -n {} --context operator",
        release.namespace
    ));
}
