//! The texts that agents may match on, letter for letter. What is known beyond them follows as a sentence of its own.

/// The deadline passed.
pub const TIMED_OUT: &str = "Attention request timed out; the operator was not available to respond.";
/// The gateway process that held the call was lost.
pub const SERVER_RESTARTED: &str = "Attention request was lost when the server restarted.";
/// The gateway process that held the call had announced its end.
pub const SERVER_SHUTDOWN: &str = "The server shut down while the attention request was open.";
/// The session's owner closed it, or the session is gone.
pub const SESSION_CLOSED: &str = "The session was closed while the attention request was open.";
/// Somebody else closed the session.
pub const SESSION_CLOSED_BY_OPERATOR: &str = "The session was closed by an operator while the attention request was open.";
/// Made with kubectl about a session of another.
pub const FOREIGN_SESSION: &str = "The attention request names a session that belongs to somebody else. Name one of your own.";
/// Made with kubectl about a session that is not there.
pub const SESSION_NOT_FOUND: &str =
    "The attention request names a session that does not exist. Name one of your own in spec.sessionRef.name: kubectl get browsersessions.";
/// Chromium or its pod was lost.
pub const SESSION_CRASHED: &str = "The session crashed while the attention request was open.";
/// The session's lease or lifetime ended.
pub const SESSION_EXPIRED: &str = "The session expired while the attention request was open.";
/// The object was deleted.
pub const DELETED: &str = "The attention request was deleted.";
/// The requester withdrew it.
pub const CLIENT_CANCELLED: &str = "The client cancelled the attention request.";
/// The requester's connection went and did not come back.
pub const CLIENT_GONE: &str = "The client disconnected and did not come back.";
/// No such id, or another's.
pub const UNKNOWN: &str = "Unknown attention request";
/// It was answered while the admission policies were not in force.
pub const IDENTITY_NOT_ENFORCED: &str =
    "The answer was not accepted, because it came while the cluster did not verify who answers. Ask again once it does.";

/// The timeout of a run's pause.
#[must_use]
pub fn no_human_response(wait_seconds: i64) -> String {
    let minutes = wait_seconds.max(0).div_euclid(60) + i64::from(wait_seconds.rem_euclid(60) > 0);
    format!("no human response within {minutes} minutes")
}

/// A session's share of open requests is used up.
#[must_use]
pub fn session_cap(most: u32) -> String {
    format!("RATE_LIMITED: at most {most} attention requests may be open in one session. Wait for one to settle, or cancel one.")
}

/// The installation's share of open requests is used up.
#[must_use]
pub fn total_cap(most: u32) -> String {
    format!("RATE_LIMITED: at most {most} attention requests may be open in total. Wait for some to settle.")
}

/// Chromium or its pod was lost, and why where that is known.
#[must_use]
pub fn session_crashed(why: Option<&str>) -> String {
    why.map_or_else(|| SESSION_CRASHED.to_owned(), |why| format!("{SESSION_CRASHED} {why}"))
}

/// Why a browser was lost: sentences that follow [`SESSION_CRASHED`].
pub mod why {
    /// The container's memory limit.
    pub const OUT_OF_MEMORY: &str = "The browser ran out of memory.";
    /// The eviction API, or the kubelet under pressure.
    pub const EVICTED: &str = "The pod was evicted.";
    /// Its node.
    pub const NODE_LOST: &str = "The node was lost.";
    /// A more important pod.
    pub const PREEMPTED: &str = "The pod was preempted.";
    /// Somebody deleted it.
    pub const DELETED: &str = "The pod was deleted.";
    /// It obeyed an order to stop that Beckon did not give.
    pub const STOPPED: &str = "The browser was stopped from outside, for instance because it had not answered its node for two minutes.";
    /// Another pod stands in its place.
    pub const REPLACED: &str = "The browser was restarted.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_those_that_were_waited_at_least() {
        for (seconds, text) in [(60, "1"), (1800, "30"), (90, "2"), (86_400, "1440"), (0, "0")] {
            assert_eq!(no_human_response(seconds), format!("no human response within {text} minutes"));
        }
    }

    #[test]
    fn what_is_known_follows_the_stable_sentence() {
        assert_eq!(session_crashed(None), SESSION_CRASHED);
        assert_eq!(
            session_crashed(Some(why::OUT_OF_MEMORY)),
            "The session crashed while the attention request was open. The browser ran out of memory."
        );
    }
}
