//! Whether the admission policies are in force: a dry-run create of an object that only the policies refuse, and what its
//! replies say about a decision that was stored at some time.

use super::time::after;
use k8s_openapi::jiff::Timestamp;

/// The name that the policy refuses.
pub const NAME: &str = "beckon-policy-canary";
/// The requester of the canary, whom nobody is.
pub const FORGED_REQUESTER: &str = "canary-forged";
/// The policies' own text, with the version of their rules.
pub const REFUSAL: &str = "beckon-policy/1";
/// What the API server refuses with before it has looked at any policy: while its caches fill, and in a namespace that ends.
const SILENT: [&str; 2] = ["not yet ready to handle request", "because it is being terminated"];
/// A good reply is worth this long, in seconds.
pub const GOOD_FOR_SECONDS: i64 = 300;
/// How often to ask while all is well, in seconds.
pub const ASK_EVERY_SECONDS: i64 = 60;
/// How soon to ask again when it is not, in seconds.
pub const ASK_AGAIN_SECONDS: i64 = 5;
/// A change of a policy takes about a second to act, so a reply counts only when it was asked for later than this many
/// seconds after the change.
pub const SETTLE_SECONDS: i64 = 2;
/// How many past periods are remembered; older ones melt into the oldest.
const REMEMBERED: usize = 16;

/// What a dry-run create of the canary says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The policies refused it.
    Enforced,
    /// They did not; why, for a person.
    NotEnforced(String),
    /// No reply, or none that says anything.
    Nothing,
}

/// Reads the reply: the API server's code and message, or `None` when it accepted the canary.
#[must_use]
pub fn classify(refusal: Option<(u16, &str)>) -> Reply {
    match refusal {
        None => Reply::NotEnforced("the canary was accepted: the validating policy or its binding is missing".into()),
        Some((403, text)) if text.contains(REFUSAL) => Reply::Enforced,
        // Overload, outage, an API server that warms up and a namespace that is going away say nothing about the policies.
        Some((0 | 404 | 408 | 429 | 500..=599, _)) => Reply::Nothing,
        Some((403, text)) if SILENT.iter().any(|said| text.contains(said)) => Reply::Nothing,
        Some((code, text)) => Reply::NotEnforced(format!("the canary was refused by something else ({code}): {}", cut(text))),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}

/// Whether a decision that was stored at some time is honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Yes.
    Honour,
    /// No: it may have been forged.
    Refuse,
    /// Not known until the next reply.
    Hold,
}

/// What is known of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enforcement {
    good_at: Option<Timestamp>,
    /// Not enforced, or not known to be, since then.
    bad_since: Option<Timestamp>,
    /// Whether a reply said so, rather than a change alone.
    refuted: bool,
    changed_at: Option<Timestamp>,
    past: Vec<(Timestamp, Timestamp)>,
}

impl Enforcement {
    /// A reply to a question that was asked at `asked`.
    pub fn reply(&mut self, reply: &Reply, asked: Timestamp) {
        match reply {
            Reply::Nothing => {}
            Reply::NotEnforced(_) => {
                // It may have begun at any time since the last good reply.
                self.refuted = true;
                self.bad_since.get_or_insert(self.good_at.unwrap_or(Timestamp::MIN));
            }
            Reply::Enforced => {
                if self.changed_at.is_some_and(|changed| asked < after(changed, SETTLE_SECONDS)) {
                    return;
                }
                if let Some(from) = self.bad_since.take() {
                    self.remember(from, asked);
                }
                self.refuted = false;
                self.good_at = Some(self.good_at.map_or(asked, |before| before.max(asked)));
            }
        }
    }

    /// A policy or binding changed at `at`.
    pub fn changed(&mut self, at: Timestamp) {
        self.changed_at = Some(self.changed_at.map_or(at, |before| before.max(at)));
        if self.good_at.is_some() {
            self.bad_since.get_or_insert(at);
        }
    }

    fn remember(&mut self, from: Timestamp, to: Timestamp) {
        self.past.push((from, to));
        if self.past.len() > REMEMBERED {
            let oldest = self.past.remove(0);
            if let Some(next) = self.past.first_mut() {
                next.0 = next.0.min(oldest.0);
            }
        }
    }

    /// Whether a decision that was stored at `stored` is honoured at `now`.
    #[must_use]
    pub fn trust(&self, stored: Timestamp, now: Timestamp) -> Trust {
        // The stamp of a stored decision has whole seconds: it may be up to one second later than it says.
        let until = after(stored, 1);
        if self.past.iter().any(|(from, to)| until > *from && stored < *to) {
            return Trust::Refuse;
        }
        match self.bad_since {
            Some(from) if until > from => Trust::Refuse,
            Some(_) => Trust::Honour,
            None if self.enforced(now) => Trust::Honour,
            None => Trust::Hold,
        }
    }

    /// Whether the policies are known to be in force.
    #[must_use]
    pub fn enforced(&self, now: Timestamp) -> bool {
        self.bad_since.is_none() && self.good_at.is_some_and(|good| now <= after(good, GOOD_FOR_SECONDS))
    }

    /// Whether a reply has said that they are not.
    #[must_use]
    pub const fn refuted(&self) -> bool {
        self.refuted
    }

    /// When to ask next.
    #[must_use]
    pub fn ask_at(&self, last_asked: Option<Timestamp>) -> Timestamp {
        let pause = if self.bad_since.is_none() && self.good_at.is_some() { ASK_EVERY_SECONDS } else { ASK_AGAIN_SECONDS };
        last_asked.map_or(Timestamp::MIN, |asked| after(asked, pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn only_the_policies_own_refusal_is_good() {
        let ours = "attentionrequests.beckon.dev \"beckon-policy-canary\" is forbidden: ValidatingAdmissionPolicy 'beckon-requests' with binding 'beckon-requests' denied request: beckon-policy/1 stamped=true";
        assert_eq!(classify(Some((403, ours))), Reply::Enforced);
        for (refusal, nothing) in [
            (None, false),
            (Some((403, "cannot create resource attentionrequests")), false),
            (Some((422, "spec.requester: Required value")), false),
            (Some((409, "already exists")), false),
            (Some((500, "etcd")), true),
            (Some((503, "")), true),
            (Some((429, "")), true),
            (Some((403, "attentionrequests.beckon.dev \"beckon-policy-canary\" is forbidden: not yet ready to handle request")), true),
            (Some((403, "is forbidden: unable to create new content in namespace x because it is being terminated")), true),
            (Some((404, "namespaces \"x\" not found")), true),
        ] {
            let reply = classify(refusal);
            assert_eq!(reply == Reply::Nothing, nothing, "{refusal:?}");
            assert_ne!(reply, Reply::Enforced, "{refusal:?}");
        }
    }

    #[test]
    fn nothing_is_honoured_before_the_first_good_reply() {
        let mut seen = Enforcement::default();
        assert_eq!(seen.trust(at(10), at(20)), Trust::Hold);
        seen.changed(at(15));
        assert_eq!(seen.trust(at(10), at(20)), Trust::Hold, "the first sight of the policies is no change");
        seen.reply(&Reply::Enforced, at(20));
        assert_eq!(seen.trust(at(10), at(20)), Trust::Honour);
    }

    #[test]
    fn a_bad_reply_reaches_back_to_the_last_good_one() {
        let mut seen = Enforcement::default();
        seen.reply(&Reply::Enforced, at(100));
        seen.reply(&Reply::NotEnforced(String::new()), at(160));
        assert_eq!(seen.trust(at(98), at(161)), Trust::Honour);
        assert_eq!(seen.trust(at(130), at(161)), Trust::Refuse);
        seen.reply(&Reply::Enforced, at(200));
        assert_eq!(seen.trust(at(130), at(201)), Trust::Refuse, "for good");
        assert_eq!(seen.trust(at(200), at(201)), Trust::Honour);
    }

    #[test]
    fn a_change_distrusts_until_a_later_good_reply() {
        let mut seen = Enforcement::default();
        seen.reply(&Reply::Enforced, at(100));
        seen.changed(at(110));
        seen.reply(&Reply::Enforced, at(111));
        assert!(!seen.enforced(at(111)), "asked too soon after the change");
        assert_eq!(seen.trust(at(112), at(112)), Trust::Refuse);
        assert_eq!(seen.trust(at(105), at(112)), Trust::Honour);
        seen.reply(&Reply::Enforced, at(113));
        assert!(seen.enforced(at(113)));
        assert_eq!(seen.trust(at(112), at(113)), Trust::Refuse);
        assert_eq!(seen.trust(at(113), at(114)), Trust::Honour);
    }

    #[test]
    fn an_old_good_reply_holds_and_an_outage_refuses_nothing() {
        let mut seen = Enforcement::default();
        seen.reply(&Reply::Enforced, at(100));
        assert_eq!(seen.trust(at(390), at(400)), Trust::Honour);
        seen.reply(&Reply::Nothing, at(401));
        assert_eq!(seen.trust(at(390), at(401)), Trust::Hold);
        seen.reply(&Reply::Enforced, at(405));
        assert_eq!(seen.trust(at(390), at(405)), Trust::Honour);
    }

    #[test]
    fn asks_soon_when_it_does_not_know() {
        let mut seen = Enforcement::default();
        assert_eq!(seen.ask_at(Some(at(10))), at(10 + ASK_AGAIN_SECONDS));
        seen.reply(&Reply::Enforced, at(10));
        assert_eq!(seen.ask_at(Some(at(10))), at(10 + ASK_EVERY_SECONDS));
        seen.changed(at(11));
        assert_eq!(seen.ask_at(Some(at(10))), at(10 + ASK_AGAIN_SECONDS));
    }

    proptest! {
        /// Whatever the replies are, what was stored between a bad reply and the next good one is never honoured.
        #[test]
        fn what_is_stored_in_a_bad_period_is_never_honoured(replies in proptest::collection::vec((1_i64..100, any::<bool>()), 1..60)) {
            let mut seen = Enforcement::default();
            let mut now = 0;
            let mut bad: Vec<i64> = Vec::new();
            for (pause, good) in replies {
                now += pause;
                let reply = if good { Reply::Enforced } else { Reply::NotEnforced(String::new()) };
                seen.reply(&reply, at(now));
                if !good { bad.push(now); }
                for stored in &bad {
                    prop_assert_eq!(seen.trust(at(*stored), at(now)), Trust::Refuse);
                }
            }
        }
    }
}
