//! The harness itself: the six users are who they should be, and Beckon's kinds and rules are there.

// What the modules here share is reached by nothing else.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use beckon::api::v1alpha1::AttentionRequest;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, ListParams, PostParams};
use support::{ControlPlane, Options, succeeded};

async fn who(client: kube::Client) -> (String, bool) {
    let review = Api::<SelfSubjectReview>::all(client).create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.uid.is_some())
}

#[tokio::test]
async fn each_user_is_who_its_context_says() {
    let plane = ControlPlane::shared();
    for name in ["admin", "operator", "operator-2", "viewer", "agent", "agent-2"] {
        assert_eq!(who(plane.user(name).await).await, (name.to_owned(), true));
    }
    assert_eq!(who(plane.as_user("mallory", &["strangers"]).await).await, ("mallory".to_owned(), false));
    assert_eq!(who(plane.account("beckon-gateway").await).await, ("system:serviceaccount:beckon-system:beckon-gateway".to_owned(), true));
}

#[tokio::test]
async fn the_roles_are_bound_to_the_users() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("roles").await;
    for (user, verb, resource, allowed) in [
        ("operator", "resolve", "attentionrequests.beckon.dev", true),
        ("operator-2", "takeover", "browsersessions.beckon.dev", true),
        ("viewer", "list", "attentionrequests.beckon.dev", true),
        ("viewer", "resolve", "attentionrequests.beckon.dev", false),
        ("agent", "create", "attentionrequests.beckon.dev", true),
        ("agent", "resolve", "attentionrequests.beckon.dev", false),
        ("agent-2", "create", "browsersessions.beckon.dev", true),
        ("admin", "administer", "attentionrequests.beckon.dev", true),
    ] {
        let said = plane.kubectl(user, &["auth", "can-i", verb, resource, "-n", &namespace]);
        let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        assert_eq!(said, if allowed { "yes" } else { "no" }, "{user} {verb} {resource}");
    }
}

#[tokio::test]
async fn a_plane_of_ones_own_has_the_kinds_alone_when_asked() {
    let plane = ControlPlane::start(&Options { controller_manager: false, policies: false, ..Options::default() });
    let requests = Api::<AttentionRequest>::all(plane.admin().await).list(&ListParams::default()).await.unwrap();
    assert!(requests.items.is_empty());
    let roles = succeeded(plane.kubectl("admin", &["get", "validatingadmissionpolicies", "-o", "name"]));
    assert_eq!(String::from_utf8_lossy(&roles), "");
}
