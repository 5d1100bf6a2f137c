//! What the API server holds for a BrowserSession, whoever writes.

use crate::api::rules::{List, Rule, atomic, fixed, map};

/// Every rule.
pub(in crate::api) const RULES: &[&[Rule]] = &[LIFE, IMMUTABLE, BROWSER];

/// List semantics.
pub(in crate::api) const LISTS: &[List] = &[
    atomic("spec.tolerations"),
    atomic("spec.network.allowHosts"),
    atomic("spec.network.denyHosts"),
    map("status.conditions", &["type"]),
    atomic("status.openRequests"),
    atomic("status.idle.pausedBy"),
];

/// The owner is named, the close is set once, the end is final.
const LIFE: &[Rule] = &[
    Rule::forbid("", ".spec.close", "a session can't be created closed", "oldSelf.hasValue() || !has(self.spec.close)").at_create(),
    Rule::forbid(
        "",
        ".spec.close",
        "this session was already closed",
        "!has(oldSelf.spec.close) || (has(self.spec.close) && self.spec.close == oldSelf.spec.close)",
    ),
    Rule::forbid(
        "",
        ".status.phase",
        "status.phase is final",
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || !(oldSelf.status.phase in ['Closed', 'Crashed', 'Expired']) || (has(self.status) && has(self.status.phase) && self.status.phase == oldSelf.status.phase)",
    )
    .says("'status.phase ' + oldSelf.status.phase + ' is final'"),
    Rule::forbid(
        "",
        ".status.phase",
        "status.phase can't be removed",
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.status) && has(self.status.phase))",
    ),
    Rule::require(
        "spec",
        ".owner",
        "say who you are: add owner.username, your name in kubectl auth whoami (a cluster from 1.36 on fills it in)",
        "has(self.owner)",
    ),
    Rule::unchanging("spec.owner"),
    Rule::require(
        "spec.close",
        ".by",
        "say who you are: add by.username, your name in kubectl auth whoami (a cluster from 1.36 on fills it in)",
        "has(self.by)",
    ),
];

/// A running browser is not reconfigured under its agent.
const IMMUTABLE: &[Rule] = fixed![
    "startURL",
    "viewport",
    "locale",
    "timezone",
    "userAgent",
    "proxy",
    "idleTimeoutSeconds",
    "maxLifetimeSeconds",
    "approve",
    "human",
    "humanTimeoutSeconds",
    "resources",
    "nodeSelector",
    "tolerations",
    "runtimeClassName",
    "serviceAccountName",
    "downloads",
    "network",
];

/// What a browser is started with.
const BROWSER: &[Rule] = &[
    Rule::unchanging("spec.browser"),
    Rule::invalid(
        "spec",
        ".startURL",
        "must be about:blank or begin with http:// or https://",
        "!has(self.startURL) || self.startURL == 'about:blank' || self.startURL.startsWith('http://') || self.startURL.startsWith('https://')",
    ),
    // These three become words of the browser's command line and environment.
    Rule::invalid(
        "spec",
        ".locale",
        "must be a language tag such as en-GB",
        "!has(self.locale) || self.locale.matches('^[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*$')",
    ),
    Rule::invalid(
        "spec",
        ".timezone",
        "must be an IANA time zone such as Europe/Paris",
        "!has(self.timezone) || self.timezone.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",
    ),
    Rule::invalid(
        "spec",
        ".userAgent",
        "must be one line of printable ASCII characters",
        "!has(self.userAgent) || self.userAgent.matches('^[ -~]+$')",
    ),
    Rule::invalid(
        "spec",
        ".proxy",
        "must be scheme://host:port, without credentials",
        "!has(self.proxy) || (self.proxy.contains('://') && !self.proxy.contains('@'))",
    ),
];
