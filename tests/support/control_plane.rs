//! A control plane for a suite, with Beckon's kinds, policies and roles installed.

use super::unique;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use xtask::cluster_binary::Programs;
use xtask::control_plane as local;
use xtask::kubeconfig::Credential;

/// What a suite wants of its control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// Garbage collection, `default` service accounts, namespace deletion. On by default.
    pub controller_manager: bool,
    /// The scheduler. Pods of a suite without one can be bound by hand.
    pub scheduler: bool,
    /// A node that runs pods as processes; needs the scheduler and the controller-manager. It has the image `beckon-browser` and those of
    /// the chart.
    pub node: bool,
    /// Off: a server as before 1.36, which stamps nobody's name.
    pub mutating_policies: bool,
    /// Keep an audit log, [`ControlPlane::audit_log`].
    pub audit: bool,
    /// More flags of the API server.
    pub apiserver_flags: Vec<String>,
    /// Leave the processors to whatever else wants them: for what works much and waits for nothing.
    pub background: bool,
    /// Install Beckon's kinds. Off: a server that knows nothing of Beckon.
    pub kinds: bool,
    /// Install `config/` as well: policies and roles.
    pub policies: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: true,
            scheduler: false,
            node: false,
            mutating_policies: true,
            audit: false,
            apiserver_flags: Vec::new(),
            background: false,
            kinds: true,
            policies: true,
        }
    }
}

/// A running control plane.
pub struct ControlPlane {
    kubeconfig: PathBuf,
    programs: Programs,
    audit_log: Option<PathBuf>,
    // Ends its processes when dropped; nothing when the plane is that of `cargo xtask test`.
    own: Option<local::ControlPlane>,
    dir: PathBuf,
    /// The kubeconfigs of service accounts.
    accounts: Mutex<HashMap<String, PathBuf>>,
}

impl ControlPlane {
    /// The one that all tests share: that of `cargo xtask test` when it runs us, else one for this test binary.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var_os("BECKON_TEST_KUBECONFIG") {
            Some(kubeconfig) => Self::existing(PathBuf::from(kubeconfig)),
            None => Self::start(&Options { scheduler: true, ..Options::default() }),
        })
    }

    /// One for this caller alone: for a test that changes policies, counts what a server does, or needs other options. Blocks for
    /// some seconds, and takes half a gigabyte.
    pub fn start(options: &Options) -> Self {
        provide_tls();
        let programs = Programs::find_or_build().expect("the programs of the control plane");
        let dir = sweep_and_make_dir();
        let audit_log = options.audit.then(|| dir.join("audit.log"));
        let local_options = local::Options {
            controller_manager: options.controller_manager,
            scheduler: options.scheduler,
            mutating_policies: options.mutating_policies,
            audit_log: audit_log.clone(),
            apiserver_flags: options.apiserver_flags.clone(),
            background: options.background,
            ..local::Options::default()
        };
        let mut own = local::ControlPlane::start(&dir, &programs, &local_options).expect("a control plane");
        if options.node {
            start_node(&mut own, &dir);
        }
        let plane = Self { kubeconfig: own.kubeconfig.clone(), programs, audit_log, own: Some(own), dir, accounts: Mutex::default() };
        if options.kinds {
            plane.install(options.policies);
        }
        plane
    }

    fn existing(kubeconfig: PathBuf) -> Self {
        provide_tls();
        let programs = Programs::find_or_build().expect("the programs of the control plane");
        let dir = sweep_and_make_dir();
        Self { kubeconfig, programs, audit_log: None, own: None, dir, accounts: Mutex::default() }
    }

    /// The kubeconfig, with a context for each of `admin`, `operator`, `operator-2`, `viewer`, `agent`, `agent-2`.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The audit log, one JSON object a line, when it was asked for.
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// A client that may do everything. A client lives in the runtime that made it: make one in each test.
    pub async fn admin(&self) -> Client {
        self.user("admin").await
    }

    /// A client with the token of one of the six users.
    pub async fn user(&self, name: &str) -> Client {
        Client::try_from(self.config(name).await).expect("a client")
    }

    /// A client that acts as any user, by impersonation: one without uid.
    pub async fn as_user(&self, name: &str, groups: &[&str]) -> Client {
        let mut config = self.config("admin").await;
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect());
        Client::try_from(config).expect("a client")
    }

    /// A client with a token of a service account of `beckon-system`, such as `beckon-controller`.
    pub async fn account(&self, name: &str) -> Client {
        let path = self.account_kubeconfig(name);
        let kubeconfig = Kubeconfig::read_from(path).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
        Client::try_from(config).expect("a client")
    }

    /// A kubeconfig of a service account of `beckon-system`, for a process. One token does for all of a test binary.
    pub fn account_kubeconfig(&self, name: &str) -> PathBuf {
        let mut accounts = self.accounts.lock().expect("nobody panics here");
        accounts.entry(name.to_owned()).or_insert_with(|| self.new_account_kubeconfig(name)).clone()
    }

    fn new_account_kubeconfig(&self, name: &str) -> PathBuf {
        let token = self.kubectl("admin", &["create", "token", name, "--namespace=beckon-system", "--duration=24h"]);
        let token = String::from_utf8(succeeded(token)).expect("a token").trim().to_owned();
        let server = self.server();
        let path = self.dir.join(unique(name)).with_extension("kubeconfig");
        xtask::kubeconfig::write(&path, &server, "default", &[(name, Credential::Token(token))]).expect("a kubeconfig");
        path
    }

    /// The config of a user, to change before a client is made of it.
    pub async fn config(&self, user: &str) -> Config {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("the kubeconfig");
        let options = KubeConfigOptions { context: Some(user.to_owned()), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a context of this user")
    }

    /// The bearer token of one of the six users.
    pub fn token(&self, user: &str) -> String {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("the kubeconfig");
        let named = kubeconfig.auth_infos.into_iter().find(|info| info.name == user).expect("a user");
        let json = serde_json::to_value(named.auth_info.expect("a credential")).expect("JSON");
        json["token"].as_str().expect("a token").to_owned()
    }

    /// Runs `kubectl` as one of the six users.
    pub fn kubectl(&self, user: &str, args: &[&str]) -> Output {
        self.own_kubectl().arg("--context").arg(user).args(args).output().expect("kubectl")
    }

    /// `kubectl` of the administrator, without arguments.
    pub fn kubectl_command(&self) -> Command {
        self.own_kubectl()
    }

    /// A shell with this plane's kubectl and the plugin in its `PATH`; the current user is `admin`.
    pub fn shell(&self, script: &str) -> Command {
        let bin = self.dir.join("bin");
        xtask::files::private_dir(&bin).expect("a directory");
        for (name, file) in [("kubectl", self.programs.file("kubectl")), ("kubectl-attention", env!("CARGO_BIN_EXE_beckon").into())] {
            // Another shell has made it.
            drop(std::os::unix::fs::symlink(file, bin.join(name)));
        }
        let path = [bin.as_os_str(), &std::env::var_os("PATH").unwrap_or_default()].join(OsStr::new(":"));
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.dir.join("kubectl-cache"));
        command
    }

    /// Makes a namespace of a new name.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = unique(prefix);
        let namespace = Namespace { metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() }, ..Namespace::default() };
        Api::all(self.admin().await).create(&PostParams::default(), &namespace).await.expect("a namespace");
        name
    }

    fn server(&self) -> xtask::kubeconfig::Server {
        // Written by xtask, so it is JSON.
        let kubeconfig = std::fs::read(&self.kubeconfig).expect("the kubeconfig");
        xtask::kubeconfig::Server::of(&serde_json::from_slice(&kubeconfig).expect("JSON")).expect("a cluster")
    }

    fn own_kubectl(&self) -> Command {
        let mut command = self.programs.kubectl();
        command.arg("--cache-dir").arg(self.dir.join("kubectl-cache")).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn install(&self, policies: bool) {
        let beckon = Path::new(env!("CARGO_BIN_EXE_beckon"));
        let what = xtask::install::What { policies, users: policies };
        xtask::install::install(beckon, &|| self.own_kubectl(), &what).expect("installing Beckon's kinds, policies and roles");
    }

    /// Whether the API server fills in who writes.
    pub fn stamps(&self) -> bool {
        xtask::install::stamps(&|| self.own_kubectl()).expect("an answer")
    }
}

/// The images of a node: all of them are the built binary. The last two are those of the chart.
const IMAGES: &[&str] = &[
    "beckon-browser",
    concat!("ghcr.io/beckon-dev/beckon:", env!("CARGO_PKG_VERSION")),
    concat!("ghcr.io/beckon-dev/beckon-browser:", env!("CARGO_PKG_VERSION")),
];
/// Nodes that this process has started.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn start_node(plane: &mut local::ControlPlane, dir: &Path) {
    let image = dir.join("image");
    local::make_image(&image, Path::new(env!("CARGO_BIN_EXE_beckon"))).expect("an image");
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Nodes of one machine must not give out the same loopback addresses.
    let range = format!("127.{}.{}.0/20", 64 + std::process::id() % 128, next % 16 * 16);
    let images: Vec<_> = IMAGES.iter().map(|name| ((*name).to_owned(), image.clone())).collect();
    plane.start_node(&dir.join("node"), &dir.join("logs"), &range, &images).expect("a node");
}

/// The standard output of a command that must succeed.
pub fn succeeded(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Directories of test binaries that are gone are removed, since what a static holds is never dropped.
fn sweep_and_make_dir() -> PathBuf {
    let base = std::env::temp_dir().join(format!("beckon-tests-{}", nix::unistd::Uid::current()));
    xtask::files::private_dir(&base).expect("a directory");
    for entry in std::fs::read_dir(&base).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.split('-').next().and_then(|pid| pid.parse::<i32>().ok());
        if pid.is_none_or(|pid| xtask::process::Identity::of(pid).is_none()) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
    let dir = base.join(format!("{}-{}", std::process::id(), unique("plane")));
    xtask::files::private_dir(&dir).expect("a directory");
    dir
}

fn provide_tls() {
    // Another test may have done it.
    drop(rustls::crypto::ring::default_provider().install_default());
}
