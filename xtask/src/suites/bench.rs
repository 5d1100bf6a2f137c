//! `cargo xtask bench`: measures what is claimed about time.

use super::run::lines;
use super::{Tier, run, set_up};
use crate::cargo;
use crate::failure::Result;
use crate::files::repository;
use crate::progress::{print, say};
use clap::Args;

/// The tiers with measurements: tests of a module `timing` that are ignored otherwise.
const TIERS: &[Tier] = &[Tier::Browser, Tier::Dashboard];

/// Measure how long things take, and print it; no number fails
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Only measurements whose name contains this
    pub name: Option<String>,
}

/// Runs the measurements one after another. Whether all could be taken.
pub fn bench(args: &BenchArgs) -> Result<bool> {
    set_up(TIERS)?;
    if !run::compile(TIERS)?.failed.is_empty() {
        return Ok(false);
    }
    say("measuring, with a debug build: what else runs on this machine is measured too ...");
    let mut taken = true;
    for target in TIERS.iter().map(|tier| tier.targets()).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let mut command = cargo::command();
        let name = args.name.as_deref().unwrap_or("timing::");
        command.current_dir(repository()).args(["test", "--quiet", "--test", &target, name]);
        command.args(["--", "--ignored", "--nocapture", "--test-threads=1"]);
        if let Ok(program) = std::env::current_exe() {
            command.env("BECKON_XTASK", program);
        }
        let mut rest = Vec::new();
        let status = lines(&mut command, |line| {
            // The dots are those of the tests that have passed.
            let line = line.trim_start_matches('.');
            if line.contains(": p50 ") { print(line) } else { rest.push(line.to_owned()) }
        })?;
        if !status.success() {
            rest.iter().for_each(say);
            taken = false;
        }
    }
    Ok(taken)
}
