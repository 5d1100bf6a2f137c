//! The flags of `beckon controller`, and what they mean.

use crate::domain::caps::Caps;
use crate::domain::deadline::{FloorAboveCap, WaitLimits};
use crate::settings;
use clap::Args;
use std::net::SocketAddr;

/// Reads a setting of the table, in seconds.
fn seconds(key: &'static str) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| settings::find(key).and_then(|setting| settings::check(setting, text)).and_then(|text| settings::seconds(&text))
}

/// Reads a setting of the table that counts.
fn count(key: &'static str) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let text = settings::find(key).and_then(|setting| settings::check(setting, text))?;
        text.parse().map_err(|error| format!("{key}: {error}"))
    }
}

/// The flags of `beckon controller`.
#[derive(Args, Clone, Debug)]
pub struct ControllerArgs {
    /// The longest that a request waits
    #[arg(long = "attentionTimeout", value_name = "DURATION", default_value = "6h", allow_hyphen_values = true, value_parser = seconds("attention.timeoutSeconds"))]
    pub attention_timeout: u64,
    /// A shorter wait is raised to this; 0: no floor
    #[arg(long = "minAttentionWait", value_name = "DURATION", default_value = "30m", allow_hyphen_values = true, value_parser = seconds("attention.minWaitSeconds"))]
    pub min_attention_wait: u64,
    /// How long a request outlives its caller's connection; 0: not at all
    #[arg(long = "reattachGrace", value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = seconds("attention.reattachGraceSeconds"))]
    pub reattach_grace: u64,
    /// Open requests of one session
    #[arg(long = "maxPerSession", value_name = "COUNT", default_value = "8", allow_hyphen_values = true, value_parser = count("attention.maxPerSession"))]
    pub max_per_session: u32,
    /// Open requests in total
    #[arg(long = "maxTotal", value_name = "COUNT", default_value = "256", allow_hyphen_values = true, value_parser = count("attention.maxTotal"))]
    pub max_total: u32,
    /// A session ends after this long without activity
    #[arg(long = "idleTimeout", value_name = "DURATION", default_value = "30m", allow_hyphen_values = true, value_parser = seconds("session.idleTimeoutSeconds"))]
    pub idle_timeout: u64,
    /// The hard end of a session
    #[arg(long = "maxLifetime", value_name = "DURATION", default_value = "8h", allow_hyphen_values = true, value_parser = seconds("session.maxLifetimeSeconds"))]
    pub max_lifetime: u64,
    /// How long settled requests and ended sessions are kept
    #[arg(long = "historyTTL", value_name = "DURATION", default_value = "7d", allow_hyphen_values = true, value_parser = seconds("history.ttlSeconds"))]
    pub history_ttl: u64,
    /// The namespace of the installation: the leader's Lease and those of the gateways
    #[arg(long, value_name = "NAME", default_value = "beckon-system")]
    pub namespace: String,
    /// The only namespace to work in [default: all]
    #[arg(long, value_name = "NAME")]
    pub watch_namespace: Option<String>,
    /// The image of session pods
    #[arg(long, value_name = "IMAGE", default_value = concat!("ghcr.io/beckon-dev/beckon-browser:", env!("CARGO_PKG_VERSION")))]
    pub browser_image: String,
    /// How long a session's pod may take to become ready
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = settings::seconds)]
    pub start_timeout: u64,
    /// The disk that a session's pod asks its node for; empty: none
    #[arg(long, value_name = "SIZE", default_value = "256Mi", value_parser = size)]
    pub browser_storage_request: String,
    /// The disk that a session's pod may fill before it is evicted; empty: no limit
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = size)]
    pub browser_storage_limit: String,
    /// A seccomp profile below the nodes' seccomp directory that lets Chromium build its own sandbox [default: the runtime's]
    #[arg(long, value_name = "PATH")]
    pub seccomp_profile: Option<String>,
    /// Let a browser run without a sandbox of its own where the platform allows none
    #[arg(long)]
    pub allow_no_sandbox: bool,
    /// Address of /livez, /readyz and /metrics
    #[arg(long, value_name = "IP:PORT", default_value = "[::]:9402")]
    pub admin_listen: SocketAddr,
    /// Only check the flags: what starts it asks before it starts anything else.
    #[arg(long, hide = true)]
    pub check: bool,
    /// For how long a leader leads without renewing
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = lease)]
    pub lease_duration: u64,
}

/// Bytes as Kubernetes writes them, or nothing.
fn size(text: &str) -> Result<String, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.strip_suffix(unit).unwrap_or_default();
    let known = ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit) && number.parse::<f64>().is_ok_and(|n| n > 0.0);
    if known || text.is_empty() { Ok(text.to_owned()) } else { Err("must be bytes such as 512Mi or 2Gi, or empty".to_owned()) }
}

fn lease(text: &str) -> Result<u64, String> {
    match settings::seconds(text)? {
        n @ 3..=300 => Ok(n),
        n => Err(format!("must be from 3s to 300s, not {n}s")),
    }
}

/// What the controller goes by. All times are in seconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The bounds of a wait.
    pub limits: WaitLimits,
    /// The reattach grace.
    pub grace: i64,
    /// The caps.
    pub caps: Caps,
    /// A session's idle timeout, where it names none.
    pub idle_timeout: i64,
    /// A session's lifetime, where it names none.
    pub max_lifetime: i64,
    /// How long history is kept.
    pub history_ttl: i64,
    /// How long a pod may take to become ready.
    pub start_timeout: i64,
    /// The installation's namespace.
    pub namespace: String,
    /// The only namespace to work in.
    pub watch_namespace: Option<String>,
    /// How session pods are made.
    pub pods: PodSettings,
    /// For how long a leader leads without renewing.
    pub lease_duration: u64,
    /// This process.
    pub identity: String,
}

/// How session pods are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSettings {
    /// Their image.
    pub image: String,
    /// The disk they ask for.
    pub storage_request: Option<String>,
    /// The disk they may fill.
    pub storage_limit: Option<String>,
    /// A seccomp profile of the nodes; absent: the runtime's.
    pub seccomp_profile: Option<String>,
    /// Whether a browser may run without a sandbox.
    pub allow_no_sandbox: bool,
}

impl Settings {
    /// What the flags mean.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new(args: &ControllerArgs, identity: String) -> Result<Self, FloorAboveCap> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        Ok(Self {
            limits: WaitLimits::new(args.attention_timeout, args.min_attention_wait)?,
            grace: whole(args.reattach_grace),
            caps: Caps { per_session: args.max_per_session, total: args.max_total },
            idle_timeout: whole(args.idle_timeout),
            max_lifetime: whole(args.max_lifetime),
            history_ttl: whole(args.history_ttl),
            start_timeout: whole(args.start_timeout),
            namespace: args.namespace.clone(),
            watch_namespace: args.watch_namespace.clone(),
            pods: PodSettings {
                image: args.browser_image.clone(),
                storage_request: some(&args.browser_storage_request),
                storage_limit: some(&args.browser_storage_limit),
                seccomp_profile: args.seccomp_profile.clone(),
                allow_no_sandbox: args.allow_no_sandbox,
            },
            lease_duration: args.lease_duration,
            identity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Role, SETTINGS};
    use clap::{CommandFactory as _, Parser};

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        args: ControllerArgs,
    }

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["controller"], args].concat())
    }

    #[test]
    fn every_setting_of_the_table_is_a_flag_with_its_default_and_help() {
        let command = Cli::command();
        for setting in SETTINGS.iter().filter(|setting| setting.roles.contains(&Role::Controller)) {
            let flag = command.get_arguments().find(|arg| arg.get_long() == Some(setting.flag)).expect(setting.flag);
            assert_eq!(flag.get_default_values(), [setting.default], "{}", setting.flag);
            assert_eq!(flag.get_help().map(ToString::to_string).as_deref(), Some(setting.help));
        }
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_the_flag() {
        for args in [
            ["--attentionTimeout", "-1"],
            ["--attentionTimeout", "0"],
            ["--attentionTimeout", "1.5h"],
            ["--maxTotal", "0"],
            ["--maxPerSession", "many"],
            ["--idleTimeout", "59"],
            ["--lease-duration", "1s"],
            ["--admin-listen", "nowhere"],
            ["--browser-storage-limit", "2GB"],
            ["--browser-storage-request", "0"],
        ] {
            let error = parse(&args).expect_err("wrong").to_string();
            assert!(error.contains(args[0]) && error.contains(args[1]), "{error}");
        }
        assert!(parse(&["--minAttentionWait", "0"]).is_ok());
    }

    #[test]
    fn the_defaults_are_consistent_and_a_floor_above_the_cap_is_not() {
        let args = parse(&[]).expect("defaults").args;
        let settings = Settings::new(&args, "me".into()).expect("consistent");
        assert_eq!((settings.limits.cap(), settings.limits.floor(), settings.caps.total), (21_600, 1800, 256));
        let args = parse(&["--attentionTimeout", "10m"]).expect("parses").args;
        assert!(Settings::new(&args, "me".into()).is_err());
    }
}
