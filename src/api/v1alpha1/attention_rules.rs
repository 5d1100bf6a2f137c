//! What the API server holds for an AttentionRequest, whoever writes: set once, first wins, never a phase that
//! contradicts the stored decision.
//!
//! The root rules see `spec` and `status` together, and hold on `/status` writes too. A rule on `status` itself would be
//! skipped when the status is removed, and equality on optionals costs without bound: hence the `has()` forms.

use crate::api::rules::{List, Rule, atomic, fixed, map, set};

/// Every rule, by what it protects.
pub(in crate::api) const RULES: &[&[Rule]] = &[OUTCOME, IMMUTABLE, ALWAYS_THERE, APPEND_ONLY, ANSWER, IDENTITY, TARGET, TEXTS];

/// List semantics.
pub(in crate::api) const LISTS: &[List] = &[
    set("spec.ask.choices"),
    atomic("spec.ask.fields"),
    atomic("spec.retargets"),
    atomic("spec.extensions"),
    map("status.conditions", &["type"]),
    map("status.attachments", &["call"]),
    atomic("status.waitingAt"),
    atomic("status.evidence.action.fields"),
    map("status.deliveries", &["sink", "event"]),
];

/// Whoever acts is named. A schema `required` would give an unreadable error.
macro_rules! says_who {
    ($at:literal) => {
        Rule::require(
            $at,
            ".by",
            "say who you are: add by.username, your name in kubectl auth whoami (a cluster from 1.36 on fills it in)",
            "has(self.by)",
        )
    };
}

/// A text that people read in a terminal too, where a control character would do what it says.
macro_rules! plain {
    ($at:literal) => {
        Rule::node(
            $at,
            "may not contain control characters but line breaks and tabs",
            r"!self.matches(r'[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]')",
        )
    };
}

/// A target is one of three.
macro_rules! one_target {
    ($at:literal) => {
        Rule::node($at, "exactly one of user, group and admins", "[has(self.user), has(self.group), has(self.admins)].exists_one(x, x)")
    };
}

/// The state machine: set once, first wins, absorbing, and the phase agrees with the decision.
const OUTCOME: &[Rule] = &[
    Rule::forbid(
        "",
        ".spec",
        "a request can't be created already answered, completed, cancelled, claimed, extended, retargeted or acknowledged",
        r"oldSelf.hasValue() || !(has(self.spec.resolution) || has(self.spec.completion) || has(self.spec.cancel) || has(self.spec.claim) || has(self.spec.extensions) || has(self.spec.retargets) || has(self.spec.ack))",
    )
    .at_create(),
    Rule::forbid(
        "spec",
        ".resolution",
        "this request was already answered",
        r"!has(oldSelf.resolution) || (has(self.resolution) && self.resolution == oldSelf.resolution)",
    )
    .says(r"'this request was already answered: ' + oldSelf.resolution.outcome + (has(oldSelf.resolution.by) ? ' by ' + oldSelf.resolution.by.username : '')"),
    Rule::forbid(
        "spec",
        ".completion",
        "this request was already completed",
        r"!has(oldSelf.completion) || (has(self.completion) && self.completion == oldSelf.completion)",
    )
    .says(r"'this request was already completed: ' + oldSelf.completion.reason"),
    Rule::forbid(
        "spec",
        ".ack",
        "this answer was already acknowledged",
        r"!has(oldSelf.ack) || (has(self.ack) && self.ack == oldSelf.ack)",
    ),
    Rule::forbid(
        "spec",
        ".cancel",
        "this request was already cancelled",
        r"!has(oldSelf.cancel) || (has(self.cancel) && self.cancel == oldSelf.cancel)",
    ),
    Rule::forbid(
        "",
        ".spec",
        "only one of resolution, completion and cancel",
        r"[has(self.spec.resolution), has(self.spec.completion), has(self.spec.cancel)].filter(x, x).size() <= 1",
    )
    .says(r"has(oldSelf.spec.resolution) ? 'this request was already answered: ' + oldSelf.spec.resolution.outcome + (has(oldSelf.spec.resolution.by) ? ' by ' + oldSelf.spec.resolution.by.username : '') : has(oldSelf.spec.completion) ? 'this request was already completed: ' + oldSelf.spec.completion.reason : has(oldSelf.spec.cancel) ? 'this request was already cancelled' : 'only one of resolution, completion and cancel'"),
    Rule::forbid(
        "",
        ".spec.resolution",
        "this request is not open",
        r"has(oldSelf.spec.resolution) || !has(self.spec.resolution) || (has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Pending')",
    )
    .says(r"'this request is ' + (has(oldSelf.status) && has(oldSelf.status.phase) ? 'already settled: ' + oldSelf.status.phase : 'not open yet')"),
    Rule::forbid(
        "",
        ".spec.completion",
        "this request is not open",
        r"has(oldSelf.spec.completion) || !has(self.spec.completion) || (has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Pending')",
    )
    .says(r"'this request is ' + (has(oldSelf.status) && has(oldSelf.status.phase) ? 'already settled: ' + oldSelf.status.phase : 'not open yet')"),
    Rule::forbid(
        "",
        ".spec.cancel",
        "this request is already settled",
        r"has(oldSelf.spec.cancel) || !has(self.spec.cancel) || !has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending'",
    )
    .says(r"'this request is already settled: ' + oldSelf.status.phase"),
    Rule::forbid(
        "",
        ".status.phase",
        "status.phase is final",
        r"!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending' || (has(self.status) && has(self.status.phase) && self.status.phase == oldSelf.status.phase)",
    )
    .says(r"'status.phase ' + oldSelf.status.phase + ' is final'"),
    Rule::forbid(
        "",
        ".status.phase",
        "status.phase can't be removed",
        r"!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.status) && has(self.status.phase))",
    ),
    Rule::forbid(
        "",
        ".status.phase",
        "status.phase contradicts spec.resolution, spec.completion or spec.cancel",
        r"!has(self.status) || !has(self.status.phase) || self.status.phase == 'Pending' || (has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == self.status.phase) || (self.status.phase == 'Rejected' && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Settled' && c.reason == 'IdentityNotEnforced')) || (has(self.spec.resolution) ? self.status.phase == self.spec.resolution.outcome : has(self.spec.completion) ? self.status.phase == 'Resolved' : self.status.phase != 'Resolved' && (!has(self.spec.cancel) || self.status.phase == 'Cancelled'))",
    ),
    Rule::forbid(
        "",
        ".status",
        "status times are stamped once; a deadline may only move later",
        r"!has(oldSelf.status) || ((!has(oldSelf.status.openedAt) || (has(self.status) && has(self.status.openedAt) && self.status.openedAt == oldSelf.status.openedAt)) && (!has(oldSelf.status.settledAt) || (has(self.status) && has(self.status.settledAt) && self.status.settledAt == oldSelf.status.settledAt)) && (!has(oldSelf.status.deadline) || (has(self.status) && has(self.status.deadline) && self.status.deadline >= oldSelf.status.deadline)))",
    ),
    Rule::forbid(
        "",
        ".spec",
        "claim, extensions and retargets change only while the request is open",
        r"(has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase == 'Pending' && !has(oldSelf.spec.resolution) && !has(oldSelf.spec.completion) && !has(oldSelf.spec.cancel)) || (has(self.spec.claim) == has(oldSelf.spec.claim) && (!has(self.spec.claim) || self.spec.claim == oldSelf.spec.claim) && (has(self.spec.extensions) ? size(self.spec.extensions) : 0) == (has(oldSelf.spec.extensions) ? size(oldSelf.spec.extensions) : 0) && (has(self.spec.retargets) ? size(self.spec.retargets) : 0) == (has(oldSelf.spec.retargets) ? size(oldSelf.spec.retargets) : 0))",
    ),
    Rule::forbid(
        "",
        ".spec.ack",
        "only a settled answer can be acknowledged",
        r"has(oldSelf.spec.ack) || !has(self.spec.ack) || (has(oldSelf.status) && has(oldSelf.status.phase) && (oldSelf.status.phase == 'Resolved' || (oldSelf.status.phase == 'Rejected' && has(oldSelf.spec.resolution))))",
    ),
    Rule::forbid(
        "",
        ".status",
        "evidence, executionStateVersionAtClose and a consumed receipt are set once",
        r"!has(oldSelf.status) || ((!has(oldSelf.status.evidence) || (has(self.status) && has(self.status.evidence) && self.status.evidence == oldSelf.status.evidence)) && (!has(oldSelf.status.executionStateVersionAtClose) || (has(self.status) && has(self.status.executionStateVersionAtClose) && self.status.executionStateVersionAtClose == oldSelf.status.executionStateVersionAtClose)) && (!has(oldSelf.status.receipt) || oldSelf.status.receipt.state != 'Consumed' || (has(self.status) && has(self.status.receipt) && self.status.receipt == oldSelf.status.receipt)))",
    ),
    Rule::forbid(
        "",
        ".status.receipt",
        "a receipt is consumed by spec.ack only",
        r"!has(self.status) || !has(self.status.receipt) || self.status.receipt.state != 'Consumed' || has(self.spec.ack)",
    ),
];

/// What is asked never changes.
const IMMUTABLE: &[Rule] = fixed![
    "sessionRef",
    "ask",
    "category",
    "details",
    "suggestedAction",
    "options",
    "maxWaitSeconds",
    "execution",
    "target",
    "idempotencyKey",
    "inputDigest",
];

/// Nor do the fields that are always there.
const ALWAYS_THERE: &[Rule] = &[
    Rule::unchanging("spec.source"),
    Rule::unchanging("spec.mode"),
    Rule::unchanging("spec.reason"),
    Rule::unchanging("spec.waiter"),
    Rule::unchanging("spec.requester"),
];

/// Lists that only grow, one entry at a time, so that the last one is the new one.
const APPEND_ONLY: &[Rule] = &[
    Rule::forbid(
        "spec",
        ".retargets",
        "is append-only",
        r"!has(oldSelf.retargets) || (has(self.retargets) && size(self.retargets) >= size(oldSelf.retargets) && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(i, i >= size(oldSelf.retargets) || self.retargets[i] == oldSelf.retargets[i]))",
    ),
    Rule::forbid(
        "spec",
        ".retargets",
        "append one at a time",
        r"!has(self.retargets) || size(self.retargets) <= (has(oldSelf.retargets) ? size(oldSelf.retargets) : 0) + 1",
    ),
    Rule::forbid(
        "spec",
        ".extensions",
        "is append-only",
        r"!has(oldSelf.extensions) || (has(self.extensions) && size(self.extensions) >= size(oldSelf.extensions) && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].all(i, i >= size(oldSelf.extensions) || self.extensions[i] == oldSelf.extensions[i]))",
    ),
    Rule::forbid(
        "spec",
        ".extensions",
        "append one at a time",
        r"!has(self.extensions) || size(self.extensions) <= (has(oldSelf.extensions) ? size(oldSelf.extensions) : 0) + 1",
    ),
];

/// The answer fits what was asked.
const ANSWER: &[Rule] = &[
    Rule::forbid(
        "spec",
        ".options",
        "may not be longer than 32768 bytes",
        r"!has(self.options) || size(bytes(self.options)) <= 32768",
    ),
    Rule::require(
        "spec",
        ".sessionRef",
        "mode Takeover needs a sessionRef",
        r"self.mode != 'Takeover' || has(self.sessionRef)",
    ),
    Rule::invalid(
        "spec",
        ".ask.type",
        "ask.type Takeover goes with mode Takeover, every other type with mode Notify",
        r"!has(self.ask) || (self.ask.type == 'Takeover') == (self.mode == 'Takeover')",
    ),
    Rule::invalid(
        "spec",
        ".resolution.verdict",
        "the verdict does not fit ask.type and outcome",
        r"!has(self.resolution) || (has(self.resolution.verdict) ? self.resolution.outcome + ' ' + self.resolution.verdict : self.resolution.outcome) in ( !has(self.ask) ? ['Resolved', 'Rejected'] : self.ask.type == 'Takeover' ? ['Resolved', 'Resolved Done', 'Rejected', 'Rejected Failed'] : self.ask.type in ['Approval', 'DestructiveAction'] ? ['Resolved Approved', 'Rejected', 'Rejected Denied'] : self.ask.type == 'Access' ? ['Resolved Provided', 'Rejected', 'Rejected Denied'] : ['Resolved Answered', 'Rejected'])",
    )
    .says(r"!has(self.ask) ? 'this request asks for no verdict: answer with outcome Resolved or Rejected' : 'a request of type ' + self.ask.type + ' is answered with ' + ( self.ask.type == 'Takeover' ? 'outcome Resolved (verdict Done) or Rejected (verdict Failed)' : self.ask.type in ['Approval', 'DestructiveAction'] ? 'outcome Resolved and verdict Approved, or Rejected (verdict Denied)' : self.ask.type == 'Access' ? 'outcome Resolved and verdict Provided, or Rejected (verdict Denied)' : 'outcome Resolved and verdict Answered, or Rejected')"),
    Rule::require(
        "spec",
        ".resolution.answer",
        "a question needs an answer, a secretRef or a message",
        r"!has(self.ask) || !has(self.resolution) || self.ask.type != 'Question' || self.resolution.outcome != 'Resolved' || has(self.resolution.answer) || has(self.resolution.secretRef) || has(self.resolution.message)",
    ),
    Rule::require(
        "spec",
        ".resolution.summary",
        "an answer to a Clarification, Decision or Other needs a summary",
        r"!has(self.ask) || !has(self.resolution) || !(self.ask.type in ['Clarification', 'Decision', 'Other']) || self.resolution.outcome != 'Resolved' || has(self.resolution.summary)",
    ),
    Rule::invalid(
        "spec",
        ".resolution.answer",
        "the answer must be one of ask.choices",
        r"!has(self.ask) || !has(self.ask.choices) || !has(self.resolution) || !has(self.resolution.answer) || self.resolution.answer in self.ask.choices",
    ),
    Rule::forbid(
        "spec",
        ".resolution.answer",
        "this question expects a secret: use secretRef, never answer",
        r"!has(self.ask) || !has(self.ask.expectsSecret) || !self.ask.expectsSecret || !has(self.resolution) || !has(self.resolution.answer)",
    ),
    Rule::forbid(
        "spec.resolution",
        ".secretRef",
        "answer or secretRef, not both",
        r"!has(self.answer) || !has(self.secretRef)",
    ),
    Rule::invalid(
        "status.conditions.[]",
        ".reason",
        "unknown reason of Settled",
        r"self.type != 'Settled' || self.reason in ['RateLimited', 'Answered', 'DeadlineExceeded', 'ClientCancelled', 'ClientGone', 'ServerRestarted', 'ServerShutdown', 'ForeignSession', 'SessionNotFound', 'SessionClosed', 'SessionCrashed', 'SessionExpired', 'SessionEvicted', 'HandoverEnded', 'ConfirmedByUser', 'AgentResumed', 'IdentityNotEnforced', 'Deleted']",
    ),
];

/// Whoever acts is named.
const IDENTITY: &[Rule] = &[
    says_who!("spec.retargets.[]"),
    says_who!("spec.claim"),
    says_who!("spec.extensions.[]"),
    says_who!("spec.resolution"),
    says_who!("spec.completion"),
    says_who!("spec.cancel"),
    says_who!("spec.ack"),
    Rule::require(
        "spec",
        ".requester",
        "say who you are: add requester.username, your name in kubectl auth whoami (a cluster from 1.36 on fills it in)",
        r"has(self.requester)",
    ),
];

/// Exactly one of the three.
const TARGET: &[Rule] = &[one_target!("spec.target"), one_target!("spec.retargets.[].target"), one_target!("status.currentTarget")];

/// What is shown to people is text and nothing else.
const TEXTS: &[Rule] = &[
    plain!("spec.reason"),
    plain!("spec.details"),
    plain!("spec.suggestedAction"),
    plain!("spec.options"),
    plain!("spec.ask.choices.[]"),
    plain!("spec.ask.action"),
    plain!("spec.ask.fields.[]"),
    plain!("spec.resolution.answer"),
    plain!("spec.resolution.summary"),
    plain!("spec.resolution.note"),
    plain!("spec.resolution.message"),
    plain!("spec.completion.note"),
    plain!("spec.cancel.reason"),
];
