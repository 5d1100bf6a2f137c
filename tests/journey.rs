//! Runs the journeys of `tests/journey`: pytest with the official Python MCP client and Playwright, against one `up`.
//!
//! This target has no harness of its own: pytest's tests are told in the words of `cargo test`. A word on the command line
//! is a part of a test's name.

// A suite that can't set up its world has nothing better to do than to stop with a message.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use support::Up;

/// Short, so that what ends in hours ends in seconds here; the same as in `conftest.py`.
const SETTINGS: &[&str] = &["attention.minWaitSeconds=0", "attention.reattachGraceSeconds=5"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journey");
    let python = environment(&suite.join("requirements.txt"));
    let up = Up::start(SETTINGS);
    let mut pytest = Command::new(python);
    // Captured above the file descriptors, so that each result is told at once.
    pytest.args(["-m", "pytest", "-q", "--no-header", "--capture=sys"]).arg(&suite);
    pytest.env("BECKON_UP_DIR", up.dir()).env("BECKON_JOURNEY_LINES", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    if std::env::var_os("BECKON_XTASK").is_none() {
        pytest.env("BECKON_XTASK", Path::new(env!("CARGO_BIN_EXE_beckon")).with_file_name("xtask"));
    }
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        pytest.args(["-k", word]);
    }
    let status = pytest.status().expect("pytest");
    // 5: no test of that name.
    if status.success() || status.code() == Some(5) {
        return ExitCode::SUCCESS;
    }
    for name in ["gateway-0", "gateway-1", "controller-0", "controller-1"] {
        let log = up.log(name);
        let end: Vec<&str> = log.lines().skip(log.lines().count().saturating_sub(40)).collect();
        eprintln!("--- the end of {name}'s log\n{}", end.join("\n"));
    }
    ExitCode::FAILURE
}

/// A Python with the suite's packages, made once for these requirements and kept in the user's cache directory.
fn environment(requirements: &Path) -> PathBuf {
    let wanted = std::fs::read(requirements).expect("requirements.txt");
    let version = Command::new("python3").arg("--version").output().expect("python3, 3.10 or later, with its venv module");
    let digest = Sha256::new().chain_update(&wanted).chain_update(&version.stdout).finalize();
    let name = xtask::files::hex(digest.get(..8).unwrap_or_default());
    let dir = xtask::files::cache_dir().expect("a cache directory").join("journey").join(name);
    let (python, complete) = (dir.join("bin/python"), dir.join("complete"));
    if !complete.is_file() {
        eprintln!("installing what the journeys need into {} ...", dir.display());
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(requirements));
        std::fs::write(complete, "").expect("a file in the cache directory");
    }
    python
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
