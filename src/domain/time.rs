//! Arithmetic of instants that saturates, and the rounding that keeps a stored time from being early.
//!
//! Kubernetes stores whole seconds. What must not happen too early is therefore rounded up before it is stored.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// `seconds` after `at`; the ends of time are not crossed.
#[must_use]
pub fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// The next whole second, or `at` when it is one.
#[must_use]
pub fn round_up(at: Timestamp) -> Timestamp {
    let floor = round_down(at);
    if floor == at { at } else { after(floor, 1) }
}

/// The whole second that `at` lies in: what Kubernetes stores.
#[must_use]
pub fn round_down(at: Timestamp) -> Timestamp {
    let second = at.as_second() - i64::from(at.subsec_nanosecond() < 0);
    Timestamp::from_second(second).unwrap_or(at)
}

/// Whole seconds from `from` to `to`, rounded up; 0 when `to` is not later.
#[must_use]
pub fn seconds_left(from: Timestamp, to: Timestamp) -> i64 {
    let left = to.duration_since(from);
    (left.as_secs() + i64::from(left.subsec_nanos() > 0)).max(0)
}

/// Whole seconds from `from` to `to`, rounded down; 0 when `to` is not later.
#[must_use]
pub fn seconds_passed(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_brackets_the_instant(millis in -1_000_000_000_000_i64..4_000_000_000_000) {
            let at = Timestamp::from_millisecond(millis).expect("in range");
            let (down, up) = (round_down(at), round_up(at));
            prop_assert!(down <= at && at <= up);
            prop_assert!(down.subsec_nanosecond() == 0 && up.subsec_nanosecond() == 0);
            prop_assert!(up.duration_since(down) <= SignedDuration::from_secs(1));
        }
    }

    #[test]
    fn seconds() {
        let at = |ms| Timestamp::from_millisecond(ms).expect("in range");
        for (from, to, left, passed) in [(0, 0, 0, 0), (0, 1, 1, 0), (0, 1000, 1, 1), (0, 1001, 2, 1), (1000, 0, 0, 0)] {
            assert_eq!((seconds_left(at(from), at(to)), seconds_passed(at(from), at(to))), (left, passed), "{from} {to}");
        }
        assert_eq!(after(Timestamp::MAX, 1), Timestamp::MAX);
        assert_eq!(after(Timestamp::MIN, -1), Timestamp::MIN);
    }
}
