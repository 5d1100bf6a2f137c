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

/// Its headless shell.
#[must_use]
pub fn headless_shell() -> Option<&'static Path> {
    HEADLESS_SHELL.iter().map(Path::new).find(|path| path.is_file())
}

/// What can be done here about a Chromium that is not there.
#[derive(Clone, Copy, Debug)]
struct Machine {
    apt: bool,
    root: bool,
}

/// The packages to install, or what a person has to do when this machine doesn't let us.
fn wanted(chromium: bool, headless_shell: bool, machine: Machine) -> Result<&'static [&'static str]> {
    let packages: &[&str] = match (chromium, headless_shell) {
        (true, true) => return Ok(&[]),
        (true, false) => &["chromium-headless-shell"],
        (false, _) => &["chromium", "chromium-headless-shell"],
    };
    let how = match machine {
        Machine { apt: true, root: true } => return Ok(packages),
        Machine { apt: true, root: false } => format!("run: sudo {}", install_line(packages)),
        Machine { apt: false, .. } => "install your distribution's packages of both".to_owned(),
    };
    let (what, places) = if chromium {
        ("chromium-headless-shell", HEADLESS_SHELL.join(", "))
    } else {
        ("Chromium", format!("{} and {}", CHROMIUM.join(", "), HEADLESS_SHELL.join(", ")))
    };
    Err(Failure::new(format!("there is no {what} (looked for {places}); {how}")))
}

fn install_line(packages: &[&str]) -> String {
    format!("apt-get install --no-install-recommends -y {}", packages.join(" "))
}

/// Sees that Chromium and its headless shell are there; installs them on Debian when run as root, else says what to install.
pub fn ensure() -> Result<()> {
    let there = |paths: &[&str]| paths.iter().any(|path| Path::new(path).is_file());
    let machine = Machine { apt: find_program("apt-get").is_some(), root: nix::unistd::Uid::effective().is_root() };
    let packages = wanted(there(CHROMIUM), there(HEADLESS_SHELL), machine)?;
    if packages.is_empty() {
        return Ok(());
    }
    let command = install_line(packages);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_chromium_it_says_what_to_install() {
        let says = |chromium, shell, apt, root| wanted(chromium, shell, Machine { apt, root }).map_err(|error| error.to_string());
        assert_eq!(says(true, true, false, false), Ok(&[][..]));
        assert_eq!(says(false, false, true, true), Ok(&["chromium", "chromium-headless-shell"][..]));
        for (chromium, shell, apt, begins, ends) in [
            (
                false,
                false,
                true,
                "there is no Chromium (looked for /usr/lib/chromium/chromium, ",
                "; run: sudo apt-get install --no-install-recommends -y chromium chromium-headless-shell",
            ),
            (true, false, true, "there is no chromium-headless-shell (looked for ", "-y chromium-headless-shell"),
            (false, true, false, "there is no Chromium (looked for ", "; install your distribution's packages of both"),
        ] {
            let said = says(chromium, shell, apt, false).unwrap_err();
            assert!(said.starts_with(begins) && said.ends_with(ends), "{said}");
        }
    }
}
