//! Cargo, called by what cargo runs.

use crate::failure::{Context as _, Result};
use crate::progress::{Step, say};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Command, Stdio};

/// The `cargo` that runs us.
pub fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A `cargo` that builds as if it had been started by hand. What cargo tells a program about its package, some build scripts look
/// at (that of ring): with it they would run again, and all that stands on them would be compiled again, at each change between
/// the two.
pub fn command() -> Command {
    let mut command = Command::new(program());
    let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(told)) {
        command.env_remove(name);
    }
    command
}

/// Runs a `cargo` that compiles, and shows how far it is: on a terminal as cargo does itself, elsewhere a line now and then in place
/// of one for each crate. Warnings and errors are shown as they come. Whether it succeeded.
///
/// # Errors
/// When it can't be started or waited for.
pub fn compile(name: &str, command: &mut Command) -> Result<bool> {
    command.stdin(Stdio::null());
    if std::io::stderr().is_terminal() {
        say(format!("{name} ..."));
        return Ok(command.status().context(name)?.success());
    }
    let mut step = Step::start(name);
    let mut child = command.env("CARGO_TERM_COLOR", "never").stderr(Stdio::piped()).spawn().context(name)?;
    let mut crates = 0_usize;
    if let Some(output) = child.stderr.take() {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            match status_word(&line) {
                Some("Compiling" | "Checking" | "Documenting") => {
                    crates += 1;
                    step.at(|| format!("{crates} crates"));
                }
                Some(_) => {}
                None => say(line),
            }
        }
    }
    let success = child.wait().context(name)?.success();
    if success {
        step.done();
    }
    Ok(success)
}

/// The word with which cargo tells what it does: right-aligned in twelve columns.
fn status_word(line: &str) -> Option<&str> {
    let (head, _) = line.split_at_checked(12)?;
    let word = head.trim_start();
    let is_word = word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphabetic());
    (is_word && line.as_bytes().get(12) == Some(&b' ')).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{command, status_word};

    #[test]
    fn what_cargo_does_is_told_from_what_the_compiler_says() {
        for (line, word) in [
            ("   Compiling serde v1.0.2", Some("Compiling")),
            ("    Checking beckon v0.1.0 (/src/beckon)", Some("Checking")),
            (" Documenting beckon v0.1.0 (/src/beckon)", Some("Documenting")),
            ("    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.43s", Some("Finished")),
            ("  Executable unittests src/lib.rs (target/debug/deps/beckon-1)", Some("Executable")),
            ("error: could not compile `beckon` (lib) due to 1 previous error", None),
            ("error[E0308]: mismatched types", None),
            ("warning: unused variable: `x`", None),
            ("  --> src/lib.rs:2:5", None),
            ("12 |     let x: u8 = \"\";", None),
            ("   |             ^^ expected `u8`", None),
            ("   = note: `#[warn(unused_variables)]` on by default", None),
            ("Caused by:", None),
            ("            Compiling", None),
            ("éééééééééééé", None),
            ("", None),
        ] {
            assert_eq!(status_word(line), word, "{line:?}");
        }
    }

    #[test]
    fn nothing_of_our_package_is_handed_on() {
        let command = command();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
            assert!(std::env::var_os(name).is_some(), "cargo test tells {name}");
            assert!(removed.iter().any(|one| *one == name), "{removed:?}");
        }
    }
}
