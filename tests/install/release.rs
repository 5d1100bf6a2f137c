//! A release of the chart in a cluster, and the ways into it.

use crate::client::Mcp;
use crate::support::{ControlPlane, Options, helm, poll_until, succeeded};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Where Beckon is installed.
pub const SYSTEM: &str = "beckon-system";
/// Its release.
pub const RELEASE: &str = "beckon";

/// One at a time: the accounts' names are the same for every release of a cluster.
static TURN: Mutex<()> = Mutex::new(());

pub struct Release {
    pub plane: &'static ControlPlane,
    /// Where its sessions live.
    pub namespace: &'static str,
    /// What `helm install` has printed.
    pub notes: String,
    /// Where the audit log was when it began.
    since: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Release {
    /// Installs it with these values, and waits until all is ready.
    pub fn install(namespace: &'static str, values: &[&str], before: impl FnOnce(&ControlPlane)) -> Self {
        static PLANE: OnceLock<ControlPlane> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let plane = PLANE.get_or_init(plane);
        // The namespaces are those of careful people.
        for name in [SYSTEM, namespace] {
            run(
                plane,
                &format!(
                    "kubectl create namespace {name} --dry-run=client -o yaml | kubectl apply -f - && kubectl label --overwrite namespace {name} pod-security.kubernetes.io/enforce=restricted"
                ),
            );
        }
        // What an earlier release has left, as docs/platform.md says.
        run(plane, &format!("kubectl delete secrets,leases --all -n {SYSTEM}"));
        before(plane);
        let values = [values, &["session.browser=HeadlessShell", "attention.minWaitSeconds=0"]].concat();
        let values: Vec<_> = values.into_iter().map(|value| format!("--set={value}")).collect();
        let since = audit_log(plane).len();
        let mut release = Self { plane, namespace, notes: String::new(), since, _turn: turn };
        release.notes = release.helm("install", &values.iter().map(String::as_str).collect::<Vec<_>>());
        release
    }

    /// Upgrades it with the line of docs/platform.md and these values.
    pub fn upgrade(&self, values: &[&str]) {
        let sets: Vec<_> = values.iter().map(|value| format!("--set={value}")).collect();
        self.helm("upgrade", &[&["--reset-then-reuse-values"], sets.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    }

    pub fn uninstall(&self) {
        let config = format!("--kubeconfig={}", self.plane.kubeconfig().display());
        succeeded(helm(&["uninstall", RELEASE, "--namespace", SYSTEM, "--wait", &config]));
    }

    /// What the API server has noted since the installation began.
    pub fn audit_log(&self) -> Vec<Value> {
        // The last line may be half written.
        audit_log(self.plane)[self.since..].lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn helm(&self, verb: &str, more: &[&str]) -> String {
        let config = format!("--kubeconfig={}", self.plane.kubeconfig().display());
        let mut args = vec![verb, RELEASE, "charts/beckon", "--namespace", SYSTEM, "--wait", "--timeout=120s", &config];
        args.extend(more);
        let done = helm(&args);
        assert!(done.status.success(), "{}\n{}", String::from_utf8_lossy(&done.stderr), self.why());
        String::from_utf8(done.stdout).unwrap()
    }

    /// What a person would look at.
    fn why(&self) -> String {
        let script = format!("kubectl describe pods -n {SYSTEM}; kubectl logs -n {SYSTEM} deployment/beckon --all-containers --tail=20");
        String::from_utf8_lossy(&self.plane.shell(&script).output().unwrap().stdout).into_owned()
    }

    /// Runs a script, whose current user is the administrator. It has to succeed.
    pub fn run(&self, script: &str) -> String {
        run(self.plane, script)
    }

    /// An object as JSON, of a namespace where sessions live.
    pub fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.run(&format!("kubectl get {kind} {name} -n {} -o json", self.namespace))).unwrap()
    }

    /// The names of all objects of a kind there.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let names = self.run(&format!("kubectl get {kind} -n {} -o name", self.namespace));
        names.lines().filter_map(|line| line.split_once('/')).map(|(_, name)| name.to_owned()).collect()
    }

    /// The only object of a kind that fits.
    pub async fn the(&self, kind: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        poll_until(Duration::from_secs(30), what, || async {
            let all: Value = serde_json::from_str(&self.run(&format!("kubectl get {kind} -n {} -o json", self.namespace))).unwrap();
            all["items"].as_array().unwrap().iter().find(|item| fits(item)).cloned()
        })
        .await
    }

    /// Does what the notes say under 1, for the user `operator` and the service account `agent`.
    pub fn give_rights(&self) {
        for line in self.notes.lines().map(str::trim).filter(|line| line.starts_with("kubectl create") && !line.contains("token")) {
            self.run(&line.replace("USER", "operator").replace("AGENT", "agent"));
        }
    }

    /// The token of `agent`, made as the notes say.
    pub fn agent_token(&self) -> String {
        let line = self.notes.lines().map(str::trim).find(|line| line.starts_with("kubectl create token")).expect("a token in the notes");
        self.run(&line.replace("AGENT", "agent")).trim().to_owned()
    }

    /// Forwards a port as the notes say, but to a free one.
    pub fn forward(&self) -> Forward {
        let line = self.notes.lines().map(str::trim).find(|line| line.starts_with("kubectl port-forward")).expect("a port in the notes");
        assert!(line.contains(" 8080:8080"), "{line}");
        Forward::start(self.plane, &line.replace(" 8080:", " :"))
    }

    /// An agent that reaches the gateway through this port.
    pub fn agent(&self, through: &Forward) -> Mcp {
        Mcp::modern(through.port, &self.agent_token())
    }
}

fn plane() -> ControlPlane {
    ControlPlane::start(&Options {
        scheduler: true,
        node: true,
        audit: true,
        kinds: false,
        policies: false,
        // Some clusters ask who may block the deletion of an owner.
        apiserver_flags: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
        ..Options::default()
    })
}

fn audit_log(plane: &ControlPlane) -> String {
    std::fs::read_to_string(plane.audit_log().unwrap()).unwrap()
}

fn run(plane: &ControlPlane, script: &str) -> String {
    let done = plane.shell(script).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A command that forwards a port until it is interrupted.
pub struct Forward {
    pub port: u16,
    /// What it printed up to the address.
    pub line: String,
    child: Child,
}

impl Forward {
    /// Starts it and waits for an address of 127.0.0.1 on its standard output.
    pub fn start(plane: &ControlPlane, script: &str) -> Self {
        let mut child = plane.shell(&format!("exec {script}")).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let port = line.split_once("127.0.0.1:")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
            Some((port, line))
        });
        // What it says later is of no interest, but its pipe must not fill.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let (port, line) = found.unwrap_or_else(|| panic!("{script}: ended without an address: {:?}", child.wait()));
        Self { port, line, child }
    }

    /// Ctrl-C.
    pub fn interrupt(mut self) -> std::process::ExitStatus {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGINT).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        // It may have ended with the pod that it led to.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
