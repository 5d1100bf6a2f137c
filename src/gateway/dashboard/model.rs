//! What the pages show of a request and of a session: plain values, computed from the objects alone.

use super::text::first_line;
use crate::api::v1alpha1::{AskType, AttentionRequest, BrowserSession, Category, Mode, Phase, ResolutionOutcome, SessionPhase, Target};
use crate::domain::outcome::resolved_at;
use crate::runtime::clock;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

/// How a request ended, as a person reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Done, go on.
    Resolved,
    /// Give up or try something else.
    Rejected,
    /// Nobody answered.
    TimedOut,
    /// The requester withdrew, or went away.
    Cancelled,
}

impl Ending {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resolved => "Resolved",
            Self::Rejected => "Rejected",
            Self::TimedOut => "Timed out",
            Self::Cancelled => "Cancelled",
        }
    }

    /// The class of its tag.
    pub const fn look(self) -> &'static str {
        match self {
            Self::Resolved => "good",
            Self::Rejected => "bad",
            Self::TimedOut => "warn",
            Self::Cancelled => "",
        }
    }
}

/// A request that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How.
    pub ending: Ending,
    /// The person who answered.
    pub by: Option<String>,
    /// What the agent read.
    pub message: Option<String>,
    /// When, once the controller has recorded it.
    pub at: Option<Timestamp>,
}

/// A request as a page shows it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The first line of the reason.
    pub title: String,
    /// What it was before `Pending`: not taken in yet.
    pub taken_in: bool,
    /// The ending; `None` while it is open.
    pub settled: Option<Settled>,
    /// Since when it waits.
    pub opened: Timestamp,
    /// When it times out.
    pub deadline: Option<Timestamp>,
    /// How long it waited, once it is over, in seconds.
    pub waited: Option<i64>,
    /// Changes with every write.
    pub version: String,
}

impl Request {
    /// Reads an object.
    pub fn of(request: &AttentionRequest) -> Self {
        let status = request.status.as_ref();
        let opened = status
            .and_then(|s| s.opened_at.as_ref())
            .or(request.metadata.creation_timestamp.as_ref())
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let settled = settled(request);
        let waited = status.and_then(|s| s.waited_seconds).or_else(|| {
            let end = settled.as_ref()?.at?;
            Some(end.duration_since(opened).as_secs().max(0))
        });
        Self {
            namespace: request.namespace().unwrap_or_default(),
            name: request.name_any(),
            title: first_line(&request.spec.reason),
            taken_in: status.is_some_and(|s| s.phase.is_some()),
            settled,
            opened,
            deadline: status.and_then(|s| s.deadline.as_ref()).map(|time| time.0),
            waited,
            version: request.resource_version().unwrap_or_default(),
        }
    }

    /// Namespace and name, as the scripts tell rows apart.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether it waits for a person.
    pub const fn is_open(&self) -> bool {
        self.settled.is_none()
    }

    /// Oldest deadline first, what has none last.
    pub fn urgency(&self) -> i64 {
        self.deadline.map_or(i64::MAX, Timestamp::as_millisecond)
    }
}

/// The stored decision counts from the moment it is stored; the controller records it later.
fn settled(request: &AttentionRequest) -> Option<Settled> {
    let status = request.status.as_ref();
    // Until the controller has recorded it, the stored decision tells.
    let at = status.and_then(|s| s.settled_at.as_ref()).map(|time| time.0).or_else(|| resolved_at(request, clock::now()));
    let recorded = status.and_then(|s| s.message.clone());
    if let Some(ending) = status.and_then(|s| s.phase).and_then(ending) {
        let by = status.and_then(|s| s.resolved_by.clone());
        return Some(Settled { ending, by, message: recorded, at });
    }
    if let Some(resolution) = &request.spec.resolution {
        let ending = match resolution.outcome {
            ResolutionOutcome::Resolved => Ending::Resolved,
            ResolutionOutcome::Rejected => Ending::Rejected,
        };
        let by = resolution.by.as_ref().map(|by| by.username.clone());
        return Some(Settled { ending, by, message: resolution.message.clone(), at });
    }
    if let Some(completion) = &request.spec.completion {
        let by = completion.by.as_ref().map(|by| by.username.clone());
        return Some(Settled { ending: Ending::Resolved, by, message: completion.note.clone(), at });
    }
    request.spec.cancel.as_ref().map(|_| Settled { ending: Ending::Cancelled, by: None, message: recorded, at })
}

const fn ending(phase: Phase) -> Option<Ending> {
    match phase {
        Phase::Pending => None,
        Phase::Resolved => Some(Ending::Resolved),
        Phase::Rejected => Some(Ending::Rejected),
        Phase::Timeout => Some(Ending::TimedOut),
        Phase::Cancelled => Some(Ending::Cancelled),
    }
}

/// The mode in words.
pub const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Takeover => "Takeover",
        Mode::Notify => "Notify",
    }
}

/// What an ask is, as a person reads it.
pub const fn ask(ask: AskType) -> &'static str {
    match ask {
        AskType::Takeover => "A takeover",
        AskType::Question => "An answer to its question",
        AskType::Approval => "Your approval",
        AskType::DestructiveAction => "Your approval of something that can't be undone",
        AskType::Access => "Access",
        AskType::Clarification => "A clarification",
        AskType::Decision => "A decision",
        AskType::Other => "Something else",
    }
}

/// Why a person is needed, as a person reads it.
pub const fn category(category: Category) -> &'static str {
    match category {
        Category::Authentication => "Authentication",
        Category::LoginMethodSelection => "Choice of a login method",
        Category::Captcha => "CAPTCHA",
        Category::VerificationCode => "Verification code",
        Category::SensitiveOperation => "Sensitive operation",
        Category::RedirectConfirmation => "Redirect",
        Category::PermissionConfirmation => "Permission",
        Category::BlackScreen => "Black screen",
        Category::AmbiguousSituation => "Ambiguous situation",
        Category::UnsupportedAction => "Unsupported action",
        Category::Stuck => "Stuck",
        Category::Other => "Other",
    }
}

/// Whom a request is for.
pub fn target(request: &AttentionRequest) -> Option<String> {
    Some(match request.spec.current_target()?.clone() {
        Target { user: Some(user), .. } => format!("user {user}"),
        Target { group: Some(group), .. } => format!("group {group}"),
        _ => "administrators".to_owned(),
    })
}

/// The state of a session: the word, and the class of its tag.
pub fn session_state(session: &BrowserSession) -> (&'static str, &'static str) {
    match session.status.as_ref().and_then(|s| s.phase).unwrap_or_default() {
        SessionPhase::Pending => ("Starting", "warn"),
        SessionPhase::Ready if session.spec.close.is_some() => ("Closing", "warn"),
        SessionPhase::Ready => ("Ready", "good"),
        SessionPhase::Closed => ("Closed", ""),
        SessionPhase::Crashed => ("Crashed", "bad"),
        SessionPhase::Expired => ("Expired", ""),
    }
}

/// Whether a session's browser is gone for good.
pub fn session_ended(session: &BrowserSession) -> bool {
    matches!(session.status.as_ref().and_then(|s| s.phase), Some(SessionPhase::Closed | SessionPhase::Crashed | SessionPhase::Expired))
}

/// Why there is no browser any more: what happened, and what that means.
pub fn session_end(session: &BrowserSession) -> (&'static str, &'static str) {
    match session.status.as_ref().and_then(|s| s.phase) {
        Some(SessionPhase::Crashed) => ("The browser crashed", "Its open requests were rejected, and their agents were told why."),
        Some(SessionPhase::Expired) => {
            ("The session expired", "It was idle for too long, or reached the end of its lifetime. Its browser is gone.")
        }
        _ => ("The session was closed", "Its browser is gone; only the record is left."),
    }
}

/// 42 s, 12 min, 3 h 05 min, 2 d 4 h: as the scripts write it.
pub fn span(seconds: i64) -> String {
    let s = seconds.max(0);
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

/// `12:04 left` under an hour, else as [`span`].
pub fn left(deadline: Timestamp, now: Timestamp) -> String {
    // A second that has begun counts whole, as on any countdown.
    let seconds = (deadline.as_millisecond() - now.as_millisecond()).div_euclid(1000) + 1;
    match seconds {
        ..=0 => "time is up".to_owned(),
        1..3600 => format!("{}:{:02} left", seconds / 60, seconds % 60),
        _ => format!("{} left", span(seconds)),
    }
}

/// How pressing the deadline is, by the part of the wait that is left: 20 % and 5 %.
pub fn heat(opened: Timestamp, deadline: Timestamp, now: Timestamp) -> &'static str {
    let total = deadline.duration_since(opened).as_secs_f64();
    let left = deadline.duration_since(now).as_secs_f64();
    match left {
        left if left <= total * 0.05 => "bad",
        left if left <= total * 0.2 => "warn",
        _ => "",
    }
}

/// A time for readers without scripts; the scripts write it in the viewer's zone.
pub fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1alpha1::{AttentionRequestSpec, AttentionRequestStatus, Cancel, Completion, Principal, Resolution};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn request(phase: Option<Phase>) -> AttentionRequest {
        let mut request = AttentionRequest::new("a-1", AttentionRequestSpec { reason: "\nSolve it\nplease".into(), ..Default::default() });
        request.status = Some(AttentionRequestStatus { phase, ..Default::default() });
        request
    }

    #[test]
    fn a_stored_decision_ends_it_at_once() {
        let mut resolved = request(Some(Phase::Pending));
        resolved.spec.resolution = Some(Resolution {
            outcome: ResolutionOutcome::Rejected,
            by: Some(Principal::named("ann")),
            message: Some("no".into()),
            ..Default::default()
        });
        let mut completed = request(Some(Phase::Pending));
        completed.spec.completion = Some(Completion::default());
        let mut cancelled = request(None);
        cancelled.spec.cancel = Some(Cancel::default());
        for (request, want, by) in [
            (request(None), None, None),
            (request(Some(Phase::Pending)), None, None),
            (resolved, Some(Ending::Rejected), Some("ann")),
            (completed, Some(Ending::Resolved), None),
            (cancelled, Some(Ending::Cancelled), None),
            (request(Some(Phase::Timeout)), Some(Ending::TimedOut), None),
        ] {
            let view = Request::of(&request);
            assert_eq!(view.settled.as_ref().map(|s| s.ending), want);
            assert_eq!(view.settled.and_then(|s| s.by).as_deref(), by);
            assert_eq!(view.title, "Solve it");
        }
    }

    #[test]
    fn times_read_well() {
        for (seconds, want) in [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3661, "1 h 01 min"), (100_000, "1 d 3 h"), (-5, "0 s")] {
            assert_eq!(span(seconds), want);
        }
        for (deadline, want) in [(0, "time is up"), (1, "0:01 left"), (724, "12:04 left"), (3600, "1 h 00 min left")] {
            let now = Timestamp::from_millisecond(1_000_000_001).unwrap();
            assert_eq!(left(Timestamp::from_millisecond(1_000_000_000 + deadline * 1000).unwrap(), now), want);
        }
        for (now, want) in [(0, ""), (799, ""), (800, "warn"), (949, "warn"), (950, "bad"), (2000, "bad")] {
            assert_eq!(heat(at(0), at(1000), at(now)), want, "{now}");
        }
    }
}
