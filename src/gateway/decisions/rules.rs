//! Who may do what to a request, how it ended, and what a refusal means: pure, so that every rule has a test.

use super::{Action, DecisionError};
use crate::api::v1alpha1::{AskType, AttentionRequest, Phase, Source, Target};
use crate::gateway::auth::Principal;

/// The rights of a person on one request, as the API server told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The verb `resolve`.
    pub resolve: bool,
    /// The verb `administer`; asked only where it decides.
    pub administer: bool,
}

/// Whether this person may do this to this request.
pub fn check(who: &Principal, request: &AttentionRequest, rights: Rights, action: &Action) -> Result<(), DecisionError> {
    let (verb, done) = match action {
        Action::Answer(_) => ("answer", "answered"),
        Action::Claim => ("claim", "claimed"),
        Action::Extend(_) => ("extend", "extended"),
    };
    if !rights.resolve {
        return Err(DecisionError::Forbidden(format!(
            "{} may not {verb} attention requests here (RBAC verb resolve on attentionrequests.beckon.dev)",
            who.username
        )));
    }
    // The person's own answer, sent again, is told apart from a loss by `won`.
    let mine = request.spec.resolution.as_ref().is_some_and(|r| who.is(r.by.as_ref()));
    if let Some(outcome) = describe(request)
        && !(mine && matches!(action, Action::Answer(_)))
    {
        return Err(DecisionError::Settled(outcome));
    }
    if request.status.as_ref().and_then(|s| s.phase).is_none() {
        return Err(DecisionError::Stale(format!("this request can't be {done} yet: it is not open")));
    }
    if let Action::Extend(seconds) = action
        && *seconds < 1
    {
        return Err(DecisionError::Invalid(format!("seconds must be at least 1, not {seconds}")));
    }
    let Action::Answer(_) = action else { return Ok(()) };
    if let Some(target) = request.spec.current_target() {
        let fits = match target {
            Target { user: Some(user), .. } => *user == who.username,
            Target { group: Some(group), .. } => who.groups.contains(group),
            _ => rights.administer,
        };
        if !fits {
            let whom = match target {
                Target { user: Some(user), .. } => format!("user {user}"),
                Target { group: Some(group), .. } => format!("group {group}"),
                _ => "administrators".to_owned(),
            };
            return Err(DecisionError::Forbidden(format!("this request is for {whom}")));
        }
    }
    let four_eyes = request.spec.source != Source::Operator
        && request.spec.ask.as_ref().is_some_and(|ask| {
            matches!(ask.type_, AskType::Question | AskType::Approval | AskType::DestructiveAction | AskType::Access | AskType::Decision)
        });
    if four_eyes && who.is(request.spec.requester.as_ref()) {
        let kind = request.spec.ask.as_ref().map_or("", |ask| ask.type_.as_str());
        return Err(DecisionError::Forbidden(format!("you can't answer your own request of type {kind}")));
    }
    Ok(())
}

/// How the request ended, for a person; `None` while it is open.
pub fn describe(request: &AttentionRequest) -> Option<String> {
    let spec = &request.spec;
    if let Some(resolution) = &spec.resolution {
        let by = resolution.by.as_ref().map(|by| format!(" by {}", by.username)).unwrap_or_default();
        return Some(format!("{}{by}", resolution.outcome.as_str()));
    }
    if let Some(completion) = &spec.completion {
        return Some(format!("completed, {}", completion.reason.as_str()));
    }
    if spec.cancel.is_some() {
        return Some("cancelled by its requester".to_owned());
    }
    request.status.as_ref().and_then(|s| s.phase).filter(|phase| *phase != Phase::Pending).map(|phase| phase.as_str().to_owned())
}

/// The API server's refusal as a person can use it.
pub(super) fn refused(code: u16, message: &str) -> DecisionError {
    // "attentionrequests.beckon.dev "x" is invalid: spec.resolution: Forbidden: this request was already answered: …"
    let text = message.split_once(": ").map_or(message, |(_, rest)| rest).to_owned();
    match code {
        404 => DecisionError::Settled("it was deleted".to_owned()),
        422 if message.contains("already") => DecisionError::Settled(text),
        422 if message.contains("stale:") => DecisionError::Stale(text),
        422 | 400 => DecisionError::Invalid(text),
        403 => DecisionError::Forbidden(text),
        _ => DecisionError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{
        Ask, AttentionRequestSpec, AttentionRequestStatus, Cancel, Principal as ApiPrincipal, Resolution, ResolutionOutcome, Retarget,
    };
    use crate::gateway::decisions::Answer;

    fn ann() -> Principal {
        Principal { username: "ann".into(), groups: vec!["support".into()], ..Principal::default() }
    }

    fn open() -> AttentionRequest {
        let spec =
            AttentionRequestSpec { requester: Some(ApiPrincipal::named("agent")), reason: "r".into(), ..AttentionRequestSpec::default() };
        let mut request = AttentionRequest::new("a-1", spec);
        request.status = Some(AttentionRequestStatus { phase: Some(Phase::Pending), ..AttentionRequestStatus::default() });
        request
    }

    const MAY: Rights = Rights { resolve: true, administer: false };

    fn answer() -> Action {
        Action::Answer(Answer::default())
    }

    #[test]
    fn the_verb_is_needed_for_everything() {
        for action in [answer(), Action::Claim, Action::Extend(60)] {
            assert!(check(&ann(), &open(), MAY, &action).is_ok());
            let error = check(&ann(), &open(), Rights::default(), &action).unwrap_err();
            assert!(error.to_string().contains("RBAC verb resolve"), "{error}");
        }
    }

    #[test]
    fn only_the_target_answers_and_the_last_one_counts() {
        let user = |name: &str| Target { user: Some(name.into()), ..Target::default() };
        let group = |name: &str| Target { group: Some(name.into()), ..Target::default() };
        let admins = Target { admins: Some(true), ..Target::default() };
        let cases = [
            (Some(user("ann")), None, MAY, true),
            (Some(user("bob")), None, MAY, false),
            (Some(group("support")), None, MAY, true),
            (Some(group("billing")), None, MAY, false),
            (Some(admins.clone()), None, MAY, false),
            (Some(admins.clone()), None, Rights { resolve: true, administer: true }, true),
            (Some(user("bob")), Some(user("ann")), MAY, true),
            (Some(user("ann")), Some(user("bob")), MAY, false),
        ];
        for (target, retarget, rights, allowed) in cases {
            let mut request = open();
            request.spec.target = target.clone();
            request.spec.retargets = retarget.clone().map(|target| Retarget { target, ..Retarget::default() }).into_iter().collect();
            assert_eq!(check(&ann(), &request, rights, &answer()).is_ok(), allowed, "{target:?} {retarget:?}");
            assert!(check(&ann(), &request, MAY, &Action::Claim).is_ok(), "a claim needs only the verb");
        }
    }

    #[test]
    fn four_eyes_where_the_answer_gives_power() {
        for kind in AskType::ALL {
            let mut request = open();
            request.spec.requester = Some(ApiPrincipal::named("ann"));
            request.spec.ask = Some(Ask { type_: *kind, ..Ask::default() });
            let mine_is_refused = !matches!(kind, AskType::Takeover | AskType::Clarification | AskType::Other);
            assert_eq!(check(&ann(), &request, MAY, &answer()).is_err(), mine_is_refused, "{kind:?}");
            request.spec.source = Source::Operator;
            assert!(check(&ann(), &request, MAY, &answer()).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn a_loser_is_told_who_won() {
        let mut request = open();
        request.spec.resolution =
            Some(Resolution { outcome: ResolutionOutcome::Rejected, by: Some(ApiPrincipal::named("bob")), ..Resolution::default() });
        assert_eq!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Settled("Rejected by bob".into())));
        let mut request = open();
        request.spec.cancel = Some(Cancel::default());
        assert!(matches!(check(&ann(), &request, MAY, &Action::Claim), Err(DecisionError::Settled(_))));
        let mut request = open();
        request.status = Some(AttentionRequestStatus { phase: Some(Phase::Timeout), ..AttentionRequestStatus::default() });
        assert_eq!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Settled("Timeout".into())));
        let mut request = open();
        request.status = None;
        assert!(matches!(check(&ann(), &request, MAY, &answer()), Err(DecisionError::Stale(_))));
    }

    #[test]
    fn refusals_of_the_api_server_are_told_apart() {
        let told = |code, text: &str| refused(code, text);
        assert_eq!(
            told(
                422,
                "AttentionRequest.beckon.dev \"a\" is invalid: spec.resolution: Forbidden: this request was already answered: Resolved by bob"
            ),
            DecisionError::Settled("spec.resolution: Forbidden: this request was already answered: Resolved by bob".into())
        );
        assert!(matches!(told(422, "x \"a\" is forbidden: stale: this request is at generation 3"), DecisionError::Stale(_)));
        assert!(matches!(told(422, "x is invalid: spec.resolution.verdict: does not fit"), DecisionError::Invalid(_)));
        assert!(matches!(told(403, "x is forbidden: this request is for user bob"), DecisionError::Forbidden(_)));
        assert!(matches!(told(500, "oops"), DecisionError::Unavailable(_)));
    }
}
