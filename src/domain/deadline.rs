//! How long a request waits, and when that ends.

use super::time::{after, round_up, seconds_left};
use crate::api::v1alpha1::{AttentionRequestSpec, Source};
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

/// The wait of a run's pause that names none, in seconds.
pub const RUN_DEFAULT_SECONDS: i64 = 1800;
/// The least and the most that a run's pause may name, in seconds.
pub const RUN_BOUNDS_SECONDS: (i64, i64) = (60, 86_400);

/// The installation's bounds of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    cap: i64,
    floor: i64,
}

/// Bounds that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("--minAttentionWait ({floor} s) is above --attentionTimeout ({cap} s): lower the first or raise the second")]
pub struct FloorAboveCap {
    floor: i64,
    cap: i64,
}

impl WaitLimits {
    /// `cap` is the longest wait, `floor` what a shorter wish is raised to (0: no floor); both in seconds.
    ///
    /// # Errors
    /// When the floor is above the cap.
    pub fn new(cap: u64, floor: u64) -> Result<Self, FloorAboveCap> {
        let (cap, floor) = (i64::try_from(cap).unwrap_or(i64::MAX), i64::try_from(floor).unwrap_or(i64::MAX));
        if floor > cap { Err(FloorAboveCap { floor, cap }) } else { Ok(Self { cap, floor }) }
    }

    /// The longest wait, in seconds.
    #[must_use]
    pub const fn cap(self) -> i64 {
        self.cap
    }

    /// What a shorter wish is raised to, in seconds; 0: no floor.
    #[must_use]
    pub const fn floor(self) -> i64 {
        self.floor
    }

    /// How long a request waits, in seconds: 0 or absent is the cap, a positive wish is raised to the floor where the
    /// source has one, and never above the cap. A run's pause is taken as it is given.
    #[must_use]
    pub fn wait(self, source: Source, wish: Option<i64>) -> i64 {
        let wish = wish.filter(|seconds| *seconds > 0);
        match (source, wish) {
            (Source::Run, None) => RUN_DEFAULT_SECONDS,
            (Source::Run, Some(wish)) => wish.clamp(RUN_BOUNDS_SECONDS.0, RUN_BOUNDS_SECONDS.1),
            (_, None) => self.cap,
            (Source::RequestAttention | Source::Kubectl, Some(wish)) => wish.max(self.floor).min(self.cap),
            (Source::UserAction | Source::Operator, Some(wish)) => wish.min(self.cap),
        }
    }
}

/// When an open request times out: what it waits from `opened`, and its extensions up to `opened` plus the cap, but not
/// beyond the session's hard end. A `stored` deadline never moves earlier.
#[must_use]
pub fn deadline(
    spec: &AttentionRequestSpec,
    opened: Timestamp,
    stored: Option<Timestamp>,
    hard_end: Option<Timestamp>,
    limits: WaitLimits,
) -> Timestamp {
    let opened = round_up(opened);
    let wait = limits.wait(spec.source, spec.max_wait_seconds);
    let more: i64 = spec.extensions.iter().map(|extension| i64::from(extension.seconds.max(0))).sum();
    let extended = wait.saturating_add(more).min(limits.cap).max(wait);
    let end = after(opened, extended);
    let end = hard_end.map_or(end, |hard| end.min(round_up(hard)));
    stored.map_or(end, |stored| end.max(stored))
}

/// The instant at which 80 % of the wait are over.
#[must_use]
pub fn near(opened: Timestamp, deadline: Timestamp) -> Timestamp {
    let whole = seconds_left(opened, deadline);
    after(deadline, -(whole / 5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::Extension;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn limits(cap: u64, floor: u64) -> WaitLimits {
        WaitLimits::new(cap, floor).expect("consistent")
    }

    #[test]
    fn each_source_has_its_clamp() {
        let seed = limits(21_600, 1800);
        for (source, wish, want) in [
            (Source::RequestAttention, None, 21_600),
            (Source::RequestAttention, Some(0), 21_600),
            (Source::RequestAttention, Some(1), 1800),
            (Source::RequestAttention, Some(1800), 1800),
            (Source::RequestAttention, Some(3600), 3600),
            (Source::RequestAttention, Some(999_999), 21_600),
            (Source::Kubectl, Some(1), 1800),
            (Source::UserAction, Some(1), 1),
            (Source::UserAction, None, 21_600),
            (Source::Operator, Some(999_999), 21_600),
            (Source::Run, None, 1800),
            (Source::Run, Some(0), 1800),
            (Source::Run, Some(1), 60),
            (Source::Run, Some(60), 60),
            (Source::Run, Some(86_400), 86_400),
            (Source::Run, Some(999_999), 86_400),
        ] {
            assert_eq!(seed.wait(source, wish), want, "{source:?} {wish:?}");
        }
        assert_eq!(limits(21_600, 0).wait(Source::RequestAttention, Some(1)), 1, "no floor");
    }

    #[test]
    fn a_floor_above_the_cap_is_refused_and_names_both_flags() {
        let error = WaitLimits::new(60, 61).expect_err("contradiction").to_string();
        assert!(error.contains("--minAttentionWait") && error.contains("--attentionTimeout"), "{error}");
        assert!(WaitLimits::new(60, 60).is_ok());
    }

    #[test]
    fn extensions_are_clamped_at_opened_plus_cap() {
        let spec = |wish, extensions: &[i32]| AttentionRequestSpec {
            source: Source::RequestAttention,
            max_wait_seconds: Some(wish),
            extensions: extensions.iter().map(|seconds| Extension { seconds: *seconds, by: None }).collect(),
            ..AttentionRequestSpec::default()
        };
        let seed = limits(21_600, 1800);
        let end = |spec: &AttentionRequestSpec, hard| deadline(spec, at(1000), None, hard, seed);
        assert_eq!(end(&spec(3600, &[]), None), at(4600));
        assert_eq!(end(&spec(3600, &[600, 600]), None), at(5800));
        assert_eq!(end(&spec(3600, &[99_999]), None), at(22_600));
        assert_eq!(end(&spec(3600, &[600]), Some(at(4000))), at(4000), "never later than the session's hard end");
        let run = AttentionRequestSpec { source: Source::Run, ..spec(86_400, &[600]) };
        assert_eq!(end(&run, None), at(87_400), "an extension never shortens");
    }

    #[test]
    fn near_is_at_four_fifths() {
        assert_eq!(near(at(1000), at(2000)), at(1800));
        assert_eq!(near(at(1000), at(1001)), at(1001));
    }

    proptest! {
        #[test]
        fn never_early_and_only_later(
            opened_ms in 0_i64..2_000_000_000_000, wish in proptest::option::of(0_i64..200_000),
            source in proptest::sample::select(Source::ALL), cap in 1_u64..100_000, floor in 0_u64..100_000,
            more in proptest::collection::vec(1_i32..100_000, 0..16),
        ) {
            let Ok(limits) = WaitLimits::new(cap, floor) else { return Ok(()) };
            let opened = Timestamp::from_millisecond(opened_ms).expect("in range");
            let mut spec = AttentionRequestSpec { source, max_wait_seconds: wish, ..AttentionRequestSpec::default() };
            let first = deadline(&spec, opened, None, None, limits);
            let wait = limits.wait(source, wish);
            prop_assert!(first >= after(opened, wait), "early");
            prop_assert!(first <= after(opened, wait + 1), "more than a second late");
            prop_assert_eq!(first.subsec_nanosecond(), 0);
            let mut last = first;
            for seconds in more {
                spec.extensions.push(Extension { seconds, by: None });
                let next = deadline(&spec, opened, Some(last), None, limits);
                prop_assert!(next >= last);
                prop_assert!(next <= after(round_up(opened), limits.cap().max(wait)));
                last = next;
            }
            let close = near(opened, last);
            prop_assert!(close <= last && close >= opened);
        }
    }
}
