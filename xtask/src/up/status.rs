//! `cargo xtask status`.

use super::state::State;
use super::worker::readiness;
use crate::control_plane::output;
use crate::failure::Result;
use crate::http::PATIENCE;
use std::path::Path;
use std::process::Command;

/// What is missing, one line each; empty when everything is ready.
pub fn status(dir: &Path) -> Result<Vec<String>> {
    let Some(state) = State::read(dir)? else {
        return Ok(vec![format!("not up in {}; start it with `cargo xtask up`", dir.display())]);
    };
    if !state.supervisor.is_alive() {
        return Ok(vec!["`up` was killed; clean up with `cargo xtask down`".to_owned()]);
    }
    if !state.ready {
        return Ok(vec!["still starting".to_owned()]);
    }
    let mut missing = Vec::new();
    for recorded in &state.processes {
        let found = match recorded.admin_port {
            _ if !recorded.process.is_alive() => Err(format!("{}: not running", recorded.name)),
            Some(port) => readiness(&recorded.name, port, PATIENCE),
            None => Ok(()),
        };
        missing.extend(found.err());
    }
    let mut kubectl = Command::new(dir.join("bin/kubectl"));
    kubectl.arg("--kubeconfig").arg(dir.join("kubeconfig")).args(["--context=admin", "--request-timeout=5s", "get", "--raw", "/readyz"]);
    if let Err(error) = output(&mut kubectl) {
        missing.push(format!("API server: {error}"));
    }
    Ok(missing)
}
