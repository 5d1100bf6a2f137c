//! The idle lease: a session ends after some time without activity. While a request is open or a person holds control the
//! clock stands; it resumes with what was left, at least a minute.

use super::time::{after, round_up, seconds_left};
use crate::api::v1alpha1::Idle;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// What is left at least after a pause, in seconds.
pub const LEAST_AFTER_PAUSE_SECONDS: i64 = 60;
/// What `pausedBy` says of a person who drives.
pub const CONTROL: &str = "control";

/// The name of the Lease that says when a session was last used. It is never the bare name, which agents choose: the Lease of
/// another thing could have that.
#[must_use]
pub fn name(session: &str) -> String {
    format!("{session}-activity")
}

/// The clock of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// It runs.
    Running {
        /// When the lease ends without activity.
        deadline: Timestamp,
    },
    /// It stands.
    Paused {
        /// What is left, in seconds.
        remaining_seconds: i64,
        /// Names of open requests, and [`CONTROL`].
        by: Vec<String>,
    },
}

/// What moves the clock.
#[derive(Clone, Copy, Debug)]
pub struct Signals<'a> {
    /// The idle timeout, in seconds.
    pub timeout_seconds: i64,
    /// When the session became usable; before that nobody can be active.
    pub usable: Timestamp,
    /// The last activity: agent calls and human input, never mere watching.
    pub activity: Option<Timestamp>,
    /// When the clock last resumed. Activity of before that was during a pause and does not count.
    pub resumed: Option<Timestamp>,
    /// What stops the clock: names of open requests, and [`CONTROL`]. Sorted.
    pub paused_by: &'a [String],
}

impl Clock {
    /// The clock as it was recorded.
    #[must_use]
    pub fn recorded(idle: Option<&Idle>) -> Option<Self> {
        let idle = idle?;
        if let Some(remaining_seconds) = idle.remaining_seconds {
            return Some(Self::Paused { remaining_seconds, by: idle.paused_by.clone() });
        }
        idle.deadline.as_ref().map(|deadline| Self::Running { deadline: deadline.0 })
    }

    /// As it is recorded.
    #[must_use]
    pub fn record(&self) -> Idle {
        match self {
            Self::Running { deadline } => Idle { deadline: Some(Time(*deadline)), ..Idle::default() },
            Self::Paused { remaining_seconds, by } => {
                Idle { remaining_seconds: Some(*remaining_seconds), paused_by: by.clone(), ..Idle::default() }
            }
        }
    }

    /// The clock at `now`, from what it was before.
    #[must_use]
    pub fn next(before: Option<&Self>, signals: Signals<'_>, now: Timestamp) -> Self {
        let counted = signals.activity.filter(|activity| signals.resumed.is_none_or(|resumed| *activity >= resumed));
        // An activity of the future is a clock that goes wrong: it counts as now.
        let renewed = |activity: Timestamp| round_up(after(activity.min(now), signals.timeout_seconds));
        let running = match before {
            None => renewed(signals.usable.max(signals.activity.unwrap_or(signals.usable))),
            Some(Self::Running { deadline }) => counted.map_or(*deadline, |activity| renewed(activity).max(*deadline)),
            Some(Self::Paused { remaining_seconds, by }) => {
                if !signals.paused_by.is_empty() {
                    let remaining_seconds = *remaining_seconds;
                    let same = by.as_slice() == signals.paused_by;
                    return Self::Paused { remaining_seconds, by: if same { by.clone() } else { signals.paused_by.to_vec() } };
                }
                round_up(after(now, (*remaining_seconds).max(LEAST_AFTER_PAUSE_SECONDS)))
            }
        };
        if signals.paused_by.is_empty() {
            Self::Running { deadline: running }
        } else {
            Self::Paused { remaining_seconds: seconds_left(now, running), by: signals.paused_by.to_vec() }
        }
    }

    /// When the session expires if nothing happens; `None` while the clock stands.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        match self {
            Self::Running { deadline } => Some(*deadline),
            Self::Paused { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn signals(activity: Option<i64>, resumed: Option<i64>, paused_by: &[String]) -> Signals<'_> {
        Signals { timeout_seconds: 600, usable: at(1000), activity: activity.map(at), resumed: resumed.map(at), paused_by }
    }

    #[test]
    fn activity_renews_and_watching_does_not() {
        let start = Clock::next(None, signals(None, None, &[]), at(1000));
        assert_eq!(start.expires(), Some(at(1600)));
        let same = Clock::next(Some(&start), signals(None, None, &[]), at(1500));
        assert_eq!(same, start);
        let renewed = Clock::next(Some(&start), signals(Some(1500), None, &[]), at(1501));
        assert_eq!(renewed.expires(), Some(at(2100)));
        let stale = Clock::next(Some(&renewed), signals(Some(1400), None, &[]), at(1502));
        assert_eq!(stale, renewed, "a late reading moves nothing back");
    }

    #[test]
    fn it_stands_while_a_request_is_open_and_resumes_with_what_was_left() {
        let open = ["a-1".to_owned()];
        let start = Clock::next(None, signals(None, None, &[]), at(1000));
        let paused = Clock::next(Some(&start), signals(None, None, &open), at(1400));
        assert_eq!(paused, Clock::Paused { remaining_seconds: 200, by: open.to_vec() });
        let later = Clock::next(Some(&paused), signals(Some(9000), None, &open), at(9000));
        assert_eq!(later, paused, "ten minutes or two hours: it stands");
        let resumed = Clock::next(Some(&later), signals(Some(9000), None, &[]), at(9100));
        assert_eq!(resumed.expires(), Some(at(9300)), "not reset to full by what the person did meanwhile");
        let still = Clock::next(Some(&resumed), signals(Some(9000), Some(9100), &[]), at(9101));
        assert_eq!(still, resumed);
        let active = Clock::next(Some(&resumed), signals(Some(9102), Some(9100), &[]), at(9103));
        assert_eq!(active.expires(), Some(at(9702)), "the agent goes on");
    }

    #[test]
    fn at_least_a_minute_is_left() {
        let open = [CONTROL.to_owned()];
        let start = Clock::Running { deadline: at(1600) };
        let paused = Clock::next(Some(&start), signals(None, None, &open), at(1599));
        let resumed = Clock::next(Some(&paused), signals(None, None, &[]), at(5000));
        assert_eq!(resumed.expires(), Some(at(5060)));
    }

    #[test]
    fn the_record_is_the_clock() {
        for clock in [Clock::Running { deadline: at(7) }, Clock::Paused { remaining_seconds: 0, by: vec!["a".into()] }] {
            assert_eq!(Clock::recorded(Some(&clock.record())), Some(clock));
        }
        assert_eq!(Clock::recorded(None), None);
    }

    proptest! {
        /// However long and often it is paused, and whatever is done meanwhile, no time runs off while it stands; and it never
        /// ends before its time.
        #[test]
        fn never_runs_while_paused(steps in proptest::collection::vec((1_i64..500, any::<bool>(), any::<bool>()), 1..80)) {
            let (mut now, mut resumed) = (1000_i64, None);
            let mut clock = Clock::next(None, signals(None, None, &[]), at(now));
            let open = ["a-1".to_owned()];
            // The longest that the clock may have run since the last renewal, in seconds.
            let mut left = 600_i64;
            for (pause, paused, active) in steps {
                let was = clock.clone();
                if matches!(was, Clock::Running { .. }) { left -= pause; }
                now += pause;
                if clock.expires().is_some_and(|end| end <= at(now)) { prop_assert!(left <= 0, "early by {left} s"); break; }
                let activity = active.then_some(now);
                let by: &[String] = if paused { &open } else { &[] };
                clock = Clock::next(Some(&clock), signals(activity, resumed, by), at(now));
                if matches!(was, Clock::Running { .. }) && active { left = 600; }
                if matches!((&was, &clock), (Clock::Paused { .. }, Clock::Running { .. })) {
                    resumed = Some(now);
                    left = left.max(LEAST_AFTER_PAUSE_SECONDS);
                }
                match &clock {
                    Clock::Running { deadline } => prop_assert!(*deadline >= at(now + left), "{deadline} is before {}", now + left),
                    Clock::Paused { remaining_seconds, .. } => prop_assert!(*remaining_seconds >= left.max(0)),
                }
            }
        }
    }
}
