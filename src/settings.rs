//! Every setting of an installation: one name everywhere, as a chart value (but for one), a key of `--set`, and a flag of the
//! roles that read it.
//!
//! Only the standard library is used here, since the contributors' tool reads this table too.

/// Which process reads a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `beckon controller`.
    Controller,
    /// `beckon gateway`.
    Gateway,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole seconds, or a number with a unit: `90s`, `30m`, `6h`, `7d`. At least this many seconds, where 0 is also allowed
    /// when the second value says so.
    Seconds {
        /// The least.
        min: u64,
        /// Whether 0 is allowed below the least.
        or_zero: bool,
    },
    /// A whole number from 1.
    Count,
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The chart value and `--set` key.
    pub key: &'static str,
    /// The flag, without dashes.
    pub flag: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The default, as written on a command line.
    pub default: &'static str,
    /// Who reads it.
    pub roles: &'static [Role],
    /// One line for the help text.
    pub help: &'static str,
}

impl Setting {
    /// Whether it is a value of the chart. A pod has no standard input that a client could speak on, so `transport` is none.
    #[must_use]
    pub fn in_chart(&self) -> bool {
        self.key != "transport"
    }
}

const BOTH: &[Role] = &[Role::Controller, Role::Gateway];
const CONTROLLER: &[Role] = &[Role::Controller];
const GATEWAY: &[Role] = &[Role::Gateway];
const SECONDS: Kind = Kind::Seconds { min: 1, or_zero: false };
const SECONDS_OR_NONE: Kind = Kind::Seconds { min: 1, or_zero: true };

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "attention.timeoutSeconds",
        flag: "attentionTimeout",
        kind: SECONDS,
        default: "6h",
        roles: BOTH,
        help: "The longest that a request waits",
    },
    Setting {
        key: "attention.minWaitSeconds",
        flag: "minAttentionWait",
        kind: SECONDS_OR_NONE,
        default: "30m",
        roles: BOTH,
        help: "A shorter wait is raised to this; 0: no floor",
    },
    Setting {
        key: "attention.reattachGraceSeconds",
        flag: "reattachGrace",
        kind: SECONDS_OR_NONE,
        default: "5m",
        roles: BOTH,
        help: "How long a request outlives its caller's connection; 0: not at all",
    },
    Setting {
        key: "attention.holdWithoutProgressSeconds",
        flag: "holdWithoutProgress",
        kind: SECONDS_OR_NONE,
        default: "50s",
        roles: GATEWAY,
        help: "How long a call without a progress token is held before it answers pending; 0: as long as it takes",
    },
    Setting {
        key: "attention.maxPerSession",
        flag: "maxPerSession",
        kind: Kind::Count,
        default: "8",
        roles: CONTROLLER,
        help: "Open requests of one session",
    },
    Setting {
        key: "attention.maxTotal",
        flag: "maxTotal",
        kind: Kind::Count,
        default: "256",
        roles: CONTROLLER,
        help: "Open requests in total",
    },
    Setting {
        key: "attention.captcha",
        flag: "captcha",
        kind: Kind::Word(&["attention", "off"]),
        default: "attention",
        roles: GATEWAY,
        help: "Whether agents are told to hand CAPTCHAs over",
    },
    Setting { key: "dashboard.enabled", flag: "admin", kind: Kind::Switch, default: "true", roles: GATEWAY, help: "Serve the dashboard" },
    Setting {
        key: "live.idleReleaseSeconds",
        flag: "idleRelease",
        kind: SECONDS,
        default: "10m",
        roles: GATEWAY,
        help: "Control is handed back after this long without input",
    },
    Setting {
        key: "live.reconnectSeconds",
        flag: "reconnect",
        kind: SECONDS,
        default: "30s",
        roles: GATEWAY,
        help: "A driver's connection may be away for this long",
    },
    Setting {
        key: "live.ceilingSeconds",
        flag: "ceiling",
        kind: SECONDS,
        default: "1h",
        roles: GATEWAY,
        help: "The longest that one person drives",
    },
    Setting {
        key: "session.idleTimeoutSeconds",
        flag: "idleTimeout",
        kind: Kind::Seconds { min: 60, or_zero: false },
        default: "30m",
        roles: CONTROLLER,
        help: "A session ends after this long without activity",
    },
    Setting {
        key: "session.maxLifetimeSeconds",
        flag: "maxLifetime",
        kind: Kind::Seconds { min: 60, or_zero: false },
        default: "8h",
        roles: CONTROLLER,
        help: "The hard end of a session",
    },
    Setting {
        key: "session.browser",
        flag: "browser",
        kind: Kind::Word(&["Chromium", "HeadlessShell"]),
        default: "Chromium",
        roles: GATEWAY,
        help: "The browser of a session that names none",
    },
    Setting {
        key: "history.ttlSeconds",
        flag: "historyTTL",
        kind: SECONDS,
        default: "7d",
        roles: CONTROLLER,
        help: "How long settled requests and ended sessions are kept",
    },
    Setting {
        key: "transport",
        flag: "transport",
        kind: Kind::Word(&["http", "stdio"]),
        default: "http",
        roles: GATEWAY,
        help: "How MCP is served",
    },
];

/// The setting of a `--set` key, or an error that names the nearest.
pub fn find(key: &str) -> Result<&'static Setting, String> {
    if let Some(setting) = SETTINGS.iter().find(|s| s.key == key) {
        return Ok(setting);
    }
    let nearest = SETTINGS.iter().min_by_key(|s| distance(&s.key.to_lowercase(), &key.to_lowercase())).map_or("", |s| s.key);
    Err(format!("there is no setting {key:?}; did you mean {nearest}?"))
}

/// Checks a value and returns it as a flag takes it.
pub fn check(setting: &Setting, value: &str) -> Result<String, String> {
    let wrong = |what: String| Err(format!("{}: {what}, not {value:?}", setting.key));
    match setting.kind {
        Kind::Seconds { min, or_zero } => match seconds(value) {
            Ok(n) if n >= min || (or_zero && n == 0) => Ok(value.to_owned()),
            Err(why) if value.strip_prefix('-').is_none_or(|less| seconds(less).is_err()) => Err(format!("{}: {why}", setting.key)),
            _ => wrong(format!("must be at least {min}s{}", if or_zero { ", or 0" } else { "" })),
        },
        Kind::Count => match value.parse::<u32>() {
            Ok(n) if n >= 1 => Ok(value.to_owned()),
            _ => wrong("must be a whole number from 1".to_owned()),
        },
        Kind::Switch if matches!(value, "true" | "false") => Ok(value.to_owned()),
        Kind::Switch => wrong("must be true or false".to_owned()),
        Kind::Word(words) if words.contains(&value) => Ok(value.to_owned()),
        Kind::Word(words) => wrong(format!("must be one of {}", words.join(", "))),
    }
}

/// Whole seconds, or a number with a unit: `90s`, `30m`, `6h`, `7d`.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("must be seconds or a duration such as 90s, 30m, 6h or 7d, not {text:?}");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(digits) {
        Some("" | "s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

/// The Levenshtein distance, for "did you mean".
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        for (above, y) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(x != *y)).min(*above + 1).min(left + 1);
            diagonal = *above;
            *above = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_its_own_check() {
        for setting in SETTINGS {
            assert_eq!(check(setting, setting.default), Ok(setting.default.to_owned()), "{}", setting.key);
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        assert_eq!(
            find("attention.timeoutSecond").unwrap_err(),
            "there is no setting \"attention.timeoutSecond\"; did you mean attention.timeoutSeconds?"
        );
        assert_eq!(
            find("attention.maxTotals").unwrap_err(),
            "there is no setting \"attention.maxTotals\"; did you mean attention.maxTotal?"
        );
    }

    #[test]
    fn durations() {
        for (text, want) in [
            ("0", Some(0)),
            ("90", Some(90)),
            ("90s", Some(90)),
            ("30m", Some(1800)),
            ("6h", Some(21_600)),
            ("7d", Some(604_800)),
            ("-1", None),
            ("1.5h", None),
            ("h", None),
            ("", None),
            ("6 h", None),
            ("99999999999999999d", None),
        ] {
            assert_eq!(seconds(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn distances() {
        for (a, b, want) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }
}
