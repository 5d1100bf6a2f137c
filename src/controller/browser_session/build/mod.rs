//! What a session holds, as it should be. Nothing here talks to a server.

pub mod pod;
pub mod secret;

use crate::api::v1alpha1::BrowserSession;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt};

/// The browser's container.
pub const BROWSER: &str = "browser";
/// The label that names the session of a pod.
pub const SESSION: &str = "beckon.dev/session";
/// The label of a pod that no disruption budget gives away.
pub const PROTECTED: &str = "beckon.dev/protected";
/// What keeps consolidation and scale-down away from a pod.
pub const EVICTION_MARKS: [(&str, &str); 2] =
    [("karpenter.sh/do-not-disrupt", "true"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")];

/// The name of a session's pod.
#[must_use]
pub fn pod_name(session: &BrowserSession) -> String {
    session.name_any()
}

/// The name of a session's Secret.
#[must_use]
pub fn secret_name(session: &BrowserSession) -> String {
    format!("{}-driver", session.name_any())
}

/// The session of a pod or of its other objects.
#[must_use]
pub fn session_of(object: &impl ResourceExt) -> Option<&str> {
    object.labels().get(SESSION).map(String::as_str)
}

/// What makes an object go with its session.
fn owner(session: &BrowserSession) -> Vec<OwnerReference> {
    session.controller_owner_ref(&()).into_iter().collect()
}
