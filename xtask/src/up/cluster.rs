//! The cluster of an `up`: one of its own, or one that exists.

use super::args::Plan;
use super::footprint::{self, Footprint};
use crate::cluster_binary::Programs;
use crate::control_plane::{ControlPlane, Options, USERS, make_image, output};
use crate::failure::{Context as _, Result};
use crate::install::{self, BINDINGS, What};
use crate::kubeconfig::{self, Credential, Server};
use crate::progress::say;
use crate::up::state::Recorded;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image name of session pods on the local node.
pub(super) const IMAGE: &str = "beckon-browser";
/// The namespace of the users of a cluster that exists.
pub(super) const USERS_NAMESPACE: &str = "beckon-up";
/// How long a token of an account is good; the accounts' own are renewed long before.
const TOKEN: &str = "--duration=24h";

/// A cluster with Beckon's kinds, policies and roles.
#[derive(Debug)]
pub(super) struct Cluster {
    own: Option<ControlPlane>,
    programs: Programs,
    server: Server,
    admin_kubeconfig: PathBuf,
    users: Vec<(&'static str, Credential)>,
    /// Whether pods run on a node of ours.
    pub node: bool,
}

impl Cluster {
    /// Starts one, or prepares the one that exists.
    pub(super) fn start(plan: &Plan, beckon: &Path) -> Result<Self> {
        match &plan.kubeconfig {
            None => Self::local(plan, beckon),
            Some(file) => Self::existing(plan, file, beckon),
        }
    }

    fn local(plan: &Plan, beckon: &Path) -> Result<Self> {
        let programs = Programs::find_or_build()?;
        let logs = plan.dir.join("logs");
        let has = |program: &str| programs.has(program);
        let (controller_manager, scheduler, node) = (has("kube-controller-manager"), has("kube-scheduler"), has("node"));
        if !(controller_manager && scheduler && node) {
            say("note: KUBEBUILDER_ASSETS has no controller-manager, scheduler and node, so no session's browser will start;");
            say("      requests, kubectl and the dashboard work. Without KUBEBUILDER_ASSETS, all of it is built.");
        }
        let options =
            Options { controller_manager, scheduler, logs: Some(logs.clone()), namespace: plan.namespace.clone(), ..Options::default() };
        let mut plane = ControlPlane::start(&plan.dir.join("control-plane"), &programs, &options)?;
        if node {
            let image = plan.dir.join("image");
            make_image(&image, beckon)?;
            // Several nodes on one machine must not give out the same loopback addresses.
            let range = format!("127.{}.0.0/16", 64 + std::process::id() % 128);
            plane.start_node(&plan.dir.join("node"), &logs, &range, &[(IMAGE.to_owned(), image)])?;
        }
        let users = plane.users.iter().map(|user| (user.name, Credential::Token(user.token.clone()))).collect();
        let cluster =
            Self { programs, server: plane.server.clone(), admin_kubeconfig: plane.kubeconfig.clone(), users, node, own: Some(plane) };
        tell_stamping(install::install(beckon, &|| cluster.kubectl(), &What { policies: true, users: true })?);
        install::apply(&|| cluster.kubectl(), namespace_manifest(&plan.namespace).to_string().as_bytes())?;
        Ok(cluster)
    }

    fn existing(plan: &Plan, file: &Path, beckon: &Path) -> Result<Self> {
        let programs = Programs::for_existing_cluster()?;
        let mut command = programs.kubectl();
        command.arg("--kubeconfig").arg(file).args(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]);
        let config: Value = serde_json::from_str(&output(&mut command)?).context(format!("--kubeconfig {}", file.display()))?;
        let user = config.pointer("/users/0/user").cloned().context("the kubeconfig's current context names no user")?;
        let server = Server::of(&config)?;
        let admin_kubeconfig = footprint::admin_kubeconfig(&plan.dir);
        kubeconfig::write(&admin_kubeconfig, &server, &plan.namespace, &[("admin", Credential::Other(user.clone()))])?;
        let mut cluster =
            Self { own: None, programs, server, admin_kubeconfig, users: vec![("admin", Credential::Other(user))], node: false };
        output(cluster.kubectl().args(["get", "--raw", "/readyz"])).context(format!("the cluster of {}", file.display()))?;
        let kubectl = || cluster.kubectl();
        let ours = users_and_namespace(&plan.namespace).to_string().into_bytes();
        let manifests = [install::kinds(beckon)?, install::config(install::stamps(&kubectl)?)?, b"---\n".to_vec(), ours.clone()].concat();
        let footprint = Footprint::plan(&kubectl, &manifests, &plan.namespace)?;
        footprint.write(&plan.dir)?;
        let stays = footprint.stays();
        if !stays.is_empty() {
            let count = stays.len();
            say(format!(
                "note: {count} of Beckon's objects are in the cluster already; they become those of this checkout, and stay at the end"
            ));
        }
        tell_stamping(install::install(beckon, &kubectl, &What { policies: true, users: false })?);
        install::apply(&kubectl, &ours).context("making the users")?;
        for (name, _) in USERS.iter().filter(|(name, _)| *name != "admin") {
            let token = cluster.token(name, USERS_NAMESPACE)?;
            cluster.users.push((name, Credential::Token(token)));
        }
        Ok(cluster)
    }

    /// `kubectl` as the administrator.
    pub(super) fn kubectl(&self) -> Command {
        let mut command = self.programs.kubectl();
        // What the server serves changes while it is set up: nobody else's cache of that may be filled from here.
        command.arg("--cache-dir").arg(self.admin_kubeconfig.with_file_name("kubectl-cache"));
        command.arg("--kubeconfig").arg(&self.admin_kubeconfig);
        command
    }

    /// The file that is `kubectl`.
    pub(super) fn kubectl_file(&self) -> PathBuf {
        self.programs.file("kubectl")
    }

    /// A token of one of the users; `None` for an administrator of a cluster that exists.
    pub(super) fn user_token(&self, name: &str) -> Option<&str> {
        self.users.iter().find_map(|(user, credential)| match credential {
            Credential::Token(token) if *user == name => Some(token.as_str()),
            Credential::Token(_) | Credential::TokenFile(_) | Credential::Other(_) => None,
        })
    }

    /// Writes a kubeconfig with a context for each user.
    pub(super) fn write_kubeconfig(&self, path: &Path, namespace: &str) -> Result<()> {
        kubeconfig::write(path, &self.server, namespace, &self.users)
    }

    /// Writes a kubeconfig for a service account of Beckon whose token is in a file.
    pub(super) fn write_account_kubeconfig(&self, path: &Path, account: &str, token: &Path) -> Result<()> {
        kubeconfig::write(path, &self.server, "beckon-system", &[(account, Credential::TokenFile(token.to_owned()))])
    }

    /// A new token of a service account.
    pub(super) fn token(&self, account: &str, namespace: &str) -> Result<String> {
        let mut command = self.kubectl();
        command.args(["create", "token", account, TOKEN, "--namespace", namespace]);
        output(&mut command).map(|token| token.trim().to_owned()).context(format!("a token for {account}"))
    }

    /// The processes of the control plane, in the order in which they are ended.
    pub(super) fn recorded(&self) -> Vec<Recorded> {
        let identities = self.own.as_ref().map(ControlPlane::identities).unwrap_or_default();
        identities.into_iter().map(|(name, process)| Recorded { name, process, admin_port: None }).collect()
    }

    /// An error when one of its processes has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.own.as_mut().map_or(Ok(()), ControlPlane::check)
    }

    /// Whether the node of ours is ready, or why not.
    pub(super) fn node_ready(&self) -> std::result::Result<(), String> {
        if !self.node {
            return Ok(());
        }
        let condition = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        match output(self.kubectl().args(["get", "nodes", "-o", condition])) {
            Ok(text) if text.contains("True") => Ok(()),
            Ok(_) => Err("the node is not ready".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Ends the one of its own. What was brought into one that exists is taken back by [`super::footprint::take_back`].
    pub(super) fn stop(&mut self) {
        if let Some(plane) = &mut self.own {
            plane.stop();
        }
    }
}

fn tell_stamping(stamps: bool) {
    if !stamps {
        say("note: the API server does not stamp names (that needs Kubernetes 1.36); a bare `kubectl patch` has to say who it is");
    }
}

fn namespace_manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// The users of a cluster that exists are service accounts; their roles are those of the local users' groups.
fn users_and_namespace(namespace: &str) -> Value {
    let mut items = vec![namespace_manifest(namespace), namespace_manifest(USERS_NAMESPACE)];
    for (name, groups) in USERS.iter().filter(|(name, _)| *name != "admin") {
        items.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": USERS_NAMESPACE}}));
        for (_, role) in BINDINGS.iter().filter(|(group, _)| groups.contains(group)) {
            items.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{USERS_NAMESPACE}-{name}-{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": USERS_NAMESPACE}],
            }));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
