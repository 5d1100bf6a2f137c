//! `beckon` processes of a test. Dropping one ends it; when the test binary is killed they are too.

use super::ControlPlane;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::process::{Process, Spec};

/// A port of 127.0.0.1 that nobody uses.
pub fn free_port() -> u16 {
    xtask::ports::free().expect("a free port")
}

/// A running `beckon`.
pub struct Beckon {
    process: Process,
}

impl Beckon {
    /// Starts `beckon ROLE ARGS` as this service account of `beckon-system`.
    pub fn start<S: AsRef<str>>(plane: &ControlPlane, account: &str, role: &str, args: &[S]) -> Self {
        let kubeconfig = plane.account_kubeconfig(account);
        Self::start_with(&kubeconfig, role, args)
    }

    /// The same, telling all that it tells at all.
    pub fn start_telling_all<S: AsRef<str>>(plane: &ControlPlane, account: &str, role: &str, args: &[S]) -> Self {
        Self::start_at("trace", &plane.account_kubeconfig(account), role, args)
    }

    /// Starts `beckon ROLE ARGS` with this kubeconfig.
    pub fn start_with<S: AsRef<str>>(kubeconfig: &Path, role: &str, args: &[S]) -> Self {
        let level = std::env::var("BECKON_LOG").unwrap_or_else(|_| "info".to_owned());
        Self::start_at(&level, kubeconfig, role, args)
    }

    fn start_at<S: AsRef<str>>(level: &str, kubeconfig: &Path, role: &str, args: &[S]) -> Self {
        let log = kubeconfig.with_file_name(super::unique(role)).with_extension("log");
        let spec = Spec::new(role, env!("CARGO_BIN_EXE_beckon"), log)
            .arg(role)
            .args(args.iter().map(AsRef::as_ref))
            .env("KUBECONFIG", kubeconfig)
            .env("BECKON_LOG", level);
        Self { process: Process::start(&spec).expect("beckon") }
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// What it has written.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.process.log).unwrap_or_default()
    }

    /// Where it writes.
    pub fn log_file(&self) -> PathBuf {
        self.process.log.clone()
    }

    /// Fails the test with the end of the log when the process has ended.
    pub fn check(&mut self) {
        self.process.check().expect("a running process");
    }

    /// How it ended, in words; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        self.process.ended()
    }

    /// `SIGKILL`: a crash.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// `SIGTERM`, and waits for the end: an orderly stop. Fails the test when it takes longer than 30 s.
    pub fn terminate(&mut self) {
        self.process.signal(Signal::SIGTERM);
        assert!(self.process.wait(Duration::from_secs(30)), "{} still runs 30 s after SIGTERM", self.process.name);
    }

    /// Sends a signal, such as `SIGSTOP`.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}
