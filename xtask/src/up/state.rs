//! What an `up` has started, on disk, so that `down` and `status` find it again.

use crate::failure::{Context as _, Failure, Result};
use crate::files::write_private;
use crate::process::Identity;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// One process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// `etcd`, `gateway-0`.
    pub name: String,
    /// Which process that is.
    pub process: Identity,
    /// For the `beckon` processes: where `/readyz` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_port: Option<u16>,
}

/// The content of `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The process of `up` itself.
    pub supervisor: Identity,
    /// Whether everything was ready once.
    pub ready: bool,
    /// In the order in which they are ended.
    pub processes: Vec<Recorded>,
}

impl State {
    /// The file in the directory of an `up`.
    pub fn file(dir: &Path) -> PathBuf {
        dir.join("state.json")
    }

    /// Reads it; `None` when there is no `up`.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        match fs::read(Self::file(dir)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).context(Self::file(dir).display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(Self::file(dir).display()),
        }
    }

    /// Writes it in one step.
    pub fn write(&self, dir: &Path) -> Result<()> {
        write_private(&Self::file(dir), serde_json::to_string_pretty(self).context("state")?.as_bytes())
    }
}

/// An error when an `up` runs in this directory.
pub(super) fn refuse_running(dir: &Path) -> Result<()> {
    match State::read(dir)? {
        Some(state) if state.supervisor.is_alive() => Err(Failure::new(format!(
            "it is up already, in {} (pid {}); see `cargo xtask status`, end it with `cargo xtask down`, or give another --dir",
            dir.display(),
            state.supervisor.pid
        ))),
        // What a killed `up` left is in the way of the new one.
        Some(_) => super::down(dir),
        None => Ok(()),
    }
}
