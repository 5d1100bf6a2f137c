//! A release that works in one namespace alone.

use crate::life::{answered_by_kubectl, session};
use crate::release::{Release, SYSTEM};
use crate::rights;
use beckon::api::v1alpha1::AttentionRequest;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use std::collections::BTreeSet;

const TEAM: &str = "team-a";
const OTHERS: &[&str] = &["team-b", "default", "kube-system"];
const ACCOUNTS: &[&str] = &["beckon-controller", "beckon-gateway"];

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_one_namespace_works_there_and_sees_nothing_else() {
    let release = Release::install(TEAM, &[&format!("watchNamespace={TEAM}"), "replicas=1"], |plane| {
        let made = plane.shell("kubectl create namespace team-b --dry-run=client -o yaml | kubectl apply -f -").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    });
    release.give_rights();
    release.run("kubectl create -n team-b -f config/samples/notify.yaml");

    let forward = release.forward();
    let agent = release.agent(&forward);
    let session = session(&release, &agent).await;
    answered_by_kubectl(&release, &agent, &session).await;

    rights::none_is_missing(&release);
    for account in ACCOUNTS {
        let may = |verb: &str, resource: &str, namespace: &str| {
            let script = format!(
                "kubectl auth can-i {verb} {resource} -n {namespace} --as=system:serviceaccount:{SYSTEM}:{account} 2>/dev/null || true"
            );
            release.run(&script).trim() == "yes"
        };
        assert!(may("list", "attentionrequests.beckon.dev", TEAM) && may("get", "secrets", TEAM), "{account}");
        for namespace in OTHERS {
            for (verb, resource) in [
                ("get", "secrets"),
                ("list", "secrets"),
                ("get", "attentionrequests.beckon.dev"),
                ("list", "attentionrequests.beckon.dev"),
                ("list", "browsersessions.beckon.dev"),
                ("patch", "attentionrequests.beckon.dev/status"),
                ("list", "pods"),
                ("create", "pods"),
                ("create", "leases.coordination.k8s.io"),
                ("create", "events.events.k8s.io"),
            ] {
                assert!(!may(verb, resource, namespace), "{account} may {verb} {resource} in {namespace}");
            }
        }
        // With its own token, too; and what is left are rights that everybody has.
        let client = release.plane.account(account).await;
        for namespace in OTHERS {
            let requests = Api::<AttentionRequest>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
            assert!(requests.is_err_and(|error| error.to_string().contains("forbidden")), "{account} lists requests of {namespace}");
            let secrets = Api::<Secret>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
            assert!(secrets.is_err_and(|error| error.to_string().contains("forbidden")), "{account} lists secrets of {namespace}");
        }
        let all = |who: &str| -> BTreeSet<String> {
            let listed = release.run(&format!("kubectl auth can-i --list --no-headers -n team-b --as={who}"));
            listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        let more: Vec<_> = all(&format!("system:serviceaccount:{SYSTEM}:{account}"))
            .difference(&all("system:serviceaccount:team-b:default"))
            .cloned()
            .collect();
        let known = ["tokenreviews.", "subjectaccessreviews.", "validatingadmissionpolic"];
        assert!(more.iter().all(|right| known.iter().any(|name| right.starts_with(name))), "{account}: {more:?}");
    }

    // What Helm looks after is not taken over by a developer's `up`.
    let dir = std::env::temp_dir().join(crate::support::unique("beckon-up-refused"));
    let mut up = std::process::Command::new(crate::support::xtask());
    up.args(["up", "--kubeconfig"])
        .arg(release.plane.kubeconfig())
        .arg("--dir")
        .arg(&dir)
        .env("BECKON_BINARY", env!("CARGO_BIN_EXE_beckon"));
    let refused = up.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("by the Helm release beckon in namespace beckon-system"), "{said}");
    std::fs::remove_dir_all(dir).unwrap();

    // Nobody has looked at what is elsewhere.
    let status = release.run("kubectl get attn invoice-needs-a-look -n team-b -o jsonpath={.status}");
    assert_eq!(status, "");
    agent.structured("close_session", &serde_json::json!({"session_id": session})).await;
    crate::support::eventually("its pod is gone", async || release.names("pods").is_empty()).await;
    release.uninstall();
    release.run("kubectl delete attn,bsess --all -A");
}
