//! What an `up` leaves in a cluster that exists, so that its end takes back what it brought, and nothing else.

use super::cluster::USERS_NAMESPACE;
use crate::cluster_binary::Programs;
use crate::control_plane::output;
use crate::failure::{Context as _, Failure, Result};
use crate::files::write_private;
use crate::install;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long objects may take to go.
const PATIENCE: &str = "--timeout=60s";
/// The kinds whose deletion deletes what people made.
const KIND: &str = "CustomResourceDefinition";

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Object {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
}

impl Object {
    fn of(manifest: &Value) -> Option<Self> {
        let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    fn manifest(&self) -> Value {
        let metadata = match &self.namespace {
            Some(namespace) => json!({"name": self.name, "namespace": namespace}),
            None => json!({"name": self.name}),
        };
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata})
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What an `up` applied: what was not there before goes with it, the rest stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Footprint {
    /// Brought by this `up`.
    goes: Vec<Object>,
    /// There before.
    stays: Vec<Object>,
    /// Where its agents make sessions and requests.
    namespace: String,
}

impl Footprint {
    /// What applying these manifests will bring, and what the processes make by themselves. An error when Helm looks after some of it: applying would take that over, and break
    /// an installation whose accounts live in another namespace.
    pub(super) fn plan(kubectl: &dyn Fn() -> Command, manifests: &[u8], namespace: &str) -> Result<Self> {
        let manifests = [manifests, b"\n---\n", made_by_processes().to_string().as_bytes()].concat();
        let ask = |words: &[&str]| -> Result<Vec<Value>> {
            let mut command = kubectl();
            command.args(words).args(["--output=json", "--filename=-"]);
            items(&install::feed(command, &manifests).context("looking for what is in the cluster already")?)
        };
        let all = ask(&["create", "--dry-run=client", "--validate=false"])?;
        let there = ask(&["get", "--ignore-not-found"])?;
        if let Some(helms) = there
            .iter()
            .find(|object| object.pointer("/metadata/labels/app.kubernetes.io~1managed-by").and_then(Value::as_str) == Some("Helm"))
        {
            let release = |key: &str| helms.pointer(&format!("/metadata/annotations/meta.helm.sh~1release-{key}")).and_then(Value::as_str);
            return Err(Failure::new(format!(
                "Beckon is installed in this cluster already, by the Helm release {} in namespace {}: use that one, or uninstall it first",
                release("name").unwrap_or("?"),
                release("namespace").unwrap_or("?"),
            )));
        }
        let there: Vec<Object> = there.iter().filter_map(Object::of).collect();
        let (stays, goes) = all.iter().filter_map(Object::of).partition(|object| there.contains(object));
        Ok(Self { goes, stays, namespace: namespace.to_owned() })
    }

    /// The file in the directory of an `up`. It is there for as long as there is something to take back.
    pub(super) fn file(dir: &Path) -> PathBuf {
        dir.join("footprint.json")
    }

    /// Writes it in one step.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        write_private(&Self::file(dir), serde_json::to_string_pretty(self).context("footprint")?.as_bytes())
    }

    /// Reads it; `None` when nothing is to be taken back.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>> {
        match std::fs::read(Self::file(dir)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).context(Self::file(dir).display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(Self::file(dir).display()),
        }
    }

    /// Beckon's own objects that were there before. The namespace that was named is the person's.
    pub(super) fn stays(&self) -> Vec<String> {
        let named = |object: &&Object| object.kind == "Namespace" && object.name == self.namespace;
        self.stays.iter().filter(|object| !named(object)).map(ToString::to_string).collect()
    }

    fn delete(&self, kubectl: &dyn Fn() -> Command) -> Result<()> {
        output(kubectl().args(["get", "--raw", "/readyz", "--request-timeout=15s"])).context("the cluster does not answer")?;
        self.end_sessions(kubectl)?;
        // The kinds were applied first and go last: as long as they are there, their objects can be listed.
        let items: Vec<Value> = self.goes.iter().rev().map(Object::manifest).collect();
        if items.is_empty() {
            return Ok(());
        }
        // Where somebody else's controller leads, it removes the Leases of gateways that are gone.
        if self.goes.iter().any(|object| object.kind == "Lease") {
            let leases = ["delete", "leases", "--namespace=beckon-system", "--selector=beckon.dev/role", "--ignore-not-found", PATIENCE];
            output(kubectl().args(leases))?;
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let mut command = kubectl();
        command.args(["delete", "--ignore-not-found", "--filename=-", PATIENCE]);
        install::feed(command, list.as_bytes()).map(drop).context("kubectl delete")
    }

    /// Sessions and requests: all when their kinds go, else those of the users of this `up`. Nobody is left to end the pods, so
    /// these are deleted too.
    fn end_sessions(&self, kubectl: &dyn Fn() -> Command) -> Result<()> {
        let all = self.goes.iter().any(|object| object.kind == KIND);
        for (resource, owner) in [("browsersessions.beckon.dev", "owner"), ("attentionrequests.beckon.dev", "requester")] {
            let found = kubectl().args(["get", resource, "--all-namespaces", "--output=json"]).output().context("kubectl")?;
            // Where a former attempt has deleted the kind there is nothing left.
            let found = if found.status.success() { items(&found.stdout)? } else { Vec::new() };
            for object in found.iter().filter(|object| all || self.made_by_us(object, owner)) {
                let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
                let (name, namespace) = (text("/metadata/name"), format!("--namespace={}", text("/metadata/namespace")));
                output(kubectl().args(["delete", resource, name, &namespace, "--ignore-not-found", PATIENCE]))?;
                if owner == "owner" {
                    let label = format!("--selector=beckon.dev/session={name}");
                    output(kubectl().args(["delete", "pods,secrets,leases", &label, &namespace, "--ignore-not-found", PATIENCE]))?;
                }
            }
        }
        Ok(())
    }

    fn made_by_us(&self, object: &Value, owner: &str) -> bool {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let users = format!("system:serviceaccount:{USERS_NAMESPACE}:");
        text("/metadata/namespace") == self.namespace && text(&format!("/spec/{owner}/username")).starts_with(&users)
    }
}

/// What the first gateway and the first leader make in Beckon's own namespace.
fn made_by_processes() -> Value {
    let metadata = |name: &str| json!({"name": name, "namespace": "beckon-system"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata("beckon-gateway-keys")},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata("beckon-controller")},
    ]})
}

/// How an `up` with `--kubeconfig` reaches the cluster as its administrator.
pub(super) fn admin_kubeconfig(dir: &Path) -> PathBuf {
    dir.join("admin.kubeconfig")
}

/// Deletes what the `up` of this directory brought into a cluster that exists, the sessions and requests of its users first, and
/// forgets about it. Nothing when there is nothing to take back. Doing it again is no error.
pub(super) fn take_back(dir: &Path) -> Result<()> {
    let Some(footprint) = Footprint::read(dir)? else { return Ok(()) };
    let programs = Programs::for_existing_cluster()?;
    let kubectl = || {
        let mut command = programs.kubectl();
        command.arg("--cache-dir").arg(dir.join("kubectl-cache")).arg("--kubeconfig").arg(admin_kubeconfig(dir));
        command
    };
    footprint.delete(&kubectl).context("something is left in the cluster; `cargo xtask down` tries again to remove it")?;
    std::fs::remove_file(Footprint::file(dir)).context(Footprint::file(dir).display())
}

/// The objects that `kubectl` printed as JSON: none, one, several after each other, or a list.
fn items(json: &[u8]) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_slice(json).into_iter::<Value>() {
        let mut value = value.context("what kubectl printed")?;
        match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            _ => all.push(value),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_kubectl_prints_is_read() {
        for (text, names) in [
            ("", vec![]),
            (r#"{"kind": "A", "metadata": {"name": "x"}}"#, vec!["x"]),
            (r#"{"kind": "List", "items": [{"metadata": {"name": "x"}}, {"metadata": {"name": "y"}}]}"#, vec!["x", "y"]),
            ("{\"metadata\": {\"name\": \"x\"}}\n{\"metadata\": {\"name\": \"y\"}}\n", vec!["x", "y"]),
        ] {
            let found: Vec<_> = items(text.as_bytes()).unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
            assert_eq!(found, names, "{text}");
        }
        assert!(items(b"error: no").is_err());
    }

    #[test]
    fn only_what_the_users_of_this_up_made_is_theirs() {
        let footprint = Footprint { namespace: "here".into(), ..Footprint::default() };
        let session = |namespace: &str, owner: &str| json!({"metadata": {"namespace": namespace}, "spec": {"owner": {"username": owner}}});
        assert!(footprint.made_by_us(&session("here", "system:serviceaccount:beckon-up:agent"), "owner"));
        assert!(!footprint.made_by_us(&session("there", "system:serviceaccount:beckon-up:agent"), "owner"));
        assert!(!footprint.made_by_us(&session("here", "system:serviceaccount:shop:agent"), "owner"));
        assert!(!footprint.made_by_us(&session("here", "olga"), "owner"));
    }
}
