//! The whole product, as `cargo xtask up` starts it.

use super::unique;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use xtask::process::{Process, Spec};

/// How long it may take to be ready on a busy machine.
const START: Duration = Duration::from_mins(5);

/// A running `up` of a directory of its own. Dropping it ends it; so does the end of the test binary.
pub struct Up {
    dir: PathBuf,
    process: Process,
}

impl Up {
    /// Starts it with these settings, `attention.minWaitSeconds=0` for example, and returns when it is ready. Blocks.
    pub fn start(settings: &[&str]) -> Self {
        let base = std::env::temp_dir().join(format!("beckon-up-{}", nix::unistd::Uid::current()));
        xtask::files::private_dir(&base).expect("a directory");
        let name = unique("up");
        let dir = base.join(&name);
        // Kept, unlike the directory.
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("log");
        let mut spec = Spec::new("cargo xtask up", xtask(), &log)
            .arg("up")
            .arg("--dir")
            .arg(&dir)
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .env("BECKON_BINARY", env!("CARGO_BIN_EXE_beckon"));
        // It has processes of its own to end.
        spec.at_our_end = Signal::SIGTERM;
        spec.grace = Duration::from_secs(90);
        let mut up = Self { process: Process::start(&spec).expect("cargo xtask up"), dir };
        let deadline = Instant::now() + START;
        while !up.dir.join("up.json").is_file() || !up.is_ready() {
            up.process.check().expect("a running `up`");
            assert!(Instant::now() < deadline, "not up in time:\n{}", xtask::process::tail(&log));
            std::thread::sleep(Duration::from_millis(200));
        }
        up
    }

    fn is_ready(&self) -> bool {
        xtask::up::State::read(&self.dir).is_ok_and(|state| state.is_some_and(|state| state.ready))
    }

    /// `up.json` as it is now: pids change when a process is started again.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir.join("up.json")).expect("up.json")).expect("JSON")
    }

    /// A text of `up.json`: `mcpURL`, `agentToken`.
    pub fn text(&self, key: &str) -> String {
        self.json()[key].as_str().unwrap_or_else(|| panic!("up.json has no {key}")).to_owned()
    }

    /// The pids of a role: `gateway`, `controller`.
    pub fn pids(&self, role: &str) -> Vec<i32> {
        serde_json::from_value(self.json()["processes"][role].clone()).expect("pids")
    }

    /// Runs the `kubectl` of `up.json` in one of its contexts.
    pub fn kubectl(&self, context: &str, args: &[&str]) -> Output {
        let mut command = Command::new(self.text("kubectl"));
        command.arg("--kubeconfig").arg(self.text("kubeconfig")).arg("--context").arg(context).args(args).output().expect("kubectl")
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        PathBuf::from(self.text("kubeconfig"))
    }

    /// The directory with `up.json` and `logs/`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log of a process, such as `gateway-0`.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join("logs").join(name).with_extension("log")).unwrap_or_default()
    }
}

/// The program behind `cargo xtask`: that of `cargo xtask test`, else built now.
pub fn xtask() -> PathBuf {
    if let Some(program) = std::env::var_os("BECKON_XTASK") {
        return PathBuf::from(program);
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = xtask::cargo::command().current_dir(repository).args(["build", "--quiet", "--package", "xtask"]).status();
    assert!(built.expect("cargo build").success(), "cargo build --package xtask failed");
    Path::new(env!("CARGO_BIN_EXE_beckon")).with_file_name("xtask")
}
