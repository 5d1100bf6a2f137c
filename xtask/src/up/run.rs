//! The process of `up`: sets up, starts, looks after everything, and ends it.

use super::args::Plan;
use super::footprint::{self, Footprint};
use super::report;
use super::stack::Stack;
use super::state::State;
use super::worker::Worker;
use super::{demo, forward};
use crate::cargo;
use crate::chromium;
use crate::cluster_binary::Programs;
use crate::failure::{Context as _, Failure, Result};
use crate::files::{private_dir, repository};
use crate::ports;
use crate::process::Identity;
use crate::progress::say;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Tokens of accounts are good for a day.
const RENEW: Duration = Duration::from_hours(8);

/// Does the long steps, Beckon, the control plane, Chromium, and checks what Beckon itself can tell.
pub(super) fn prepare(plan: &Plan) -> Result<()> {
    refuse_foreign(&plan.dir)?;
    plan.agree(&build_beckon()?)?;
    if plan.kubeconfig.is_none() {
        if Programs::find_or_build()?.has("node") {
            chromium::ensure()?;
        }
    } else {
        Programs::for_existing_cluster()?;
    }
    Ok(())
}

/// Builds `beckon` and says where it is. `$BECKON_BINARY` names one that was built already.
pub(super) fn build_beckon() -> Result<PathBuf> {
    if given_beckon().is_none() {
        let mut build = cargo::command();
        build.current_dir(repository()).args(["build", "--package", "beckon", "--bin", "beckon"]);
        if !cargo::compile("building Beckon (cargo build)", &mut build)? {
            return Err(Failure::new("cargo build failed; what it says is above"));
        }
    }
    Ok(beckon())
}

fn given_beckon() -> Option<PathBuf> {
    std::env::var_os("BECKON_BINARY").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where `beckon` is, once it is built.
pub fn beckon() -> PathBuf {
    given_beckon().unwrap_or_else(|| target().join("debug/beckon"))
}

/// Where cargo builds: it has put what runs here into a profile's directory there, or into `deps` of that. Which of its settings chose
/// the directory does not matter then.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let profile = program.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
    profile.and_then(Path::parent).map_or_else(|| repository().join("target"), Path::to_path_buf)
}

/// At the end the directory is removed, so it may not be one with other things.
fn refuse_foreign(dir: &Path) -> Result<()> {
    let only_ours = std::fs::read_dir(dir).map_or(true, |entries| entries.flatten().all(|entry| entry.file_name() == "logs"));
    if only_ours || State::file(dir).is_file() {
        return Ok(());
    }
    Err(Failure::new(format!("{} holds other files and would be removed at the end; give an empty or new --dir", dir.display())))
}

/// Starts everything, says so, and returns when it was told to stop and everything has ended.
pub(super) fn run(plan: &Plan) -> Result<()> {
    refuse_foreign(&plan.dir)?;
    private_dir(&plan.dir)?;
    begin_logs(&plan.dir.join("logs"))?;
    let supervisor = Identity::of(std::process::id().cast_signed()).context("our own process")?;
    State { supervisor, ready: false, processes: Vec::new() }.write(&plan.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().context("the runtime")?;
    let stop = stop_on_signal(&runtime)?;
    let result = serve(plan, &runtime, &stop);
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Also when it could not start: it may have brought half of it.
    let result = match (result, footprint::take_back(&plan.dir)) {
        (Err(error), Err(left)) => Err(Failure::new(format!("{error}\n{left}"))),
        (result, left) => result.and(left),
    };
    if result.is_ok() {
        std::fs::remove_dir_all(&plan.dir).context(format!("removing {}", plan.dir.display()))?;
        say("everything has ended");
    } else {
        // The logs say why; everything else goes.
        forget_all_but_logs(&plan.dir);
    }
    result
}

/// What an earlier run left would be taken for what this one says. `up.log` is begun by who writes it.
fn begin_logs(logs: &Path) -> Result<()> {
    private_dir(logs)?;
    for old in std::fs::read_dir(logs).context(logs.display())?.flatten().filter(|entry| entry.file_name() != "up.log") {
        std::fs::remove_file(old.path()).context(old.path().display())?;
    }
    Ok(())
}

fn serve(plan: &Plan, runtime: &Runtime, stop: &AtomicBool) -> Result<()> {
    let port = plan.port.map_or_else(ports::free, Ok)?;
    let listener = bind(runtime, port)?;
    let site = repository().join("demo/site");
    let demo_port = if site.is_dir() { Some(ports::free()?) } else { None };
    if let Some(port) = demo_port {
        runtime.spawn(demo::serve(bind(runtime, port)?, site));
    }
    let mut stack = Stack::start(plan, &beckon(), port, stop)?;
    runtime.spawn(forward::serve(listener, stack.ready.clone()));
    let addresses = report::Addresses { port, demo_port };
    report::write(&stack, plan, addresses)?;
    // The state says "ready" only now that up.json can be read.
    stack.record(true)?;
    if !super::daemon::is_daemon() {
        report::print_next(&plan.dir, "Ctrl-C ends it.")?;
    }
    let ended = look_after(&mut stack, plan, addresses, stop);
    say("ending everything ...");
    stack.stop();
    ended
}

fn bind(runtime: &Runtime, port: u16) -> Result<TcpListener> {
    runtime.block_on(TcpListener::bind(("127.0.0.1", port))).context(format!("127.0.0.1:{port}"))
}

fn look_after(stack: &mut Stack, plan: &Plan, addresses: report::Addresses, stop: &AtomicBool) -> Result<()> {
    let mut renewed = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        stack.cluster.check()?;
        let mut changed = false;
        for worker in &mut stack.workers {
            changed |= Worker::look(worker)?;
        }
        if changed {
            report::write(stack, plan, addresses)?;
            stack.record(true)?;
        }
        if renewed.elapsed() > RENEW {
            renewed = Instant::now();
            if let Err(error) = stack.renew_tokens() {
                say(format!("note: {error}"));
            }
        }
    }
    Ok(())
}

fn stop_on_signal(runtime: &Runtime) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let _in_runtime = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).context("Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    runtime.spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

fn forget_all_but_logs(dir: &Path) {
    // What `down` needs to try again.
    let needed = [Footprint::file(dir), footprint::admin_kubeconfig(dir), State::file(dir)];
    let tries_again = Footprint::file(dir).is_file();
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name() != "logs" && !(tries_again && needed.contains(&entry.path()))) {
        let path = entry.path();
        drop(if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_begin_anew() {
        let dir = std::env::temp_dir().join(format!("beckon-logs-{}", std::process::id()));
        begin_logs(&dir).unwrap();
        for name in ["up.log", "gateway-0.log"] {
            std::fs::write(dir.join(name), "an error of the run before").unwrap();
        }
        begin_logs(&dir).unwrap();
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["up.log"]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
