//! What isolates the browser: its own sandbox where the platform lets it start, else what was allowed instead.

use super::args::{BrowserArgs, SandboxTier};

/// The tier, as the session's condition `Sandboxed` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// `Native`, `Runtime` or `Compat`.
    pub tier: &'static str,
    /// Why it is not Native, for a person.
    pub message: Option<String>,
}

impl Sandbox {
    /// Chromium's own sandbox is on.
    #[must_use]
    pub fn native() -> Self {
        Self { tier: "Native", message: None }
    }

    /// What to go on with when Chromium did not start with its sandbox, if anything was allowed.
    #[must_use]
    pub fn instead(args: &BrowserArgs, why: &str) -> Option<Self> {
        let tier = match args.sandbox_tier {
            SandboxTier::Runtime => "Runtime",
            SandboxTier::Native if args.allow_no_sandbox => "Compat",
            SandboxTier::Native => return None,
        };
        Some(Self { tier, message: Some(format!("Chromium's own sandbox is off: {why}")) })
    }
}

/// Why the sandbox did not start, by what Chromium complained about; absent when it was something else.
#[must_use]
pub(super) fn complaint(stderr: &str) -> Option<&'static str> {
    if stderr.contains("Running as root without --no-sandbox") {
        Some("it runs as root, and Chromium sandboxes nothing as root")
    } else if stderr.contains("No usable sandbox") || stderr.contains("Failed to move to new namespace") {
        Some("the platform lets it create no user namespace (seccomp or AppArmor profile, or user.max_user_namespaces)")
    } else if stderr.contains("hello message from zygote") || stderr.contains("zygote_host_impl_linux") {
        Some("the platform denies chroot in a user namespace (seccomp profile)")
    } else if stderr.contains("setuid sandbox") || stderr.contains("SUID sandbox") {
        Some("its setuid sandbox helper is not usable")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BrowserArgs,
    }

    #[test]
    fn without_leave_there_is_no_browser_without_sandbox() {
        let tier = |line: &[&str]| {
            let args = Line::parse_from([&["browser"], line].concat()).args;
            Sandbox::instead(&args, "why").map(|sandbox| sandbox.tier)
        };
        assert_eq!(tier(&[]), None);
        assert_eq!(tier(&["--allow-no-sandbox"]), Some("Compat"));
        assert_eq!(tier(&["--sandbox-tier", "Runtime"]), Some("Runtime"));
        assert_eq!(tier(&["--sandbox-tier", "runtime", "--allow-no-sandbox"]), Some("Runtime"));
    }

    #[test]
    fn complaints() {
        let root = "[1:1:0101/1.1:ERROR:zygote_host_impl_linux.cc(101)] Running as root without --no-sandbox is not supported.";
        assert!(complaint(root).unwrap().contains("as root"));
        assert!(complaint("FATAL:sandbox/x.cc(1)] No usable sandbox! If you are").unwrap().contains("user namespace"));
        assert_eq!(complaint("ERROR:dbus/bus.cc(408)] Failed to connect to the bus"), None);
    }
}
