use super::*;
use crate::api::v1alpha1::{AttentionRequestSpec, BrowserSessionSpec, ExecutionRef, Principal};
use crate::domain::caps::Caps;
use crate::domain::deadline::WaitLimits;
use crate::domain::session::PodSeen;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn settings() -> Settings {
    Settings {
        limits: WaitLimits::new(21_600, 1800).expect("consistent"),
        grace: 300,
        caps: Caps { per_session: 8, total: 256 },
        idle_timeout: 1800,
        max_lifetime: 28_800,
        history_ttl: 604_800,
        start_timeout: 300,
        namespace: "beckon-system".into(),
        watch_namespace: None,
        pods: crate::controller::PodSettings::default(),
        lease_duration: 15,
        identity: "me".into(),
    }
}

fn session() -> BrowserSession {
    let owner = Some(Principal::named("agent"));
    let mut session = BrowserSession::new("s-1", BrowserSessionSpec { owner, ..BrowserSessionSpec::default() });
    session.metadata.creation_timestamp = Some(Time(at(1000)));
    session.metadata.generation = Some(1);
    session
}

fn life(uid: &str) -> PodSeen {
    let ip = Some("10.0.0.1".into());
    PodSeen { uid: uid.into(), ours: true, ip, restart_count: 0, ready: true, lost: None, created: Timestamp::UNIX_EPOCH, waiting: None }
}

fn observed(clock: Clock) -> Observed {
    Observed { pod: None, life: Some(life("p")), open: Vec::new(), clock: Some(clock) }
}

fn running(deadline: i64) -> Clock {
    Clock::Running { deadline: at(deadline) }
}

fn with(mut session: BrowserSession, status: BrowserSessionStatus) -> BrowserSession {
    session.status = Some(status);
    session
}

#[test]
fn small_renewals_are_not_worth_a_write() {
    let first = ready(&session(), &observed(running(3000)), None, &settings(), at(1200));
    let recorded = with(session(), first.clone());
    let small = ready(&recorded, &observed(running(3179)), None, &settings(), at(1300));
    assert_eq!(small, first);
    let large = ready(&recorded, &observed(running(3180)), None, &settings(), at(1301));
    assert_eq!(large.idle.and_then(|idle| idle.deadline), Some(Time(at(3180))));
}

#[test]
fn a_pause_is_recorded_with_what_is_left_and_by_what() {
    let first = with(session(), ready(&session(), &observed(running(3000)), None, &settings(), at(1200)));
    let by = vec!["a-1".to_owned()];
    let paused = ready(&first, &observed(Clock::Paused { remaining_seconds: 100, by: by.clone() }), None, &settings(), at(1300));
    assert_eq!(paused.idle, Some(Idle { deadline: None, remaining_seconds: Some(100), paused_by: by }));
    let reason = |status: &BrowserSessionStatus| conditions::find(&status.conditions, ConditionType::IdlePaused).map(|c| c.reason.clone());
    assert_eq!(reason(&paused).as_deref(), Some("RequestsOpen"));
    let held = Clock::Paused { remaining_seconds: 100, by: vec![CONTROL.to_owned()] };
    assert_eq!(reason(&ready(&first, &observed(held), None, &settings(), at(1301))).as_deref(), Some("ControlHeld"));
}

#[test]
fn the_recorded_pod_stays_when_another_takes_its_place() {
    let first = with(session(), ready(&session(), &observed(running(3000)), None, &settings(), at(1200)));
    let other = Observed { life: Some(life("q")), ..observed(running(3000)) };
    assert_eq!(pod(&first, &other).and_then(|pod| pod.uid).as_deref(), Some("p"));
    let end = End { phase: SessionPhase::Crashed, reason: ReadyReason::Crashed, message: "why".into() };
    let over = ended(&first, &other, &end, &settings(), at(1400));
    assert_eq!(
        (over.phase, over.ended_at.clone(), over.idle.is_none(), over.pod.is_some()),
        (Some(SessionPhase::Crashed), Some(Time(at(1400))), true, true)
    );
    let clean = cleaned(&with(session(), over.clone()), &other, at(1500));
    assert_eq!((clean.pod, clean.ended_at), (None, Some(Time(at(1400)))));
}

#[test]
fn an_end_before_any_pod_still_says_that_something_may_be_held() {
    let nothing = Observed { pod: None, life: None, open: Vec::new(), clock: None };
    let end = End { phase: SessionPhase::Closed, reason: ReadyReason::Closed, message: "why".into() };
    assert_eq!(ended(&session(), &nothing, &end, &settings(), at(1400)).pod.map(|pod| pod.name).as_deref(), Some("s-1"));
}

#[test]
fn the_hard_end_is_recorded_once() {
    let first = with(session(), ready(&session(), &observed(running(3000)), None, &settings(), at(1200)));
    let shorter = Settings { max_lifetime: 60, ..settings() };
    assert_eq!(ends(&first, &shorter), at(29_800), "a changed setting moves no session's end");
}

fn asks(name: &str, requester: &str, run: Option<&str>, created: i64) -> Arc<AttentionRequest> {
    let execution = run.map(|id| ExecutionRef { id: id.into(), expected_state_version: None });
    let requester = Some(Principal::named(requester));
    let mut request = AttentionRequest::new(name, AttentionRequestSpec { execution, requester, ..AttentionRequestSpec::default() });
    request.metadata.creation_timestamp = Some(Time(at(created)));
    Arc::new(request)
}

#[test]
fn each_change_of_a_run_is_one_version_more() {
    let now = |state, version| Some(ExecutionStatus { id: "run".into(), state, state_version: version });
    let session = session();
    let of = |recorded: Option<ExecutionStatus>, open: &[Arc<AttentionRequest>]| execution(recorded.as_ref(), &session, open);
    assert_eq!(of(None, &[asks("a", "agent", None, 1)]), None, "a request that names no run is nobody's need");
    assert_eq!(of(None, &[asks("a", "mallory", Some("run"), 1)]), None, "nor is another's");
    let needs = of(None, &[asks("b", "agent", Some("other"), 2), asks("a", "agent", Some("run"), 1)]);
    assert_eq!(needs, now(ExecutionState::NeedsHuman, 1));
    assert_eq!(of(needs.clone(), &[asks("a", "agent", Some("run"), 1)]), needs);
    let waits = of(needs, &[]);
    assert_eq!(waits, now(ExecutionState::Waiting, 2));
    assert_eq!(of(waits.clone(), &[]), waits);
    assert_eq!(of(waits, &[asks("c", "agent", Some("run"), 3)]), now(ExecutionState::NeedsHuman, 3));
}
