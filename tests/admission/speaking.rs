//! What the policies make of a person that somebody speaks for by constrained impersonation: the API server checks that
//! person. The gateway does not do so (docs/adr/0005) and has no rights to; the account of these tests has them.

use crate::support::{eventually, unique};
use crate::world::{Who, World, agent, ask, controller, fine, operator, pending, plain, refused, reply};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::path::PathBuf;

/// As a person the speaker may patch requests and nothing else. It speaks for no service account and no node.
fn rights(name: &str) -> Value {
    let object = |kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let people = ["users", "groups", "uids", "userextras/beckon.dev/via", "userextras/beckon.dev/person"];
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "beckon-system"}},
        object("ClusterRole", json!({"rules": [
            {"apiGroups": ["beckon.dev"], "resources": ["attentionrequests"], "verbs": ["impersonate-on:user-info:patch"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": people, "verbs": ["impersonate:user-info"]},
        ]})),
        object("ClusterRoleBinding", json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "beckon-system"}],
        })),
    ]})
}

/// The kubeconfig of an account that speaks for people.
async fn speaker(w: &World) -> PathBuf {
    let name = unique("speaker");
    xtask::install::apply(&|| w.plane.kubectl_command(), rights(&name).to_string().as_bytes()).unwrap();
    let who = Who::new(&format!("system:serviceaccount:beckon-system:{name}"));
    eventually("the rights count", async || w.may(&who, "impersonate:user-info", "authentication.k8s.io/users").await).await;
    w.plane.account_kubeconfig(&name)
}

/// The speaker, with its token, acting as this person.
async fn speaking_for(speaker: &PathBuf, who: &Who) -> Client {
    let kubeconfig = Kubeconfig::read_from(speaker).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    who.through(config)
}

fn requests(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("beckon.dev", "v1alpha1", "AttentionRequest"));
    Api::namespaced_with(client, namespace, &kind)
}

fn olga() -> Who {
    operator().group("system:authenticated").extra("beckon.dev/via", "dashboard")
}

fn answer() -> Patch<Value> {
    Patch::Merge(json!({"spec": {"resolution": {"outcome": "Resolved", "message": "done", "by": {"username": "root"}}}}))
}

#[tokio::test]
async fn a_person_answers_through_another() {
    let w = World::stamped().await;
    let speaker = speaker(&w).await;
    let name = w.open(plain()).await;
    let api = requests(speaking_for(&speaker, &olga()).await, &w.namespace);
    let answered = fine(reply(api.patch(&name, &PatchParams::default(), &answer()).await));
    let resolution = &answered["spec"]["resolution"];
    assert_eq!((&resolution["by"]["username"], &resolution["by"]["uid"]), (&json!("olga"), &json!("uid-of-olga")));
    assert_eq!(resolution["via"], "Dashboard");
    // What the person may not, nobody may for them.
    let name = w.open(ask("Approval")).await;
    let approve = Patch::Merge(json!({"spec": {"resolution": {"outcome": "Resolved", "verdict": "Approved"}}}));
    for (who, says) in [
        (agent().group("system:authenticated"), "RBAC verb resolve"),
        (agent().group("beckon:operators").group("system:authenticated"), "you can't answer your own request"),
        (Who::new("olga").group("system:authenticated"), "cannot patch resource"),
    ] {
        let api = requests(speaking_for(&speaker, &who).await, &w.namespace);
        refused(reply(api.patch(&name, &PatchParams::default(), &approve).await), 403, says);
    }
}

#[tokio::test]
async fn nothing_but_patches_and_nobody_but_people() {
    let w = World::stamped().await;
    let speaker = speaker(&w).await;
    let name = w.created(plain()).await;
    fine(w.status(&controller(), &name, pending()).await);
    let client = speaking_for(&speaker, &olga()).await;
    let api = requests(client.clone(), &w.namespace);
    assert!(api.get(&name).await.is_err(), "reading as a person");
    assert!(api.list(&ListParams::default()).await.is_err(), "listing as a person");
    assert!(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": {}}))).await.is_err(), "a status");
    assert!(Api::<Pod>::namespaced(client, &w.namespace).list(&ListParams::default()).await.is_err(), "pods as a person");
    for who in [
        Who::new("root").group("system:masters"),
        Who::new("system:serviceaccount:default:default").group("system:serviceaccounts"),
        Who::new("system:node:n").group("system:nodes"),
        olga().extra("example.com/role", "admin"),
    ] {
        let api = requests(speaking_for(&speaker, &who).await, &w.namespace);
        let refusal = reply(api.patch(&name, &PatchParams::default(), &answer()).await).expect_err("impersonation without the right");
        assert!(refusal.code == 403 && refusal.text.contains("impersonate"), "{}: {refusal:?}", who.name);
    }
}
