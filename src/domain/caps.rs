//! How many requests may be open: decided in one place, ordered by creation and then uid. What was accepted is never
//! un-accepted.

use k8s_openapi::jiff::Timestamp;
use std::collections::HashMap;

/// The installation's caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Open requests of one session.
    pub per_session: u32,
    /// Open requests in total.
    pub total: u32,
}

/// A request that is open, or wants to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// Its session, as `namespace/name`; absent: it counts toward the total only.
    pub session: Option<String>,
    /// Who asks.
    pub requester: Option<String>,
    /// Whether it was accepted before.
    pub accepted: bool,
}

/// Whether a request may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Within the caps.
    Admitted,
    /// Its session has its share already.
    SessionFull,
    /// The installation has its share already.
    TotalFull,
}

/// Decides about `uid` among all that are open or want to be. What somebody else wants of the same session takes no place of it
/// before it is accepted: a session that is not theirs never lets it be.
#[must_use]
pub fn admit(candidates: &[Candidate], uid: &str, caps: Caps) -> Admission {
    let (accepted, mut waiting): (Vec<&Candidate>, Vec<&Candidate>) = candidates.iter().partition(|candidate| candidate.accepted);
    if accepted.iter().any(|candidate| candidate.uid == uid) {
        return Admission::Admitted;
    }
    let mut open = Open { total: 0, sessions: HashMap::new(), caps };
    for candidate in accepted {
        open.add(candidate);
    }
    waiting.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
    let asks = waiting.iter().find(|candidate| candidate.uid == uid).map(|candidate| (&candidate.session, &candidate.requester));
    for candidate in waiting {
        if asks.is_some_and(|(session, requester)| session.is_some() && candidate.session == *session && candidate.requester != *requester)
        {
            continue;
        }
        let admission = open.room(candidate);
        if candidate.uid == uid {
            return admission;
        }
        if admission == Admission::Admitted {
            open.add(candidate);
        }
    }
    // It is not among them: nothing is known of it, so nothing is given to it.
    Admission::TotalFull
}

struct Open<'a> {
    total: u32,
    sessions: HashMap<&'a str, u32>,
    caps: Caps,
}

impl<'a> Open<'a> {
    fn add(&mut self, candidate: &'a Candidate) {
        self.total += 1;
        if let Some(session) = &candidate.session {
            *self.sessions.entry(session).or_default() += 1;
        }
    }

    fn room(&self, candidate: &Candidate) -> Admission {
        let of_session = candidate.session.as_deref().and_then(|session| self.sessions.get(session)).copied().unwrap_or_default();
        if candidate.session.is_some() && of_session >= self.caps.per_session {
            Admission::SessionFull
        } else if self.total >= self.caps.total {
            Admission::TotalFull
        } else {
            Admission::Admitted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: Caps = Caps { per_session: 8, total: 256 };

    fn candidate(n: i64, session: Option<&str>, accepted: bool) -> Candidate {
        let created = Timestamp::from_second(1000 + n / 10).expect("in range");
        Candidate { uid: format!("u{n:04}"), created, session: session.map(str::to_owned), requester: None, accepted }
    }

    #[test]
    fn the_ninth_of_a_session_and_the_257th_are_refused() {
        let nine: Vec<_> = (0..9).map(|n| candidate(n, Some("s"), n < 8)).collect();
        assert_eq!(admit(&nine, "u0008", SEED), Admission::SessionFull);
        let many: Vec<_> = (0..257).map(|n| candidate(n, None, n < 256)).collect();
        assert_eq!(admit(&many, "u0256", SEED), Admission::TotalFull);
        assert_eq!(admit(&many, "u0000", SEED), Admission::Admitted, "never un-accepted");
        assert_eq!(admit(&many, "stranger", SEED), Admission::TotalFull);
    }

    #[test]
    fn what_others_want_of_a_session_takes_no_place_of_its_owner() {
        let of = |n, requester: &str, accepted| Candidate { requester: Some(requester.to_owned()), ..candidate(n, Some("s"), accepted) };
        let mut all: Vec<_> = (0..9).map(|n| of(n, "mallory", false)).collect();
        all.push(of(20, "agent", false));
        assert_eq!(admit(&all, "u0020", SEED), Admission::Admitted);
        let mut all: Vec<_> = (0..8).map(|n| of(n, "operator", true)).collect();
        all.push(of(20, "agent", false));
        assert_eq!(admit(&all, "u0020", SEED), Admission::SessionFull, "what is open counts, whoever asked");
    }

    #[test]
    fn the_older_come_first_then_the_smaller_uid() {
        let all: Vec<_> = (0..20).rev().map(|n| candidate(n, Some("s"), false)).collect();
        for n in 0..20 {
            let want = if n < 8 { Admission::Admitted } else { Admission::SessionFull };
            assert_eq!(admit(&all, &format!("u{n:04}"), SEED), want, "{n}");
        }
    }

    #[test]
    fn without_a_session_only_the_total_counts() {
        let all: Vec<_> = (0..100).map(|n| candidate(n, None, false)).collect();
        assert_eq!(admit(&all, "u0099", SEED), Admission::Admitted);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Create(Option<u8>),
        Decide(usize),
        Settle(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => proptest::option::of(0_u8..40).prop_map(Step::Create),
            4 => any::<usize>().prop_map(Step::Decide),
            1 => any::<usize>().prop_map(Step::Settle),
        ]
    }

    proptest! {
        /// At most 8 in a session and 256 in total, whatever the order in which requests come, are decided and settle.
        #[test]
        fn the_caps_hold_under_any_interleaving(steps in proptest::collection::vec(step(), 1..900)) {
            let mut open: Vec<Candidate> = Vec::new();
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Create(session) => {
                        open.push(candidate(next, session.map(|s| format!("s{s}")).as_deref(), false));
                        next += 1;
                    }
                    Step::Decide(_) if open.is_empty() => {}
                    Step::Decide(which) => {
                        let which = which % open.len();
                        let uid = open[which].uid.clone();
                        if admit(&open, &uid, SEED) == Admission::Admitted {
                            open[which].accepted = true;
                        } else {
                            prop_assert!(!open[which].accepted, "an accepted one was un-accepted");
                            open.remove(which);
                        }
                    }
                    Step::Settle(_) if open.is_empty() => {}
                    Step::Settle(which) => { let which = which % open.len(); open.remove(which); }
                }
                let accepted: Vec<_> = open.iter().filter(|c| c.accepted).collect();
                prop_assert!(accepted.len() <= 256);
                let mut sessions: HashMap<&str, u32> = HashMap::new();
                for c in &accepted {
                    if let Some(session) = &c.session { *sessions.entry(session).or_default() += 1; }
                }
                prop_assert!(sessions.values().all(|n| *n <= 8));
            }
        }
    }
}
