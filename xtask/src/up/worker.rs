//! A `beckon` process that is started again when it ends, as a Deployment would.

use super::state::Recorded;
use crate::failure::Result;
use crate::http;
use crate::process::{Process, Spec};
use crate::progress::say;
use std::time::{Duration, Instant};

/// The first wait before a restart; it doubles with each.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait before a restart.
const LONGEST: Duration = Duration::from_secs(30);
/// One that ran for this long starts again from the first wait.
const STEADY: Duration = Duration::from_mins(1);

/// Which role a worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `beckon controller`.
    Controller,
    /// `beckon gateway`.
    Gateway,
}

/// One `beckon` process.
#[derive(Debug)]
pub(super) struct Worker {
    /// Its role.
    pub kind: Kind,
    /// The port of `/readyz` and `/metrics`.
    pub admin_port: u16,
    /// The port that it serves; of no meaning for a controller.
    pub port: u16,
    spec: Spec,
    process: Process,
    started: Instant,
    wait: Duration,
    restart_at: Option<Instant>,
}

impl Worker {
    /// Starts it.
    pub(super) fn start(kind: Kind, admin_port: u16, port: u16, spec: Spec) -> Result<Self> {
        let process = Process::start(&spec)?;
        Ok(Self { kind, admin_port, port, spec, process, started: Instant::now(), wait: FIRST, restart_at: None })
    }

    /// Its pid now, or the one before a restart.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Whether `/readyz` says yes, or why not.
    pub(super) fn ready(&self) -> std::result::Result<(), String> {
        readiness(&self.spec.name, self.admin_port, http::PATIENCE)
    }

    /// An error with the end of its log when it has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Starts it again if it has ended and has waited for long enough. Whether its pid has changed.
    pub(super) fn look(&mut self) -> Result<bool> {
        let Some(how) = self.process.ended() else { return Ok(false) };
        let now = Instant::now();
        let Some(at) = self.restart_at else {
            if self.started.elapsed() > STEADY {
                self.wait = FIRST;
            }
            say(format!("{} ended ({how}); it is started again in {} s", self.spec.name, self.wait.as_secs()));
            self.restart_at = Some(now + self.wait);
            self.wait = LONGEST.min(self.wait * 2);
            return Ok(false);
        };
        if now < at {
            return Ok(false);
        }
        self.process = Process::start(&self.spec)?;
        self.started = now;
        self.restart_at = None;
        Ok(true)
    }

    /// For the state file.
    pub(super) fn recorded(&self) -> Recorded {
        Recorded { name: self.spec.name.clone(), process: self.process.identity(), admin_port: Some(self.admin_port) }
    }

    /// Asks it to stop; [`Worker::stop`] waits.
    pub(super) fn ask_to_stop(&self) {
        self.process.signal(nix::sys::signal::Signal::SIGTERM);
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        self.process.stop();
    }
}

/// Whether the `beckon` process behind this admin port is ready, or why not.
pub(super) fn readiness(name: &str, admin_port: u16, patience: Duration) -> std::result::Result<(), String> {
    match http::get(admin_port, "/readyz", patience) {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(format!("{name}: {}", answer.body.trim().replace('\n', "; "))),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
