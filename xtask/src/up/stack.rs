//! Everything that an `up` runs: the cluster, two controllers and two gateways.

use super::args::Plan;
use super::cluster::{Cluster, IMAGE};
use super::forward::Ready;
use super::state::State;
use super::worker::{self, Kind, Worker};
use crate::failure::{Context as _, Failure, Result};
use crate::files::{private_dir, write_private};
use crate::ports;
use crate::process::{Identity, Spec};
use crate::progress::{Step, say};
use crate::settings::Role;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many of each role, so that losing one can be seen.
const REPLICAS: usize = 2;
/// How long everything may take to become ready on a busy machine.
const START: Duration = Duration::from_mins(4);
/// How long a gateway may take to answer whether it is ready before it gets no more connections.
const PATIENCE: Duration = Duration::from_secs(1);
/// A gateway lets running calls end before it does.
const GRACE: Duration = Duration::from_secs(30);

/// What runs.
pub(super) struct Stack {
    /// The controllers and gateways.
    pub workers: Vec<Worker>,
    /// Where the API server is.
    pub cluster: Cluster,
    /// The gateways that get connections.
    pub ready: Ready,
    dir: PathBuf,
    watchers: Vec<JoinHandle<()>>,
    watchers_stop: Arc<AtomicBool>,
}

impl Stack {
    /// Starts everything; gateways answer under `port` too.
    pub(super) fn start(plan: &Plan, beckon: &Path, port: u16, stop: &AtomicBool) -> Result<Self> {
        let step = Step::start(if plan.kubeconfig.is_some() { "preparing the cluster" } else { "starting the control plane" });
        let cluster = Cluster::start(plan, beckon)?;
        step.done();
        let mut stack = Self {
            workers: Vec::new(),
            cluster,
            ready: Ready::default(),
            dir: plan.dir.clone(),
            watchers: Vec::new(),
            watchers_stop: Arc::new(AtomicBool::new(false)),
        };
        stack.record(false)?;
        stack.lay_out(plan, beckon)?;
        stack.renew_tokens()?;
        let image = plan.browser_image.clone().unwrap_or_else(|| IMAGE.to_owned());
        if plan.kubeconfig.is_some() && plan.browser_image.is_none() {
            say(format!("note: the cluster's nodes need the image {IMAGE}; name another with --browser-image"));
        }
        for index in 0..REPLICAS {
            let controller = [format!("--browser-image={image}")];
            stack.start_worker(Kind::Controller, index, 0, controller.into_iter().chain(plan.flags(Role::Controller)))?;
        }
        for index in 0..REPLICAS {
            let own = ports::free()?;
            let gateway = [
                format!("--listen=127.0.0.1:{own}"),
                format!("--namespace={}", plan.namespace),
                format!("--public-url=http://127.0.0.1:{port}"),
                format!("--allowed-origin=http://127.0.0.1:{own}"),
            ];
            stack.start_worker(Kind::Gateway, index, own, gateway.into_iter().chain(plan.flags(Role::Gateway)))?;
        }
        stack.record(false)?;
        stack.watch_gateways();
        stack.wait_ready(stop)?;
        stack.record(true)?;
        Ok(stack)
    }

    fn start_worker(&mut self, kind: Kind, index: usize, port: u16, flags: impl Iterator<Item = String>) -> Result<()> {
        let (role, account) = match kind {
            Kind::Controller => ("controller", "beckon-controller"),
            Kind::Gateway => ("gateway", "beckon-gateway"),
        };
        let admin_port = ports::free()?;
        let name = format!("{role}-{index}");
        let log = self.dir.join("logs").join(format!("{name}.log"));
        let mut spec = Spec::new(name, self.dir.join("bin/beckon"), log)
            .arg(role)
            .arg(format!("--admin-listen=127.0.0.1:{admin_port}"))
            .args(flags)
            .env("KUBECONFIG", self.dir.join("accounts").join(account));
        spec.grace = GRACE;
        self.workers.push(Worker::start(kind, admin_port, port, spec)?);
        Ok(())
    }

    /// The files that people and processes are pointed to.
    fn lay_out(&self, plan: &Plan, beckon: &Path) -> Result<()> {
        let bin = self.dir.join("bin");
        private_dir(&bin)?;
        // A copy, so that building Beckon again changes nothing under what runs.
        std::fs::copy(beckon, bin.join("beckon")).context("copying beckon")?;
        symlink("beckon", bin.join("kubectl-attention")).context("bin/kubectl-attention")?;
        symlink(self.cluster.kubectl_file(), bin.join("kubectl")).context("bin/kubectl")?;
        private_dir(&self.dir.join("accounts"))?;
        for account in ["beckon-controller", "beckon-gateway"] {
            let path = self.dir.join("accounts").join(account);
            self.cluster.write_account_kubeconfig(&path, account, &path.with_extension("token"))?;
        }
        self.cluster.write_kubeconfig(&self.dir.join("kubeconfig"), &plan.namespace)
    }

    /// New tokens for the accounts, where their processes read them again.
    pub(super) fn renew_tokens(&self) -> Result<()> {
        for account in ["beckon-controller", "beckon-gateway"] {
            let token = self.cluster.token(account, "beckon-system")?;
            write_private(&self.dir.join("accounts").join(account).with_extension("token"), token.as_bytes())?;
        }
        Ok(())
    }

    /// Writes down what runs.
    pub(super) fn record(&self, ready: bool) -> Result<()> {
        let supervisor = Identity::of(std::process::id().cast_signed()).context("our own process")?;
        let mut processes: Vec<_> = self.workers.iter().map(Worker::recorded).collect();
        processes.extend(self.cluster.recorded());
        State { supervisor, ready, processes }.write(&self.dir)
    }

    /// One thread per gateway asks whether it is ready, so that one that hangs holds nobody up.
    fn watch_gateways(&mut self) {
        let gateways: Vec<(u16, u16)> =
            self.workers.iter().filter(|worker| worker.kind == Kind::Gateway).map(|worker| (worker.port, worker.admin_port)).collect();
        let up: Arc<Vec<(u16, AtomicBool)>> = Arc::new(gateways.iter().map(|(port, _)| (*port, AtomicBool::new(false))).collect());
        for (index, (_, admin_port)) in gateways.into_iter().enumerate() {
            let (up, ready, stop) = (Arc::clone(&up), self.ready.clone(), Arc::clone(&self.watchers_stop));
            self.watchers.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Some((_, mine)) = up.get(index) {
                        mine.store(worker::readiness("", admin_port, PATIENCE).is_ok(), Ordering::Relaxed);
                    }
                    ready.set(up.iter().filter(|(_, up)| up.load(Ordering::Relaxed)).map(|(port, _)| *port).collect());
                    std::thread::sleep(Duration::from_millis(300));
                }
            }));
        }
    }

    fn wait_ready(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut step = Step::start("waiting until everything is ready");
        let deadline = Instant::now() + START;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new("stopped before everything was ready"));
            }
            self.cluster.check()?;
            self.workers.iter_mut().try_for_each(Worker::check)?;
            let missing = self.missing();
            if missing.is_empty() {
                step.done();
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("not ready after {} s:\n{}", START.as_secs(), missing.join("\n"))));
            }
            step.at(|| missing.join(", "));
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn missing(&self) -> Vec<String> {
        let missing: Vec<String> = self.workers.iter().filter_map(|worker| worker.ready().err()).collect();
        // Last, since asking by kubectl takes the processor from those that are still to start.
        if missing.is_empty() { self.cluster.node_ready().err().into_iter().collect() } else { missing }
    }

    /// Ends everything: first what serves, then the pods, then the API server.
    pub(super) fn stop(&mut self) {
        self.watchers_stop.store(true, Ordering::Relaxed);
        self.workers.iter().for_each(Worker::ask_to_stop);
        self.workers.iter_mut().for_each(Worker::stop);
        self.cluster.stop();
        for watcher in self.watchers.drain(..) {
            // It only asks and sets; a panic of it changes nothing here.
            drop(watcher.join());
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.stop();
    }
}
