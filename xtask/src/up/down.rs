//! `cargo xtask down`.

use super::footprint::{self, Footprint};
use super::state::State;
use crate::failure::{Context as _, Failure, Result};
use crate::progress::say;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

/// How long `up` may take to end everything in order: gateways let running calls end.
const ORDERLY: Duration = Duration::from_secs(90);
/// How much longer it may take to remove from a cluster what it brought there.
const FOREIGN: Duration = Duration::from_mins(4);
/// How long a process of an `up` that was killed may take.
const GRACE: Duration = Duration::from_secs(15);

/// Ends what an `up` in this directory has started, by pid and start time, and removes the directory.
pub fn down(dir: &Path) -> Result<()> {
    let Some(state) = State::read(dir)? else {
        say(format!("nothing is up in {}", dir.display()));
        return Ok(());
    };
    let footprint = Footprint::read(dir)?;
    if state.supervisor.is_alive() {
        say("ending everything ...");
        state.supervisor.signal(Signal::SIGTERM);
        if !state.supervisor.wait(if footprint.is_some() { ORDERLY + FOREIGN } else { ORDERLY }) {
            say("it takes too long; killing it");
            state.supervisor.signal(Signal::SIGKILL);
            state.supervisor.wait(GRACE);
        }
    }
    // Nothing is left of an orderly end. Else: first all that serves, then what it stands on.
    for recorded in &state.processes {
        recorded.process.signal(Signal::SIGTERM);
        if !recorded.process.wait(GRACE) {
            recorded.process.signal_group(Signal::SIGKILL);
            recorded.process.signal(Signal::SIGKILL);
        }
    }
    let left: Vec<_> = state.processes.iter().filter(|one| !one.process.wait(GRACE)).map(|one| one.name.clone()).collect();
    if !left.is_empty() {
        return Err(Failure::new(format!("these processes do not end: {}", left.join(", "))));
    }
    // An orderly end has done it.
    footprint::take_back(dir)?;
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(format!("removing {}", dir.display())),
        _ => {
            let stays = footprint.map(|footprint| footprint.stays()).unwrap_or_default();
            if stays.is_empty() {
                say("down: nothing is left");
            } else {
                say(format!("down: nothing is left but what was in the cluster before, now as in this checkout: {}", stays.join(", ")));
            }
            Ok(())
        }
    }
}
