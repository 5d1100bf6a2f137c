//! `AttentionRequest`: what an agent asks, and what people did to it.

use super::attention_status::AttentionRequestStatus;
use super::shared::{Expected, Principal, SecretRef, SessionRef, Target};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An agent's request for a person. What is asked never changes; what people do to it is set once or appended to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "beckon.dev",
    version = "v1alpha1",
    kind = "AttentionRequest",
    plural = "attentionrequests",
    singular = "attentionrequest",
    shortname = "attn",
    category = "beckon",
    namespaced,
    status = "AttentionRequestStatus",
    derive = "PartialEq",
    selectable = ".status.phase",
    selectable = ".spec.sessionRef.name",
    selectable = ".spec.requester.username",
    selectable = ".spec.target.user",
    selectable = ".spec.target.group",
    printcolumn(name = "Session", type_ = "string", json_path = ".spec.sessionRef.name"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "By", type_ = "string", json_path = ".spec.resolution.by.username"),
    printcolumn(name = "Deadline", type_ = "string", json_path = ".status.deadline"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Requester", type_ = "string", json_path = ".spec.requester.username", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".spec.resolution.message", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".spec.reason")
)]
#[serde(rename_all = "camelCase")]
pub struct AttentionRequestSpec {
    /// The browser session it is about. Required for mode Takeover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ref: Option<SessionRef>,
    /// Where it came from; decides the rules for waiting, timing and answering.
    #[serde(default)]
    pub source: Source,
    /// Takeover: the operator may drive the browser. Notify: view only.
    #[serde(default)]
    pub mode: Mode,
    /// What kind of answer is wanted. Absent: Resolve or Reject with a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// Why a person is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// What the agent needs, in its own words. Shown to the operator as plain text.
    #[schemars(length(min = 1, max = 2000))]
    pub reason: String,
    /// More of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub details: Option<String>,
    /// What the agent suggests that the person does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub suggested_action: Option<String>,
    /// The agent's JSON as text, token for token, at most 32768 bytes. Shown as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub options: Option<String>,
    /// How long to wait, in seconds. 0 or absent: the server's cap. Else raised to the floor, never above the cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub max_wait_seconds: Option<i64>,
    /// The run that waits on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionRef>,
    /// Who may answer. Absent: anyone with the verb `resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Later targets; the last one counts. Append-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub retargets: Vec<Retarget>,
    /// Who asked. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<Principal>,
    /// Required: an agent's call waits on it.
    #[serde(default)]
    pub waiter: Waiter,
    /// The requester's key for retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub idempotency_key: Option<String>,
    /// The digest of what was asked, to tell a retry from another question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub input_digest: Option<String>,
    /// "I am on it". May be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// More time, appended by operators; the controller clamps the deadline at openedAt plus the cap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub extensions: Vec<Extension>,
    /// A person's answer. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Settled without an operator's answer. Set once, by the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// The requester's withdrawal. Set once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    /// The requester has consumed the answer. Set once, by the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
}

impl AttentionRequestSpec {
    /// Who may answer now: the last retarget's target, else the request's own. `None`: anyone who may resolve.
    #[must_use]
    pub fn current_target(&self) -> Option<&Target> {
        self.retargets.last().map(|retarget| &retarget.target).or(self.target.as_ref())
    }
}

/// Declares a string enum of the API.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($variant:ident),+ $(,)? } $(default $default:ident)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[allow(missing_docs, reason = "a doc comment on a variant changes the shape of the schema; the names are the API's")]
        pub enum $name { $($variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As stored.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        $(impl Default for $name {
            fn default() -> Self { Self::$default }
        })?
    };
}
pub(super) use choice;

choice! {
    /// Where a request came from.
    Source { RequestAttention, UserAction, Run, Operator, Kubectl } default Kubectl
}
choice! {
    /// Whether the operator may drive.
    Mode { Takeover, Notify } default Takeover
}
choice! {
    /// The kind of answer.
    AskType { Takeover, Question, Approval, DestructiveAction, Access, Clarification, Decision, Other } default Takeover
}
choice! {
    /// Why a person is needed.
    Category {
        Authentication, LoginMethodSelection, Captcha, VerificationCode, SensitiveOperation, RedirectConfirmation,
        PermissionConfirmation, BlackScreen, AmbiguousSituation, UnsupportedAction, Stuck, Other,
    }
}
choice! {
    /// Whether an agent's call waits.
    Waiter { Required, None } default None
}
choice! {
    /// What the operator decided.
    ResolutionOutcome { Resolved, Rejected } default Resolved
}
choice! {
    /// The answer's kind; has to fit the ask.
    Verdict { Approved, Denied, Provided, Answered, Done, Failed }
}
choice! {
    /// Through what the answer came.
    Via { Kubectl, Dashboard, API }
}
choice! {
    /// Why a request settled without an operator's answer.
    CompletionReason { ConfirmedByUser, HandoverEnded, AgentResumed } default HandoverEnded
}

/// The kind of answer wanted, and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Takeover if and only if the mode is.
    #[serde(rename = "type")]
    pub type_: AskType,
    /// The answer is a secret: it goes into a Secret, never into this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expects_secret: Option<bool>,
    /// The answers to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 256)))]
    pub choices: Vec<String>,
    /// For approvals: the button, as the agent claims it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub action: Option<String>,
    /// For approvals: the form's values, as the agent claims them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)))]
    pub fields: Vec<String>,
}

/// The run that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRef {
    /// The run's id.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// The state version that the requester saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub expected_state_version: Option<i64>,
}

/// A later target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retarget {
    /// Who may answer from now on.
    pub target: Target,
    /// Who changed it. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// What they had before their eyes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// "I am on it".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Since when.
    pub since: Time,
    /// Who. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}

/// More time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extension {
    /// By how many seconds.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub seconds: i32,
    /// Who gave it. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}

/// A person's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Resolved: done, continue. Rejected: give up or try something else.
    pub outcome: ResolutionOutcome,
    /// The answer's kind; has to fit the ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The answer to a question. Never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2000))]
    pub answer: Option<String>,
    /// The Secret that holds a secret answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Needed for Clarification, Decision and Other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2000))]
    pub summary: Option<String>,
    /// A remark on the takeover.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub note: Option<String>,
    /// What the agent reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub message: Option<String>,
    /// Who answered. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// Through what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// What they had before their eyes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// Settled without an operator's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Completion {
    /// Why.
    pub reason: CompletionReason,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub note: Option<String>,
    /// Who. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}

/// The requester's withdrawal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancel {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2000))]
    pub reason: Option<String>,
    /// Who. Stamped by the API server from 1.36 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}

/// The requester has consumed the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The requester's key for retries.
    #[schemars(length(min = 1, max = 256))]
    pub key: String,
    /// The digest of the acknowledgement's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub body_digest: Option<String>,
    /// `metadata.generation` of the settled request.
    #[schemars(range(min = 1))]
    pub generation: i64,
    /// `status.executionStateVersionAtClose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub execution_state_version: Option<i64>,
    /// Who. Stamped by the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}
