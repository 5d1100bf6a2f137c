//! The Kubernetes API of Beckon: the two kinds, their conditions, and the rules the API server holds for them.
//!
//! Nothing here talks to a server. The types are the source of `crds/`, which `cargo xtask generate` writes.

pub mod conditions;
mod rules;
pub mod v1alpha1;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The API group of both kinds.
pub const GROUP: &str = "beckon.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";

/// The custom resource definitions, complete: schema, bounds, list types and CEL rules.
#[must_use]
pub fn crds() -> [CustomResourceDefinition; 2] {
    [
        rules::complete(v1alpha1::AttentionRequest::crd(), v1alpha1::attention_rules::RULES, v1alpha1::attention_rules::LISTS),
        rules::complete(v1alpha1::BrowserSession::crd(), v1alpha1::session_rules::RULES, v1alpha1::session_rules::LISTS),
    ]
}
