//! `cargo xtask bench`: measures what is claimed about time.

use super::run::{lines, test_command};
use super::{Tier, run, set_up};
use crate::failure::{Failure, Result};
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
    let (mut taken, mut measured) = (true, 0);
    for target in TIERS.iter().map(|tier| tier.targets()).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let mut command = test_command();
        command.args(["--quiet", "--test", &target, args.name.as_deref().unwrap_or("timing::")]);
        command.args(["--", "--ignored", "--nocapture", "--test-threads=1"]);
        let mut rest = Vec::new();
        let status = lines(&mut command, |line| {
            // The dots are those of the tests that have passed.
            let line = line.trim_start_matches('.');
            if line.contains(": p50 ") {
                print(line);
                measured += 1;
            } else {
                rest.push(line.to_owned());
            }
        })?;
        if !status.success() {
            rest.iter().for_each(say);
            taken = false;
        }
    }
    if taken && measured == 0 {
        return Err(Failure::new("there is no measurement of that name; without a name all are taken"));
    }
    Ok(taken)
}
