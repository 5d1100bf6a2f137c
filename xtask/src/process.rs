//! Processes that this one starts and must not leave behind.
//!
//! Each is known by its pid and start time, so that a pid that was given to another since is never signalled; and each ends with
//! the process that started it, even when that is killed.

use crate::failure::{Context as _, Failure, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

/// How to start a process.
#[derive(Clone, Debug)]
pub struct Spec {
    /// For people: `etcd`, `gateway-0`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Added to the environment of this process.
    pub env: Vec<(OsString, OsString)>,
    /// Standard output and error are appended to this file.
    pub log: PathBuf,
    /// What it gets when the process that started it is gone. `SIGKILL` for what keeps nothing, `SIGTERM` for what must clean up.
    pub at_our_end: Signal,
    /// How long it may take to stop after a `SIGTERM`; zero: it is killed at once, since it keeps nothing.
    pub grace: Duration,
}

impl Spec {
    /// A process without arguments yet, that is killed when this one ends.
    pub fn new(name: impl Into<String>, program: impl Into<OsString>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            command: vec![program.into()],
            env: Vec::new(),
            log: log.into(),
            at_our_end: Signal::SIGKILL,
            grace: GRACE,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// A pid with the start time that tells it from a later process of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The pid.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub started: u64,
}

impl Identity {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything; after it come state, ppid, ...
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (state != "Z").then_some(Self { pid, started })
    }

    /// Whether it still runs (a zombie does not).
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Signals the process if it still is the same.
    pub fn signal(self, signal: Signal) {
        if self.is_alive() {
            // It may end right now, which is what a signal is mostly for.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Signals its process group if the process still is the same.
    pub fn signal_group(self, signal: Signal) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(-self.pid), signal);
        }
    }

    /// Whether it has ended by then.
    pub fn wait(self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// A started process. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    /// For people.
    pub name: String,
    /// Where it writes.
    pub log: PathBuf,
    identity: Identity,
    grace: Duration,
    child: Child,
}

/// How long a process that is told to stop may take, unless it says otherwise.
const GRACE: Duration = Duration::from_secs(10);

impl Process {
    /// Starts it in a process group of its own.
    pub fn start(spec: &Spec) -> Result<Self> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&spec.log).context(format!("log {}", spec.log.display()))?;
        let errors = log.try_clone().context(format!("log {}", spec.log.display()))?;
        let Some((program, args)) = spec.command.split_first() else { return Err(Failure::new("a process without a command")) };
        let mut command = match death_signal_helper() {
            Some(helper) => {
                let mut command = Command::new(helper);
                command.arg("--pdeathsig").arg(spec.at_our_end.as_str().trim_start_matches("SIG")).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(args).envs(spec.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child = spawn_from_lasting_thread(command).context(format!("starting {} ({})", spec.name, Path::new(program).display()))?;
        let pid = i32::try_from(child.id()).context("pid")?;
        // It may have ended already; the log says why, and it is told from a later process by an impossible start time.
        let identity = Identity::of(pid).unwrap_or(Identity { pid, started: 0 });
        Ok(Self { name: spec.name.clone(), log: spec.log.clone(), identity, grace: spec.grace, child })
    }

    /// Its pid and start time.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// How it ended, in words; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// An error with the end of its log when it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(how) => Err(Failure::new(format!("{} ended ({how}); the end of {}:\n{}", self.name, self.log.display(), tail(&self.log)))),
        }
    }

    /// Signals the process itself.
    pub fn signal(&self, signal: Signal) {
        self.identity.signal(signal);
    }

    /// Asks it to stop, waits, and kills its process group if it takes too long.
    pub fn stop(&mut self) {
        if self.ended().is_none() && !self.grace.is_zero() {
            self.identity.signal(Signal::SIGTERM);
            self.wait(self.grace);
        }
        self.kill();
    }

    /// Kills its process group at once.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.identity.signal_group(Signal::SIGKILL);
            self.identity.signal(Signal::SIGKILL);
            drop(self.child.wait());
        }
    }

    /// Whether it has ended by then.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        while self.ended().is_none() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last lines of a log.
pub fn tail(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(15)).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The program of util-linux that sets the parent death signal and then becomes the command, so with the same pid.
fn death_signal_helper() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find_program("setpriv")).as_deref()
}

/// A program in the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// The parent death signal comes when the *thread* that started a process ends, and a test's thread ends with the test. So one
/// thread that never ends starts them all.
fn spawn_from_lasting_thread(command: Command) -> std::io::Result<Child> {
    type Job = (Command, mpsc::SyncSender<std::io::Result<Child>>);
    static STARTER: OnceLock<mpsc::SyncSender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (jobs, inbox) = mpsc::sync_channel::<Job>(16);
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                drop(reply.send(command.spawn()));
            }
        });
        jobs
    });
    let (reply, answer) = mpsc::sync_channel(1);
    let gone = || std::io::Error::other("the starting thread is gone");
    starter.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
