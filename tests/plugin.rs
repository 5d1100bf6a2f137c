//! `kubectl attention` as its users run it, on a real API server with Beckon's rules.

// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use beckon::api::v1alpha1::AttentionRequest;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use support::{ControlPlane, Options, succeeded, unique};

/// A namespace with requests of the user `agent`.
struct World {
    plane: &'static ControlPlane,
    namespace: String,
}

/// What a command printed and how it ended.
#[derive(Debug)]
struct Ran {
    out: String,
    err: String,
    code: i32,
}

impl World {
    async fn new() -> Self {
        Self::on(ControlPlane::shared()).await
    }

    async fn on(plane: &'static ControlPlane) -> Self {
        Self { plane, namespace: plane.namespace("plugin").await }
    }

    /// A request that the controller has not seen.
    async fn fresh(&self, name: &str, label: &str) -> String {
        let name = unique(name);
        let mut spec = json!({"reason": "Which one?", "mode": "Notify", "options": "{\"b\":1.0,\"a\":1e400}"});
        if !self.plane_stamps() {
            spec["requester"] = json!({"username": "agent"});
        }
        let object = json!({
            "apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest",
            "metadata": {"name": name, "labels": {"team": label}}, "spec": spec,
        });
        let api: Api<AttentionRequest> = Api::namespaced(self.plane.user("agent").await, &self.namespace);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        name
    }

    fn plane_stamps(&self) -> bool {
        std::ptr::eq(self.plane, ControlPlane::shared())
    }

    async fn status(&self, name: &str, status: Value) {
        let api: Api<AttentionRequest> = Api::namespaced(self.plane.account("beckon-controller").await, &self.namespace);
        let version = api.get(name).await.unwrap().metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// A request that waits.
    async fn open(&self, name: &str, label: &str) -> String {
        let name = self.fresh(name, label).await;
        self.status(&name, json!({"phase": "Pending", "deadline": "2999-01-01T00:00:00Z"})).await;
        name
    }

    async fn read(&self, name: &str) -> AttentionRequest {
        Api::namespaced(self.plane.admin().await, &self.namespace).get(name).await.unwrap()
    }

    fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_beckon"));
        command.arg("attention").args(args).arg("--kubeconfig").arg(self.plane.kubeconfig()).args(["--context", user]);
        command
    }

    fn run(&self, user: &str, args: &[&str]) -> Ran {
        ran(self.command(user, args).args(["-n", &self.namespace]))
    }
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

#[tokio::test]
async fn an_operator_resolves_and_the_second_is_told_who_was_first() {
    let world = World::new().await;
    let name = world.open("a", "x").await;
    let first = world.run("operator", &["resolve", &name, "-m", "Done, continue."]);
    assert_eq!((first.code, first.out.as_str()), (0, format!("attentionrequest.beckon.dev/{name} resolved\n").as_str()), "{first:?}");
    let resolution = world.read(&name).await.spec.resolution.unwrap();
    assert_eq!((resolution.message.as_deref(), resolution.by.unwrap().username.as_str()), (Some("Done, continue."), "operator"));

    // The API server lets an equal answer pass; the person must not believe that it was theirs.
    for message in ["Done, continue.", "Something else."] {
        let second = world.run("operator-2", &["resolve", &name, "-m", message]);
        let told = format!("attentionrequest.beckon.dev/{name} was already resolved by operator.");
        assert!(second.code == 5 && second.err.contains(&told) && second.out.is_empty(), "{message}: {second:?}");
    }
    // One's own answer, sent again after a lost connection, is done.
    assert_eq!(world.run("operator", &["resolve", &name, "-m", "Done, continue."]).code, 0);
}

#[tokio::test]
async fn each_end_has_its_exit_code_and_the_servers_own_words() {
    let world = World::new().await;
    let open = world.open("a", "x").await;
    let fresh = world.fresh("b", "x").await;
    let late = world.open("c", "x").await;
    world.status(&late, json!({"phase": "Timeout"})).await;
    for (user, args, code, words) in [
        ("agent", vec!["resolve", &open], 4, "resolve"),
        ("viewer", vec!["reject", &open], 4, "Error from server (Forbidden)"),
        ("operator", vec!["resolve", "no-such"], 3, "Error from server (NotFound): attentionrequests.beckon.dev \"no-such\" not found"),
        ("operator", vec!["show", "no-such"], 3, "not found"),
        ("operator", vec!["resolve", &fresh], 1, "this request is not open yet"),
        ("operator", vec!["resolve", &late], 5, "already settled: Timeout"),
        ("operator", vec!["resolve", &open, "--verdict", "approved"], 1, "this request asks for no verdict"),
        ("operator", vec!["resolve", "pod/x"], 2, "pod is not an attention request"),
        ("operator", vec!["resolve"], 2, "required"),
        ("operator", vec!["resolve", "no-such", "no-other"], 3, "no-other"),
        ("operator", vec!["resolve", "no-such", &late], 1, "no-such"),
    ] {
        let got = world.run(user, &args);
        assert!(got.code == code && got.err.contains(words), "{user} {args:?}: {got:?}");
    }
    assert_eq!(world.read(&open).await.spec.resolution, None);
    assert_eq!(ran(&mut world.command("nobody", &["list"])).code, 1);
    let stranger = ran(world.command("operator", &["list"]).args(["--kubeconfig", "/no/such/file"]));
    assert_eq!(stranger.code, 2, "a flag that is given twice is a usage error: {stranger:?}");
}

#[tokio::test]
async fn bulk_answers_need_a_yes_and_say_which() {
    let world = World::new().await;
    let shop = [world.open("a", "shop").await, world.open("b", "shop").await];
    let other = world.open("c", "other").await;
    let asked = world.run("operator", &["reject", "-l", "team=shop", "-m", "Later."]);
    assert!(asked.code == 2 && shop.iter().all(|name| asked.err.contains(name)) && !asked.err.contains(&other), "{asked:?}");
    assert_eq!(world.read(&shop[0]).await.spec.resolution, None);

    let done = world.run("operator", &["reject", "-l", "team=shop", "-m", "Later.", "--yes", "-o", "name"]);
    let mut names: Vec<&str> = done.out.lines().collect();
    names.sort_unstable();
    let mut want: Vec<String> = shop.iter().map(|name| format!("attentionrequest.beckon.dev/{name}")).collect();
    want.sort_unstable();
    assert_eq!((done.code, names), (0, want.iter().map(String::as_str).collect()), "{}", done.err);
    // One alone needs no yes, and none at all is no failure.
    assert_eq!(world.run("operator", &["resolve", "--all-open"]).out, format!("attentionrequest.beckon.dev/{other} resolved\n"));
    let none = world.run("operator", &["resolve", "--all-open"]);
    assert_eq!((none.code, none.err.as_str()), (0, "No open attention requests found.\n"));
    // What `-o name` prints is taken again.
    let shown = world.run("viewer", &["show", &want[0], &want[1], "-o", "name"]);
    assert_eq!((shown.code, shown.out.lines().count()), (0, 2), "{shown:?}");
}

#[tokio::test]
async fn lists_show_the_open_ones_and_history_when_asked() {
    let world = World::new().await;
    let (open, settled) = (world.open("a", "x").await, world.open("b", "x").await);
    world.status(&settled, json!({"phase": "Timeout"})).await;
    let names = |args: &[&str]| {
        let mut all = vec!["list", "-o", "name"];
        all.extend(args);
        let mut names: Vec<String> = world.run("viewer", &all).out.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let named = |name: &str| format!("attentionrequest.beckon.dev/{name}");
    assert_eq!(names(&[]), [named(&open)]);
    assert_eq!(names(&["--phase", "timeout"]), [named(&settled)]);
    assert_eq!(names(&["--all"]), [named(&open), named(&settled)]);
    assert_eq!(names(&["-l", "team=y"]), Vec::<String>::new());

    let table = world.run("viewer", &["list"]).out;
    assert!(
        table.starts_with("NAME") && table.contains("Pending") && table.contains("Which one?") && table.lines().count() == 2,
        "{table}"
    );
    let everywhere = ran(&mut world.command("viewer", &["list", "-A"])).out;
    assert!(everywhere.starts_with("NAMESPACE") && everywhere.contains(&world.namespace), "{everywhere}");
    let empty = world.run("viewer", &["list", "-l", "team=y"]);
    assert_eq!((empty.code, empty.err), (0, format!("No open attention requests in namespace {}.\n", world.namespace)));

    let json: Value = serde_json::from_str(&world.run("viewer", &["show", &open, "-o", "json"]).out).unwrap();
    assert_eq!((&json["kind"], &json["spec"]["options"]), (&json!("AttentionRequest"), &json!("{\"b\":1.0,\"a\":1e400}")));
    assert_eq!(json["metadata"]["managedFields"], Value::Null);
    let list: Value = serde_saphyr::from_str(&world.run("viewer", &["list", "-o", "yaml"]).out).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("List"), &json!(open)));
    assert!(world.run("viewer", &["show", &open]).out.contains("    | {\"b\":1.0,\"a\":1e400}\n"));
}

#[tokio::test]
async fn under_its_own_name_and_into_a_closed_pipe() {
    let world = World::new().await;
    let name = world.open("a", "x").await;
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-attention");
    symlink(env!("CARGO_BIN_EXE_beckon"), &plugin).unwrap();
    let mut command = Command::new(&plugin);
    command.args(["list", "-o", "name", "-n", &world.namespace, "--context", "viewer"]).env("KUBECONFIG", world.plane.kubeconfig());
    assert_eq!(ran(&mut command).out, format!("attentionrequest.beckon.dev/{name}\n"));
    let help = ran(Command::new(&plugin).arg("--help"));
    assert!(help.code == 0 && help.out.contains("Usage: kubectl attention"), "{help:?}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((closed.status.code(), String::from_utf8_lossy(&closed.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test]
async fn kubectl_alone_sees_patches_and_waits() {
    let world = World::new().await;
    let name = world.open("a", "x").await;
    let kubectl = |user: &str, args: &[&str]| {
        let mut all = vec!["-n", world.namespace.as_str()];
        all.extend(args);
        world.plane.kubectl(user, &all)
    };
    let table = String::from_utf8(succeeded(kubectl("viewer", &["get", "attn"]))).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "SESSION", "MODE", "PHASE", "BY", "DEADLINE", "AGE", "REASON"]);
    assert!(table.contains("Pending") && table.contains("2999-01-01T00:00:00Z") && table.trim_end().ends_with("Which one?"), "{table}");

    let patch = r#"{"spec":{"resolution":{"outcome":"Resolved","message":"done"}}}"#;
    succeeded(kubectl("operator", &["patch", "attn", &name, "--type=merge", "-p", patch]));
    let condition =
        json!({"type": "Settled", "status": "True", "reason": "Answered", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    world.status(&name, json!({"phase": "Resolved", "conditions": [condition]})).await;
    succeeded(kubectl("viewer", &["wait", "--for=condition=Settled", &format!("attn/{name}"), "--timeout=10s"]));
    let by = succeeded(kubectl("viewer", &["get", "attn", &name, "-o", "jsonpath={.spec.resolution.by.username} {.spec.resolution.via}"]));
    assert_eq!(String::from_utf8_lossy(&by), "operator Kubectl");
}

/// Below 1.36 nobody stamps `by`: the plugin says who we are, and the policy checks it.
#[tokio::test]
async fn on_an_older_server_the_plugin_names_the_person() {
    let plane: &'static ControlPlane =
        Box::leak(Box::new(ControlPlane::start(&Options { mutating_policies: false, controller_manager: false, ..Options::default() })));
    let world = World::on(plane).await;
    let name = world.open("a", "x").await;
    let done = world.run("operator", &["resolve", &name, "-m", "Done."]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(world.read(&name).await.spec.resolution.unwrap().by.unwrap().username, "operator");
    assert_eq!(world.run("operator-2", &["resolve", &name, "-m", "Done."]).code, 5);
}
