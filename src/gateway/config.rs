//! The gateway's flags and what they mean together.

use crate::settings;
use clap::{ArgAction, Args};
use std::net::SocketAddr;
use std::time::Duration;

/// The flags of `beckon gateway`.
#[derive(Args, Clone, Debug)]
pub struct GatewayArgs {
    /// The namespace in which MCP creates sessions and requests
    #[arg(long, env = "BECKON_NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// The namespace of Beckon itself: its keys and Leases
    #[arg(long, env = "BECKON_SYSTEM_NAMESPACE", default_value = "beckon-system")]
    pub system_namespace: String,
    /// The only namespace to look into, for an account that has rights in one alone [default: all]
    #[arg(long, value_name = "NAME")]
    pub watch_namespace: Option<String>,
    /// Where MCP and the dashboard are served
    #[arg(long, default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// Where health and metrics are served
    #[arg(long, default_value = "[::]:9401")]
    pub admin_listen: SocketAddr,
    /// The audience that API tokens are made for. A person's token of another audience is good too, a service account's is not
    #[arg(long, default_value = "beckon")]
    pub audience: String,
    /// The extra attributes of a user that are recorded beside name and uid, as the admission policies stamp them
    #[arg(long, value_name = "KEY,KEY", value_delimiter = ',', default_value = "authentication.kubernetes.io/pod-name,beckon.dev/person")]
    pub extra_keys: Vec<String>,
    /// A host that callers may name, as host or host:port; loopback is always allowed. May be repeated
    #[arg(long = "allowed-host", value_name = "HOST", action = ArgAction::Append)]
    pub allowed_hosts: Vec<String>,
    /// An origin that web pages may call from, as scheme://host:port. May be repeated
    #[arg(long = "allowed-origin", value_name = "ORIGIN", action = ArgAction::Append)]
    pub allowed_origins: Vec<String>,
    /// The address under which people reach the dashboard, such as https://beckon.example.com
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// The longest that a request waits
    #[arg(long = "attentionTimeout", value_name = "DURATION", default_value = "6h", allow_hyphen_values = true, value_parser = setting("attentionTimeout"))]
    attention_timeout: Seconds,
    /// A shorter wait is raised to this; 0: no floor
    #[arg(long = "minAttentionWait", value_name = "DURATION", default_value = "30m", allow_hyphen_values = true, value_parser = setting("minAttentionWait"))]
    min_attention_wait: Seconds,
    /// How long a request outlives its caller's connection; 0: not at all
    #[arg(long = "reattachGrace", value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = setting("reattachGrace"))]
    reattach_grace: Seconds,
    /// How long a call without a progress token is held before it answers pending; 0: as long as it takes
    #[arg(long = "holdWithoutProgress", value_name = "DURATION", default_value = "50s", allow_hyphen_values = true, value_parser = setting("holdWithoutProgress"))]
    hold_without_progress: Seconds,
    /// Whether agents are told to hand CAPTCHAs over: attention (default) or off
    #[arg(long, value_parser = ["attention", "off"])]
    captcha: Option<String>,
    /// Serve the dashboard
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    admin: bool,
    /// Control is handed back after this long without input
    #[arg(long = "idleRelease", value_name = "DURATION", default_value = "10m", allow_hyphen_values = true, value_parser = setting("idleRelease"))]
    idle_release: Seconds,
    /// A driver's connection may be away for this long
    #[arg(long = "reconnect", value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = setting("reconnect"))]
    reconnect: Seconds,
    /// The longest that one person drives
    #[arg(long = "ceiling", value_name = "DURATION", default_value = "1h", allow_hyphen_values = true, value_parser = setting("ceiling"))]
    ceiling: Seconds,
    /// The browser of a session that names none
    #[arg(long, default_value = "Chromium", value_parser = ["Chromium", "HeadlessShell"])]
    browser: String,
    /// How MCP is served
    #[arg(long, default_value = "http", value_parser = ["http", "stdio"])]
    transport: String,
    /// Only check the flags: what starts it asks before it starts anything else.
    #[arg(long, hide = true)]
    pub(super) check: bool,
}

/// A flag's value in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seconds(u64);

/// Parses a duration flag as the table of settings says.
fn setting(flag: &'static str) -> impl Fn(&str) -> Result<Seconds, String> + Clone + Send + Sync + 'static {
    move |text| {
        let Some(setting) = settings::SETTINGS.iter().find(|s| s.flag == flag) else {
            return Err(format!("--{flag} is not a setting"));
        };
        settings::check(setting, text)?;
        settings::seconds(text).map(Seconds)
    }
}

/// How MCP is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// Standard input and output, for a local client.
    Stdio,
}

/// The settings of the gateway, checked against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cap of a wait.
    pub attention_timeout: Duration,
    /// The floor of a wait; zero: none.
    pub min_attention_wait: Duration,
    /// How long a request outlives its caller's connection.
    pub reattach_grace: Duration,
    /// How long a call without a progress token is held; zero: as long as it takes.
    pub hold_without_progress: Duration,
    /// Whether agents are told to hand CAPTCHAs over.
    pub captcha: bool,
    /// Whether the dashboard is served.
    pub dashboard: bool,
    /// Control is handed back after this long without input.
    pub idle_release: Duration,
    /// A driver's connection may be away for this long.
    pub reconnect: Duration,
    /// The longest that one person drives.
    pub ceiling: Duration,
    /// The browser of a session that names none.
    pub browser: crate::api::v1alpha1::Browser,
    /// How MCP is served.
    pub transport: Transport,
    /// Where MCP creates objects.
    pub namespace: String,
    /// Where Beckon keeps its own.
    pub system_namespace: String,
    /// The only namespace to look into; none: all.
    pub watch_namespace: Option<String>,
    /// The audience of API tokens.
    pub audience: String,
    /// The extra attributes of a user that objects record.
    pub extra_keys: Vec<String>,
    /// Hosts that callers may name, loopback included.
    pub allowed_hosts: Vec<String>,
    /// Origins that web pages may call from.
    pub allowed_origins: Vec<String>,
    /// The address under which people reach the dashboard, without a slash at the end.
    pub public_url: Option<String>,
}

/// Flags that contradict each other, or that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Nobody could answer what agents are told to ask.
    #[error(
        "--captcha attention (attention.captcha) needs the dashboard, but --admin is false (dashboard.enabled): enable the dashboard, or set --captcha off"
    )]
    CaptchaWithoutDashboard,
    /// Nobody is reached.
    #[error(
        "--captcha attention (attention.captcha) needs people, whom --transport stdio (transport) does not reach: serve --transport http, or set --captcha off"
    )]
    CaptchaOverStdio,
    /// No wait fits.
    #[error(
        "--minAttentionWait {floor}s (attention.minWaitSeconds) is above --attentionTimeout {cap}s (attention.timeoutSeconds): lower the floor or raise the cap"
    )]
    FloorAboveCap {
        /// In seconds.
        floor: u64,
        /// In seconds.
        cap: u64,
    },
    /// A host or an address that can't be used.
    #[error("{flag} {value:?}: {why}")]
    Unusable {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what would do.
        why: &'static str,
    },
}

impl GatewayArgs {
    /// The settings, or what contradicts what.
    ///
    /// # Errors
    /// Each names the flags, their chart values and what to do.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        if self.captcha.as_deref() == Some("attention") && !self.admin {
            return Err(ConfigError::CaptchaWithoutDashboard);
        }
        if self.captcha.as_deref() == Some("attention") && self.transport == "stdio" {
            return Err(ConfigError::CaptchaOverStdio);
        }
        let named = [("--namespace", Some(&self.namespace)), ("--system-namespace", Some(&self.system_namespace))];
        for (flag, name) in named.into_iter().chain([("--watch-namespace", self.watch_namespace.as_ref())]) {
            if let Some(value) = name.filter(|name| !super::is_name(name) || name.len() > 63 || name.contains('.')) {
                let why = "must be a namespace: at most 63 lowercase letters, digits and hyphens";
                return Err(ConfigError::Unusable { flag, value: value.clone(), why });
            }
        }
        if self.watch_namespace.as_ref().is_some_and(|watched| *watched != self.namespace) {
            let why = "must be the --namespace: sessions would be created where nobody looks";
            return Err(ConfigError::Unusable { flag: "--watch-namespace", value: self.watch_namespace.clone().unwrap_or_default(), why });
        }
        if self.min_attention_wait.0 > self.attention_timeout.0 {
            return Err(ConfigError::FloorAboveCap { floor: self.min_attention_wait.0, cap: self.attention_timeout.0 });
        }
        let public_url = self.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        let public = public_url.as_deref().map(|url| parse_origin("--public-url", url)).transpose()?;
        let mut allowed_hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        for host in &self.allowed_hosts {
            if http::uri::Authority::try_from(host.as_str()).is_err() {
                return Err(ConfigError::Unusable {
                    flag: "--allowed-host",
                    value: host.clone(),
                    why: "must be a host or host:port, such as beckon.example.com",
                });
            }
            allowed_hosts.push(host.clone());
        }
        let mut allowed_origins = Vec::new();
        for origin in &self.allowed_origins {
            allowed_origins.push(parse_origin("--allowed-origin", origin)?.0);
        }
        if let Some((origin, host)) = public {
            allowed_origins.push(origin);
            allowed_hosts.push(host);
        }
        let seconds = |s: Seconds| Duration::from_secs(s.0);
        Ok(Settings {
            attention_timeout: seconds(self.attention_timeout),
            min_attention_wait: seconds(self.min_attention_wait),
            reattach_grace: seconds(self.reattach_grace),
            hold_without_progress: seconds(self.hold_without_progress),
            captcha: self.captcha.as_deref() != Some("off"),
            dashboard: self.admin,
            idle_release: seconds(self.idle_release),
            reconnect: seconds(self.reconnect),
            ceiling: seconds(self.ceiling),
            browser: if self.browser == "HeadlessShell" {
                crate::api::v1alpha1::Browser::HeadlessShell
            } else {
                crate::api::v1alpha1::Browser::Chromium
            },
            transport: if self.transport == "stdio" { Transport::Stdio } else { Transport::Http },
            namespace: self.namespace.clone(),
            system_namespace: self.system_namespace.clone(),
            watch_namespace: self.watch_namespace.clone(),
            audience: self.audience.clone(),
            extra_keys: self.extra_keys.iter().filter(|key| !key.is_empty()).cloned().collect(),
            allowed_hosts,
            allowed_origins,
            public_url,
        })
    }
}

/// The origin with its port spelled out, and the authority.
fn parse_origin(flag: &'static str, text: &str) -> Result<(String, String), ConfigError> {
    let wrong = || ConfigError::Unusable {
        flag,
        value: text.to_owned(),
        why: "must be scheme://host or scheme://host:port, such as https://beckon.example.com",
    };
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || !url.path().trim_end_matches('/').is_empty() || url.query().is_some() {
        return Err(wrong());
    }
    let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or_else(wrong)?;
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    Ok((format!("{}://{host}:{port}", url.scheme()), authority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        args: GatewayArgs,
    }

    fn settings(flags: &[&str]) -> Result<Settings, String> {
        let cli = Cli::try_parse_from(std::iter::once("beckon").chain(flags.iter().copied())).map_err(|e| e.to_string())?;
        cli.args.settings().map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_table() {
        let s = settings(&[]).unwrap();
        for setting in settings::SETTINGS.iter().filter(|s| s.roles.contains(&settings::Role::Gateway)) {
            let flags = [format!("--{}", setting.flag), setting.default.to_owned()];
            let named = settings(&flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{}: {e}", setting.flag));
            assert_eq!(named, s, "{}", setting.flag);
        }
    }

    #[test]
    fn contradictions_name_both_flags() {
        let error = settings(&["--captcha", "attention", "--admin", "false"]).unwrap_err();
        assert!(error.contains("--captcha attention") && error.contains("--admin"), "{error}");
        assert!(settings(&["--admin", "false"]).is_ok_and(|s| s.captcha && !s.dashboard));
        assert!(settings(&["--captcha", "off", "--admin", "false"]).is_ok_and(|s| !s.captcha));
        assert!(settings(&["--admin"]).is_ok_and(|s| s.dashboard));
        let error = settings(&["--minAttentionWait", "2h", "--attentionTimeout", "1h"]).unwrap_err();
        assert!(error.contains("--minAttentionWait 7200s") && error.contains("--attentionTimeout 3600s"), "{error}");
        assert!(settings(&["--minAttentionWait", "0", "--attentionTimeout", "1s"]).is_ok());
    }

    #[test]
    fn wrong_values_name_their_flag() {
        for (flags, part) in [
            (&["--attentionTimeout", "0"][..], "attention.timeoutSeconds: must be at least 1s"),
            (&["--attentionTimeout", "soon"], "attention.timeoutSeconds"),
            (&["--attentionTimeout", "-1"], "--attentionTimeout <DURATION>': attention.timeoutSeconds: must be at least 1s, not \"-1\""),
            (&["--minAttentionWait", "-1h"], "attention.minWaitSeconds: must be at least 1s, or 0, not \"-1h\""),
            (&["--reattachGrace", "-x"], "attention.reattachGraceSeconds: must be seconds or a duration"),
            (&["--idleRelease", "0"], "live.idleReleaseSeconds: must be at least 1s"),
            (&["--attentionTimout", "6h"], "--attentionTimeout"),
            (&["--captcha", "maybe"], "attention, off"),
            (&["--allowed-origin", "beckon.example.com"], "--allowed-origin"),
            (&["--public-url", "ftp://x"], "--public-url"),
            (&["--maxTotal", "8"], "--maxTotal"),
            (&["--captcha", "attention", "--transport", "stdio"], "--transport stdio"),
            (&["--namespace", "A B"], "--namespace \"A B\": must be a namespace"),
            (&["--namespace", "../x"], "--namespace"),
            (&["--system-namespace", ""], "--system-namespace"),
            (&["--watch-namespace", "here", "--namespace", "there"], "--watch-namespace \"here\": must be the --namespace"),
        ] {
            let error = settings(flags).unwrap_err();
            assert!(error.contains(part), "{flags:?}: {error}");
        }
    }

    #[test]
    fn the_extra_attributes_that_are_recorded_can_be_others_or_none() {
        assert_eq!(settings(&[]).unwrap().extra_keys, ["authentication.kubernetes.io/pod-name", "beckon.dev/person"]);
        assert_eq!(settings(&["--extra-keys=example.com/person,b"]).unwrap().extra_keys, ["example.com/person", "b"]);
        assert!(settings(&["--extra-keys="]).unwrap().extra_keys.is_empty());
    }

    #[test]
    fn the_public_address_is_an_allowed_host_and_origin() {
        let s = settings(&["--public-url", "https://beckon.example.com/"]).unwrap();
        assert_eq!(s.public_url.as_deref(), Some("https://beckon.example.com"));
        assert!(s.allowed_hosts.contains(&"beckon.example.com".to_owned()));
        assert_eq!(s.allowed_origins, ["https://beckon.example.com:443"]);
    }
}
