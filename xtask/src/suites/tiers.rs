//! The tiers, and which test targets belong to which.

use crate::failure::{Context as _, Result};
use crate::files::repository;
use clap::ValueEnum;

/// A group of suites that can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// rustfmt, clippy, the documentation, licences and sources
    Lint,
    /// The rules, without any process, and what no other tier claims
    Unit,
    /// What is generated is what is committed: kinds, chart
    Golden,
    /// The Go module of the control plane and its node: go vet, go test
    Cluster,
    /// The kinds' rules, the policies and the roles on a real API server
    Admission,
    /// kubectl and `kubectl attention` on a real API server
    Plugin,
    /// The gateway with real MCP clients
    Mcp,
    /// The dashboard and the live view
    Dashboard,
    /// The controller on a real API server
    Controller,
    /// The session's pod with a real Chromium
    Browser,
    /// The whole product: control plane, node, gateways, MCP clients, Playwright, kubectl
    Journey,
}

impl Tier {
    /// All.
    pub const ALL: &[Self] = &[
        Self::Lint,
        Self::Unit,
        Self::Golden,
        Self::Cluster,
        Self::Admission,
        Self::Plugin,
        Self::Controller,
        Self::Mcp,
        Self::Dashboard,
        Self::Browser,
        Self::Journey,
    ];

    /// Tiers of different lanes run at the same time, those of one lane one after another: some tiers keep the processors busy, and
    /// some wait for time to pass. Each lane has a control plane of its own.
    pub const LANES: &[&[Self]] = &[
        &[Self::Unit, Self::Golden, Self::Cluster, Self::Admission, Self::Plugin, Self::Controller],
        &[Self::Mcp, Self::Dashboard, Self::Browser, Self::Journey],
    ];

    /// As on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether its suites start a control plane or use the shared one.
    pub fn needs_control_plane(self) -> bool {
        !matches!(self, Self::Lint | Self::Unit | Self::Browser)
    }

    /// Whether its suites may use the shared control plane.
    pub fn shares_control_plane(self) -> bool {
        self.needs_control_plane() && !matches!(self, Self::Cluster | Self::Journey)
    }

    /// Whether its suites start Chromium.
    pub fn needs_chromium(self) -> bool {
        matches!(self, Self::Browser | Self::Mcp | Self::Dashboard | Self::Journey | Self::Cluster)
    }

    /// Whether its test targets run at the same time: each has a world of its own and mostly waits for it.
    pub fn at_once(self) -> bool {
        self == Self::Journey
    }

    /// How many tests of a target run at once, when one for each processor leaves the processors idle.
    pub fn threads(self) -> Option<usize> {
        match self {
            Self::Mcp => Some(10),
            Self::Plugin | Self::Controller => Some(4),
            Self::Lint | Self::Unit | Self::Golden | Self::Cluster | Self::Admission | Self::Dashboard | Self::Browser | Self::Journey => {
                None
            }
        }
    }

    /// Which names of files in `tests/` belong to it, by their beginning.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Lint | Self::Unit | Self::Cluster => &[],
            Self::Golden => &["golden", "chart", "crd"],
            Self::Admission => &["admission", "support", "rbac"],
            Self::Controller => &["controller", "lease"],
            Self::Plugin => &["plugin", "kubectl"],
            Self::Browser => &["browser", "driver"],
            Self::Mcp => &["mcp", "gateway", "rest"],
            Self::Dashboard => &["dashboard", "live"],
            Self::Journey => &["journey", "up", "install"],
        }
    }

    /// The tier of a file in `tests/`.
    pub fn of(target: &str) -> Self {
        let claimed = |tier: &&Self| tier.prefixes().iter().any(|prefix| target.starts_with(prefix));
        Self::ALL.iter().find(claimed).copied().unwrap_or(Self::Unit)
    }

    /// Its test targets: `tests/NAME.rs` and `tests/NAME/main.rs`.
    pub fn targets(self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let folder = repository().join("tests");
        for entry in std::fs::read_dir(&folder).context(folder.display())? {
            let path = entry.context(folder.display())?.path();
            let is_target = path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
            if let Some(name) = path.file_stem().filter(|_| is_target) {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.retain(|name| Self::of(name) == self);
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::Tier;

    #[test]
    fn each_tier_but_the_checks_runs_in_one_lane() {
        let lanes = Tier::LANES.concat();
        for tier in Tier::ALL {
            assert_eq!(lanes.iter().filter(|one| *one == tier).count(), usize::from(*tier != Tier::Lint), "{}", tier.name());
        }
    }

    #[test]
    fn targets_belong_to_tiers() {
        for (target, tier) in [
            ("golden", Tier::Golden),
            ("chart", Tier::Golden),
            ("admission_requests", Tier::Admission),
            ("controller_leader", Tier::Controller),
            ("journey", Tier::Journey),
            ("install", Tier::Journey),
            ("architecture", Tier::Unit),
            ("domain_properties", Tier::Unit),
        ] {
            assert_eq!(Tier::of(target), tier, "{target}");
        }
    }
}
