//! What is answered while nobody verifies who answers is not honoured.

use crate::support::{ControlPlane, Options, eventually, succeeded};
use crate::world::{World, now, settled_reason};
use beckon::api::v1alpha1::Phase;
use beckon::domain::messages;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_answer_is_refused_and_a_later_true_one_is_honoured() {
    // Its policies change: nobody else may stand on it.
    let plane = ControlPlane::start(&Options::default());
    let world = World::on(&plane, "canary").await;
    let running = world.start(&[]);
    for name in ["forged", "true", "late"] {
        world.request(name, None, |_| {}).await;
        world.opened(name).await;
    }
    let enforced = |running: &crate::world::Running| running.metric("beckon_policies_not_enforced_namespaces") == Some(0.0);
    eventually("the policies are seen", || async { enforced(&running) }).await;

    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(world.admin.clone());
    let mut binding = bindings.get("beckon-requests").await.unwrap();
    bindings.delete("beckon-requests", &DeleteParams::default()).await.unwrap();
    eventually("it is noticed", || async { !enforced(&running) }).await;
    // Soon nobody checks the verb any more: the API server follows its policies a little later than those who watch them.
    let agent = plane.user("agent").await;
    eventually("what the agent may not do is stored", || async {
        world.patch(&agent, "forged", json!({"resolution": {"outcome": "Resolved", "message": "I say so"}})).await.is_ok()
    })
    .await;
    let status = world.settled("forged").await;
    assert_eq!((status.phase, settled_reason(&status).as_str()), (Some(Phase::Rejected), "IdentityNotEnforced"));
    assert_eq!((status.message.as_deref(), status.resolved_by), (Some(messages::IDENTITY_NOT_ENFORCED), None));
    eventually("people are told", || async {
        let events = Api::<Event>::namespaced(world.admin.clone(), &world.namespace).list(&ListParams::default()).await.unwrap();
        events.items.iter().any(|event| event.reason.as_deref() == Some("IdentityNotEnforced"))
    })
    .await;

    binding.metadata = kube::core::ObjectMeta { name: binding.metadata.name, ..Default::default() };
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    eventually("they are in force again", || async { enforced(&running) }).await;
    // The server's stamps have whole seconds: what is stored in the second of the good reply may have come before it.
    let second = now().as_second();
    eventually("the next second", || async { now().as_second() > second }).await;
    world.resolve("late", "true").await.unwrap();
    let status = world.settled("late").await;
    assert_eq!((status.phase, status.message.as_deref()), (Some(Phase::Resolved), Some("true")));
    // One that nobody answered meanwhile is open as ever.
    world.resolve("true", "too").await.unwrap();
    assert_eq!(settled_reason(&world.settled("true").await), "Answered");
    running.end().await;
    drop(succeeded(plane.kubectl("admin", &["get", "attn", "-n", &world.namespace])));
}
