//! `BrowserSession`: one Chromium in a pod, its owner and its life.

use super::attention_request::choice;
use super::session_status::BrowserSessionStatus;
use super::shared::Principal;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A browser that an agent drives and a person may take over.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "beckon.dev",
    version = "v1alpha1",
    kind = "BrowserSession",
    plural = "browsersessions",
    singular = "browsersession",
    shortname = "bsess",
    category = "beckon",
    namespaced,
    status = "BrowserSessionStatus",
    derive = "PartialEq",
    selectable = ".status.phase",
    selectable = ".spec.owner.username",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Browser", type_ = "string", json_path = ".spec.browser"),
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.owner.username"),
    printcolumn(name = "Control", type_ = "string", json_path = ".status.control.holder"),
    printcolumn(name = "Open", type_ = "string", json_path = ".status.openRequests"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Page", type_ = "string", json_path = ".status.page.origin"),
    printcolumn(name = "Sandbox", type_ = "string", json_path = ".status.conditions[?(@.type=='Sandboxed')].reason", priority = 1),
    printcolumn(name = "Idle-Deadline", type_ = "string", json_path = ".status.idle.deadline", priority = 1),
    printcolumn(name = "Ends", type_ = "string", json_path = ".status.endsAt", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSessionSpec {
    /// Whose it is. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// Chromium: the full browser. HeadlessShell: half the memory, a third of the start time, no PDF viewer.
    #[serde(default)]
    pub browser: Browser,
    /// The first page; about:blank when absent.
    #[serde(rename = "startURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub start_url: Option<String>,
    /// The page's size, in CSS pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
    /// A BCP 47 language tag, such as en-GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 35))]
    pub locale: Option<String>,
    /// An IANA time zone, such as Europe/Paris.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,
    /// The User-Agent header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub user_agent: Option<String>,
    /// A proxy, as scheme://host:port. Credentials don't belong here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub proxy: Option<String>,
    /// The idle lease, in seconds. Absent: the installation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 604_800))]
    pub idle_timeout_seconds: Option<i64>,
    /// The hard end after creation, in seconds, which a pause does not move. Absent: the installation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 2_592_000))]
    pub max_lifetime_seconds: Option<i64>,
    /// What the tools stop for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approve>,
    /// Whether the agent may ask people at all. Absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human: Option<bool>,
    /// How long each pause of a run waits, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 86_400))]
    pub human_timeout_seconds: Option<i64>,
    /// The pod's resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Where the pod may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: BTreeMap<String, String>,
    /// Which taints the pod tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
    /// A runtime that isolates the pod, such as gvisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// The pod's service account. Its token is never mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// What the browser is meant to keep. Every download is refused, whatever stands here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downloads: Option<Downloads>,
    /// What the browser is meant to reach. What it can reach is for the installation's NetworkPolicy alone, the same for every session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Ends the session. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<Close>,
}

choice! {
    /// The browser's flavour.
    Browser { Chromium, HeadlessShell } default Chromium
}
choice! {
    /// What the tools stop for.
    Approve { Risky, Submit, None } default Risky
}
choice! {
    /// Whether downloads are kept.
    DownloadMode { Deny, Keep } default Deny
}
choice! {
    /// What the browser may reach: the internet without private ranges, or anything.
    NetworkMode { Internet, Any } default Internet
}
choice! {
    /// What a toleration does.
    TaintEffect { NoSchedule, PreferNoSchedule, NoExecute }
}
choice! {
    /// How a toleration matches.
    TolerationOperator { Exists, Equal } default Equal
}

/// A page's size, in CSS pixels. Beyond the bounds the screencast wedges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Viewport {
    /// 320 to 2560.
    #[schemars(range(min = 320, max = 2560))]
    pub width: i32,
    /// 240 to 1600.
    #[schemars(range(min = 240, max = 1600))]
    pub height: i32,
}

impl Default for Viewport {
    fn default() -> Self {
        Self { width: 1280, height: 800 }
    }
}

/// The pod's resources, as Kubernetes quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The CPU asked for, such as 500m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_request: Option<String>,
    /// The CPU limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_limit: Option<String>,
    /// The memory asked for, such as 512Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_request: Option<String>,
    /// The memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub memory_limit: Option<String>,
}

/// A taint that the pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key; absent with operator Exists: every taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub key: Option<String>,
    /// Exists or Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Absent: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a NoExecute taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub toleration_seconds: Option<i64>,
}

/// What the browser may keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Downloads {
    /// Deny, or keep in the pod.
    #[serde(default)]
    pub mode: DownloadMode,
    /// The most that is kept, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_240))]
    pub max_mebibytes: Option<i32>,
}

/// What the browser may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Internet: no private, link-local or cluster addresses.
    #[serde(default)]
    pub mode: NetworkMode,
    /// Host names that are reached although the mode would refuse them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub allow_hosts: Vec<String>,
    /// Host names that are never reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub deny_hosts: Vec<String>,
}

/// The end of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Close {
    /// Who closed it. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub reason: Option<String>,
}
