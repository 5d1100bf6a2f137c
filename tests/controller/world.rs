//! A namespace, the accounts that write in it, and a controller that works in it alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, clippy::missing_panics_doc)]

pub use crate::meter::Meter;

use crate::support::{ControlPlane, poll_until};
use beckon::api::v1alpha1::{
    AttentionRequest, AttentionRequestSpec, AttentionRequestStatus, BrowserSession, BrowserSessionSpec, Mode, Phase, Principal,
    SessionPhase, SessionRef, Source, Waiter,
};
use beckon::controller::{ControllerArgs, Failure, Settings, control};
use beckon::k8s::client::{SILENCE, WatchProgress, bounded};
use beckon::runtime::admin::Readiness;
use beckon::runtime::metrics::Metrics;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The flags, as the command line reads them.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ControllerArgs,
}

pub struct World {
    pub namespace: String,
    pub admin: Client,
    pub gateway: Client,
    pub operator: Client,
    config: Config,
}

impl World {
    pub async fn new(name: &str) -> Self {
        Self::on(ControlPlane::shared(), name).await
    }

    pub async fn on(plane: &ControlPlane, name: &str) -> Self {
        let namespace = plane.namespace(name).await;
        let admin = plane.admin().await;
        // The leader's Lease is in this namespace, not in the installation's.
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": "leases"},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update", "patch"]}],
        }))
        .unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "leases"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leases"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "beckon-controller", "namespace": "beckon-system"},
                {"kind": "ServiceAccount", "name": "beckon-gateway", "namespace": "beckon-system"},
            ],
        }))
        .unwrap();
        Api::namespaced(admin.clone(), &namespace).create(&PostParams::default(), &role).await.unwrap();
        Api::namespaced(admin.clone(), &namespace).create(&PostParams::default(), &binding).await.unwrap();
        let kubeconfig = kube::config::Kubeconfig::read_from(plane.account_kubeconfig("beckon-controller")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap();
        let gateway = plane.account("beckon-gateway").await;
        Self { namespace, admin, gateway, operator: plane.user("operator").await, config }
    }

    pub fn requests(&self) -> Api<AttentionRequest> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub fn sessions(&self) -> Api<BrowserSession> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// Starts a controller of this namespace.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_through(args, &Meter::default())
    }

    /// The same, with its calls going through a meter.
    pub fn start_through(&self, args: &[&str], meter: &Meter) -> Running {
        self.start_with(args, meter, |_| {})
    }

    /// The same, with settings that the flags do not allow.
    pub fn start_with(&self, args: &[&str], meter: &Meter, change: impl FnOnce(&mut Settings)) -> Running {
        let own = ["controller", "--namespace", &self.namespace, "--watch-namespace", &self.namespace];
        let lease: &[&str] = if args.contains(&"--lease-duration") { &[] } else { &["--lease-duration", "3s"] };
        let args = Cli::try_parse_from([&own[..], lease, args].concat()).unwrap().args;
        let identity = format!("test-{:08x}", rand::random::<u32>());
        let mut settings = Settings::new(&args, identity).unwrap();
        change(&mut settings);
        let progress = WatchProgress::default();
        let client =
            ClientBuilder::try_from(bounded(self.config.clone(), SILENCE)).unwrap().with_layer(&progress).with_layer(meter).build();
        let (stop, readiness, metrics) = (CancellationToken::new(), Readiness::default(), Metrics::default());
        let task = {
            let (stop, readiness, metrics) = (stop.clone(), readiness.clone(), metrics.clone());
            tokio::spawn(async move { control(client, progress, settings, &metrics, readiness, stop).await })
        };
        Running { stop, task, readiness, metrics }
    }

    /// A session of `agent`, made by the gateway.
    pub async fn session(&self, name: &str, change: impl FnOnce(&mut BrowserSessionSpec)) -> BrowserSession {
        let mut spec = BrowserSessionSpec { owner: Some(Principal::named("agent")), ..BrowserSessionSpec::default() };
        change(&mut spec);
        let api = Api::<BrowserSession>::namespaced(self.gateway.clone(), &self.namespace);
        api.create(&PostParams::default(), &BrowserSession::new(name, spec)).await.unwrap()
    }

    /// A session whose pod runs, as far as the API server knows.
    pub async fn ready_session(&self, name: &str) -> BrowserSession {
        self.session(name, |_| {}).await;
        self.run_pod(name).await;
        self.session_when(name, "ready", |session| phase_of(session) == Some(SessionPhase::Ready)).await
    }

    /// Does what a kubelet does when a pod's container is ready.
    pub async fn run_pod(&self, name: &str) {
        poll_until(Duration::from_secs(20), "the pod of a session", || async { self.pods().get_opt(name).await.unwrap() }).await;
        self.pod_status(name, running_pod(0)).await;
    }

    pub async fn pod_status(&self, name: &str, status: Value) {
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await.unwrap();
    }

    /// A request, made by the gateway for `agent`.
    pub async fn request(&self, name: &str, session: Option<&str>, change: impl FnOnce(&mut AttentionRequestSpec)) -> AttentionRequest {
        self.try_request(name, session, change).await.unwrap()
    }

    pub async fn try_request(
        &self,
        name: &str,
        session: Option<&str>,
        change: impl FnOnce(&mut AttentionRequestSpec),
    ) -> kube::Result<AttentionRequest> {
        let mut spec = AttentionRequestSpec {
            session_ref: session.map(|name| SessionRef { name: name.into(), uid: None }),
            source: Source::RequestAttention,
            mode: Mode::Notify,
            waiter: Waiter::None,
            reason: "please".into(),
            requester: Some(Principal::named("agent")),
            ..AttentionRequestSpec::default()
        };
        change(&mut spec);
        let api = Api::<AttentionRequest>::namespaced(self.gateway.clone(), &self.namespace);
        api.create(&PostParams::default(), &AttentionRequest::new(name, spec)).await
    }

    pub async fn request_when(&self, name: &str, what: &str, holds: impl Fn(&AttentionRequest) -> bool) -> AttentionRequest {
        poll_until(Duration::from_secs(30), &format!("{name} is {what}"), || async {
            self.requests().get_opt(name).await.unwrap().filter(|request| holds(request))
        })
        .await
    }

    pub async fn session_when(&self, name: &str, what: &str, holds: impl Fn(&BrowserSession) -> bool) -> BrowserSession {
        poll_until(Duration::from_secs(30), &format!("{name} is {what}"), || async {
            self.sessions().get_opt(name).await.unwrap().filter(|session| holds(session))
        })
        .await
    }

    pub async fn opened(&self, name: &str) -> AttentionRequest {
        self.request_when(name, "open", |request| request_phase(request) == Some(Phase::Pending)).await
    }

    pub async fn settled(&self, name: &str) -> AttentionRequestStatus {
        let settled = |request: &AttentionRequest| request_phase(request).is_some_and(|phase| phase != Phase::Pending);
        self.request_when(name, "settled", settled).await.status.unwrap()
    }

    /// Changes the spec of a request as one of the accounts.
    pub async fn patch(&self, client: &Client, name: &str, spec: Value) -> kube::Result<AttentionRequest> {
        let api = Api::<AttentionRequest>::namespaced(client.clone(), &self.namespace);
        api.patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await
    }

    pub async fn resolve(&self, name: &str, message: &str) -> kube::Result<AttentionRequest> {
        self.patch(&self.operator, name, json!({"resolution": {"outcome": "Resolved", "message": message}})).await
    }
}

/// A controller of a test.
pub struct Running {
    pub stop: CancellationToken,
    pub task: JoinHandle<Result<(), Failure>>,
    pub readiness: Readiness,
    pub metrics: Metrics,
}

impl Running {
    /// An orderly end.
    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// A crash: nothing is given back.
    pub fn kill(self) {
        self.task.abort();
    }

    /// How many passes over objects of a kind went well.
    pub fn passes(&self, kind: &str) -> u64 {
        let name = format!("beckon_controller_passes_total{{kind=\"{kind}\",outcome=\"ok\"}} ");
        self.metrics.encode().lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or_default()
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.encode().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }
}

pub fn request_phase(request: &AttentionRequest) -> Option<Phase> {
    request.status.as_ref()?.phase
}

pub fn phase_of(session: &BrowserSession) -> Option<SessionPhase> {
    session.status.as_ref()?.phase
}

pub fn settled_reason(status: &AttentionRequestStatus) -> String {
    status.conditions.iter().find(|condition| condition.type_ == "Settled").map(|condition| condition.reason.clone()).unwrap_or_default()
}

pub fn running_pod(restarts: i32) -> Value {
    json!({
        "phase": "Running", "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "browser", "image": "browser", "imageID": "", "ready": true, "restartCount": restarts,
            "state": {"running": {}},
        }],
    })
}

pub fn ended_pod(reason: &str, code: i32, message: &str) -> Value {
    json!({
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{
            "name": "browser", "image": "browser", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}},
        }],
    })
}

pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Names of all pods and Secrets of drivers.
pub async fn holdings(world: &World) -> Vec<String> {
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::namespaced(world.admin.clone(), &world.namespace);
    let list = kube::api::ListParams::default();
    let mut names: Vec<String> =
        world.pods().list(&list).await.unwrap().items.iter().map(|pod| format!("pod/{}", pod.name_any())).collect();
    names.extend(secrets.list(&list).await.unwrap().items.iter().map(|secret| format!("secret/{}", secret.name_any())));
    names.sort();
    names
}
