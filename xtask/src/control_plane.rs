//! A real Kubernetes control plane on loopback: etcd and the API server, and on request the controller-manager, the scheduler
//! and the process node.

use crate::cluster_binary::Programs;
use crate::failure::{Context as _, Failure, Result};
use crate::files::{private_dir, random_token, write_private};
use crate::kubeconfig::{self, Credential, Server};
use crate::pki::Pki;
use crate::ports;
use crate::process::{Identity, Process, Spec};
use nix::sys::signal::Signal;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What to start.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says yes or no to a part of its own")]
pub struct Options {
    /// The controller-manager: garbage collection, the `default` service account, namespace deletion.
    pub controller_manager: bool,
    /// The scheduler.
    pub scheduler: bool,
    /// Off: the API server is as one of 1.33, the oldest that this one can be, which has no MutatingAdmissionPolicies.
    pub mutating_policies: bool,
    /// Where the API server writes its audit log: metadata of all writes, and of what the accounts of `beckon-system` read; one
    /// JSON object a line.
    pub audit_log: Option<PathBuf>,
    /// Where the programs write; `logs` in the directory of the plane by default.
    pub logs: Option<PathBuf>,
    /// The namespace of the kubeconfig's contexts.
    pub namespace: String,
    /// More flags of the API server.
    pub apiserver_flags: Vec<String>,
    /// Leave the processors to whatever else wants them.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: false,
            scheduler: false,
            mutating_policies: true,
            audit_log: None,
            logs: None,
            namespace: "default".to_owned(),
            apiserver_flags: Vec::new(),
            background: false,
        }
    }
}

/// A user with a token that the API server knows.
#[derive(Clone, Debug)]
pub struct User {
    /// The user name, which is the name of its context too.
    pub name: &'static str,
    /// Its groups.
    pub groups: &'static [&'static str],
    /// Its bearer token.
    pub token: String,
}

/// The users of every local control plane: name and groups. `admin` may do everything; what the others may do is bound to them
/// by whoever installs Beckon.
pub const USERS: &[(&str, &[&str])] = &[
    ("admin", &["system:masters"]),
    ("operator", &["beckon:operators"]),
    ("operator-2", &["beckon:operators"]),
    ("viewer", &["beckon:viewers"]),
    ("agent", &["beckon:agents"]),
    ("agent-2", &["beckon:agents"]),
];

/// The audience of tokens for the gateway.
pub const AUDIENCE: &str = "beckon";

/// A running control plane. Dropping it ends its processes; its directory stays.
#[derive(Debug)]
pub struct ControlPlane {
    /// Keys, data and logs.
    pub dir: PathBuf,
    /// With a context for each user; the current one is `admin`.
    pub kubeconfig: PathBuf,
    /// The users and their tokens.
    pub users: Vec<User>,
    /// How to reach the API server.
    pub server: Server,
    programs: Programs,
    pki: Pki,
    // In the order in which they are to be ended: what needs the API server before it, etcd last.
    processes: Vec<Process>,
}

/// How long the API server may take, on a machine that is busy with other things.
const START: Duration = Duration::from_mins(2);

impl ControlPlane {
    /// Starts in `dir`, which is made, and returns when `/readyz` says ok.
    pub fn start(dir: &Path, programs: &Programs, options: &Options) -> Result<Self> {
        private_dir(dir)?;
        let logs = options.logs.clone().unwrap_or_else(|| dir.join("logs"));
        private_dir(&logs)?;
        let pki = Pki::create(dir)?;
        let mut users = Vec::new();
        let mut tokens = String::new();
        for (index, (name, groups)) in USERS.iter().enumerate() {
            let token = random_token()?;
            // The last field is a list, quoted.
            tokens.extend([&token, ",", name, ",", &format!("user-{index}"), ",\"", &groups.join(","), "\"\n"]);
            users.push(User { name, groups, token });
        }
        let token_file = dir.join("tokens.csv");
        write_private(&token_file, tokens.as_bytes())?;

        let etcd_url = format!("https://127.0.0.1:{}", ports::free()?);
        let start = |spec: Spec| Process::start(&if options.background { in_background(spec) } else { spec });
        let etcd = start(etcd(dir, &logs, programs, &pki, &etcd_url)?)?;
        let port = ports::free()?;
        let apiserver = start(apiserver(dir, &logs, programs, &pki, &etcd_url, port, &token_file, options)?)?;
        let authority = fs::read(&pki.authority).context("the authority's certificate")?;
        let server = Server::new(&format!("https://127.0.0.1:{port}"), &authority);
        let kubeconfig = dir.join("kubeconfig");
        let contexts: Vec<_> = users.iter().map(|user| (user.name, Credential::Token(user.token.clone()))).collect();
        kubeconfig::write(&kubeconfig, &server, &options.namespace, &contexts)?;
        let programs = programs.clone();
        let mut plane = Self { dir: dir.to_owned(), kubeconfig, users, server, programs, pki, processes: vec![apiserver, etcd] };
        plane.wait_ready(port)?;
        if options.controller_manager {
            plane.start_controller_manager(&logs)?;
        }
        if options.scheduler {
            plane.start_scheduler(&logs)?;
        }
        Ok(plane)
    }

    /// A `kubectl` command of `admin`.
    pub fn kubectl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.programs.kubectl();
        // What the server serves changes while it is set up: nobody else's cache of that may be filled from here.
        command.arg("--cache-dir").arg(self.dir.join("kubectl-cache")).arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        command
    }

    /// Runs `kubectl` as `admin` and returns its output, or an error with what it said.
    pub fn run_kubectl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String> {
        output(&mut self.kubectl(args))
    }

    /// The token of a user.
    pub fn token(&self, user: &str) -> Option<&str> {
        self.users.iter().find(|one| one.name == user).map(|one| one.token.as_str())
    }

    /// Name and identity of each process.
    pub fn identities(&self) -> Vec<(String, Identity)> {
        self.processes.iter().map(|process| (process.name.clone(), process.identity())).collect()
    }

    /// An error with the end of the log of the first that has ended.
    pub fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// What has ended that should run, in words.
    pub fn ended(&mut self) -> Vec<String> {
        self.processes.iter_mut().filter_map(|process| process.ended().map(|how| format!("{} ended ({how})", process.name))).collect()
    }

    /// A node that runs the containers of pods as processes of this machine. Images are names with directories, as
    /// `tests/cluster/README.md` describes them.
    pub fn start_node(&mut self, root: &Path, logs: &Path, pod_range: &str, images: &[(String, PathBuf)]) -> Result<()> {
        private_dir(root)?;
        let mut spec = self
            .programs
            .spec("node", logs)?
            .arg("--name=local")
            .arg("--listen=127.0.0.1:0")
            .arg(format!("--pod-cidr={pod_range}"))
            .arg(flag("--root", root))
            .arg(flag("--kubeconfig", &self.kubeconfig))
            .arg(flag("--client-ca-file", &self.pki.authority));
        for (name, dir) in images {
            let mut image = std::ffi::OsString::from(format!("--image={name}="));
            image.push(dir);
            spec = spec.arg(image);
        }
        // It has to end its pods.
        spec.at_our_end = Signal::SIGTERM;
        spec.grace = Duration::from_secs(20);
        self.adopt(Process::start(&spec)?);
        Ok(())
    }

    /// Lets a process be ended before those that are there.
    fn adopt(&mut self, process: Process) {
        self.processes.insert(0, process);
    }

    /// Ends everything, what needs the API server first.
    pub fn stop(&mut self) {
        for process in &mut self.processes {
            process.stop();
        }
        self.processes.clear();
    }

    fn wait_ready(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            self.check()?;
            // To ask by kubectl takes a tenth of a second of a processor, which the API server needs to start.
            if !ports::is_open(port) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            match self.run_kubectl(["get", "--raw", "/readyz", "--request-timeout", "5s"]) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(Failure::new(format!("the API server is not ready after {} s: {error}", START.as_secs())));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn start_controller_manager(&mut self, logs: &Path) -> Result<()> {
        let spec = self
            .programs
            .spec("kube-controller-manager", logs)?
            .arg("--leader-elect=false")
            .arg("--secure-port=0")
            .arg(flag("--kubeconfig", &self.kubeconfig))
            .arg(flag("--service-account-private-key-file", &self.pki.accounts_key))
            .arg(flag("--root-ca-file", &self.pki.authority));
        self.adopt(Process::start(&spec)?);
        Ok(())
    }

    fn start_scheduler(&mut self, logs: &Path) -> Result<()> {
        let spec = self
            .programs
            .spec("kube-scheduler", logs)?
            .arg("--leader-elect=false")
            .arg("--secure-port=0")
            .arg(flag("--kubeconfig", &self.kubeconfig));
        self.adopt(Process::start(&spec)?);
        Ok(())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes an image in `dir`, for [`ControlPlane::start_node`]: a copy of `beckon`, which is its entry point as in the images of
/// `image/`.
pub fn make_image(dir: &Path, beckon: &Path) -> Result<()> {
    let bin = dir.join("bin");
    private_dir(&bin)?;
    fs::copy(beckon, bin.join("beckon")).context("copying beckon into the image")?;
    let config = dir.join("config.json");
    fs::write(&config, json!({"Entrypoint": ["beckon"], "Cmd": ["--help"]}).to_string()).context(config.display())
}

/// Runs a command to its end: its standard output, or an error with what it said.
pub fn output(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } = command.output().context("kubectl")?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    Err(Failure::new(format!("kubectl: {}", String::from_utf8_lossy(&stderr).trim())))
}

/// With a third of the weight that others have: enough that nothing of it runs out of time.
fn in_background(mut spec: Spec) -> Spec {
    spec.command.splice(0..0, ["nice", "-n", "5"].map(Into::into));
    spec
}

fn flag(name: &str, value: impl AsRef<OsStr>) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(name);
    flag.push("=");
    flag.push(value);
    flag
}

/// Clients and peers show a certificate, so that no other user of the machine gets at the data.
fn etcd(dir: &Path, logs: &Path, programs: &Programs, pki: &Pki, url: &str) -> Result<Spec> {
    let peers = format!("https://127.0.0.1:{}", ports::free()?);
    let spec = programs.spec("etcd", logs)?.arg("--name=beckon").arg(flag("--data-dir", dir.join("etcd")));
    let spec = ["--listen-client-urls", "--advertise-client-urls"].iter().fold(spec, |spec, name| spec.arg(flag(name, url)));
    let spec = ["--listen-peer-urls", "--initial-advertise-peer-urls"].iter().fold(spec, |spec, name| spec.arg(flag(name, &peers)));
    let spec = spec.arg(format!("--initial-cluster=beckon={peers}"));
    let spec = ["--cert-file", "--peer-cert-file"].iter().fold(spec, |spec, name| spec.arg(flag(name, &pki.server)));
    let spec = ["--key-file", "--peer-key-file"].iter().fold(spec, |spec, name| spec.arg(flag(name, &pki.server_key)));
    let spec = ["--trusted-ca-file", "--peer-trusted-ca-file"].iter().fold(spec, |spec, name| spec.arg(flag(name, &pki.authority)));
    // The data does not outlive the process, so it need not survive a power cut.
    Ok(spec.args(["--client-cert-auth", "--peer-client-cert-auth", "--unsafe-no-fsync", "--log-level=warn"]))
}

#[allow(clippy::too_many_arguments)]
fn apiserver(
    dir: &Path,
    logs: &Path,
    programs: &Programs,
    pki: &Pki,
    etcd: &str,
    port: u16,
    tokens: &Path,
    options: &Options,
) -> Result<Spec> {
    let mut spec = programs
        .spec("kube-apiserver", logs)?
        .arg(flag("--etcd-servers", etcd))
        .arg(flag("--etcd-cafile", &pki.authority))
        .arg(flag("--etcd-certfile", &pki.client))
        .arg(flag("--etcd-keyfile", &pki.client_key))
        .arg("--bind-address=127.0.0.1")
        .arg("--external-hostname=127.0.0.1")
        .arg(format!("--secure-port={port}"))
        .arg(flag("--tls-cert-file", &pki.server))
        .arg(flag("--tls-private-key-file", &pki.server_key))
        .arg(flag("--client-ca-file", &pki.authority))
        .arg(flag("--kubelet-client-certificate", &pki.client))
        .arg(flag("--kubelet-client-key", &pki.client_key))
        .arg("--kubelet-preferred-address-types=InternalIP")
        .arg(flag("--cert-dir", dir))
        .arg(flag("--service-account-key-file", &pki.accounts_public_key))
        .arg(flag("--service-account-signing-key-file", &pki.accounts_key))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--api-audiences=https://kubernetes.default.svc,{AUDIENCE}"))
        .arg("--authorization-mode=Node,RBAC")
        .arg("--service-cluster-ip-range=10.96.0.0/16")
        // A loopback address may not be the endpoint of the `kubernetes` Service.
        .arg("--endpoint-reconciler-type=none")
        .arg("--allow-privileged=true")
        .arg(flag("--token-auth-file", tokens));
    if !options.mutating_policies {
        spec = spec.arg("--emulated-version=1.33");
    }
    if let Some(log) = &options.audit_log {
        let policy = dir.join("audit-policy.yaml");
        let rules = json!([
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts:beckon-system"]},
            {"level": "None"},
        ]);
        let text =
            json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}).to_string();
        write_private(&policy, text.as_bytes())?;
        spec = spec.arg(flag("--audit-policy-file", policy)).arg(flag("--audit-log-path", log)).arg("--audit-log-mode=blocking");
    }
    Ok(spec.args(&options.apiserver_flags))
}
