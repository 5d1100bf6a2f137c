//! Chromium on this machine.

use crate::failure::{Failure, Result};
use crate::process::find_program;
use crate::progress::{Step, say};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where distributions put the real programs, as `beckon browser` looks for them.
const CHROMIUM: &[&str] =
    &["/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/usr/lib/chromium-browser/chromium-browser"];
const HEADLESS_SHELL: &[&str] = &["/usr/lib/chromium/chromium-headless-shell", "/usr/lib64/chromium-browser/headless_shell"];

/// The Chromium of this machine.
#[must_use]
pub fn program() -> Option<&'static Path> {
    CHROMIUM.iter().map(Path::new).find(|path| path.is_file())
}

/// Sees that Chromium and its headless shell are there; installs them on Debian when run as root, else says what to install.
pub fn ensure() -> Result<()> {
    let there = |paths: &[&str]| paths.iter().any(|path| Path::new(path).is_file());
    if there(CHROMIUM) && there(HEADLESS_SHELL) {
        return Ok(());
    }
    let packages: &[&str] = if there(CHROMIUM) { &["chromium-headless-shell"] } else { &["chromium", "chromium-headless-shell"] };
    let command = format!("apt-get install --no-install-recommends -y {}", packages.join(" "));
    let apt = find_program("apt-get").is_some();
    if !apt || !nix::unistd::Uid::effective().is_root() {
        let how = if apt { format!("run: sudo {command}") } else { "install your distribution's packages of both".to_owned() };
        return Err(Failure::new(format!(
            "there is no Chromium (looked for {} and {}); {how}",
            CHROMIUM.join(", "),
            HEADLESS_SHELL.join(", ")
        )));
    }
    let step = Step::start(format!("installing Chromium ({command})"));
    let quiet = |args: &[&str]| {
        Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null()).status()
    };
    let install: Vec<&str> = ["install", "--no-install-recommends", "-y", "-q"].iter().chain(packages).copied().collect();
    // Package lists that are out of date are the usual reason to fail.
    let mut done = quiet(&install).is_ok_and(|status| status.success());
    if !done && quiet(&["update", "-q"]).is_ok_and(|status| status.success()) {
        done = quiet(&install).is_ok_and(|status| status.success());
    }
    if !done || !there(CHROMIUM) {
        return Err(Failure::new(format!("Chromium could not be installed; see what apt-get says above, then run: {command}")));
    }
    step.done();
    if !there(HEADLESS_SHELL) {
        say("note: there is no chromium-headless-shell; sessions with browser HeadlessShell will not start");
    }
    Ok(())
}
