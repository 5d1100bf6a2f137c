//! What is answered while nobody verifies who answers is not handed over.

use crate::support::{ControlPlane, Options, eventually, succeeded};
use crate::world::{World, attached};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

const ENFORCED: &str = "beckon_gateway_identity_enforced";

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_answer_is_not_handed_over() {
    // Its policies change: nobody else may stand on it. It lives as long as the shared one does.
    let plane: &'static ControlPlane =
        tokio::task::spawn_blocking(|| Box::leak(Box::new(ControlPlane::start(&Options::default())))).await.unwrap();
    let world = World::without_gateways(plane).await.with_gateways(1, &[]).await;
    let agent = world.modern("agent");
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r","max_wait_seconds":1800}"#, Some("p")).await;
    let name = world.the_request("an attached request", attached).await.name_any();
    let enforced = async || world.gateways[0].metric(ENFORCED).await > 0.5;
    eventually("the policies are seen", || async { enforced().await }).await;

    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(plane.admin().await);
    bindings.delete("beckon-requests", &DeleteParams::default()).await.unwrap();
    eventually("it is noticed", || async { !enforced().await }).await;
    let requests = Api::<beckon::api::v1alpha1::AttentionRequest>::namespaced(plane.user("agent").await, &world.namespace);
    let forged = json!({"spec": {"resolution": {"outcome": "Resolved", "message": "I say so"}}});
    eventually("what the agent may not do is stored", || async {
        requests.patch(&name, &PatchParams::default(), &Patch::Merge(&forged)).await.is_ok()
    })
    .await;
    // The gateway sees it, and tells the agent nothing of it: neither the call that waits, nor one that asks anew.
    let mut answer = tokio::spawn(events.structured());
    let told = tokio::time::timeout(Duration::from_secs(3), &mut answer).await;
    assert!(told.is_err(), "{told:?}");
    let (_, again) = agent.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("q")).await;
    let told = tokio::time::timeout(Duration::from_secs(3), again.structured()).await;
    assert!(told.is_err(), "{told:?}");
    // What the controller makes of it is told.
    drop(succeeded(plane.kubectl("admin", &["delete", "attn", &name, "-n", &world.namespace, "--wait=false"])));
    let told = tokio::time::timeout(Duration::from_secs(20), answer).await.expect("an end").unwrap();
    assert_eq!((&told["status"], told["message"].as_str().unwrap().contains("I say so")), (&json!("rejected"), false), "{told}");
}
