//! Who has the hands.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How long a grant lives without a renewal, in seconds. A gateway that is cut off from the pod, or from the API server,
/// stops renewing, so a request that settled elsewhere closes the gate.
pub const GRANT_SECONDS: u64 = 2;

/// Asks for control for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeControl {
    /// The person's user name.
    pub holder: String,
    /// The open AttentionRequest that entitles them; absent with the verb `takeover`.
    pub request: Option<String>,
    /// Seconds without input after which control is handed back.
    pub idle_release_seconds: u64,
    /// Seconds that the person's connection may be away.
    pub reconnect_seconds: u64,
    /// The longest that they drive, in seconds.
    pub ceiling_seconds: u64,
}

/// A lease of control. Every input event quotes `lease`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGrant {
    /// An unguessable name.
    pub lease: String,
    /// Grows with every change of hands; a token of an earlier epoch is dead.
    pub epoch: i64,
    /// When control ends if nobody types, clicks or extends.
    pub idle_until: Timestamp,
    /// When it ends in any case.
    pub ceiling: Timestamp,
}

/// Keeps a grant alive for [`GRANT_SECONDS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewControl {
    /// The lease.
    pub lease: String,
    /// Also restart the ceiling: the person asked to keep control.
    #[serde(default)]
    pub extend: bool,
}

/// Hands back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseControl {
    /// The lease, or absent to end whoever's control on behalf of the settled `request`.
    pub lease: Option<String>,
    /// End the control that is bound to this request.
    pub request: Option<String>,
}

/// Who has the hands, as everybody may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlState {
    /// The person; absent: the agent.
    pub holder: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Grows with every change of hands.
    pub epoch: i64,
    /// The request it is bound to.
    pub request: Option<String>,
    /// When control ends if nobody types, clicks or extends.
    pub idle_until: Option<Timestamp>,
    /// When it ends in any case.
    pub ceiling: Option<Timestamp>,
    /// An agent's action that was running when control was asked for is not finished yet.
    #[serde(default)]
    pub pending: bool,
    /// The holder's grant was not renewed in time: nothing of theirs reaches the page until they take again.
    #[serde(default)]
    pub dead: bool,
}
