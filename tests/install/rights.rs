//! That the two accounts use every right that they hold, and are refused nothing: told by the audit log of a release's life.

use crate::release::{Release, SYSTEM};
use crate::support::poll_until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

const ACCOUNTS: [&str; 2] = ["beckon-controller", "beckon-gateway"];

/// What no call can show, or none within a minute: account, verb, resource, and why it is needed.
const NOT_CALLED: &[(&str, &str, &str, &str)] = &[
    (
        "beckon-controller",
        "update",
        "beckon.dev/browsersessions/finalizers",
        "asked by OwnerReferencesPermissionEnforcement, which is on here",
    ),
    ("beckon-controller", "get", "beckon.dev/attentionrequests", "a watch that tells nothing, as in the faults of the controller suite"),
    ("beckon-controller", "patch", "events.k8s.io/events", "an event that comes again within minutes"),
    ("beckon-controller", "get", "coordination.k8s.io/leases", "the end of an idle session, after a minute at the least"),
];

/// One right, or one use of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    account: String,
    /// Where: in Beckon's own namespace, or in the others.
    own: bool,
    verb: String,
    /// `group/resource[/subresource]`.
    resource: String,
}

impl fmt::Debug for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.own { "its own namespace" } else { "any namespace" };
        write!(f, "{}: {} {} in {place}", self.account, self.verb, self.resource)
    }
}

pub fn none_is_missing(release: &Release) {
    assert_eq!(used(release).1, BTreeSet::new(), "refused");
}

pub async fn each_is_used_and_none_is_missing(release: &Release) {
    let granted = granted(release);
    assert!(granted.len() > 30, "{granted:?}");
    // The log is written before a call is answered, but not all calls are ours.
    poll_until(Duration::from_secs(20), "the use of each right in the audit log", || async {
        none_is_missing(release);
        let (used, _) = used(release);
        let unused: Vec<_> = granted.difference(&used).filter(|right| !not_called(right)).collect();
        if !unused.is_empty() {
            eprintln!("not yet used: {unused:?}");
        }
        unused.is_empty().then_some(())
    })
    .await;
}

fn not_called(right: &Right) -> bool {
    NOT_CALLED.iter().any(|(account, verb, resource, _)| {
        !right.own && (right.account.as_str(), right.verb.as_str(), right.resource.as_str()) == (*account, *verb, *resource)
    })
}

/// What the roles of the cluster give to the accounts.
fn granted(release: &Release) -> BTreeSet<Right> {
    let list = |kind: &str| -> Vec<Value> {
        let text = release.run(&format!("kubectl get {kind} --all-namespaces -o json"));
        serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone()
    };
    let roles: Vec<Value> = ["clusterroles", "roles"].into_iter().flat_map(list).collect();
    let mut rights = BTreeSet::new();
    for binding in ["clusterrolebindings", "rolebindings"].into_iter().flat_map(list) {
        for account in ACCOUNTS.iter().filter(|account| {
            let subjects = binding["subjects"].as_array();
            subjects.is_some_and(|all| all.iter().any(|one| one["name"] == **account && one["namespace"] == SYSTEM))
        }) {
            let namespace = binding["metadata"]["namespace"].as_str();
            let of_binding = |role: &&Value| {
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
                    && (role["kind"] == "ClusterRole" || role["metadata"]["namespace"].as_str() == namespace)
            };
            let role = roles.iter().find(of_binding).expect("the role of a binding");
            for rule in role["rules"].as_array().unwrap() {
                let words =
                    |key: &str| rule[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>();
                for (group, resource) in
                    words("apiGroups").iter().flat_map(|group| words("resources").into_iter().map(move |r| (group.clone(), r)))
                {
                    rights.extend(words("verbs").into_iter().map(|verb| Right {
                        account: (*account).to_owned(),
                        own: namespace == Some(SYSTEM),
                        verb,
                        resource: format!("{group}/{resource}"),
                    }));
                }
            }
        }
    }
    rights
}

/// What the accounts have called, and what of it they were never allowed to: the server hears of a new binding a moment after it was
/// made, and who asks before is refused once.
fn used(release: &Release) -> (BTreeSet<Right>, BTreeSet<Right>) {
    let (mut used, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for event in release.audit_log() {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let Some(account) = user.strip_prefix(&format!("system:serviceaccount:{SYSTEM}:")).filter(|name| ACCOUNTS.contains(name)) else {
            continue;
        };
        let object = &event["objectRef"];
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let subresource = object["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
        let right = |verb: &str| Right {
            account: account.to_owned(),
            own: text("namespace") == SYSTEM,
            verb: verb.to_owned(),
            resource: format!("{}/{}{subresource}", text("apiGroup"), text("resource")),
        };
        let verb = event["verb"].as_str().unwrap_or_default();
        if event["annotations"]["authorization.k8s.io/decision"] == "allow" {
            used.insert(right(verb));
            // A server-side apply that makes the object needs both.
            if verb == "patch" && event["responseStatus"]["code"] == 201 {
                used.insert(right("create"));
            }
        } else if !text("resource").is_empty() {
            refused.insert(right(verb));
        }
    }
    refused.retain(|right| !used.contains(right));
    (used, refused)
}
