//! The start of Chromium, up to the first page.

use super::args::BrowserArgs;
use super::cdp::{Cdp, CdpError};
use super::command_line;
use super::driver::Version;
use super::process::{End, Process, Reaper, Started};
use super::sandbox::{Sandbox, complaint};
use super::tabs::Tabs;
use crate::runtime::supervision::{End as PartEnd, Parts};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long Chromium may take to answer after its start, on a machine that is busy.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How long the tab that Chromium starts with may take to be there.
const FIRST_TAB: Duration = Duration::from_secs(15);
/// How long the rest of what it complained about may take, once it has ended.
const LAST_COMPLAINTS: Duration = Duration::from_millis(500);
/// How much of what it complains about is kept, in bytes.
const KEPT: usize = 16 << 10;
/// A longer line is taken as two, in bytes.
const LONGEST_LINE: u64 = 4 << 10;

/// Why there is no browser.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    /// There is no binary, or no directory for the profile.
    #[error("{0}")]
    Setup(String),
    /// It can't be sandboxed, and nothing else was allowed.
    #[error(
        "Chromium can't start its sandbox: {0}. Give the pod the seccomp profile of the chart, name a runtime class and --sandbox-tier Runtime, or allow it with --allow-no-sandbox"
    )]
    Sandbox(&'static str),
    /// It ended or did not answer.
    #[error("Chromium did not start: {0}")]
    Start(String),
}

/// A Chromium that answers.
pub(super) struct Launched {
    /// Its processes.
    pub process: Process,
    /// The connection.
    pub cdp: Cdp,
    /// Its tabs.
    pub tabs: Arc<Tabs>,
    /// What isolates it.
    pub sandbox: Sandbox,
    /// Its product string.
    pub product: String,
    /// What keeps the connection. It ends when it is told to, and not with Chromium.
    pub parts: Parts,
}

/// The browser's home: profile, caches and sockets, in the pod's scratch space.
pub(super) struct Home(PathBuf);

impl Home {
    /// A fresh directory in `$TMPDIR`, else `/tmp`.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn make() -> Result<Self, LaunchError> {
        let path = std::env::temp_dir().join(format!("beckon-browser-{}", std::process::id()));
        let preferences = path.join("profile/Default");
        let made = std::fs::create_dir_all(&preferences)
            .and_then(|()| std::fs::write(preferences.join("Preferences"), command_line::preferences().to_string()));
        made.map_err(|error| LaunchError::Setup(format!("{}: {error}; TMPDIR must name a directory that can be written", path.display())))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "the browser's home was not removed");
        }
    }
}

/// Starts Chromium, with its own sandbox if the platform lets it.
///
/// # Errors
/// See [`LaunchError`].
pub(super) async fn launch(args: &BrowserArgs, reaper: &Reaper, home: &Home, over: &CancellationToken) -> Result<Launched, LaunchError> {
    let binary = command_line::locate(args).map_err(|error| LaunchError::Setup(error.to_string()))?;
    let why = match attempt(args, reaper, home, &binary, Sandbox::native(), over).await {
        Ok(launched) => return Ok(launched),
        Err(failed) => match complaint(&failed.stderr) {
            Some(why) => why,
            None => return Err(LaunchError::Start(failed.what)),
        },
    };
    let Some(instead) = Sandbox::instead(args, why) else { return Err(LaunchError::Sandbox(why)) };
    tracing::warn!(why, tier = instead.tier, "Chromium starts without its own sandbox");
    attempt(args, reaper, home, &binary, instead, over).await.map_err(|failed| LaunchError::Start(failed.what))
}

struct Failed {
    what: String,
    stderr: String,
}

async fn attempt(
    args: &BrowserArgs,
    reaper: &Reaper,
    home: &Home,
    binary: &Path,
    sandbox: Sandbox,
    over: &CancellationToken,
) -> Result<Launched, Failed> {
    let complaints = Arc::new(Complaints::default());
    let failed = |what: String| Failed { what, stderr: complaints.text().clone() };
    let arguments = command_line::arguments(args, &home.path().join("profile"), sandbox.tier == "Native");
    let environment = environment(args);
    let started = Process::start(reaper, binary, &arguments, home.path(), &environment);
    let Started { process, read, write, stderr } = started.map_err(|error| failed(format!("{}: {error}", binary.display())))?;
    // Dropped with the attempt, if it fails.
    let mut parts = Parts::default();
    if let Some(stderr) = stderr {
        parts.start("the ear for Chromium's complaints", listen(stderr.into(), complaints.clone(), over.clone()));
    }
    let tabs = Arc::new(Tabs::new(args.viewport()));
    let connected = Cdp::start(read, write, tabs.clone(), &mut parts, over);
    let cdp = connected.map_err(|error| failed(format!("its debugging pipe failed: {error}")))?;
    let (kept, end) = (tabs.clone(), over.clone());
    parts.start("the keeper of tabs", async move {
        kept.keep(end).await;
        Ok(())
    });
    let ready = tokio::select! {
        ready = timeout(START_LIMIT, set_up(&cdp, &tabs)) => ready.map_err(|_| format!("it did not answer within {} s", START_LIMIT.as_secs())),
        end = process.ended() => Err(end.to_string()),
        ended = parts.ended() => Err(format!("{} failed: {}", ended.name, ended.why)),
    };
    let problem = match ready {
        Ok(Ok(product)) => {
            return Ok(Launched { process, cdp, tabs, sandbox, product, parts });
        }
        Ok(Err(CdpError::Closed)) => ended(&process).await,
        Ok(Err(error)) => error.to_string(),
        Err(problem) => problem,
    };
    process.kill_tree().await;
    // What it said last is read to the end, but a process that inherited the descriptor holds nobody up.
    drop(timeout(LAST_COMPLAINTS, complaints.ended.cancelled()).await);
    Err(failed(problem))
}

/// How it ended, once its pipe has closed.
pub(super) async fn ended(process: &Process) -> String {
    match timeout(Duration::from_secs(1), process.ended()).await {
        Ok(end) => told(end),
        Err(_) => "it closed its debugging pipe".to_owned(),
    }
}

async fn set_up(cdp: &Cdp, tabs: &Arc<Tabs>) -> Result<String, CdpError> {
    // The first answer takes as long as the start does, which the caller bounds.
    let version: Version = cdp.call_within(START_LIMIT, "Browser.getVersion", json!({})).await?;
    Tabs::watch(cdp).await?;
    let mut active = tabs.active.subscribe();
    if timeout(FIRST_TAB, active.wait_for(Option::is_some)).await.is_err() {
        cdp.call::<Value>("Target.createTarget", json!({ "url": "about:blank" })).await?;
        drop(timeout(FIRST_TAB, active.wait_for(Option::is_some)).await);
    }
    let first = tabs.active_tab();
    if let Some(first) = first {
        first.begun().await;
    }
    Ok(version.product)
}

fn environment(args: &BrowserArgs) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(zone) = &args.timezone {
        all.push(("TZ", zone.clone()));
    }
    if args.locale.is_none() {
        // Without it the browser can't name a file with a letter beyond ASCII.
        all.push(("LANG", "C.UTF-8".to_owned()));
    }
    if let Some(locale) = &args.locale {
        all.push(("LANGUAGE", locale.replace('-', "_")));
        all.push(("LANG", format!("{}.UTF-8", locale.replace('-', "_"))));
    }
    all
}

/// What Chromium complained about when it started.
#[derive(Default)]
struct Complaints {
    text: Mutex<String>,
    /// Nothing more comes.
    ended: CancellationToken,
}

impl Complaints {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what Chromium complains about: where it does is told at `debug`, and the start of it is kept for [`complaint`]. What it
/// says may be a page's words.
async fn listen(stderr: OwnedFd, complaints: Arc<Complaints>, over: CancellationToken) -> PartEnd {
    let mut stderr = BufReader::new(Receiver::from_owned_fd(stderr).map_err(|error| error.to_string())?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = (&mut stderr).take(LONGEST_LINE);
        let read = tokio::select! {
            () = over.cancelled() => return Ok(()),
            read = part.read_until(b'\n', &mut line) => read,
        };
        if !read.is_ok_and(|read| read > 0) {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(place) = place(&line) {
            tracing::debug!(place, "Chromium complains");
        }
        let mut kept = complaints.text();
        if kept.len() + line.len() < KEPT {
            kept.push_str(&line);
        }
    }
    complaints.ended.cancel();
    over.cancelled().await;
    Ok(())
}

/// The level and the source file of a line such as `[12:34:1130/120000.123:ERROR:dbus/bus.cc:405] Failed to ...`.
fn place(line: &str) -> Option<&str> {
    let head = line.strip_prefix('[')?.split(']').next()?;
    let (at, level) = ["WARNING:", "ERROR:", "FATAL:"].iter().find_map(|level| Some((head.find(level)?, level)))?;
    let file = head.get(at + level.len()..)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_/.:()".contains(&byte);
    (file.contains(".cc") && file.len() <= 100 && file.bytes().all(plain)).then(|| head.get(at..)).flatten()
}

/// How a Chromium ended, for a person.
#[must_use]
pub(super) fn told(end: End) -> String {
    if matches!(end, End::Signalled(nix::sys::signal::Signal::SIGKILL)) {
        return format!("{end}; the kernel does that when memory runs out: see the pod's memory limit");
    }
    end.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_told_without_its_words() {
        let told = place("[12:34:1130/120000.1:ERROR:dbus/bus.cc:405] Failed to connect to secret");
        assert_eq!(told, Some("ERROR:dbus/bus.cc:405"));
        assert_eq!(place("[1130/172317.6:FATAL:sandbox/linux/x.cc(12)] No usable sandbox!"), Some("FATAL:sandbox/linux/x.cc(12)"));
        for words in [
            "[1130/172317.636549:INFO:CONSOLE:10] \"secret\", source: http://a.example/?q=secret (10)",
            "secret",
            "[ERROR:my secret] x",
            "[ERROR:secret] x",
            "ERROR:a.cc:1",
        ] {
            assert_eq!(place(words), None, "{words}");
        }
    }
}
