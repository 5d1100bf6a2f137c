//! `up --detach`: the same program again in a session of its own, and the wait until it is ready.

use super::args::{Plan, UpArgs};
use super::report::{self, quoted};
use super::state::State;
use crate::failure::{Context as _, Failure, Result};
use crate::files::private_dir;
use crate::process::tail;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Whether this process is the one behind `--detach`.
pub(super) fn is_daemon() -> bool {
    std::env::args_os().any(|arg| arg == "--daemon")
}

/// Starts it, shows what it says, and returns when it is ready.
pub(super) fn start(args: &UpArgs, plan: &Plan) -> Result<()> {
    let logs = plan.dir.join("logs");
    private_dir(&plan.dir)?;
    private_dir(&logs)?;
    let path = logs.join("up.log");
    let log = File::create(&path).context(path.display())?;
    let errors = log.try_clone().context(path.display())?;
    let program = std::env::current_exe().context("our own program")?;
    let mut command = Command::new(program);
    command.arg("up").arg("--daemon").arg("--namespace").arg(&plan.namespace).arg("--dir").arg(&plan.dir);
    command.args(args.set.iter().flat_map(|pair| ["--set", pair]));
    if let Some(port) = plan.port {
        command.arg("--port").arg(port.to_string());
    }
    if let Some(file) = &plan.kubeconfig {
        command.arg("--kubeconfig").arg(file);
    }
    if let Some(image) = &plan.browser_image {
        command.arg("--browser-image").arg(image);
    }
    let mut child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().context("starting the process behind --detach")?;
    let pid = i32::try_from(child.id()).context("pid")?;
    let mut said = File::open(&path).context(path.display())?;
    loop {
        let mut text = Vec::new();
        if said.read_to_end(&mut text).is_ok() {
            drop(std::io::stderr().write_all(&text));
        }
        if State::read(&plan.dir)?.is_some_and(|state| state.ready && state.supervisor.pid == pid && plan.dir.join("up.json").is_file()) {
            let down = args.dir.dir.as_ref().map_or_else(String::new, |dir| format!(" --dir {}", quoted(dir)));
            return report::print_next(&plan.dir, &format!("`cargo xtask down{down}` ends it."));
        }
        if let Some(status) = child.try_wait().context("waiting")? {
            // Its last words were shown above, unless it could not say them.
            let words = if tail(&path).is_empty() { format!(" ({status})") } else { String::new() };
            return Err(Failure::new(format!("it could not start{words}; the logs are in {}", logs.display())));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
