//! The checks that are no tests: format, lints, documentation, licences.

use super::run::Counts;
use super::{TestArgs, deny};
use crate::cargo;
use crate::failure::Result;
use crate::files::repository;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Runs them all; a failing one keeps none of the others back.
pub(super) fn lint(args: &TestArgs) -> Result<Counts> {
    let mut counts = Counts::default();
    let run = |args: &[&str]| {
        let mut command = cargo::command();
        command.current_dir(repository()).args(args);
        command
    };
    counts.check("cargo fmt --check", &mut run(&["fmt", "--all", "--check"]))?;
    counts.compile("cargo clippy", &mut run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = run(&["doc", "--workspace", "--no-deps"]);
    counts.compile("cargo doc", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    deny::check(args.advisories, &mut counts)?;
    Ok(counts)
}

/// `go vet` and the tests of a Go module, counted one by one.
pub(super) fn go_module(module: &str, args: &TestArgs, show: &mut dyn FnMut(&str)) -> Result<Counts> {
    let mut counts = Counts::default();
    let dir = repository().join(module);
    let go = |args: &[OsString]| {
        let mut command = Command::new("go");
        command.current_dir(&dir).env("CGO_ENABLED", "0").args(args);
        command
    };
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    // With the flag of the build, whose compiled packages are then used again.
    if args.name.is_none() {
        // Vetting the root package would vet all of Kubernetes below it, which takes ten minutes from nothing.
        counts.check("go vet", &mut go(&words(&["vet", "-trimpath", "./internal/..."])))?;
    }
    let mut test = words(&["test", "-trimpath", "-v", "./internal/..."]);
    if let Some(name) = &args.name {
        test.extend(words(&["-run", name]));
    }
    counts.go_test(&mut go(&test), show)?;
    Ok(counts)
}

/// Whether this Go module is there.
pub(super) fn has_module(module: &str) -> bool {
    let file: PathBuf = repository().join(module).join("go.mod");
    file.is_file()
}
