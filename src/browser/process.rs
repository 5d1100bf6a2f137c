//! Chromium's processes: the start, the reaping of all that they leave, the end of the whole tree.
//!
//! Everything below this process is reaped here, as process 1 of a container has to: Chromium's orphans come to us.

use crate::runtime::supervision::{self, Parts};
use command_fds::{CommandFdExt as _, FdMapping};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long Chromium may take to end in order, before it is killed.
const ORDERLY: Duration = Duration::from_secs(3);
/// How long the killed tree may take to be gone.
const KILLED: Duration = Duration::from_secs(5);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signalled(Signal),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "it exited with code {code}"),
            Self::Signalled(signal) => write!(f, "it was ended by {signal}"),
        }
    }
}

/// Reaps every child of this process and tells when the watched one has ended.
pub(super) struct Reaper {
    ended: watch::Sender<Option<End>>,
    watched: Mutex<Option<Pid>>,
}

impl Reaper {
    /// Makes this process the one that orphans come to, and reads SIGCHLD until `over`.
    ///
    /// # Errors
    /// When the signal can't be read.
    pub(super) fn start(parts: &mut Parts, over: CancellationToken) -> io::Result<std::sync::Arc<Self>> {
        if let Err(error) = prctl::set_child_subreaper(true) {
            tracing::debug!(%error, "orphans of Chromium go to another process");
        }
        let chld = signal(SignalKind::child())?;
        let reaper = std::sync::Arc::new(Self { ended: watch::Sender::new(None), watched: Mutex::new(None) });
        parts.start("the reaper", reaper.clone().run(chld, over));
        Ok(reaper)
    }

    async fn run(self: std::sync::Arc<Self>, mut chld: SignalStream, over: CancellationToken) -> supervision::End {
        loop {
            tokio::select! {
                () = over.cancelled() => return Ok(()),
                told = chld.recv() => told.ok_or("the system does not tell of ended processes any more")?,
            }
            // The lock is held by a start in progress, so that a child that dies at once is not missed.
            let watched = *self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some((pid, end)) = reap() {
                if watched == Some(pid) {
                    self.ended.send_replace(Some(end));
                }
            }
        }
    }

    /// Starts a process and watches it.
    fn spawn(&self, command: &mut Command) -> io::Result<(Pid, Option<ChildStderr>)> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        *watched = Some(pid);
        self.ended.send_replace(None);
        Ok((pid, child.stderr.take()))
    }
}

/// One ended child, if there is one.
fn reap() -> Option<(Pid, End)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, End::Exited(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => return Some((pid, End::Signalled(signal))),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            Err(Errno::EINTR) | Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// What `Process::start` gives.
pub(super) struct Started {
    /// The process.
    pub process: Process,
    /// What it says by the pipe.
    pub read: OwnedFd,
    /// What is said to it.
    pub write: OwnedFd,
    /// What it complains about.
    pub stderr: Option<ChildStderr>,
}

/// A running Chromium.
pub(super) struct Process {
    pid: Pid,
    ended: watch::Receiver<Option<End>>,
}

impl Process {
    /// Starts Chromium on its debugging pipe, in a process group of its own.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(
        reaper: &Reaper,
        binary: &Path,
        arguments: &[OsString],
        home: &Path,
        environment: &[(&str, String)],
    ) -> io::Result<Started> {
        // Chromium reads commands at descriptor 3 and writes to 4.
        let (commands_read, write) = io::pipe()?;
        let (read, replies_write) = io::pipe()?;
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).current_dir(home);
        command.env("HOME", home).env("XDG_CONFIG_HOME", home.join("config")).env("XDG_CACHE_HOME", home.join("cache"));
        command.env("XDG_RUNTIME_DIR", home);
        for (name, value) in environment {
            command.env(name, value);
        }
        command
            .fd_mappings(vec![
                FdMapping { parent_fd: commands_read.into(), child_fd: 3 },
                FdMapping { parent_fd: replies_write.into(), child_fd: 4 },
            ])
            .map_err(io::Error::other)?;
        let (pid, stderr) = reaper.spawn(&mut command)?;
        let process = Self { pid, ended: reaper.ended.subscribe() };
        Ok(Started { process, read: read.into(), write: write.into(), stderr })
    }

    /// Its process id.
    #[must_use]
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::Exited(-1)),
            // The reaper lives as long as this process does.
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends it in order, then by force, and everything that it started.
    pub(super) async fn stop(&self) {
        if self.ended.borrow().is_none() {
            let _ = kill(self.pid, Signal::SIGTERM);
            if timeout(ORDERLY, self.ended()).await.is_err() {
                tracing::warn!("Chromium did not end in time and is killed");
            }
        }
        self.kill_tree().await;
    }

    /// Kills it and everything that it started.
    pub(super) async fn kill_tree(&self) {
        let _ = killpg(self.pid, Signal::SIGKILL);
        kill_tree().await;
    }
}

/// Kills everything below this process and waits until it is reaped.
pub(super) async fn kill_tree() {
    let deadline = Instant::now() + KILLED;
    loop {
        let left = descendants(std::process::id());
        if left.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Every process below `root`, by the kernel's table.
fn descendants(root: u32) -> Vec<i32> {
    let Ok(root) = i32::try_from(root) else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let parents: Vec<(i32, i32)> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

/// The parent's id in a line of `/proc/<pid>/stat`: the second field after the name, which may hold spaces and brackets.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_behind_any_name() {
        assert_eq!(parent("12 (a) b) S 7 1 1 0"), Some(7));
        assert_eq!(parent("12 (chromium"), None);
    }
}
