use super::*;
use crate::api::conditions::AttachedReason;
use crate::api::v1alpha1::{
    AttentionRequestSpec, AttentionRequestStatus, Cancel, Completion, CompletionReason, Principal, Resolution, ResolutionOutcome,
    SessionRef, Waiter,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

const OPENED: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn limits() -> WaitLimits {
    WaitLimits::new(21_600, 1800).expect("consistent")
}

fn spec() -> AttentionRequestSpec {
    AttentionRequestSpec {
        source: Source::RequestAttention,
        waiter: Waiter::Required,
        max_wait_seconds: Some(3600),
        requester: Some(Principal::named("agent")),
        ..AttentionRequestSpec::default()
    }
}

fn open(spec: AttentionRequestSpec) -> AttentionRequest {
    let mut request = AttentionRequest::new("a-1", spec);
    request.status = Some(AttentionRequestStatus {
        phase: Some(Phase::Pending),
        opened_at: Some(Time(at(OPENED))),
        deadline: Some(Time(at(OPENED + 3600))),
        incarnation: Some(life("p", 0)),
        ..AttentionRequestStatus::default()
    });
    request
}

fn life(uid: &str, restarts: i32) -> Incarnation {
    Incarnation { pod_uid: Some(uid.into()), restart_count: Some(restarts) }
}

fn alive() -> SessionSeen {
    SessionSeen::Alive { incarnation: Some(life("p", 0)), ends: Some(at(99_999)) }
}

fn ended(phase: SessionPhase) -> SessionSeen {
    SessionSeen::Ended { phase, at: Some(at(OPENED + 10)), by_other: false, evicted: false, why: None }
}

fn seen(request: &AttentionRequest, session: SessionSeen) -> Seen<'_> {
    Seen {
        request,
        session,
        attachments: &[Liveness::Live],
        attached: Some(Attached::Waiting),
        trust: Trust::Honour,
        limits: limits(),
        grace_seconds: 300,
    }
}

fn outcome(plan: Plan) -> Outcome {
    let Plan::Settle { outcome, .. } = plan else { panic!("not settled: {plan:?}") };
    outcome
}

fn says(plan: Plan, phase: Phase, reason: SettledReason, message: &str) {
    let outcome = outcome(plan);
    assert_eq!((outcome.phase, outcome.reason, outcome.message.as_deref()), (phase, reason, Some(message)));
    assert_eq!(outcome.resolved_by, None);
}

fn resolved() -> AttentionRequestSpec {
    let resolution = Resolution {
        outcome: ResolutionOutcome::Resolved,
        message: Some("Done".into()),
        by: Some(Principal::named("ada")),
        ..Resolution::default()
    };
    AttentionRequestSpec { resolution: Some(resolution), ..spec() }
}

#[test]
fn the_deadline_fires_at_its_instant_and_never_before() {
    let request = open(spec());
    let just_before = at(OPENED + 3600).checked_sub(k8s_openapi::jiff::SignedDuration::from_nanos(1)).expect("in range");
    assert!(matches!(settle(&seen(&request, alive()), just_before), Plan::Open(_)));
    says(
        settle(&seen(&request, alive()), at(OPENED + 3600)),
        Phase::Timeout,
        SettledReason::DeadlineExceeded,
        "Attention request timed out; the operator was not available to respond.",
    );
    let run = open(AttentionRequestSpec { source: Source::Run, max_wait_seconds: None, ..spec() });
    let run = AttentionRequest {
        status: run.status.clone().map(|status| AttentionRequestStatus { deadline: Some(Time(at(OPENED + 1800))), ..status }),
        ..run
    };
    says(
        settle(&seen(&run, alive()), at(OPENED + 1800)),
        Phase::Timeout,
        SettledReason::DeadlineExceeded,
        "no human response within 30 minutes",
    );
}

#[test]
fn each_loss_says_which() {
    let request = open(spec());
    let now = at(OPENED + 20);
    let plan = |session| settle(&seen(&request, session), now);
    says(
        plan(ended(SessionPhase::Closed)),
        Phase::Rejected,
        SettledReason::SessionClosed,
        "The session was closed while the attention request was open.",
    );
    says(plan(SessionSeen::Gone), Phase::Rejected, SettledReason::SessionClosed, messages::SESSION_CLOSED);
    says(plan(SessionSeen::Foreign), Phase::Rejected, SettledReason::ForeignSession, messages::FOREIGN_SESSION);
    let operator = SessionSeen::Ended { phase: SessionPhase::Closed, at: None, by_other: true, evicted: false, why: None };
    says(
        plan(operator),
        Phase::Rejected,
        SettledReason::SessionClosed,
        "The session was closed by an operator while the attention request was open.",
    );
    says(
        plan(ended(SessionPhase::Expired)),
        Phase::Rejected,
        SettledReason::SessionExpired,
        "The session expired while the attention request was open.",
    );
    says(
        plan(ended(SessionPhase::Crashed)),
        Phase::Rejected,
        SettledReason::SessionCrashed,
        "The session crashed while the attention request was open.",
    );
    let evicted = SessionSeen::Ended {
        phase: SessionPhase::Crashed,
        at: None,
        by_other: false,
        evicted: true,
        why: Some(messages::why::EVICTED.into()),
    };
    says(
        plan(evicted),
        Phase::Rejected,
        SettledReason::SessionEvicted,
        "The session crashed while the attention request was open. The pod was evicted.",
    );
    for other in [life("p", 1), life("q", 0)] {
        let outcome = outcome(plan(SessionSeen::Alive { incarnation: Some(other), ends: None }));
        assert_eq!(outcome.reason, SettledReason::SessionCrashed);
    }
    assert!(matches!(plan(SessionSeen::Unknown), Plan::Open(_)), "a failed read is no loss");
    assert!(matches!(plan(SessionSeen::NotNamed), Plan::Open(_)));
}

#[test]
fn a_detached_client_has_the_grace() {
    let request = open(spec());
    for (reason, phase, settled, message) in [
        (AttachedReason::ClientDetached, Phase::Cancelled, SettledReason::ClientGone, messages::CLIENT_GONE),
        (AttachedReason::GatewayLost, Phase::Rejected, SettledReason::ServerRestarted, messages::SERVER_RESTARTED),
        (AttachedReason::GatewayShutdown, Phase::Rejected, SettledReason::ServerShutdown, messages::SERVER_SHUTDOWN),
    ] {
        let attached = Some(Attached::Nobody { reason, since: at(OPENED + 100) });
        let gone = Seen { attachments: &[], attached, ..seen(&request, alive()) };
        let Plan::Open(plan) = settle(&gone, at(OPENED + 399)) else { panic!("open") };
        assert_eq!(plan.wake, at(OPENED + 400), "wakes at the end of the grace");
        says(settle(&gone, at(OPENED + 400)), phase, settled, message);
        let back = Seen { attachments: &[Liveness::Lost, Liveness::Live], ..gone };
        assert!(matches!(settle(&back, at(OPENED + 400)), Plan::Open(_)), "somebody came back");
    }
    let notify = open(AttentionRequestSpec { waiter: Waiter::None, ..spec() });
    let nobody = Seen { attachments: &[], attached: None, ..seen(&notify, alive()) };
    assert!(matches!(settle(&nobody, at(OPENED + 3599)), Plan::Open(_)), "nobody has to wait for a handoff");
}

#[test]
fn a_stored_decision_beats_everything_whatever_the_clock_says() {
    let decisions = [
        (resolved(), Phase::Resolved, SettledReason::Answered),
        (
            AttentionRequestSpec {
                completion: Some(Completion { reason: CompletionReason::AgentResumed, ..Completion::default() }),
                ..spec()
            },
            Phase::Resolved,
            SettledReason::AgentResumed,
        ),
        (AttentionRequestSpec { cancel: Some(Cancel::default()), ..spec() }, Phase::Cancelled, SettledReason::ClientCancelled),
    ];
    let late = at(OPENED + 999_999);
    for (spec, phase, reason) in decisions {
        for session in [alive(), SessionSeen::Gone, SessionSeen::Unknown, ended(SessionPhase::Crashed)] {
            let request = open(spec.clone());
            let attached = Some(Attached::Nobody { reason: AttachedReason::GatewayLost, since: at(OPENED) });
            let seen = Seen { attachments: &[], attached, ..seen(&request, session) };
            let end = outcome(settle(&seen, late));
            assert_eq!((end.phase, end.reason), (phase, reason));
            assert_eq!(settle(&Seen { trust: Trust::Hold, ..seen.clone() }, late), Plan::Hold);
            says(
                settle(&Seen { trust: Trust::Refuse, ..seen }, late),
                Phase::Rejected,
                SettledReason::IdentityNotEnforced,
                messages::IDENTITY_NOT_ENFORCED,
            );
        }
    }
}

#[test]
fn what_came_first_wins() {
    let request = open(spec());
    // The session ended 10 s after the opening, the deadline was an hour after it: both are past.
    let late = at(OPENED + 9999);
    assert_eq!(outcome(settle(&seen(&request, ended(SessionPhase::Expired)), late)).reason, SettledReason::SessionExpired);
    let after = SessionSeen::Ended { phase: SessionPhase::Closed, at: Some(at(OPENED + 4000)), by_other: false, evicted: false, why: None };
    assert_eq!(outcome(settle(&seen(&request, after), late)).reason, SettledReason::DeadlineExceeded);
    let attached = Some(Attached::Nobody { reason: AttachedReason::ClientDetached, since: at(OPENED + 3500) });
    let both = Seen { attachments: &[], attached, ..seen(&request, alive()) };
    assert_eq!(outcome(settle(&both, late)).reason, SettledReason::DeadlineExceeded);
}

#[test]
fn a_wait_that_the_sessions_hard_end_cuts_short_is_expired_and_not_timed_out() {
    // Its deadline is that end too, and the session's own controller may not have come to it yet.
    let mut request = open(spec());
    request.status.as_mut().expect("open").deadline = Some(Time(at(OPENED + 60)));
    let until = |end| SessionSeen::Alive { incarnation: Some(life("p", 0)), ends: Some(at(end)) };
    assert!(matches!(settle(&seen(&request, until(OPENED + 60)), at(OPENED + 59)), Plan::Open(_)));
    for late in [60, 61] {
        says(
            settle(&seen(&request, until(OPENED + 60)), at(OPENED + late)),
            Phase::Rejected,
            SettledReason::SessionExpired,
            "The session expired while the attention request was open.",
        );
    }
    let timed_out = outcome(settle(&seen(&open(spec()), until(OPENED + 3601)), at(OPENED + 3602)));
    assert_eq!(timed_out.reason, SettledReason::DeadlineExceeded, "its own wait ended before");
    let Plan::Open(open) = settle(&seen(&open(spec()), until(OPENED + 100)), at(OPENED + 50)) else { panic!("open") };
    assert!(open.wake <= at(OPENED + 100));
}

#[test]
fn a_session_that_was_never_there_is_told_from_one_that_was_closed() {
    let now = at(OPENED);
    let named = |uid: Option<&str>| {
        let session_ref = Some(SessionRef { name: "s".into(), uid: uid.map(str::to_owned) });
        AttentionRequest::new("a-1", AttentionRequestSpec { session_ref, ..spec() })
    };
    let gone = |request: &AttentionRequest| outcome(settle(&seen(request, SessionSeen::Gone), now)).reason;
    assert_eq!(gone(&named(None)), SettledReason::SessionNotFound);
    assert_eq!(gone(&named(Some("u"))), SettledReason::SessionClosed, "the gateway has seen it");
    let opened = AttentionRequest { status: open(spec()).status, ..named(None) };
    assert_eq!(gone(&opened), SettledReason::SessionClosed, "it was there when the request opened");
}

#[test]
fn a_new_request_waits_for_the_caps_unless_its_session_is_gone() {
    let request = AttentionRequest::new("a-1", spec());
    let now = at(OPENED);
    let Plan::New(new) = settle(&seen(&request, alive()), now) else { panic!("new") };
    assert_eq!((new.deadline, new.incarnation), (at(OPENED + 3600), Some(life("p", 0))));
    let soon = SessionSeen::Alive { incarnation: None, ends: Some(at(OPENED + 60)) };
    let Plan::New(new) = settle(&seen(&request, soon), now) else { panic!("new") };
    assert_eq!(new.deadline, at(OPENED + 60), "never later than the session's hard end");
    says(settle(&seen(&request, SessionSeen::Gone), now), Phase::Rejected, SettledReason::SessionClosed, messages::SESSION_CLOSED);
    says(
        settle(&seen(&request, ended(SessionPhase::Expired)), now),
        Phase::Rejected,
        SettledReason::SessionExpired,
        messages::SESSION_EXPIRED,
    );
    assert_eq!(settle(&seen(&request, SessionSeen::Unknown), now), Plan::Unknown);
    let cancelled = AttentionRequest::new("a-1", AttentionRequestSpec { cancel: Some(Cancel::default()), ..spec() });
    assert_eq!(outcome(settle(&seen(&cancelled, alive()), now)).reason, SettledReason::ClientCancelled);
}

#[test]
fn it_is_near_its_deadline_at_four_fifths() {
    let request = open(spec());
    for (second, near, wake) in [(0, false, 2880), (2879, false, 2880), (2880, true, 3600)] {
        let Plan::Open(plan) = settle(&seen(&request, alive()), at(OPENED + second)) else { panic!("open") };
        assert_eq!((plan.near, plan.wake), (near, at(OPENED + wake)), "{second}");
    }
}

#[test]
fn the_browser_is_remembered_once_there_is_one() {
    let mut request = open(spec());
    if let Some(status) = &mut request.status {
        status.incarnation = None;
    }
    let Plan::Open(plan) = settle(&seen(&request, alive()), at(OPENED)) else { panic!("open") };
    assert_eq!(plan.incarnation, Some(life("p", 0)));
}

fn any_session() -> impl Strategy<Value = SessionSeen> {
    prop_oneof![
        Just(SessionSeen::NotNamed),
        Just(SessionSeen::Unknown),
        Just(SessionSeen::Gone),
        Just(alive()),
        Just(SessionSeen::Alive { incarnation: Some(life("q", 0)), ends: None }),
        prop::sample::select(vec![SessionPhase::Closed, SessionPhase::Crashed, SessionPhase::Expired]).prop_map(ended),
    ]
}

proptest! {
    /// Once settled, nothing that happens later changes it.
    #[test]
    fn outcomes_are_absorbing(
        phase in prop::sample::select(vec![Phase::Resolved, Phase::Rejected, Phase::Timeout, Phase::Cancelled]),
        session in any_session(), now in 0_i64..1_000_000, decided in any::<bool>(),
        trust in prop::sample::select(vec![Trust::Honour, Trust::Refuse, Trust::Hold]),
    ) {
        let mut request = open(if decided { resolved() } else { spec() });
        if let Some(status) = &mut request.status { status.phase = Some(phase); }
        let seen = Seen { trust, ..seen(&request, session) };
        prop_assert_eq!(settle(&seen, at(now)), Plan::Settled);
    }

    /// Nothing but a decision, a loss or a whole grace ends a request before its deadline.
    #[test]
    fn the_deadline_is_never_early(
        wish in 0_i64..30_000, millis in 0_i64..40_000_000, opened_ms in 0_i64..1_000_000_000_000,
        source in prop::sample::select(Source::ALL),
    ) {
        let opened = Timestamp::from_millisecond(opened_ms).expect("in range");
        let spec = AttentionRequestSpec { source, max_wait_seconds: Some(wish), ..spec() };
        let fresh = AttentionRequest::new("a-1", spec.clone());
        let Plan::New(new) = settle(&seen(&fresh, SessionSeen::NotNamed), opened) else { panic!("new") };
        // What is stored has whole seconds.
        let mut request = open(spec);
        if let Some(status) = &mut request.status {
            status.opened_at = Some(Time(crate::domain::time::round_up(opened)));
            status.deadline = Some(Time(new.deadline));
        }
        let now = Timestamp::from_millisecond(opened_ms + millis).expect("in range");
        let wait = limits().wait(source, Some(wish));
        match settle(&seen(&request, SessionSeen::NotNamed), now) {
            Plan::Settle { outcome, .. } => {
                prop_assert_eq!(outcome.phase, Phase::Timeout);
                prop_assert!(millis >= wait * 1000, "early");
            }
            Plan::Open(open) => {
                prop_assert!(millis <= (wait + 1) * 1000, "late");
                prop_assert!(open.wake > now && open.wake <= open.deadline);
            }
            Plan::Settled | Plan::New(_) | Plan::Hold | Plan::Unknown => prop_assert!(false, "neither settled nor open"),
        }
    }
}
