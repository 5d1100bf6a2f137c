//! Conditions with typed reasons, and the merge that keeps a transition time unless the status flips.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The condition types of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// AttentionRequest: taken in by the controller, or refused by a cap.
    Accepted,
    /// AttentionRequest: has its outcome; for good.
    Settled,
    /// AttentionRequest: 80 % of the wait is over.
    DeadlineNear,
    /// AttentionRequest: somebody may answer it.
    TargetEligible,
    /// AttentionRequest: a caller waits on it. Its transition time is the start of the reattach grace.
    Attached,
    /// BrowserSession: tools can be called.
    Ready,
    /// BrowserSession: the idle clock stands still.
    IdlePaused,
    /// BrowserSession: a person drives.
    ControlHeld,
    /// BrowserSession: Chromium runs in its own sandbox; the reason names the tier.
    Sandboxed,
}

impl ConditionType {
    /// The `type` as stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Settled => "Settled",
            Self::DeadlineNear => "DeadlineNear",
            Self::TargetEligible => "TargetEligible",
            Self::Attached => "Attached",
            Self::Ready => "Ready",
            Self::IdlePaused => "IdlePaused",
            Self::ControlHeld => "ControlHeld",
            Self::Sandboxed => "Sandboxed",
        }
    }
}

/// Declares a closed set of condition reasons with their stored spelling.
macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The `reason` as stored.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }

            /// The reason that is stored as `text`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|r| r.as_str() == text)
            }
        }
    };
}

reasons! {
    /// Why a request was taken in or not.
    AcceptedReason {
        /// Within the caps.
        Admitted,
        /// Over a cap: refused.
        RateLimited,
        /// Behind another request of the same session.
        Queued,
    }
}

reasons! {
    /// Why a request has its outcome.
    SettledReason {
        /// Over a cap.
        RateLimited,
        /// A person resolved or rejected it.
        Answered,
        /// Nobody answered in time.
        DeadlineExceeded,
        /// The requester withdrew it.
        ClientCancelled,
        /// The requester's connection went and did not come back.
        ClientGone,
        /// The gateway process that held the call was lost and nobody came back.
        ServerRestarted,
        /// The gateway process that held the call had announced its end.
        ServerShutdown,
        /// The session that it names is somebody else's.
        ForeignSession,
        /// There is no session of that name.
        SessionNotFound,
        /// The session was closed.
        SessionClosed,
        /// Chromium or its pod was lost.
        SessionCrashed,
        /// The session's idle lease or lifetime ended.
        SessionExpired,
        /// The session's pod was evicted.
        SessionEvicted,
        /// The handover ended without an answer.
        HandoverEnded,
        /// The user confirmed it to the agent.
        ConfirmedByUser,
        /// The agent looked or acted again.
        AgentResumed,
        /// It was answered while identities were not enforced.
        IdentityNotEnforced,
        /// The object was deleted.
        Deleted,
    }
}

reasons! {
    /// Whether the deadline is near.
    DeadlineNearReason {
        /// 80 % of the wait are over.
        FourFifthsOver,
        /// It was near, and was moved.
        Extended,
    }
}

reasons! {
    /// Whether a caller waits.
    AttachedReason {
        /// A call waits at a gateway process, or its client polls.
        Waiting,
        /// Nobody has attached yet.
        NeverAttached,
        /// The client's stream ended.
        ClientDetached,
        /// The gateway process that held the call is gone.
        GatewayLost,
        /// The gateway process that held the call had announced its end.
        GatewayShutdown,
    }
}

reasons! {
    /// Why a session is ready or not.
    ReadyReason {
        /// Tools can be called.
        BrowserReady,
        /// The pod is not there or has not started.
        PodStarting,
        /// The pod could not be created or scheduled; the message says why.
        PodPending,
        /// It was closed.
        Closed,
        /// Chromium or the pod was lost.
        Crashed,
        /// The pod was evicted or preempted.
        Evicted,
        /// The lease or the lifetime ended.
        Expired,
    }
}

reasons! {
    /// Why the idle clock runs or stands.
    IdlePausedReason {
        /// At least one request is open.
        RequestsOpen,
        /// A person drives.
        ControlHeld,
        /// The clock runs.
        Running,
    }
}

reasons! {
    /// Who has the hands.
    ControlHeldReason {
        /// A person.
        PersonDriving,
        /// The agent.
        AgentDriving,
    }
}

reasons! {
    /// The tier of isolation of the browser.
    SandboxedReason {
        /// Chromium's own sandbox is on.
        Native,
        /// A runtime class isolates the pod; Chromium's own sandbox is off.
        Runtime,
        /// No sandbox of Chromium's own.
        Compat,
    }
}

/// A condition without its transition time, which [`merge`] decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// The type.
    pub kind: ConditionType,
    /// `True`, `False` or, for `None`, `Unknown`.
    pub status: Option<bool>,
    /// The reason's stored spelling.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

/// Merges `new` into `current`: the transition time stays unless the status flips, conditions of other types stay as
/// they are, the order is stable.
#[must_use]
pub fn merge(current: &[Condition], new: &[NewCondition], generation: Option<i64>, now: Timestamp) -> Vec<Condition> {
    let mut merged = current.to_vec();
    for condition in new {
        let status = match condition.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let next = |since: Time| Condition {
            type_: condition.kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: condition.reason.to_owned(),
            message: condition.message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        };
        if let Some(old) = merged.iter_mut().find(|c| c.type_ == condition.kind.as_str()) {
            let since = if old.status == status { old.last_transition_time.clone() } else { Time(now) };
            *old = next(since);
        } else {
            merged.push(next(Time(now)));
        }
    }
    merged
}

/// The condition of a type.
#[must_use]
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == kind.as_str())
}

/// Whether the condition of a type is `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find(conditions, kind).is_some_and(|c| c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn ready(status: bool, message: &str) -> NewCondition {
        NewCondition { kind: ConditionType::Ready, status: Some(status), reason: "PodStarting", message: message.into() }
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let first = merge(&[], &[ready(false, "a")], Some(1), at(10));
        let same = merge(&first, &[ready(false, "b")], Some(2), at(20));
        let flipped = merge(&same, &[ready(true, "c")], Some(2), at(30));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!((same[0].message.as_str(), same[0].observed_generation), ("b", Some(2)));
        assert_eq!(flipped[0].last_transition_time.0, at(30));
        assert_eq!(flipped.len(), 1);
    }
}
