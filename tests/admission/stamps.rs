//! When an answer was stored is told by the server's stamps, which everybody who may patch can add to.

use crate::world::{World, fine, operator, plain};
use beckon::api::v1alpha1::AttentionRequest;
use beckon::domain::outcome::decided_at;
use beckon::runtime::clock::now;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

on_both!(a_forged_stamp_in_the_answers_own_write_is_of_no_use, nor_one_that_is_added_later);

fn forged(manager: &str, time: &str) -> Value {
    json!({
        "manager": manager, "operation": "Update", "apiVersion": "beckon.dev/v1alpha1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:resolution": {"f:note": {}}}},
    })
}

/// Those of the request, and these besides.
fn with(request: &Value, more: &[Value]) -> Value {
    let mut all = request["metadata"]["managedFields"].as_array().expect("managed fields").clone();
    all.extend_from_slice(more);
    json!(all)
}

fn stored_at(request: &Value) -> Timestamp {
    let request: AttentionRequest = serde_json::from_value(request.clone()).expect("a request");
    decided_at(&request, now()).expect("a stamp")
}

fn names(request: &Value, manager: &str) -> bool {
    request["metadata"]["managedFields"].as_array().expect("managed fields").iter().any(|entry| entry["manager"] == manager)
}

async fn a_forged_stamp_in_the_answers_own_write_is_of_no_use(w: World) {
    let name = w.open(plain()).await;
    let before = w.get(&name).await;
    let stamps = with(&before, &[forged("old", "2020-01-01T00:00:00Z"), forged("future", "2099-01-01T00:00:00Z")]);
    let began = now();
    let mut patch = json!({"metadata": {"managedFields": stamps}, "spec": {"resolution": {"outcome": "Resolved"}}});
    if !w.stamps {
        patch["spec"]["resolution"]["by"] = json!({"username": operator().name});
    }
    let answered = fine(w.merge(&operator(), &name, patch).await);
    // The server takes such stamps: else there would be nothing to guard against.
    assert!(names(&answered, "old") && names(&answered, "future"), "{}", answered["metadata"]["managedFields"]);
    let stored = stored_at(&answered);
    let slack = SignedDuration::from_secs(1);
    assert!(stored >= began - slack && stored <= now() + slack, "{stored}, written from {began} on");
}

async fn nor_one_that_is_added_later(w: World) {
    let name = w.open(plain()).await;
    let answered = fine(w.write(&operator(), &name, json!({"resolution": {"outcome": "Resolved"}})).await);
    let stored = stored_at(&answered);
    let stamps = with(&answered, &[forged("old", "2020-01-01T00:00:00Z"), forged("future", "2099-01-01T00:00:00Z")]);
    let forged = fine(w.merge(&operator(), &name, json!({"metadata": {"managedFields": stamps}})).await);
    assert!(names(&forged, "old") && names(&forged, "future"), "{}", forged["metadata"]["managedFields"]);
    assert_eq!(stored_at(&forged), stored);
}
