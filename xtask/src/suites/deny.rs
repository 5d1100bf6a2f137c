//! cargo-deny: licences, sources, crates that are banned or there twice; and advisories when asked for.

use super::run::Counts;
use crate::cargo;
use crate::failure::{Failure, Result};
use crate::files::{cache_dir, repository};
use crate::process::find_program;
use std::path::PathBuf;
use std::process::Command;

const VERSION: &str = "0.20.2";

/// The database of advisories is on the network, so it is asked when wanted; what can be checked without always is.
pub(super) fn check(advisories: bool, counts: &mut Counts) -> Result<()> {
    let mut command = Command::new(program()?);
    let what: &[&str] = if advisories { &["check"] } else { &["--locked", "check", "bans", "licenses", "sources"] };
    counts.check("cargo deny", command.current_dir(repository()).env("CARGO", cargo::program()).args(what))
}

/// The `cargo-deny` of this machine, else one from the cache, built first if need be.
pub(super) fn program() -> Result<PathBuf> {
    if let Some(found) = find_program("cargo-deny") {
        return Ok(found);
    }
    let root = cache_dir()?.join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        build(&root)?;
    }
    Ok(program)
}

fn build(root: &std::path::Path) -> Result<()> {
    let mut command = cargo::command();
    command.args(["install", "--locked", &format!("cargo-deny@{VERSION}"), "--root"]).arg(root);
    // It runs for a second, so its build had better be quick than good.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env("CARGO_TARGET_DIR", root.join("target"));
    let built = cargo::compile("building cargo-deny: some minutes, once; it is kept in the cache directory", &mut command)?;
    // What it was built from is a hundred times its size.
    drop(std::fs::remove_dir_all(root.join("target")));
    if !built {
        return Err(Failure::new("building cargo-deny failed; what cargo says is above. Or install it yourself: cargo install cargo-deny"));
    }
    Ok(())
}
