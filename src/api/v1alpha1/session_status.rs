//! What is observed of a `BrowserSession`.

use super::attention_request::choice;
use super::browser_session::Viewport;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

choice! {
    /// A summary for people; Closed, Crashed and Expired are final.
    SessionPhase { Pending, Ready, Closed, Crashed, Expired } default Pending
}
choice! {
    /// Where the run stands.
    ExecutionState { Running, NeedsHuman, Waiting, Finished } default Running
}

/// What is observed. Written by the controller, but for `control`, `page`, `viewport` and the counters of the tools, which
/// are the gateway's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSessionStatus {
    /// The generation this status is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary for people; Closed, Crashed and Expired are final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SessionPhase>,
    /// Ready, IdlePaused, ControlHeld, Sandboxed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
    /// Why it ended, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodStatus>,
    /// The page's real size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
    /// The idle lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// The hard end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    /// When it was closed, crashed or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The names of its open requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub open_requests: Vec<String>,
    /// Who has the hands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// The page that is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<PageSummary>,
    /// The run, as its open requests show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionStatus>,
    /// How often a CAPTCHA of this session was handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub captcha_handovers: Option<i32>,
    /// Failed steps in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_steps: Option<i32>,
    /// How often the same action was repeated without progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub repeated_steps: Option<i32>,
}

/// The pod of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ip: Option<String>,
    /// How often the browser's container restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub restart_count: Option<i32>,
}

/// The idle lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// When it ends, while the clock runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// What is left, in seconds, while the clock stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub remaining_seconds: Option<i64>,
    /// What stops the clock: names of open requests, or `control`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub paused_by: Vec<String>,
}

/// Who has the hands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// The person who drives; absent: the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub holder: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Grows with every change of hands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub epoch: Option<i64>,
    /// The request that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub request: Option<String>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub wanted_by: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_since: Option<Time>,
}

/// The page that is shown. No path, no query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageSummary {
    /// Its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub origin: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub title: Option<String>,
}

/// The run, as its open requests show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionStatus {
    /// The run's id.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// Where it stands.
    pub state: ExecutionState,
    /// Grows with every change.
    #[schemars(range(min = 0))]
    pub state_version: i64,
}
