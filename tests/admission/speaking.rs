//! How the gateway speaks for a person: by constrained impersonation, where the API server checks the person.

use crate::world::{Who, World, agent, ask, controller, fine, operator, pending, plain, refused, reply};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde_json::{Value, json};

/// The gateway itself, with its token, acting as this person.
async fn gateway_as(w: &World, who: &Who) -> Client {
    let kubeconfig = Kubeconfig::read_from(w.plane.account_kubeconfig("beckon-gateway")).unwrap();
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
async fn a_person_answers_through_the_gateway() {
    let w = World::stamped().await;
    let name = w.open(plain()).await;
    let api = requests(gateway_as(&w, &olga()).await, &w.namespace);
    let answered = fine(reply(api.patch(&name, &PatchParams::default(), &answer()).await));
    let resolution = &answered["spec"]["resolution"];
    assert_eq!((&resolution["by"]["username"], &resolution["by"]["uid"]), (&json!("olga"), &json!("uid-of-olga")));
    assert_eq!(resolution["via"], "Dashboard");
    // What the person may not, the gateway may not for them.
    let name = w.open(ask("Approval")).await;
    let approve = Patch::Merge(json!({"spec": {"resolution": {"outcome": "Resolved", "verdict": "Approved"}}}));
    for (who, says) in [
        (agent().group("system:authenticated"), "RBAC verb resolve"),
        (agent().group("beckon:operators").group("system:authenticated"), "you can't answer your own request"),
        (Who::new("olga").group("system:authenticated"), "cannot patch resource"),
    ] {
        let api = requests(gateway_as(&w, &who).await, &w.namespace);
        refused(reply(api.patch(&name, &PatchParams::default(), &approve).await), 403, says);
    }
}

#[tokio::test]
async fn nothing_but_patches_and_nobody_but_people() {
    let w = World::stamped().await;
    let name = w.created(plain()).await;
    fine(w.status(&controller(), &name, pending()).await);
    let client = gateway_as(&w, &olga()).await;
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
        let api = requests(gateway_as(&w, &who).await, &w.namespace);
        let refusal = reply(api.patch(&name, &PatchParams::default(), &answer()).await).expect_err("impersonation without the right");
        assert!(refusal.code == 403 && refusal.text.contains("impersonate"), "{}: {refusal:?}", who.name);
    }
}
