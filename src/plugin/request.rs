//! One request, as it is read from the API server.

use super::error::Error;
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestStatus, Mode, Phase, ResolutionOutcome, Target};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::Value;

/// The object as it came, and as we understand it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    raw: DynamicObject,
    pub typed: AttentionRequest,
}

impl TryFrom<DynamicObject> for Request {
    type Error = Error;

    fn try_from(mut raw: DynamicObject) -> Result<Self, Error> {
        // As kubectl does: who wrote which field is not what people ask for.
        raw.metadata.managed_fields = None;
        let name = raw.name_any();
        let typed = raw.clone().try_parse().map_err(|error| Error::Other(format!("{name} can't be read: {error}")))?;
        Ok(Self { raw, typed })
    }
}

impl Request {
    pub(super) fn name(&self) -> String {
        self.typed.name_any()
    }

    pub(super) fn namespace(&self) -> String {
        self.typed.namespace().unwrap_or_default()
    }

    /// As `-o name` prints it.
    pub(super) fn resource_name(&self) -> String {
        format!("attentionrequest.beckon.dev/{}", self.name())
    }

    /// The whole object.
    pub(super) fn value(&self) -> Result<Value, Error> {
        serde_json::to_value(&self.raw).map_err(|error| Error::Other(error.to_string()))
    }

    pub(super) fn status(&self) -> Option<&AttentionRequestStatus> {
        self.typed.status.as_ref()
    }

    /// The phase. A decision is final the moment it is stored, so it counts before the controller has recorded it.
    pub(super) fn phase(&self) -> Option<Phase> {
        let spec = &self.typed.spec;
        let recorded = self.status().and_then(|status| status.phase);
        match recorded {
            None | Some(Phase::Pending) => match (&spec.resolution, &spec.completion, &spec.cancel) {
                (Some(resolution), ..) => Some(match resolution.outcome {
                    ResolutionOutcome::Resolved => Phase::Resolved,
                    ResolutionOutcome::Rejected => Phase::Rejected,
                }),
                (None, Some(_), _) => Some(Phase::Resolved),
                (None, None, Some(_)) => Some(Phase::Cancelled),
                (None, None, None) => recorded,
            },
            settled => settled,
        }
    }

    /// Whether it waits for somebody.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase(), None | Some(Phase::Pending))
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.status().and_then(|status| status.deadline.as_ref()).map(|time| time.0)
    }

    pub(super) fn settled_at(&self) -> Option<Timestamp> {
        self.status().and_then(|status| status.settled_at.as_ref()).map(|time| time.0)
    }

    /// Seconds until the deadline while it is open; negative when it has passed.
    pub(super) fn seconds_left(&self, now: Timestamp) -> Option<i64> {
        self.is_open().then(|| self.deadline()).flatten().map(|deadline| deadline.as_second() - now.as_second())
    }

    /// Seconds since it was created.
    pub(super) fn age(&self, now: Timestamp) -> i64 {
        self.typed.creation_timestamp().map_or(0, |created| now.as_second() - created.0.as_second())
    }

    /// Who answered.
    pub(super) fn answered_by(&self) -> Option<&str> {
        let resolution = self.typed.spec.resolution.as_ref();
        resolution.and_then(|resolution| resolution.by.as_ref()).map(|by| by.username.as_str())
    }

    /// Who said that they are on it.
    pub(super) fn claimed_by(&self) -> Option<&str> {
        self.typed.spec.claim.as_ref().and_then(|claim| claim.by.as_ref()).map(|by| by.username.as_str())
    }

    pub(super) fn requester(&self) -> &str {
        self.typed.spec.requester.as_ref().map_or("", |requester| requester.username.as_str())
    }

    pub(super) fn session(&self) -> &str {
        self.typed.spec.session_ref.as_ref().map_or("", |session| session.name.as_str())
    }

    /// Who may answer now: the newest target.
    pub(super) fn target(&self) -> Option<&Target> {
        self.typed.spec.current_target()
    }

    /// Whether a person may drive the browser for it.
    pub(super) fn may_drive(&self) -> bool {
        self.typed.spec.mode == Mode::Takeover
    }
}
