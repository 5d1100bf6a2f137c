//! What to do with a request. A stored decision beats everything else, whatever the clock says; among the rest what came
//! first wins.

use crate::api::conditions::SettledReason;
use crate::api::v1alpha1::{AttentionRequest, Incarnation, Phase, SessionPhase, Source};
use crate::domain::attachment::{Attached, Liveness};
use crate::domain::canary::Trust;
use crate::domain::deadline::{self, WaitLimits};
use crate::domain::outcome::{Outcome, decided_at};
use crate::domain::{incarnation, messages};
use k8s_openapi::jiff::Timestamp;

/// The session that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSeen {
    /// The request names none.
    NotNamed,
    /// It could not be read: that says nothing about it.
    Unknown,
    /// There is none of this name and uid, for sure.
    Gone,
    /// It belongs to somebody else, and the gateway has not looked whether that may be.
    Foreign,
    /// It lives.
    Alive {
        /// Its browser, once there is one.
        incarnation: Option<Incarnation>,
        /// Its hard end, once known.
        ends: Option<Timestamp>,
    },
    /// It ended.
    Ended {
        /// Closed, Crashed or Expired.
        phase: SessionPhase,
        /// When, where known.
        at: Option<Timestamp>,
        /// Whether somebody other than its owner closed it.
        by_other: bool,
        /// Whether its pod was evicted.
        evicted: bool,
        /// Why, for a person.
        why: Option<String>,
    },
}

impl SessionSeen {
    /// The end that it means for its open requests, and when that came.
    fn end(&self, raised: Option<&Incarnation>) -> Option<(Option<Timestamp>, Outcome)> {
        let rejected = |reason, message: String| Outcome::of(Phase::Rejected, reason, message);
        match self {
            Self::Foreign => Some((None, rejected(SettledReason::ForeignSession, messages::FOREIGN_SESSION.into()))),
            Self::Gone => Some((None, rejected(SettledReason::SessionClosed, messages::SESSION_CLOSED.into()))),
            Self::Alive { incarnation, .. } if incarnation::lost(raised, incarnation.as_ref()) => {
                Some((None, rejected(SettledReason::SessionCrashed, messages::session_crashed(Some(messages::why::REPLACED)))))
            }
            Self::NotNamed | Self::Unknown | Self::Alive { .. } => None,
            Self::Ended { phase, at, by_other, evicted, why } => {
                let outcome = match phase {
                    SessionPhase::Expired => expired(),
                    SessionPhase::Crashed => {
                        let reason = if *evicted { SettledReason::SessionEvicted } else { SettledReason::SessionCrashed };
                        rejected(reason, messages::session_crashed(why.as_deref()))
                    }
                    SessionPhase::Closed | SessionPhase::Pending | SessionPhase::Ready => {
                        let text = if *by_other { messages::SESSION_CLOSED_BY_OPERATOR } else { messages::SESSION_CLOSED };
                        rejected(SettledReason::SessionClosed, text.into())
                    }
                };
                Some((*at, outcome))
            }
        }
    }

    fn hard_end(&self) -> Option<Timestamp> {
        match self {
            Self::Alive { ends, .. } => *ends,
            Self::NotNamed | Self::Unknown | Self::Gone | Self::Foreign | Self::Ended { .. } => None,
        }
    }

    fn life(&self) -> Option<&Incarnation> {
        match self {
            Self::Alive { incarnation, .. } => incarnation.as_ref(),
            Self::NotNamed | Self::Unknown | Self::Gone | Self::Foreign | Self::Ended { .. } => None,
        }
    }
}

/// What a request's life depends on.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The request.
    pub request: &'a AttentionRequest,
    /// Its session.
    pub session: SessionSeen,
    /// The gateway process of each of its attachments.
    pub attachments: &'a [Liveness],
    /// Who waited when that was last recorded.
    pub attached: Option<Attached>,
    /// Whether the decision in the spec, where there is one, is honoured.
    pub trust: Trust,
    /// The installation's bounds of a wait.
    pub limits: WaitLimits,
    /// The reattach grace, in seconds.
    pub grace_seconds: i64,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It has its outcome: only its history is left.
    Settled,
    /// Record the outcome.
    Settle {
        /// How it ended.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
    /// It is new: the caps decide.
    New(NewPlan),
    /// It is open.
    Open(OpenPlan),
    /// It is decided, but not known whether to honour that.
    Hold,
    /// It is new and its session could not be read.
    Unknown,
}

/// What to record of a new request if the caps admit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPlan {
    /// When it times out.
    pub deadline: Timestamp,
    /// The browser it is raised against.
    pub incarnation: Option<Incarnation>,
}

/// What to record of an open request, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPlan {
    /// When it times out.
    pub deadline: Timestamp,
    /// Whether 80 % of the wait are over.
    pub near: bool,
    /// Who waits.
    pub attached: Option<Attached>,
    /// The browser it was raised against.
    pub incarnation: Option<Incarnation>,
    /// The next instant at which something changes by itself.
    pub wake: Timestamp,
}

/// What to do with a request at `now`.
#[must_use]
pub fn settle(seen: &Seen<'_>, now: Timestamp) -> Plan {
    let request = seen.request;
    let status = request.status.as_ref();
    if status.and_then(|status| status.phase).is_some_and(|phase| phase != Phase::Pending) {
        return Plan::Settled;
    }
    if let Some(outcome) = Outcome::decided(&request.spec) {
        let stored = decided_at(request, now);
        return match seen.trust {
            Trust::Honour => Plan::Settle { outcome, at: stored.unwrap_or(now) },
            Trust::Hold => Plan::Hold,
            Trust::Refuse => Plan::Settle {
                outcome: Outcome::of(Phase::Rejected, SettledReason::IdentityNotEnforced, messages::IDENTITY_NOT_ENFORCED),
                at: now,
            },
        };
    }
    let raised = status.and_then(|status| status.incarnation.as_ref());
    let lost = seen.session.end(raised);
    let opened = status.filter(|status| status.phase.is_some()).and_then(|status| status.opened_at.as_ref()).map(|time| time.0);
    let Some(opened) = opened else {
        return match (lost, &seen.session) {
            // Named without a uid, it may never have been there.
            (_, SessionSeen::Gone) if request.spec.session_ref.as_ref().is_some_and(|named| named.uid.is_none()) => {
                Plan::Settle { outcome: Outcome::of(Phase::Rejected, SettledReason::SessionNotFound, messages::SESSION_NOT_FOUND), at: now }
            }
            (Some((_, outcome)), _) => Plan::Settle { outcome, at: now },
            (None, SessionSeen::Unknown) => Plan::Unknown,
            (None, session) => Plan::New(NewPlan {
                deadline: deadline::deadline(&request.spec, now, None, session.hard_end(), seen.limits),
                incarnation: session.life().cloned(),
            }),
        };
    };
    let stored = status.and_then(|status| status.deadline.as_ref()).map(|time| time.0);
    let deadline = deadline::deadline(&request.spec, opened, stored, seen.session.hard_end(), seen.limits);
    let attached = Attached::observe(request.spec.waiter, seen.attachments, seen.attached, now);
    let grace = attached.and_then(|attached| attached.end(seen.grace_seconds));

    // Whoever looks first at that instant, the session's controller or the request's, says the same.
    let expired = seen.session.hard_end().filter(|end| *end <= now).map(|end| (end, expired()));
    let due = [
        lost.map(|(at, outcome)| (at.unwrap_or(now).min(now), outcome)),
        expired,
        (deadline <= now).then(|| (deadline, timed_out(request, seen.limits))),
        grace.clone().filter(|(end, _)| *end <= now),
    ];
    // `min_by_key` keeps the first of equals: a loss before a deadline before a grace.
    if let Some((_, outcome)) = due.into_iter().flatten().min_by_key(|(at, _)| *at) {
        return Plan::Settle { outcome, at: now };
    }
    let near_at = deadline::near(opened, deadline);
    let near = near_at <= now;
    let wake = [(!near).then_some(near_at), grace.map(|(end, _)| end), seen.session.hard_end()]
        .into_iter()
        .flatten()
        .fold(deadline, Timestamp::min);
    Plan::Open(OpenPlan { deadline, near, attached, incarnation: raised.or(seen.session.life()).cloned(), wake })
}

/// The session's lease or lifetime is over, and with it every wait in it.
fn expired() -> Outcome {
    Outcome::of(Phase::Rejected, SettledReason::SessionExpired, messages::SESSION_EXPIRED)
}

fn timed_out(request: &AttentionRequest, limits: WaitLimits) -> Outcome {
    let message = match request.spec.source {
        Source::Run => messages::no_human_response(limits.wait(request.spec.source, request.spec.max_wait_seconds)),
        Source::RequestAttention | Source::UserAction | Source::Operator | Source::Kubectl => messages::TIMED_OUT.to_owned(),
    };
    Outcome::of(Phase::Timeout, SettledReason::DeadlineExceeded, message)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
