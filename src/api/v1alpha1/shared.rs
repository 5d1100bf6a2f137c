//! What both kinds use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who did something, as the API server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// The user name of the API server.
    #[schemars(length(min = 1, max = 256))]
    pub username: String,
    /// The user's uid, where the authenticator gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub uid: Option<String>,
    /// The configured extra attributes of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    pub extra: Option<BTreeMap<String, ExtraValues>>,
}

impl Principal {
    /// A principal that is known by name alone.
    pub fn named(username: impl Into<String>) -> Self {
        Self { username: username.into(), ..Self::default() }
    }

    /// Whether both are the same person or workload: the same name, and the same uid where both have one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.username == other.username && (self.uid.is_none() || other.uid.is_none() || self.uid == other.uid)
    }
}

/// The values of one extra attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExtraValues(
    #[schemars(length(max = 16), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))] pub Vec<String>,
);

/// Names an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRef {
    /// The BrowserSession's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid: a session of the same name but another uid is another session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
}

/// Names a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
}

/// Who may answer: exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// This user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub user: Option<String>,
    /// The members of this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub group: Option<String>,
    /// Those who hold the verb `administer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true]))]
    pub admins: Option<bool>,
}

/// What the writer had before their eyes. A write that quotes something stale is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// `metadata.generation` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub generation: Option<i64>,
    /// `status.execution.stateVersion` of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub execution_state_version: Option<i64>,
    /// `status.evidence.digest` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub evidence_digest: Option<String>,
}
