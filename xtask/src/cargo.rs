//! Cargo, called by what cargo runs.

use std::ffi::OsString;
use std::process::Command;

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

#[cfg(test)]
mod tests {
    use super::command;

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
