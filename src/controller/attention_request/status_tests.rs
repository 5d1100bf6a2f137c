use super::*;
use crate::api::v1alpha1::{Attachment, AttentionRequestSpec, Retarget, Target};
use crate::domain::messages;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn request() -> AttentionRequest {
    let mut request = AttentionRequest::new("a-1", AttentionRequestSpec { reason: "r".into(), ..AttentionRequestSpec::default() });
    request.metadata.generation = Some(1);
    request.metadata.creation_timestamp = Some(Time(at(90)));
    request
}

fn opened_request() -> AttentionRequest {
    let fresh = request();
    let status = opened(&fresh, &NewPlan { deadline: at(200), incarnation: None }, at(100));
    AttentionRequest { status: Some(status), ..fresh }
}

fn plan(near: bool, attached: Option<Attached>) -> OpenPlan {
    OpenPlan { deadline: at(200), near, attached, incarnation: None, wake: at(200) }
}

#[test]
fn what_is_unchanged_is_the_same_status() {
    let open_request = opened_request();
    let held = ["beckon-gateway-a".to_owned()];
    let once = open(&open_request, &plan(true, Some(Attached::Waiting)), &held, &[], at(180));
    assert_eq!(once.waiting_at, held);
    let waits = conditions::find(&once.conditions, ConditionType::Attached).expect("it waits");
    assert_eq!(waits.message, "beckon-gateway-a", "people read where");
    let again =
        open(&AttentionRequest { status: Some(once.clone()), ..open_request }, &plan(true, Some(Attached::Waiting)), &held, &[], at(190));
    assert_eq!(once, again, "nothing to write, whatever the time");
}

#[test]
fn what_lost_processes_held_goes_when_somebody_else_waits_and_all_of_it_at_the_end() {
    let mut request = opened_request();
    let held = ["beckon-gateway-a", "beckon-gateway-lost"];
    let attachments = held.map(|gateway| Attachment { call: format!("c-{gateway}"), gateway: gateway.into(), since: None });
    request.status.as_mut().expect("open").attachments = attachments.to_vec();
    let gone = ["beckon-gateway-lost".to_owned()];
    let left = |attached, gone: &[String]| -> Vec<String> {
        let status = open(&request, &plan(false, attached), &[], gone, at(180));
        status.attachments.into_iter().map(|attachment| attachment.gateway).collect()
    };
    assert_eq!(left(Some(Attached::Waiting), &gone), ["beckon-gateway-a"]);
    assert_eq!(left(Some(Attached::Waiting), &[]), held);
    // Nobody waits: what is there says whose fault that is.
    let nobody = Attached::Nobody { reason: AttachedReason::GatewayLost, since: at(170) };
    assert_eq!(left(Some(nobody), &gone), held);
    let outcome = Outcome::of(Phase::Cancelled, SettledReason::ClientCancelled, messages::CLIENT_CANCELLED);
    assert!(settled(&request, &outcome, at(190), at(190)).attachments.is_empty());
}

#[test]
fn an_extension_takes_the_warning_back() {
    let mut request = opened_request();
    request.status = Some(open(&request, &plan(true, None), &[], &[], at(180)));
    assert!(was_near(&request));
    request.status = Some(open(&request, &plan(false, None), &[], &[], at(181)));
    assert!(!was_near(&request));
}

#[test]
fn a_refused_one_says_so_in_both_conditions() {
    let outcome = Outcome::of(Phase::Rejected, SettledReason::RateLimited, messages::session_cap(8));
    let status = settled(&request(), &outcome, at(100), at(100));
    let reason = |kind| conditions::find(&status.conditions, kind).map(|c| (c.status.clone(), c.reason.clone()));
    assert_eq!(reason(ConditionType::Accepted), Some(("False".into(), "RateLimited".into())));
    assert_eq!(reason(ConditionType::Settled), Some(("True".into(), "RateLimited".into())));
    assert_eq!((status.phase, status.waited_seconds), (Some(Phase::Rejected), Some(10)));
}

#[test]
fn an_answers_words_are_in_the_message_alone() {
    let outcome = Outcome {
        phase: Phase::Resolved,
        reason: SettledReason::Answered,
        message: Some("the code is 1234".into()),
        resolved_by: Some("ada".into()),
    };
    let status = settled(&opened_request(), &outcome, at(150), at(151));
    assert_eq!(status.message.as_deref(), Some("the code is 1234"));
    assert_eq!((status.settled_at, status.waited_seconds, status.resolved_by.as_deref()), (Some(Time(at(150))), Some(50), Some("ada")));
    assert!(status.conditions.iter().all(|condition| !condition.message.contains("1234")));
}

#[test]
fn the_last_retarget_is_the_target() {
    let mut request = request();
    let target = |user: &str| Target { user: Some(user.into()), ..Target::default() };
    request.spec.target = Some(target("ada"));
    assert_eq!(base(&request, &[], at(1)).current_target, Some(target("ada")));
    request.spec.retargets.push(Retarget { target: target("bob"), ..Retarget::default() });
    assert_eq!(base(&request, &[], at(1)).current_target, Some(target("bob")));
}
