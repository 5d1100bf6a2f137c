//! Which life of a browser a request was raised against.

use crate::api::v1alpha1::{Incarnation, PodStatus};

/// The life that a session's status shows; `None` without a pod.
#[must_use]
pub fn of(pod: Option<&PodStatus>) -> Option<Incarnation> {
    let pod = pod?;
    Some(Incarnation { pod_uid: Some(pod.uid.clone()?), restart_count: Some(pod.restart_count.unwrap_or_default()) })
}

/// Whether the browser that a request was raised against is lost: another pod, or a restarted container. A request that was
/// raised before there was a browser has lost none.
#[must_use]
pub fn lost(raised: Option<&Incarnation>, current: Option<&Incarnation>) -> bool {
    let Some(raised) = raised else { return false };
    let Some(current) = current else { return raised.pod_uid.is_some() };
    let moved = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
    moved(&raised.pod_uid, &current.pod_uid)
        || raised.restart_count.zip(current.restart_count).is_some_and(|(raised, current)| current != raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(uid: &str, restarts: i32) -> Incarnation {
        Incarnation { pod_uid: Some(uid.into()), restart_count: Some(restarts) }
    }

    #[test]
    fn another_pod_or_another_start_is_another_life() {
        for (raised, current, want) in [
            (None, None, false),
            (None, Some(life("a", 0)), false),
            (Some(life("a", 0)), Some(life("a", 0)), false),
            (Some(life("a", 0)), Some(life("a", 1)), true),
            (Some(life("a", 0)), Some(life("b", 0)), true),
            (Some(life("a", 0)), None, true),
            (Some(Incarnation::default()), Some(life("a", 0)), false),
        ] {
            assert_eq!(lost(raised.as_ref(), current.as_ref()), want, "{raised:?} {current:?}");
        }
    }

    #[test]
    fn a_pod_without_a_uid_is_no_life() {
        assert_eq!(of(None), None);
        assert_eq!(of(Some(&PodStatus { name: "s".into(), ..PodStatus::default() })), None);
        let pod = PodStatus { name: "s".into(), uid: Some("a".into()), ..PodStatus::default() };
        assert_eq!(of(Some(&pod)), Some(life("a", 0)));
    }
}
