//! Runs a tier and counts.

use super::TestArgs;
use super::checks;
use super::tiers::Tier;
use super::words::LastWords;
use crate::cargo;
use crate::failure::{Context as _, Failure, Result};
use crate::files::repository;
use crate::progress::{print, say};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// The Go modules with tests of their own.
const GO_MODULES: &[&str] = &["tests/cluster"];

/// How many passed, and the names of those that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Tests and checks that passed.
    pub passed: usize,
    /// Those that did not; below the name of a test is what it said.
    pub failed: Vec<String>,
}

impl Counts {
    /// Adds those of another.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
    }

    /// Runs a check, whose output is shown.
    pub(super) fn check(&mut self, name: &str, command: &mut Command) -> Result<()> {
        say(format!("{name} ..."));
        let passed = command.stdin(Stdio::null()).status().context(name)?.success();
        self.checked(name, passed);
        Ok(())
    }

    /// Runs a check that is a `cargo` that compiles.
    pub(super) fn compile(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let passed = cargo::compile(name, command)?;
        self.checked(name, passed);
        Ok(())
    }

    fn checked(&mut self, name: &str, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            say(format!("{name}: FAILED"));
            self.failed.push(name.to_owned());
        }
    }

    /// Runs `go test -v`: quiet but for what fails.
    pub(super) fn go_test(&mut self, command: &mut Command, show: &mut dyn FnMut(&str)) -> Result<()> {
        let mut seen = Self::default();
        let mut held = Vec::new();
        let status = lines(command, |line| {
            let word = line.trim_start();
            if word.starts_with("=== RUN") {
                held.clear();
            } else if let Some(name) = word.strip_prefix("--- PASS: ") {
                seen.passed += 1;
                show(&format!("test {} ... ok", first_word(name)));
                held.clear();
            } else if let Some(name) = word.strip_prefix("--- FAIL: ") {
                seen.failed.push(format!("go test {}", first_word(name)));
                held.drain(..).for_each(|line: String| show(&line));
                show(line);
            } else if line.starts_with("FAIL") || line.starts_with('#') {
                held.drain(..).for_each(|line: String| show(&line));
                show(line);
            } else {
                held.push(line.to_owned());
            }
        })?;
        seen.settle("go test", status);
        self.add(seen);
        Ok(())
    }

    /// A run that failed without a failing test did not compile, or was killed.
    fn settle(&mut self, name: &str, status: ExitStatus) {
        if !status.success() && self.failed.is_empty() {
            self.failed.push(format!("{name} ({status})"));
        }
    }
}

/// How much of a tier's output is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// All, as it comes.
    AtOnce,
    /// Each result as it comes, with its tier's name; the rest when something failed, and then together. For what runs beside others.
    Results,
}

impl Telling {
    /// Hands a run's lines to `run` and tells them.
    fn told(self, tier: Tier, run: impl FnOnce(&mut dyn FnMut(&str)) -> Result<Counts>) -> Result<Counts> {
        if self == Self::AtOnce {
            return run(&mut |line| print(line));
        }
        let mut rest = Vec::new();
        let counts = run(&mut |line| match line.strip_prefix("test ").filter(|test| !test.starts_with("result")) {
            Some(test) => print(format!("test {}: {test}", tier.name())),
            None => rest.push(line.to_owned()),
        })?;
        if !counts.failed.is_empty() {
            print(format!("\n{}: what it said\n{}", tier.name(), rest.join("\n")));
        }
        Ok(counts)
    }
}

/// The flags of `cargo test` for the test targets of this tier: those of each run by themselves.
fn runs(tier: Tier) -> Result<Vec<Vec<OsString>>> {
    let targets = tier.targets()?.into_iter().map(|target| vec!["--test".into(), target.into()]);
    let mut runs: Vec<Vec<OsString>> = if tier.at_once() { targets.collect() } else { vec![targets.flatten().collect()] };
    if tier == Tier::Unit {
        runs.push(["--lib", "--bins"].map(OsString::from).into());
    }
    Ok(runs.into_iter().filter(|flags| !flags.is_empty()).collect())
}

/// Compiles all that these tiers run, at once.
pub(super) fn compile(tiers: &[Tier]) -> Result<Counts> {
    let mut counts = Counts::default();
    let runs = tiers.iter().map(|tier| runs(*tier)).collect::<Result<Vec<_>>>()?;
    let flags: Vec<OsString> = runs.into_iter().flatten().flatten().collect();
    if !flags.is_empty() {
        let mut command = cargo::command();
        command.current_dir(repository()).args(["test", "--workspace", "--no-run"]).args(flags);
        counts.compile("compiling Beckon and the suites", &mut command)?;
    }
    Ok(counts)
}

/// `cargo test` as everything here runs it: of the whole workspace, so that nothing is compiled for fewer crates' features anew.
pub(super) fn test_command() -> Command {
    let mut command = cargo::command();
    command.current_dir(repository()).args(["test", "--workspace"]);
    if let Ok(program) = std::env::current_exe() {
        command.env("BECKON_XTASK", program);
    }
    command
}

/// Runs a tier.
pub(super) fn tier(tier: Tier, telling: Telling, args: &TestArgs, environment: &[(&str, OsString)]) -> Result<Counts> {
    let mut counts = Counts::default();
    match tier {
        Tier::Lint if args.name.is_none() => return checks::lint(args),
        Tier::Lint => return Ok(counts),
        Tier::Cluster => {
            for module in GO_MODULES.iter().filter(|module| checks::has_module(module)) {
                counts.add(telling.told(tier, |show| checks::go_module(module, args, show))?);
            }
            return Ok(counts);
        }
        Tier::Unit
        | Tier::Golden
        | Tier::Admission
        | Tier::Controller
        | Tier::Plugin
        | Tier::Browser
        | Tier::Mcp
        | Tier::Dashboard
        | Tier::Journey => {}
    }
    let runs = runs(tier)?;
    if runs.is_empty() {
        say("there are no such tests yet");
    }
    let run = |flags: &Vec<OsString>| {
        let mut command = test_command();
        command.arg("--no-fail-fast").args(flags).args(&args.name);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(threads) = tier.threads() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command
    };
    if let [flags] = runs.as_slice() {
        return telling.told(tier, |show| cargo_test(&tier.name(), &mut run(flags), show));
    }
    let seen = std::thread::scope(|scope| {
        let all: Vec<_> = runs
            .iter()
            .map(|flags| scope.spawn(|| Telling::Results.told(tier, |show| cargo_test(&tier.name(), &mut run(flags), show))))
            .collect();
        all.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(Failure::new("a run of tests broke off")))).collect::<Vec<_>>()
    });
    for one in seen {
        counts.add(one?);
    }
    Ok(counts)
}

fn cargo_test(name: &str, command: &mut Command, mut show: impl FnMut(&str)) -> Result<Counts> {
    let mut seen = Counts::default();
    let mut words = LastWords::default();
    let status = lines(command, |line| {
        show(line);
        words.hear(line);
        if let Some(passed) = passed(line) {
            seen.passed += passed;
        } else if let Some(failed) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            seen.failed.push(failed.to_owned());
        }
    })?;
    for failed in &mut seen.failed {
        *failed = format!("{name}: {failed}{}", words.of(failed));
    }
    seen.settle(&format!("{name}: cargo test"), status);
    Ok(seen)
}

/// The number in `test result: ok. 3 passed; 0 failed; ...`.
fn passed(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    rest.split_once(" passed")?.0.parse().ok()
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Runs a command and hands over each line of its standard output; its standard error is shown.
pub(super) fn lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting the tests")?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
            each(&String::from_utf8_lossy(&line));
        }
    }
    child.wait().context("the tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        for (line, want) in [
            ("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s", Some(12)),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s", Some(3)),
            ("test a ... ok", None),
        ] {
            assert_eq!(passed(line), want, "{line}");
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failing_tests_are_counted_and_named() {
        let script = "echo 'test a ... ok'; echo 'test b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101";
        assert_eq!(cargo_test("unit", &mut shell(script), |_| ()).unwrap(), Counts { passed: 1, failed: vec!["unit: b".to_owned()] });
    }

    #[test]
    fn a_run_that_breaks_off_is_a_failure() {
        let counts = cargo_test("unit", &mut shell("exit 101"), |_| ()).unwrap();
        assert_eq!(counts.failed, ["unit: cargo test (exit status: 101)"]);
        let mut counts = Counts::default();
        counts.go_test(&mut shell("exit 2"), &mut |_| ()).unwrap();
        assert_eq!(counts.failed, ["go test (exit status: 2)"]);
    }
}
