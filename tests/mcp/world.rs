//! A namespace with gateways, a stand-in that takes requests and sessions in, and people with kubectl.

use crate::client::Mcp;
use crate::support::{Beckon, ControlPlane, free_port, poll_until};
use beckon::api::v1alpha1::{AttentionRequest, BrowserSession};
use beckon::runtime::clock;
use k8s_openapi::jiff::SignedDuration;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub struct World {
    pub plane: &'static ControlPlane,
    pub namespace: String,
    pub gateways: Vec<Gateway>,
    /// The address that the stand-in gives to the pods of all sessions: this world's own.
    pub pod_ip: String,
    controller: tokio::task::JoinHandle<()>,
    /// The controller itself, where it works in the stand-in's place.
    real: Option<Beckon>,
}

pub struct Gateway {
    pub process: Beckon,
    pub port: u16,
    pub admin: u16,
}

impl Drop for World {
    fn drop(&mut self) {
        self.controller.abort();
        if !std::thread::panicking() {
            self.told_no_token();
        }
    }
}

impl World {
    /// Whatever a test does: its gateways tell all that they tell at all, and no token is in it.
    fn told_no_token(&self) {
        for gateway in &self.gateways {
            let log = gateway.process.log();
            for user in ["admin", "operator", "operator-2", "viewer", "agent", "agent-2"] {
                assert!(!log.contains(&self.plane.token(user)), "the token of {user} is in {}", gateway.process.log_file().display());
            }
        }
    }
}

impl World {
    /// `gateways` replicas with these flags besides.
    pub async fn start(gateways: usize, flags: &[&str]) -> Self {
        let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
        let world = Self::without_gateways(plane).await;
        world.with_gateways(gateways, flags).await
    }

    /// A namespace and the stand-in alone.
    pub async fn without_gateways(plane: &'static ControlPlane) -> Self {
        let namespace = plane.namespace("mcp").await;
        let pod_ip = pod_ip();
        let controller = tokio::spawn(take_in(plane.account("beckon-controller").await, namespace.clone(), pod_ip.clone()));
        Self { plane, namespace, gateways: Vec::new(), pod_ip, controller, real: None }
    }

    /// A namespace with the controller itself, as it is installed, and nobody who runs its pods. It leads, so there can be only
    /// one of these at a time.
    pub async fn with_controller() -> Self {
        let plane = tokio::task::spawn_blocking(ControlPlane::shared).await.unwrap();
        let mut world = Self::without_gateways(plane).await;
        world.controller.abort();
        let args = [format!("--watch-namespace={}", world.namespace), format!("--admin-listen=127.0.0.1:{}", free_port())];
        world.real = Some(Beckon::start(plane, "beckon-controller", "controller", &args));
        world
    }

    /// From now on nothing is taken in: what is new stays as it was made.
    pub fn nobody_takes_in(&self) {
        self.controller.abort();
    }

    /// The same with so many replicas, ready, with these flags besides.
    pub async fn with_gateways(mut self, gateways: usize, flags: &[&str]) -> Self {
        for _ in 0..gateways {
            let gateway = self.gateway(flags);
            self.gateways.push(gateway);
        }
        for gateway in &self.gateways {
            gateway.ready().await;
        }
        self
    }

    /// What the JSON API under `/api/v1` answers to one of the six users.
    pub async fn rest(&self, user: &str, method: &str, path: &str, body: &Value) -> (http::StatusCode, Value) {
        let http = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}/api/v1/{path}", self.port(0)))
            .header("authorization", format!("Bearer {}", self.plane.token(user)))
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from(if body.is_null() { String::new() } else { body.to_string() })))
            .unwrap();
        let response = http.request(request).await.unwrap();
        let status = response.status();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Starts one more, without waiting for it.
    pub fn gateway(&self, flags: &[&str]) -> Gateway {
        let (port, admin) = (free_port(), free_port());
        let mut args = vec![format!("--namespace={}", self.namespace)];
        args.push(format!("--listen=127.0.0.1:{port}"));
        args.push(format!("--admin-listen=127.0.0.1:{admin}"));
        args.extend(flags.iter().map(ToString::to_string));
        Gateway { process: Beckon::start_telling_all(self.plane, "beckon-gateway", "gateway", &args), port, admin }
    }

    pub fn port(&self, n: usize) -> u16 {
        self.gateways[n].port
    }

    /// A client of the older revisions of one of the six users.
    pub async fn legacy(&self, user: &str) -> Mcp {
        Mcp::legacy(self.port(0), &self.plane.token(user)).await
    }

    /// A client of the newer revision.
    pub fn modern(&self, user: &str) -> Mcp {
        Mcp::modern(self.port(0), &self.plane.token(user))
    }

    /// A session of this client.
    pub async fn session(&self, client: &Mcp) -> String {
        let made = client.structured("create_session", &json!({})).await;
        assert_eq!(made.as_object().unwrap().len(), 1, "{made}");
        made["session_id"].as_str().unwrap().to_owned()
    }

    pub async fn requests(&self) -> Vec<AttentionRequest> {
        let api: Api<AttentionRequest> = Api::namespaced(self.plane.admin().await, &self.namespace);
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn request(&self, name: &str) -> AttentionRequest {
        Api::namespaced(self.plane.admin().await, &self.namespace).get(name).await.unwrap()
    }

    /// The one request, once it fits.
    pub async fn the_request(&self, what: &str, fits: impl Fn(&AttentionRequest) -> bool) -> AttentionRequest {
        poll_until(Duration::from_secs(30), what, || async {
            let mut all = self.requests().await;
            assert!(all.len() <= 1, "{} requests", all.len());
            all.pop().filter(&fits)
        })
        .await
    }

    /// The request of this name, once it fits.
    pub async fn until(&self, name: &str, what: &str, fits: impl Fn(&AttentionRequest) -> bool) -> AttentionRequest {
        poll_until(Duration::from_secs(30), what, || async { Some(self.request(name).await).filter(&fits) }).await
    }

    /// A person answers with the one-line patch.
    pub fn answer(&self, user: &str, name: &str, resolution: &Value) {
        let patch = json!({"spec": {"resolution": resolution}}).to_string();
        let args = ["patch", "attn", name, "-n", &self.namespace, "--type=merge", "-p", &patch];
        let done = self.plane.kubectl(user, &args);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Gateway {
    /// Until it says that it is ready.
    pub async fn ready(&self) {
        let address = format!("127.0.0.1:{}", self.admin);
        poll_until(Duration::from_mins(1), "a ready gateway", || async {
            tokio::net::TcpStream::connect(&address).await.ok()?;
            (self.ask("readyz").await?.0.is_success()).then_some(())
        })
        .await;
    }

    /// What its admin port answers.
    pub async fn ask(&self, path: &str) -> Option<(http::StatusCode, String)> {
        let http = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let uri: http::Uri = format!("http://127.0.0.1:{}/{path}", self.admin).parse().unwrap();
        let request = http::Request::builder().uri(uri).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
        let response = http.request(request).await.ok()?;
        let status = response.status();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.ok()?.to_bytes();
        Some((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The value of a metric, named with its labels; 0 when it was never counted.
    pub async fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.ask("metrics").await.expect("metrics");
        let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(of, _)| of == name));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }
}

/// A loopback address that no other world of any process uses.
fn pod_ip() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    format!("127.{}.{}.{}", 100 + NEXT.fetch_add(1, Ordering::Relaxed) % 100, pid / 250 % 250, 1 + pid % 250)
}

/// Whether a call of some gateway process is attached.
pub fn attached(request: &AttentionRequest) -> bool {
    attachments(request).iter().any(|gateway| gateway != "client")
}

/// The gateways of the attachments.
pub fn attachments(request: &AttentionRequest) -> Vec<String> {
    request.status.iter().flat_map(|status| &status.attachments).map(|attachment| attachment.gateway.clone()).collect()
}

/// Takes in what is new, as the controller does, and decides nothing else.
async fn take_in(client: Client, namespace: String, pod_ip: String) {
    let requests: Api<AttentionRequest> = Api::namespaced(client.clone(), &namespace);
    let sessions: Api<BrowserSession> = Api::namespaced(client, &namespace);
    let params = PatchParams { field_manager: Some("beckon-controller".into()), ..PatchParams::default() };
    loop {
        for request in requests.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            if request.status.as_ref().is_none_or(|status| status.phase.is_none()) {
                let now = clock::now();
                let status = json!({"phase": "Pending", "openedAt": now, "deadline": now + SignedDuration::from_hours(1)});
                drop(requests.patch_status(&request.name_any(), &params, &Patch::Merge(json!({"status": status}))).await);
            }
        }
        for session in sessions.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let phase = session.status.as_ref().and_then(|status| status.phase).map(beckon::api::v1alpha1::SessionPhase::as_str);
            let status = match (phase, session.spec.close.is_some()) {
                (None, _) => json!({"phase": "Ready", "pod": {"name": session.name_any(), "uid": "u", "ip": pod_ip}}),
                (Some("Ready"), true) => json!({"phase": "Closed"}),
                _ => continue,
            };
            drop(sessions.patch_status(&session.name_any(), &params, &Patch::Merge(json!({"status": status}))).await);
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
