//! Runs the journeys of `tests/journey`: pytest with the official Python MCP client and Playwright, against real `up`s.
//!
//! This target has no harness of its own: pytest's tests are told in the words of `cargo test`. A word on the command line
//! is a part of a test's name.

// A suite that can't set up its world has nothing better to do than to stop with a message.
// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use support::Up;

/// Short, so that what ends in hours ends in seconds here; the same as in `conftest.py`.
const SETTINGS: &[&str] = &["attention.minWaitSeconds=0", "attention.reattachGraceSeconds=5"];

/// The files that share a world. Most of what losses and outcomes take is waiting for leases and graces to run out, so each
/// group has a world of its own and all run at the same time.
const GROUPS: &[Group] = &[
    Group { browser: "Chromium", files: &["test_takeover.py", "test_gate.py", "test_limits.py"] },
    Group { browser: "HeadlessShell", files: &["test_losses.py"] },
    Group { browser: "HeadlessShell", files: &["test_outcomes.py", "test_answers.py", "test_asked.py", "test_pages.py"] },
];

/// Journeys of one world.
struct Group {
    /// What their sessions run when they name none: both are shown, and the headless shell needs a third of the processor.
    browser: &'static str,
    files: &'static [&'static str],
}

/// pytest's exit code for "no test was collected".
const NONE_COLLECTED: i32 = 5;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journey");
    assert_eq!(grouped(), files(&suite), "each file of tests/journey is in one group");
    let python = environment(&suite.join("requirements.txt"));
    let passed = if names.is_empty() {
        std::thread::scope(|scope| {
            let runs: Vec<_> = GROUPS.iter().map(|group| scope.spawn(|| run(&python, &suite, group.browser, group.files, &[]))).collect();
            runs.into_iter().all(|run| run.join().expect("a run"))
        })
    } else {
        run(&python, &suite, "Chromium", &grouped(), &names)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs these files, or what of them has such names, in a world of their own. Whether all passed.
fn run(python: &Path, suite: &Path, browser: &str, files: &[&str], names: &[&String]) -> bool {
    let browser = format!("session.browser={browser}");
    let up = Up::start(&[SETTINGS, &[&browser]].concat());
    let mut pytest = Command::new(python);
    // Captured above the file descriptors, so that each result is told at once.
    pytest.args(["-m", "pytest", "-qq", "--no-header", "--capture=sys", "-p", "no:cacheprovider"]);
    pytest.current_dir(suite).args(files);
    pytest.env("BECKON_UP_DIR", up.dir()).env("BECKON_JOURNEY_LINES", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(program) = xtask::chromium::headless_shell() {
        pytest.env("BECKON_PERSON", program);
    }
    if std::env::var_os("BECKON_XTASK").is_none() {
        pytest.env("BECKON_XTASK", Path::new(env!("CARGO_BIN_EXE_beckon")).with_file_name("xtask"));
    }
    for name in names {
        pytest.args(["-k", name]);
    }
    let status = pytest.status().expect("pytest");
    if status.success() || (status.code() == Some(NONE_COLLECTED) && !names.is_empty()) {
        return true;
    }
    for name in ["gateway-0", "gateway-1", "controller-0", "controller-1"] {
        let log = up.log(name);
        let end: Vec<&str> = log.lines().skip(log.lines().count().saturating_sub(40)).collect();
        eprintln!("--- {}: the end of {name}'s log\n{}", files.join(" "), end.join("\n"));
    }
    false
}

fn grouped() -> Vec<&'static str> {
    let mut files: Vec<&str> = GROUPS.iter().flat_map(|group| group.files.iter().copied()).collect();
    files.sort_unstable();
    files
}

fn files(suite: &Path) -> Vec<String> {
    let names = std::fs::read_dir(suite).expect("tests/journey").map(|entry| entry.expect("a file").file_name());
    let mut files: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("test_")).collect();
    files.sort_unstable();
    files
}

/// A Python with the suite's packages, made once for these requirements and kept in the user's cache directory.
fn environment(requirements: &Path) -> PathBuf {
    let wanted = std::fs::read(requirements).expect("requirements.txt");
    let version = Command::new("python3").arg("--version").output().expect("python3, 3.11 or later, with its venv module");
    let digest = Sha256::new().chain_update(&wanted).chain_update(&version.stdout).finalize();
    let name = xtask::files::hex(digest.get(..8).unwrap_or_default());
    let dir = xtask::files::cache_dir().expect("a cache directory").join("journey").join(name);
    let (python, complete) = (dir.join("bin/python"), dir.join("complete"));
    if !complete.is_file() {
        eprintln!("installing what the journeys need into {} ...", dir.display());
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir));
        succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(requirements));
        std::fs::write(complete, "").expect("a file in the cache directory");
    }
    python
}

fn succeed(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
