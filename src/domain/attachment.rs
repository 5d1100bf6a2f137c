//! Who waits on a request, and the grace that runs when nobody does.
//!
//! A waiting call attaches to its gateway process, and each process holds a Lease under a name that is new at every start.
//! When nobody is attached any more the request lives on for the grace; the reason why nobody is decides its end.

use super::messages;
use super::outcome::Outcome;
use super::time::{after, round_up};
use crate::api::conditions::{AttachedReason, SettledReason};
use crate::api::v1alpha1::{Phase, Waiter};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The `gateway` of a client that was answered `pending` and polls: the deadline governs.
pub const POLLING_CLIENT: &str = "client";
/// A gateway attaches only after the request was taken in, so that this much grace is given before the first attachment
/// whatever the setting, in seconds.
pub const FIRST_ATTACH_SECONDS: i64 = 30;

/// What is known of the gateway process of one attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its Lease is fresh, or the client polls.
    Live,
    /// It has announced its end.
    ShuttingDown,
    /// Its Lease is gone or too old.
    Lost,
}

/// The Lease of a gateway process. `observed` is when this process saw it renewed: clocks of other machines do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLease {
    /// When the newest renewal was seen.
    pub observed: Timestamp,
    /// For how long a renewal counts, in seconds.
    pub duration_seconds: i64,
    /// Whether the process has announced its end.
    pub shutting_down: bool,
}

impl ProcessLease {
    /// Whether the process lives.
    #[must_use]
    pub fn liveness(self, now: Timestamp) -> Liveness {
        if self.shutting_down {
            Liveness::ShuttingDown
        } else if now.duration_since(self.observed) <= SignedDuration::from_secs(self.duration_seconds) {
            Liveness::Live
        } else {
            Liveness::Lost
        }
    }

    /// When it would be lost without a renewal.
    #[must_use]
    pub fn expires(self) -> Timestamp {
        after(self.observed, self.duration_seconds)
    }
}

/// Whether a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// Yes.
    Waiting,
    /// No, and since when.
    Nobody {
        /// Why.
        reason: AttachedReason,
        /// The start of the grace.
        since: Timestamp,
    },
}

impl Attached {
    /// Who waits now, from the attachments' processes and what was recorded before. `None` for a request that nobody has to
    /// wait for.
    #[must_use]
    pub fn observe(waiter: Waiter, attachments: &[Liveness], before: Option<Self>, now: Timestamp) -> Option<Self> {
        match waiter {
            Waiter::None => return None,
            Waiter::Required => {}
        }
        if attachments.contains(&Liveness::Live) {
            return Some(Self::Waiting);
        }
        let gone = if attachments.contains(&Liveness::ShuttingDown) {
            Some(AttachedReason::GatewayShutdown)
        } else if attachments.contains(&Liveness::Lost) {
            Some(AttachedReason::GatewayLost)
        } else {
            None
        };
        Some(match before {
            None => Self::Nobody { reason: gone.unwrap_or(AttachedReason::NeverAttached), since: now },
            Some(Self::Waiting) => Self::Nobody { reason: gone.unwrap_or(AttachedReason::ClientDetached), since: now },
            // It attached and was gone before this was seen.
            Some(Self::Nobody { reason: AttachedReason::NeverAttached, since }) if gone.is_some() => {
                Self::Nobody { reason: gone.unwrap_or(AttachedReason::GatewayLost), since }
            }
            Some(nobody) => nobody,
        })
    }

    /// When the request ends if nobody comes back, and how. `None` while somebody waits.
    #[must_use]
    pub fn end(self, grace_seconds: i64) -> Option<(Timestamp, Outcome)> {
        let Self::Nobody { reason, since } = self else { return None };
        let (grace, outcome) = match reason {
            AttachedReason::Waiting => return None,
            AttachedReason::NeverAttached => (grace_seconds.max(FIRST_ATTACH_SECONDS), client_gone()),
            AttachedReason::ClientDetached => (grace_seconds, client_gone()),
            AttachedReason::GatewayLost => {
                (grace_seconds, Outcome::of(Phase::Rejected, SettledReason::ServerRestarted, messages::SERVER_RESTARTED))
            }
            AttachedReason::GatewayShutdown => {
                (grace_seconds, Outcome::of(Phase::Rejected, SettledReason::ServerShutdown, messages::SERVER_SHUTDOWN))
            }
        };
        Some((after(round_up(since), grace), outcome))
    }

    /// The reason as recorded.
    #[must_use]
    pub const fn reason(self) -> AttachedReason {
        match self {
            Self::Waiting => AttachedReason::Waiting,
            Self::Nobody { reason, .. } => reason,
        }
    }
}

fn client_gone() -> Outcome {
    Outcome::of(Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use AttachedReason::{ClientDetached, GatewayLost, GatewayShutdown, NeverAttached};
    use Liveness::{Live, Lost, ShuttingDown};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn nobody(reason: AttachedReason, since: i64) -> Attached {
        Attached::Nobody { reason, since: at(since) }
    }

    #[test]
    fn who_waits() {
        for (attachments, before, want) in [
            (&[][..], None, nobody(NeverAttached, 9)),
            (&[Live], None, Attached::Waiting),
            (&[Lost, Live], Some(nobody(GatewayLost, 1)), Attached::Waiting),
            (&[], Some(Attached::Waiting), nobody(ClientDetached, 9)),
            (&[Lost], Some(Attached::Waiting), nobody(GatewayLost, 9)),
            (&[ShuttingDown], Some(Attached::Waiting), nobody(GatewayShutdown, 9)),
            (&[Lost, ShuttingDown], Some(Attached::Waiting), nobody(GatewayShutdown, 9)),
            (&[], Some(nobody(NeverAttached, 1)), nobody(NeverAttached, 1)),
            (&[Lost], Some(nobody(NeverAttached, 1)), nobody(GatewayLost, 1)),
            (&[Lost], Some(nobody(GatewayShutdown, 1)), nobody(GatewayShutdown, 1)),
            (&[], Some(nobody(GatewayLost, 1)), nobody(GatewayLost, 1)),
        ] {
            assert_eq!(Attached::observe(Waiter::Required, attachments, before, at(9)), Some(want), "{attachments:?} {before:?}");
        }
        assert_eq!(Attached::observe(Waiter::None, &[], None, at(9)), None);
    }

    #[test]
    fn what_the_end_of_the_grace_means() {
        for (reason, grace, end, phase, settled, message) in [
            (NeverAttached, 300, 310, Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE),
            (NeverAttached, 0, 40, Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE),
            (ClientDetached, 300, 310, Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE),
            (ClientDetached, 0, 10, Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE),
            (GatewayLost, 300, 310, Phase::Rejected, SettledReason::ServerRestarted, messages::SERVER_RESTARTED),
            (GatewayLost, 0, 10, Phase::Rejected, SettledReason::ServerRestarted, messages::SERVER_RESTARTED),
            (GatewayShutdown, 300, 310, Phase::Rejected, SettledReason::ServerShutdown, messages::SERVER_SHUTDOWN),
        ] {
            let (when, outcome) = nobody(reason, 10).end(grace).expect("ends");
            assert_eq!(when, at(end), "{reason:?} {grace}");
            assert_eq!((outcome.phase, outcome.reason, outcome.message.as_deref()), (phase, settled, Some(message)));
        }
        assert_eq!(Attached::Waiting.end(0), None);
    }

    #[test]
    fn a_process_lives_while_it_renews() {
        let lease = ProcessLease { observed: at(100), duration_seconds: 15, shutting_down: false };
        assert_eq!((lease.liveness(at(115)), lease.liveness(at(116))), (Live, Lost));
        assert_eq!(ProcessLease { shutting_down: true, ..lease }.liveness(at(100)), ShuttingDown);
    }
}
