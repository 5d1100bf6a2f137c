//! The life of a session: what has to be done next. The end is recorded first and acted upon afterwards.

use super::messages::why;
use super::time::{after, round_up};
use crate::api::conditions::ReadyReason;
use crate::api::v1alpha1::{AttentionRequestSpec, BrowserSessionSpec, PodStatus, SessionPhase, Source};
use k8s_openapi::jiff::Timestamp;

/// A session's pod, as far as its life goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its uid.
    pub uid: String,
    /// Whether it is this session's: our controller reference with the session's uid.
    pub ours: bool,
    /// Its address.
    pub ip: Option<String>,
    /// The browser container's restart count.
    pub restart_count: i32,
    /// Whether the readiness probe passes.
    pub ready: bool,
    /// Why the browser is lost, when it is.
    pub lost: Option<Loss>,
    /// When it was created.
    pub created: Timestamp,
    /// What it waits for, for a person.
    pub waiting: Option<String>,
}

/// Why a browser is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The container's memory limit.
    OutOfMemory,
    /// The eviction API, or the kubelet under pressure.
    Evicted,
    /// Its node.
    NodeLost,
    /// A more important pod.
    Preempted,
    /// Somebody deleted it, or it is gone.
    Deleted,
    /// Another pod, or another start of the container.
    Restarted,
    /// The process ended; its exit code and the first line of its last words.
    Exited(i32, Option<String>),
    /// It was not ready in time; what it waited for.
    NotStarted(Option<String>),
}

impl Loss {
    /// For a person.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::OutOfMemory => why::OUT_OF_MEMORY.to_owned(),
            Self::Evicted => why::EVICTED.to_owned(),
            Self::NodeLost => why::NODE_LOST.to_owned(),
            Self::Preempted => why::PREEMPTED.to_owned(),
            Self::Deleted => why::DELETED.to_owned(),
            Self::Restarted => why::REPLACED.to_owned(),
            Self::Exited(0, None) => why::STOPPED.to_owned(),
            Self::Exited(code, None) => format!("The browser exited with code {code}."),
            Self::Exited(code, Some(words)) => format!("The browser exited with code {code}: {}", bounded(words)),
            Self::NotStarted(None) => "The browser did not start in time.".to_owned(),
            Self::NotStarted(Some(words)) => format!("The browser did not start in time: {}", bounded(words)),
        }
    }
}

/// A text that came from outside, on one line and at most 500 characters long.
#[must_use]
pub fn bounded(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(500).collect()
}

/// What the session's life depends on.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// What is wanted.
    pub spec: &'a BrowserSessionSpec,
    /// The recorded phase.
    pub phase: Option<SessionPhase>,
    /// The recorded pod.
    pub recorded: Option<&'a PodStatus>,
    /// The pod; `None` when it is not there.
    pub pod: Option<&'a PodSeen>,
    /// When the session was created.
    pub created: Timestamp,
    /// What was recorded of why it is not ready, for a person.
    pub said: Option<&'a str>,
    /// The hard end.
    pub ends: Timestamp,
    /// When the idle lease ends; `None` while its clock stands.
    pub idle_until: Option<Timestamp>,
    /// How long a pod may take to become ready, in seconds.
    pub start_seconds: i64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Make the pod and what it needs.
    Create,
    /// The pod starts; what it waits for.
    Starting(Option<String>),
    /// A pod of this name belongs to somebody else.
    Foreign,
    /// Tools can be called.
    Ready,
    /// Record the end; then act.
    End(End),
    /// It ended before: remove what it used.
    CleanUp,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Closed, Crashed or Expired.
    pub phase: SessionPhase,
    /// The reason of the Ready condition.
    pub reason: ReadyReason,
    /// For a person.
    pub message: String,
}

impl End {
    fn closed(spec: &BrowserSessionSpec) -> Option<Self> {
        let close = spec.close.as_ref()?;
        let who = close.by.as_ref().map_or("somebody", |by| by.username.as_str());
        let message = match close.reason.as_deref().filter(|reason| !reason.is_empty()) {
            Some(reason) => format!("Closed by {who}: {}", bounded(reason)),
            None => format!("Closed by {who}."),
        };
        Some(Self { phase: SessionPhase::Closed, reason: ReadyReason::Closed, message })
    }

    fn expired(message: &str) -> Self {
        Self { phase: SessionPhase::Expired, reason: ReadyReason::Expired, message: message.to_owned() }
    }

    fn crashed(loss: &Loss) -> Self {
        let reason = match loss {
            Loss::Evicted | Loss::Preempted => ReadyReason::Evicted,
            Loss::OutOfMemory | Loss::NodeLost | Loss::Deleted | Loss::Restarted | Loss::Exited(..) | Loss::NotStarted(_) => {
                ReadyReason::Crashed
            }
        };
        Self { phase: SessionPhase::Crashed, reason, message: loss.sentence() }
    }
}

/// Whether a phase is final.
#[must_use]
pub const fn ended(phase: Option<SessionPhase>) -> bool {
    matches!(phase, Some(SessionPhase::Closed | SessionPhase::Crashed | SessionPhase::Expired))
}

/// Whether a request is about a session that is not its requester's. The gateway has looked at those that it makes; one made
/// with kubectl names what it likes, and must neither take a place of the owner's nor open the owner's browser to anybody.
#[must_use]
pub fn foreign(request: &AttentionRequestSpec, session: &BrowserSessionSpec) -> bool {
    let parties = request.requester.as_ref().zip(session.owner.as_ref());
    request.source == Source::Kubectl && parties.is_some_and(|(requester, owner)| !requester.is(owner))
}

/// Whether somebody other than the owner closed it; `None` when it was not closed.
#[must_use]
pub fn closed_by_other(spec: &BrowserSessionSpec) -> Option<bool> {
    let close = spec.close.as_ref()?;
    Some(match (&close.by, &spec.owner) {
        (Some(by), Some(owner)) => !by.is(owner),
        (None, _) | (_, None) => false,
    })
}

/// The hard end, which no pause moves.
#[must_use]
pub fn ends(created: Timestamp, spec: &BrowserSessionSpec, default_seconds: i64) -> Timestamp {
    round_up(after(created, spec.max_lifetime_seconds.unwrap_or(default_seconds)))
}

/// What to do at `now`.
#[must_use]
pub fn plan(seen: &Seen<'_>, now: Timestamp) -> Plan {
    if ended(seen.phase) {
        return Plan::CleanUp;
    }
    if let Some(end) = End::closed(seen.spec) {
        return Plan::End(end);
    }
    if seen.ends <= now {
        return Plan::End(End::expired("The session reached its longest lifetime."));
    }
    let recorded_uid = seen.recorded.and_then(|pod| pod.uid.as_deref());
    let running = match seen.pod {
        None if recorded_uid.is_some() => return Plan::End(End::crashed(&Loss::Deleted)),
        None => return not_made(seen, now, Plan::Create),
        Some(pod) if !pod.ours => return not_made(seen, now, Plan::Foreign),
        Some(pod) => pod,
    };
    if let Some(loss) = &running.lost {
        return Plan::End(End::crashed(loss));
    }
    let restarts = seen.recorded.and_then(|pod| pod.restart_count).unwrap_or_default();
    if recorded_uid.is_some_and(|uid| uid != running.uid) || running.restart_count != restarts {
        return Plan::End(End::crashed(&Loss::Restarted));
    }
    let was_ready = seen.phase == Some(SessionPhase::Ready);
    if !running.ready && !was_ready {
        return if start_ends(seen) <= now {
            Plan::End(End::crashed(&Loss::NotStarted(running.waiting.clone())))
        } else {
            Plan::Starting(running.waiting.clone())
        };
    }
    if seen.idle_until.is_some_and(|until| until <= now) {
        return Plan::End(End::expired("The session was idle for too long."));
    }
    if running.ready { Plan::Ready } else { Plan::Starting(running.waiting.clone()) }
}

/// Without a pod of its own, once the time for it is over. What was never tried is tried: the controller itself was away.
fn not_made(seen: &Seen<'_>, now: Timestamp, otherwise: Plan) -> Plan {
    if seen.phase.is_none() || start_ends(seen) > now {
        return otherwise;
    }
    Plan::End(End::crashed(&Loss::NotStarted(seen.said.map(str::to_owned))))
}

/// When the browser has to answer: a pod that was made late has its time all the same.
fn start_ends(seen: &Seen<'_>) -> Timestamp {
    let own = seen.pod.filter(|pod| pod.ours).map(|pod| pod.created);
    after(own.unwrap_or(seen.created), seen.start_seconds)
}

/// When the plan changes by itself.
#[must_use]
pub fn wake(seen: &Seen<'_>) -> Timestamp {
    let start = (seen.phase != Some(SessionPhase::Ready)).then(|| start_ends(seen));
    [seen.idle_until, start].into_iter().flatten().fold(seen.ends, Timestamp::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{Close, Principal};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn pod() -> PodSeen {
        PodSeen { uid: "p".into(), ours: true, ip: None, restart_count: 0, ready: true, lost: None, created: at(1000), waiting: None }
    }

    fn recorded(uid: &str) -> PodStatus {
        PodStatus { name: "s".into(), uid: Some(uid.into()), restart_count: Some(0), ip: None }
    }

    struct Case {
        spec: BrowserSessionSpec,
        phase: Option<SessionPhase>,
        recorded: Option<PodStatus>,
        pod: Option<PodSeen>,
        now: i64,
    }

    impl Default for Case {
        fn default() -> Self {
            let spec = BrowserSessionSpec { owner: Some(Principal::named("agent")), ..BrowserSessionSpec::default() };
            Self { spec, phase: Some(SessionPhase::Ready), recorded: Some(recorded("p")), pod: Some(pod()), now: 1100 }
        }
    }

    impl Case {
        fn plan(&self) -> Plan {
            let seen = Seen {
                spec: &self.spec,
                phase: self.phase,
                recorded: self.recorded.as_ref(),
                pod: self.pod.as_ref(),
                created: at(1000),
                said: Some("pods is forbidden: exceeded quota"),
                ends: at(9000),
                idle_until: Some(at(5000)),
                start_seconds: 300,
            };
            plan(&seen, at(self.now))
        }

        fn ends_as(&self) -> (SessionPhase, ReadyReason) {
            let Plan::End(end) = self.plan() else { panic!("no end") };
            (end.phase, end.reason)
        }
    }

    fn closed() -> BrowserSessionSpec {
        BrowserSessionSpec { close: Some(Close { by: Some(Principal::named("agent")), reason: None }), ..Case::default().spec }
    }

    #[test]
    fn a_request_made_with_kubectl_is_about_a_session_of_its_own() {
        let session = BrowserSessionSpec { owner: Some(Principal::named("agent")), ..BrowserSessionSpec::default() };
        for (requester, source, want) in [
            ("agent", Source::Kubectl, false),
            ("agent-2", Source::Kubectl, true),
            ("agent-2", Source::Operator, false),
            ("agent", Source::RequestAttention, false),
        ] {
            let request = AttentionRequestSpec { requester: Some(Principal::named(requester)), source, ..AttentionRequestSpec::default() };
            assert_eq!(foreign(&request, &session), want, "{requester} {source:?}");
        }
    }

    #[test]
    fn the_life() {
        let new = || Case { phase: None, recorded: None, pod: None, ..Case::default() };
        assert_eq!(new().plan(), Plan::Create);
        assert_eq!(Case { recorded: None, ..new() }.plan(), Plan::Create, "a crash before the first status write");
        let starting = PodSeen { ready: false, waiting: Some("ImagePullBackOff".into()), ..pod() };
        assert_eq!(
            Case { phase: Some(SessionPhase::Pending), pod: Some(starting.clone()), ..Case::default() }.plan(),
            Plan::Starting(Some("ImagePullBackOff".into()))
        );
        assert_eq!(Case::default().plan(), Plan::Ready);
        assert_eq!(Case { pod: Some(PodSeen { ready: false, ..pod() }), ..Case::default() }.plan(), Plan::Starting(None));
        assert_eq!(Case { pod: Some(PodSeen { ours: false, ..pod() }), ..new() }.plan(), Plan::Foreign);
        for phase in [SessionPhase::Closed, SessionPhase::Crashed, SessionPhase::Expired] {
            let over = Case { phase: Some(phase), spec: closed(), pod: None, now: 99_999, ..Case::default() };
            assert_eq!(over.plan(), Plan::CleanUp, "final");
        }
    }

    #[test]
    fn the_ends() {
        use ReadyReason as R;
        use SessionPhase::{Closed, Crashed, Expired};
        assert_eq!(Case { spec: closed(), ..Case::default() }.ends_as(), (Closed, R::Closed));
        assert_eq!(
            Case { spec: closed(), pod: None, now: 99_999, ..Case::default() }.ends_as(),
            (Closed, R::Closed),
            "a close beats a loss"
        );
        assert_eq!(Case { now: 9000, ..Case::default() }.ends_as(), (Expired, R::Expired));
        assert_eq!(Case { now: 5000, ..Case::default() }.ends_as(), (Expired, R::Expired));
        assert_eq!(Case { pod: None, ..Case::default() }.ends_as(), (Crashed, R::Crashed));
        assert_eq!(Case { recorded: Some(recorded("other")), ..Case::default() }.ends_as(), (Crashed, R::Crashed));
        assert_eq!(Case { pod: Some(PodSeen { restart_count: 1, ..pod() }), ..Case::default() }.ends_as(), (Crashed, R::Crashed));
        for (loss, reason) in [
            (Loss::OutOfMemory, R::Crashed),
            (Loss::Evicted, R::Evicted),
            (Loss::Preempted, R::Evicted),
            (Loss::NodeLost, R::Crashed),
            (Loss::Deleted, R::Crashed),
            (Loss::Exited(1, Some("no display\nmore".into())), R::Crashed),
        ] {
            let lost = PodSeen { lost: Some(loss.clone()), ..pod() };
            assert_eq!(Case { pod: Some(lost), ..Case::default() }.ends_as(), (Crashed, reason), "{loss:?}");
        }
        let never = PodSeen { ready: false, waiting: Some("Unschedulable".into()), ..pod() };
        let late = Case { phase: Some(SessionPhase::Pending), pod: Some(never), now: 1300, ..Case::default() };
        assert_eq!(late.ends_as(), (Crashed, R::Crashed));
        let Plan::End(end) = late.plan() else { panic!("ends") };
        assert_eq!(end.message, "The browser did not start in time: Unschedulable");
    }

    #[test]
    fn a_pod_that_can_not_be_made_ends_the_session_and_one_made_late_has_its_time() {
        let none = |phase, now| Case { phase, recorded: None, pod: None, now, ..Case::default() };
        let pending = Some(SessionPhase::Pending);
        assert_eq!(none(pending, 1299).plan(), Plan::Create);
        assert_eq!(none(None, 2000).plan(), Plan::Create, "the controller was away: it was never tried");
        let Plan::End(end) = none(pending, 1300).plan() else { panic!("ends") };
        assert_eq!(end.message, "The browser did not start in time: pods is forbidden: exceeded quota");
        let foreign = Case { pod: Some(PodSeen { ours: false, ..pod() }), ..none(pending, 1300) };
        assert!(matches!(foreign.plan(), Plan::End(_)));

        let late = |now| Case { pod: Some(PodSeen { ready: false, created: at(2000), ..pod() }), ..none(pending, now) };
        assert_eq!(late(2299).plan(), Plan::Starting(None));
        assert!(matches!(late(2300).plan(), Plan::End(_)));
    }

    #[test]
    fn who_closed_it() {
        let by = |name: &str| BrowserSessionSpec { close: Some(Close { by: Some(Principal::named(name)), reason: None }), ..closed() };
        assert_eq!(closed_by_other(&by("agent")), Some(false));
        assert_eq!(closed_by_other(&by("operator")), Some(true));
        assert_eq!(closed_by_other(&Case::default().spec), None);
    }

    #[test]
    fn last_words_are_bounded() {
        assert_eq!(bounded("  one\ntwo"), "one");
        assert_eq!(bounded(&"x".repeat(9999)).len(), 500);
        assert_eq!(bounded("a\u{1b}[31mb"), "a[31mb");
    }
}
