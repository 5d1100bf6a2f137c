//! `cargo xtask up`, `status` and `down`: what scripts rely on, what comes back, and that nothing is left.

// A test that can't go on has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::{ControlPlane, Options, Up, succeeded, unique, xtask};
use xtask::cluster_binary::Programs;
use xtask::http;
use xtask::process::Identity;

/// One for the tests that leave it as it was.
fn up() -> &'static Up {
    static UP: OnceLock<Up> = OnceLock::new();
    UP.get_or_init(|| Up::start(&["attention.minWaitSeconds=0"]))
}

fn run(words: &[&str], dir: &Path) -> Output {
    command(words, dir).output().expect("cargo xtask")
}

fn command(words: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(xtask());
    command.args(words).arg("--dir").arg(dir).env("BECKON_BINARY", env!("CARGO_BIN_EXE_beckon"));
    command
}

/// Runs the kubectl of an `up` in one of its contexts. It has to succeed.
fn kubectl(dir: &Path, context: &str, args: &[&str]) -> String {
    let mut command = Command::new(dir.join("bin/kubectl"));
    command.arg("--kubeconfig").arg(dir.join("kubeconfig")).arg("--context").arg(context).args(args);
    text(&succeeded(command.output().expect("kubectl")))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn port(url: &str) -> u16 {
    url.split(':').nth(2).and_then(|rest| rest.split('/').next()).and_then(|port| port.parse().ok()).expect("a port")
}

fn until(what: &str, at_most: Duration, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + at_most;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {at_most:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn each_context_is_its_user_and_has_the_token_of_up_json() {
    let up = up();
    for (context, token) in [
        ("operator", "operatorToken"),
        ("operator-2", "operator2Token"),
        ("viewer", "viewerToken"),
        ("agent", "agentToken"),
        ("agent-2", "agent2Token"),
    ] {
        let who = succeeded(up.kubectl(context, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]));
        assert_eq!(text(&who), context);
        let kept = succeeded(
            up.kubectl("admin", &["config", "view", "--raw", "-o", &format!("jsonpath={{.users[?(@.name==\"{context}\")].user.token}}")]),
        );
        assert_eq!(text(&kept), up.text(token));
    }
    let all = up.kubectl("admin", &["auth", "can-i", "*", "*"]);
    assert_eq!(text(&all.stdout), "yes");
}

#[test]
fn gateways_answer_under_their_own_and_the_common_address() {
    let up = up();
    let json = up.json();
    let urls = json["mcpURLs"].as_array().expect("mcpURLs");
    assert_eq!((urls.len(), up.pids("gateway").len(), up.pids("controller").len()), (2, 2, 2));
    for url in urls.iter().filter_map(|url| url.as_str()).chain([up.text("mcpURL").as_str()]) {
        let answer = http::get(port(url), "/healthz", http::PATIENCE).expect(url);
        assert_eq!(answer.status, 200, "{url}");
    }
    for url in json["metricsURLs"].as_array().expect("metricsURLs").iter().filter_map(|url| url.as_str()) {
        let answer = http::get(port(url), "/metrics", http::PATIENCE).expect(url);
        assert!(answer.body.contains("# EOF"), "{url}");
    }
}

#[test]
fn a_killed_gateway_comes_back_and_the_other_answers_meanwhile() {
    let up = up();
    assert_eq!(text(&run(&["status"], up.dir()).stdout), "ready");
    let before = up.pids("gateway");
    kill(Pid::from_raw(before[0]), Signal::SIGKILL).expect("a running gateway");
    let common = port(&up.text("mcpURL"));
    until("an answer of the other", Duration::from_secs(5), || {
        http::get(common, "/healthz", http::PATIENCE).is_ok_and(|answer| answer.status == 200)
    });
    until("a new gateway", Duration::from_secs(30), || up.pids("gateway")[0] != before[0]);
    assert_eq!(up.pids("gateway")[1], before[1], "the other one is left alone");
    until("ready again", Duration::from_mins(1), || text(&run(&["status"], up.dir()).stdout) == "ready");
}

#[test]
fn a_second_up_in_the_same_directory_is_refused() {
    let refused = run(&["up", "--detach"], up().dir());
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("it is up already"), "{}", text(&refused.stderr));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_started() {
    let dir = std::env::temp_dir().join(unique("beckon-up-wrong"));
    let refused = run(&["up", "--set", "attention.timeoutSecond=1"], &dir);
    assert_eq!(
        text(&refused.stderr),
        "error: --set: there is no setting \"attention.timeoutSecond\"; did you mean attention.timeoutSeconds?"
    );
    for (wrong, says) in [
        (
            &["--set", "attention.minWaitSeconds=7h"][..],
            "error: --minAttentionWait 25200s (attention.minWaitSeconds) is above --attentionTimeout 21600s (attention.timeoutSeconds): ",
        ),
        (
            &["--set", "attention.captcha=attention", "--set", "dashboard.enabled=false"],
            "error: --captcha attention (attention.captcha) needs the dashboard, but --admin is false (dashboard.enabled): ",
        ),
        (&["--namespace", "Not One"], "error: --namespace \"Not One\": must be a namespace"),
    ] {
        let refused = run(&[&["up", "--detach"], wrong].concat(), &dir);
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.starts_with(says) && said.lines().count() == 1, "{said}");
    }
    assert!(!dir.exists());
    let status = run(&["status"], &dir);
    assert!(!status.status.success() && text(&status.stdout).starts_with("not up"), "{}", text(&status.stdout));
}

#[test]
fn without_go_it_says_what_else_will_do() {
    let dir = std::env::temp_dir().join(unique("beckon-up-no-go"));
    let mut command = command(&["up", "--detach"], &dir);
    command.env("PATH", "/nonexistent").env_remove("BECKON_CLUSTER_BINARY").env_remove("KUBEBUILDER_ASSETS");
    let refused = command.output().expect("cargo xtask");
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.starts_with("error: there is no `go` in the PATH."), "{said}");
    assert!(["Go 1.26 or later", "KUBEBUILDER_ASSETS", "--kubeconfig FILE"].iter().all(|part| said.contains(part)), "{said}");
    assert!(!dir.exists());
}

#[test]
fn down_leaves_nothing_and_so_does_a_killed_up() {
    let dir = std::env::temp_dir().join(unique("beckon-up-down"));
    for killed in [false, true] {
        let started = run(&["up", "--detach"], &dir);
        assert!(started.status.success(), "{}", text(&started.stderr));
        let told = text(&started.stdout);
        assert!(told.ends_with(&format!("`cargo xtask down --dir {}` ends it.", dir.display())), "{told}");
        assert!(told.contains(&format!("/bin/python demo/agent.py --dir {}\n", dir.display())), "{told}");
        let state = xtask::up::State::read(&dir).expect("a state").expect("a state");
        let processes: Vec<Identity> = state.processes.iter().map(|one| one.process).chain([state.supervisor]).collect();
        assert!(processes.len() >= 9 && processes.iter().all(|process| process.is_alive()));
        if killed {
            state.supervisor.signal(Signal::SIGKILL);
            until("all processes end with `up`", Duration::from_secs(30), || !processes.iter().any(|process| process.is_alive()));
            assert!(text(&run(&["status"], &dir).stdout).contains("was killed"));
        }
        succeeded(run(&["down"], &dir));
        assert!(!processes.iter().any(|process| process.is_alive()));
        assert!(!dir.exists());
        let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
        assert!(!mounts.contains(dir.to_str().expect("a path")), "{mounts}");
    }
}

/// A directory such as `KUBEBUILDER_ASSETS` names, whose API server is like one of 1.33.
fn old_assets(dir: &Path) {
    let ours = Programs::find_or_build().expect("the programs of the control plane");
    std::fs::create_dir_all(dir.join("real")).expect("a directory");
    for name in ["etcd", "kubectl", "real/kube-apiserver"] {
        symlink(ours.file(name.rsplit('/').next().expect("a name")), dir.join(name)).expect("a link");
    }
    let server = dir.join("kube-apiserver");
    let script = format!("#!/bin/sh\nexec '{}' --emulated-version=1.33 \"$@\"\n", dir.join("real/kube-apiserver").display());
    std::fs::write(&server, script).expect("a script");
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).expect("a script");
}

#[test]
fn the_assets_of_an_older_kubernetes_are_enough() {
    let (assets, dir) = (tempfile::tempdir().expect("a directory"), std::env::temp_dir().join(unique("beckon-up-old")));
    old_assets(assets.path());
    let started = command(&["up", "--detach"], &dir).env("KUBEBUILDER_ASSETS", assets.path()).output().expect("cargo xtask");
    assert!(started.status.success(), "{}", text(&started.stderr));
    assert!(text(&started.stderr).contains("the API server does not stamp names"), "{}", text(&started.stderr));
    assert_eq!(
        kubectl(&dir, "admin", &["api-resources", "--api-group=admissionregistration.k8s.io", "-o=name"]).matches("mutatingadm").count(),
        0
    );
    let request = json_file(
        r#"{"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": "old"},
            "spec": {"mode": "Notify", "reason": "a look, please", "requester": {"username": "agent"}}}"#,
    );
    kubectl(&dir, "agent", &["create", "-f", request.path().to_str().expect("a path")]);
    kubectl(&dir, "agent", &["wait", "attn/old", "--for=jsonpath={.status.phase}=Pending", "--timeout=60s"]);
    let mut resolve = Command::new(dir.join("bin/kubectl-attention"));
    resolve.arg("--kubeconfig").arg(dir.join("kubeconfig")).args(["--context", "operator", "resolve", "old", "-m", "done"]);
    succeeded(resolve.output().expect("the plugin"));
    kubectl(&dir, "agent", &["wait", "attn/old", "--for=jsonpath={.status.resolvedBy}=operator", "--timeout=60s"]);
    succeeded(run(&["down"], &dir));
}

fn json_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a file");
    file
}

/// `kind/namespace/name` of all that a cluster holds, but for what comes and goes by itself.
fn everything(plane: &ControlPlane) -> BTreeSet<String> {
    let kinds = text(&succeeded(plane.kubectl("admin", &["api-resources", "--verbs=list", "-o=name"])));
    let passing = ["events", "componentstatuses", "endpointslices"];
    let kinds: Vec<_> = kinds.lines().filter(|kind| !passing.iter().any(|word| kind.starts_with(word))).collect();
    let format = "-o=jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{'\\n'}{end}";
    let all = text(&succeeded(plane.kubectl("admin", &["get", &kinds.join(","), "-A", format])));
    all.lines().filter(|line| !line.starts_with("Lease/kube-")).map(str::to_owned).collect()
}

/// What differs.
fn changed(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    before.symmetric_difference(after).cloned().collect()
}

fn existing(kinds: bool) -> ControlPlane {
    let plane = ControlPlane::start(&Options { scheduler: true, node: true, kinds, policies: kinds, ..Options::default() });
    // It comes by itself, and must be among what was there before.
    until("the node", Duration::from_mins(1), || everything(&plane).iter().any(|object| object.starts_with("Node/")));
    plane
}

fn up_in(plane: &ControlPlane, namespace: &str, dir: &Path) -> Output {
    let kubeconfig = plane.kubeconfig().to_str().expect("a path");
    run(&["up", "--detach", "--kubeconfig", kubeconfig, "--browser-image=beckon-browser", "--namespace", namespace], dir)
}

/// A session with a running browser and an open request, made by `agent`.
fn use_it(dir: &Path, namespace: &str) {
    for sample in ["session", "takeover"] {
        kubectl(dir, "agent", &["create", "-n", namespace, "-f", &format!("config/samples/{sample}.yaml")]);
    }
    kubectl(dir, "agent", &["wait", "-n", namespace, "bsess/my-browser", "--for=condition=Ready", "--timeout=90s"]);
    kubectl(dir, "agent", &["wait", "-n", namespace, "attn/solve-the-captcha", "--for=jsonpath={.status.phase}=Pending", "--timeout=60s"]);
}

#[test]
fn a_cluster_that_exists_is_left_as_it_was() {
    let plane = existing(false);
    let before = everything(&plane);
    let dir = std::env::temp_dir().join(unique("beckon-up-existing"));
    for killed in [false, true] {
        let started = up_in(&plane, "work", &dir);
        assert!(started.status.success(), "{}", text(&started.stderr));
        use_it(&dir, "work");
        if killed {
            let state = xtask::up::State::read(&dir).expect("a state").expect("a state");
            state.supervisor.signal(Signal::SIGKILL);
            until("its end", Duration::from_secs(30), || !state.supervisor.is_alive());
        }
        let down = run(&["down"], &dir);
        assert!(down.status.success() && text(&down.stderr).ends_with("down: nothing is left"), "{}", text(&down.stderr));
        assert_eq!(changed(&before, &everything(&plane)), [""; 0], "killed: {killed}");
        assert!(!dir.exists());
    }
}

#[test]
fn what_a_cluster_had_before_stays() {
    let plane = existing(true);
    succeeded(plane.kubectl("admin", &["create", "-f", "config/samples/notify.yaml"]));
    let before = everything(&plane);
    let dir = std::env::temp_dir().join(unique("beckon-up-existing"));
    let started = up_in(&plane, "default", &dir);
    assert!(started.status.success() && text(&started.stderr).contains("in the cluster already"), "{}", text(&started.stderr));
    use_it(&dir, "default");
    let down = text(&run(&["down"], &dir).stderr);
    let stays = down.lines().last().unwrap_or_default();
    assert!(stays.starts_with("down: nothing is left but what was in the cluster before"), "{down}");
    assert!(stays.contains("CustomResourceDefinition browsersessions.beckon.dev") && !stays.contains("Namespace default"), "{stays}");
    assert_eq!(changed(&before, &everything(&plane)), [""; 0]);
}

#[test]
fn a_cluster_that_went_away_is_no_reason_to_forget_it() {
    let plane = ControlPlane::start(&Options { kinds: false, policies: false, ..Options::default() });
    let dir: PathBuf = std::env::temp_dir().join(unique("beckon-up-away"));
    assert!(up_in(&plane, "work", &dir).status.success());
    drop(plane);
    let down = run(&["down"], &dir);
    assert!(!down.status.success() && text(&down.stderr).contains("something is left in the cluster"), "{}", text(&down.stderr));
    assert!(dir.join("footprint.json").is_file() && dir.join("admin.kubeconfig").is_file());
    std::fs::remove_dir_all(dir).expect("the directory");
}
