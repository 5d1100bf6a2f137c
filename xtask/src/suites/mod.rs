//! `cargo xtask test`: set-up, then every suite, from fast to real.

mod bench;
mod checks;
mod deny;
mod run;
mod tiers;
mod words;

pub use bench::{BenchArgs, bench};
pub use tiers::Tier;

use crate::chromium;
use crate::cluster_binary::Programs;
use crate::control_plane::{ControlPlane, Options};
use crate::failure::{Context as _, Failure, Result};
use crate::files::private_dir;
use crate::install::{self, What};
use crate::progress::{Step, elapsed, print, say};
use clap::Args;
use run::{Counts, Telling};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Run the suites, from fast to real.
#[derive(Args, Clone, Debug)]
pub struct TestArgs {
    /// Which tiers [default: all]
    #[arg(value_enum, value_name = "TIER")]
    pub tiers: Vec<Tier>,
    /// Only tests whose name contains this; the checks that are no tests are left out
    #[arg(long, short, value_name = "TEXT")]
    pub name: Option<String>,
    /// Also check the crates against the database of advisories, which is fetched from the network
    #[arg(long)]
    pub advisories: bool,
    /// Install and build what the suites need, and run none
    #[arg(long)]
    pub set_up_only: bool,
}

/// Runs the suites and ends with the line `N passed, N failed`. Whether all passed.
pub fn test(args: &TestArgs) -> Result<bool> {
    let started = Instant::now();
    let tiers: Vec<Tier> =
        if args.tiers.is_empty() { Tier::ALL.to_vec() } else { Tier::ALL.iter().copied().filter(|t| args.tiers.contains(t)).collect() };
    let programs = set_up(&tiers)?;
    if args.set_up_only {
        return Ok(true);
    }
    let compiled = run::compile(&tiers)?;
    if !compiled.failed.is_empty() {
        print("0 passed, 1 failed");
        return Ok(false);
    }
    let mut results = Vec::new();
    if tiers.contains(&Tier::Lint) {
        results.extend(lane(&[Tier::Lint], Telling::AtOnce, args, None)?);
    }
    let lanes: Vec<Vec<Tier>> = Tier::LANES
        .iter()
        .map(|lane| lane.iter().copied().filter(|tier| tiers.contains(tier)).collect())
        .filter(|lane: &Vec<Tier>| !lane.is_empty())
        .collect();
    results.extend(side_by_side(&lanes, args, programs.as_ref())?);
    let mut total = Counts::default();
    let mut lines = Vec::new();
    for Ran { tier, counts, took } in results {
        lines.push(format!("{:<12}{:>6} passed {:>4} failed   {}", tier.name(), counts.passed, counts.failed.len(), elapsed(took)));
        total.add(counts);
    }
    say("");
    lines.iter().for_each(say);
    if !total.failed.is_empty() {
        say(format!("\nfailed:\n  {}", total.failed.join("\n  ")));
    }
    say(format!("\nin {}", elapsed(started.elapsed())));
    if let Some(name) = args.name.as_ref().filter(|_| total.passed == 0 && total.failed.is_empty()) {
        return Err(Failure::new(format!("no test's name contains {name:?}")));
    }
    print(format!("{} passed, {} failed", total.passed, total.failed.len()));
    Ok(total.failed.is_empty())
}

/// What came of a tier.
struct Ran {
    tier: Tier,
    counts: Counts,
    took: Duration,
}

/// Runs lanes at the same time. One that breaks off keeps none of the others back.
fn side_by_side(lanes: &[Vec<Tier>], args: &TestArgs, programs: Option<&Programs>) -> Result<Vec<Ran>> {
    if let [tiers] = lanes {
        return lane(tiers, Telling::AtOnce, args, programs);
    }
    let seen = std::thread::scope(|scope| {
        let all: Vec<_> = lanes.iter().map(|tiers| scope.spawn(|| lane(tiers, Telling::Results, args, programs))).collect();
        all.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(Failure::new("a lane of tiers broke off")))).collect::<Vec<_>>()
    });
    seen.into_iter().collect::<Result<Vec<_>>>().map(|lanes| lanes.into_iter().flatten().collect())
}

/// Runs tiers one after another, on a control plane that those share who want one.
fn lane(tiers: &[Tier], telling: Telling, args: &TestArgs, programs: Option<&Programs>) -> Result<Vec<Ran>> {
    let share = |from: usize| tiers.iter().skip(from).any(|tier| tier.shares_control_plane());
    let (mut plane, mut environment) = (None, Vec::new());
    let mut ran = Vec::new();
    for (at, tier) in tiers.iter().copied().enumerate() {
        if let (None, Some(programs), true) = (&plane, programs, tier.shares_control_plane()) {
            let shared = Shared::start(programs)?;
            environment = vec![("BECKON_TEST_KUBECONFIG", shared.plane.kubeconfig.clone().into_os_string())];
            plane = Some(shared);
        }
        if !share(at) {
            drop(plane.take());
        }
        say(format!("\n=== {} ===", tier.name()));
        let began = Instant::now();
        let counts = run::tier(tier, telling, args, &environment)?;
        ran.push(Ran { tier, counts, took: began.elapsed() });
    }
    Ok(ran)
}

/// Installs and builds what these tiers stand on.
fn set_up(tiers: &[Tier]) -> Result<Option<Programs>> {
    if tiers.iter().any(|tier| tier.needs_chromium()) {
        chromium::ensure()?;
    }
    if tiers.contains(&Tier::Lint) {
        deny::program()?;
    }
    if tiers.iter().any(|tier| tier.needs_control_plane()) {
        return Programs::find_or_build().map(Some);
    }
    Ok(None)
}

/// A control plane that suites share, so that each need not wait for one of its own.
struct Shared {
    plane: ControlPlane,
    dir: PathBuf,
}

impl Shared {
    fn start(programs: &Programs) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let step = Step::start(format!("starting control plane {next} for suites that share it"));
        let dir = std::env::temp_dir().join(format!("beckon-test-plane-{}-{next}", std::process::id()));
        private_dir(&dir)?;
        let has = |program| programs.has(program);
        let (controller_manager, scheduler) = (has("kube-controller-manager"), has("kube-scheduler"));
        let options = Options { controller_manager, scheduler, ..Options::default() };
        let plane = ControlPlane::start(&dir, programs, &options).context("the shared control plane")?;
        install::install(&crate::up::beckon(), &|| plane.kubectl([] as [&str; 0]), &What { policies: true, users: true })?;
        step.done();
        Ok(Self { plane, dir })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.plane.stop();
        // What is left in the temporary directory is no reason to fail.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
