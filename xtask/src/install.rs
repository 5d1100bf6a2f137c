//! Beckon's kinds, accounts, roles and policies, put into an API server.

use crate::control_plane::output;
use crate::failure::{Context as _, Failure, Result};
use crate::files::repository;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Which parts.
#[derive(Clone, Copy, Debug)]
pub struct What {
    /// The accounts, roles and admission policies of `config/`. Else only the kinds.
    pub policies: bool,
    /// What the groups of the six users of a local control plane may do.
    pub users: bool,
}

/// Who may do what among the users of a local control plane: group and role.
pub const BINDINGS: &[(&str, &str)] = &[
    ("beckon:operators", "beckon-responder"),
    ("beckon:operators", "beckon-session-admin"),
    ("beckon:viewers", "beckon-viewer"),
    ("beckon:agents", "beckon-agent"),
];

/// How long the API server may take to serve new kinds.
const SERVED: Duration = Duration::from_secs(30);

/// Installs the kinds as `beckon` itself prints them and the rest from `config/`, and waits until the kinds are served. Doing it
/// again changes nothing. Whether the server stamps names, which decides about the policies that do.
pub fn install(beckon: &Path, kubectl: &dyn Fn() -> Command, what: &What) -> Result<bool> {
    let stamps = stamps(kubectl)?;
    apply(kubectl, &kinds(beckon)?).context("applying the kinds")?;
    if what.policies {
        apply(kubectl, &config(stamps)?).context("applying config/")?;
    }
    if what.users {
        apply(kubectl, bindings().to_string().as_bytes()).context("applying what the users may do")?;
    }
    output(
        kubectl()
            .args(["wait", "--for=condition=Established", "--timeout=60s", "crd"])
            .args(["attentionrequests.beckon.dev", "browsersessions.beckon.dev"]),
    )
    .context("waiting for the kinds")?;
    wait_for_creates(kubectl)?;
    Ok(stamps)
}

/// For two seconds after a kind is established the API server takes no new objects of it: other API servers may not know it yet.
fn wait_for_creates(kubectl: &dyn Fn() -> Command) -> Result<()> {
    let deadline = Instant::now() + SERVED;
    for kind in ["AttentionRequest", "BrowserSession"] {
        let object =
            json!({"apiVersion": "beckon.dev/v1alpha1", "kind": kind, "metadata": {"name": "probe", "namespace": "default"}}).to_string();
        loop {
            let mut command = kubectl();
            command.args(["create", "--dry-run=server", "--validate=false", "--output=name", "--filename=-"]);
            match feed(command, object.as_bytes()) {
                Err(error) if error.to_string().contains("ServiceUnavailable") && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                Err(error) if error.to_string().contains("ServiceUnavailable") => return Err(error).context("waiting for the kinds"),
                // That it is refused for what it lacks is an answer.
                Ok(_) | Err(_) => break,
            }
        }
    }
    Ok(())
}

/// Whether the API server can fill in who writes, as those of Kubernetes 1.36 and later do.
pub fn stamps(kubectl: &dyn Fn() -> Command) -> Result<bool> {
    let served = output(kubectl().args(["get", "--raw", "/apis/admissionregistration.k8s.io/v1"]));
    let served = served.context("asking the API server which admission policies it has (Kubernetes 1.30 or later is needed)")?;
    Ok(served.contains("\"mutatingadmissionpolicies\""))
}

/// The kinds, as YAML.
pub fn kinds(beckon: &Path) -> Result<Vec<u8>> {
    let crds = Command::new(beckon).arg("crds").output().context(beckon.display())?;
    if !crds.status.success() || crds.stdout.is_empty() {
        return Err(Failure::new(format!("{} crds: {}", beckon.display(), String::from_utf8_lossy(&crds.stderr).trim())));
    }
    Ok(crds.stdout)
}

/// The namespace, accounts, roles and policies of `config/`, as YAML; those that stamp only where they are served.
pub fn config(stamps: bool) -> Result<Vec<u8>> {
    let mut manifests = vec![repository().join("config/namespace.yaml")];
    for folder in ["config/rbac", "config/admission"] {
        manifests.extend(yaml_files(&repository().join(folder))?);
    }
    let mut text = Vec::new();
    for manifest in manifests {
        let stamping = manifest.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("-stamp"));
        if stamps || !stamping {
            text.extend(b"---\n");
            text.extend(std::fs::read(&manifest).context(manifest.display())?);
            text.push(b'\n');
        }
    }
    Ok(text)
}

/// Applies manifests, YAML or JSON, as the server merges them.
pub fn apply(kubectl: &dyn Fn() -> Command, manifests: &[u8]) -> Result<()> {
    let mut command = kubectl();
    command.args(["apply", "--server-side", "--force-conflicts", "--field-manager=xtask", "-f", "-"]);
    feed(command, manifests).map(drop).context("kubectl apply")
}

/// Runs `kubectl` with manifests on its standard input: its standard output, or an error with what it said.
pub fn feed(mut command: Command, manifests: &[u8]) -> Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("kubectl")?;
    let input = child.stdin.take();
    let done = std::thread::scope(|scope| {
        // Beside the reading, so that neither side waits for the other. When kubectl stops reading it says why on its standard
        // error.
        scope.spawn(|| input.map(|mut input| input.write_all(manifests)));
        child.wait_with_output()
    })
    .context("kubectl")?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(Failure::new(String::from_utf8_lossy(&done.stderr).trim()))
}

/// The `.yaml` files of a folder, sorted.
pub fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).context(folder.display())?;
    let mut files: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    Ok(files)
}

fn bindings() -> Value {
    let items: Vec<Value> = BINDINGS
        .iter()
        .map(|(group, role)| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{}-{role}", group.replace(':', "-"))},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
