//! What is observed of an `AttentionRequest`.

use super::attention_request::choice;
use super::shared::{SecretRef, Target};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is observed. Written by the controller, but for `attachments`, `evidence` and `receipt`, which are the gateway's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttentionRequestStatus {
    /// The generation this status is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary for people; final once it is not Pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Accepted, Settled, DeadlineNear, TargetEligible, Attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
    /// When it was taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Time>,
    /// When it times out. Moves only later, and only by an extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// When it got its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    /// How long it was open, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waited_seconds: Option<i64>,
    /// What the agent reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub message: Option<String>,
    /// The user name of the person who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub resolved_by: Option<String>,
    /// Who may answer now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_target: Option<Target>,
    /// The browser it was raised against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// The calls that wait, and the gateway process of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub attachments: Vec<Attachment>,
    /// The gateway processes at which calls waited when that was last looked at: it tells later which of them were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub waiting_at: Vec<String>,
    /// What the browser's driver saw when it was raised. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The state version of the session's execution when it settled. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub execution_state_version_at_close: Option<i64>,
    /// Whether the requester has consumed the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// Webhook deliveries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub deliveries: Vec<Delivery>,
}

choice! {
    /// A summary for people.
    Phase { Pending, Resolved, Rejected, Timeout, Cancelled }
}
choice! {
    /// Whether the requester has consumed the answer.
    ReceiptState { None, Pending, Consumed } default None
}

/// One life of a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Incarnation {
    /// The pod's uid.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub pod_uid: Option<String>,
    /// The browser container's restart count.
    #[serde(rename = "restartCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub restart_count: Option<i32>,
}

/// A call that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// The call.
    #[schemars(length(min = 1, max = 128))]
    pub call: String,
    /// The name of its gateway process's Lease, or `client` for a client that polls.
    #[schemars(length(min = 1, max = 253))]
    pub gateway: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What the driver saw. No query, no fragment, nothing typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The page's origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub origin: Option<String>,
    /// The page's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub path: Option<String>,
    /// The page's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub title: Option<String>,
    /// When it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captured_at: Option<Time>,
    /// The digest that an answer may quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub digest: Option<String>,
    /// The Secret that holds the screenshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screenshot_ref: Option<SecretRef>,
    /// The action that waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<EvidenceAction>,
}

/// The action that waits for approval, as the driver sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceAction {
    /// The button's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub label: Option<String>,
    /// The form's values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub fields: Vec<String>,
    /// The digest of label and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub digest: Option<String>,
}

/// Whether the requester has consumed the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// None: nothing to consume. Pending: an answer waits. Consumed: acknowledged.
    pub state: ReceiptState,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_at: Option<Time>,
}

/// The delivery of one event to one sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The sink's name.
    #[schemars(length(min = 1, max = 253))]
    pub sink: String,
    /// The event.
    #[schemars(length(min = 1, max = 64))]
    pub event: String,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub attempts: Option<i32>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// When it arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Time>,
}
