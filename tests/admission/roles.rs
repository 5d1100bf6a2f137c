//! What each role may do: this, and nothing else.

use crate::world::{Who, World, controller, gateway};
use futures::stream::{self, StreamExt as _};
use std::collections::BTreeSet;

const KINDS: &[&str] = &["beckon.dev/attentionrequests", "beckon.dev/browsersessions"];
/// What a role might be given by mistake.
const RESOURCES: &[&str] = &[
    "beckon.dev/attentionrequests",
    "beckon.dev/attentionrequests/status",
    "beckon.dev/attentionrequests/finalizers",
    "beckon.dev/browsersessions",
    "beckon.dev/browsersessions/status",
    "beckon.dev/browsersessions/finalizers",
    "/pods",
    "/pods/exec",
    "/secrets",
    "/configmaps",
    "/serviceaccounts",
    "/serviceaccounts/token",
    "coordination.k8s.io/leases",
    "/events",
    "events.k8s.io/events",
    "/users",
    "/groups",
    "authentication.k8s.io/users",
    "apps/deployments",
    "rbac.authorization.k8s.io/rolebindings",
    "authentication.k8s.io/tokenreviews",
    "authorization.k8s.io/subjectaccessreviews",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/mutatingadmissionpolicies",
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
];
const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "resolve",
    "administer",
    "view",
    "takeover",
    "impersonate",
    "impersonate:user-info",
    "impersonate-on:user-info:patch",
    "bind",
    "escalate",
];

/// Everything of the universe above that this user may do, as `verb resource`.
async fn everything(w: &World, who: &Who) -> BTreeSet<String> {
    let pairs = RESOURCES.iter().flat_map(|resource| VERBS.iter().map(move |verb| (*verb, *resource)));
    stream::iter(pairs)
        .map(|(verb, resource)| async move { w.may(who, verb, resource).await.then(|| format!("{verb} {resource}")) })
        .buffer_unordered(16)
        .filter_map(|allowed| async move { allowed })
        .collect()
        .await
}

/// `resource: verb verb`, one a line.
fn expected(table: &[(&str, &str)]) -> BTreeSet<String> {
    table.iter().flat_map(|(resource, verbs)| verbs.split(' ').map(move |verb| format!("{verb} {resource}"))).collect()
}

#[tokio::test]
async fn each_role_is_exactly_what_it_says() {
    let w = World::stamped().await;
    let roles: &[(&str, &[(&str, &str)])] = &[
        ("beckon-viewer", &[(KINDS[0], "get list watch"), (KINDS[1], "get list watch")]),
        ("beckon-responder", &[(KINDS[0], "get list watch patch update resolve"), (KINDS[1], "get list watch view")]),
        ("beckon-session-admin", &[(KINDS[1], "get list watch patch delete view takeover")]),
        ("beckon-agent", &[(KINDS[0], "create get list watch patch update"), (KINDS[1], "create get list watch patch")]),
        (
            "beckon-administrator",
            &[(KINDS[0], "get list watch patch update delete resolve administer"), (KINDS[1], "get list watch patch delete view takeover")],
        ),
    ];
    for (role, table) in roles {
        let group = format!("test:{role}");
        w.bind(&group, role).await;
        let who = Who::new("anyone").group(&group);
        let wanted = expected(table);
        crate::support::eventually("the role binding counts", async || everything(&w, &who).await == wanted).await;
    }
}

/// That they need what they have is shown by the installed chart, `tests/install.rs`.
#[tokio::test]
async fn the_two_accounts_are_exactly_what_their_roles_say() {
    let w = World::stamped().await;
    let both_status = [("beckon.dev/attentionrequests/status", "patch"), ("beckon.dev/browsersessions/status", "patch")];
    let mut table = vec![
        (KINDS[0], "get list watch create delete"),
        (KINDS[1], "get list watch delete"),
        ("beckon.dev/browsersessions/finalizers", "update"),
        ("/pods", "get list watch create patch delete"),
        ("/secrets", "get create delete"),
        ("coordination.k8s.io/leases", "get list watch"),
        ("events.k8s.io/events", "create patch"),
        ("admissionregistration.k8s.io/validatingadmissionpolicies", "list watch"),
        ("admissionregistration.k8s.io/validatingadmissionpolicybindings", "list watch"),
    ];
    table.extend(both_status);
    assert_eq!(everything(&w, &controller()).await, expected(&table));
    let mut table = vec![
        (KINDS[0], "get list watch create patch"),
        (KINDS[1], "get list watch create patch"),
        ("/secrets", "get"),
        ("coordination.k8s.io/leases", "create patch"),
        ("authentication.k8s.io/tokenreviews", "create"),
        ("authorization.k8s.io/subjectaccessreviews", "create"),
        ("admissionregistration.k8s.io/validatingadmissionpolicies", "list watch"),
        ("admissionregistration.k8s.io/validatingadmissionpolicybindings", "list watch"),
    ];
    table.extend(both_status);
    assert_eq!(everything(&w, &gateway()).await, expected(&table));
}

/// `resolve` must not come along with a general role.
#[tokio::test]
async fn general_roles_bring_nothing_of_ours() {
    let w = World::stamped().await;
    for role in ["view", "edit", "admin"] {
        let group = format!("test:general-{role}");
        w.bind(&group, role).await;
        let who = Who::new("anyone").group(&group);
        let ours: Vec<_> = everything(&w, &who).await.into_iter().filter(|right| right.contains("beckon.dev")).collect();
        assert_eq!(ours, [""; 0], "{role}");
    }
}
