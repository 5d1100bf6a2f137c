//! Who waits is in the object: attached, polling, cut, back again.

use crate::support::poll_until;
use crate::world::{World, attached, attachments};
use beckon::api::v1alpha1::AttentionRequest;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn without_a_token_the_call_answers_pending_and_the_client_counts_as_polling() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.legacy("agent").await;
    let first = agent.structured("request_attention", &json!({"mode": "notify", "reason": "r"})).await;
    let name = first["request_id"].as_str().unwrap().to_owned();
    assert_eq!(first["status"], "pending");
    assert!(first["message"].as_str().unwrap().contains("get_attention_result"), "{first}");
    world.until(&name, "only the polling client", |r| attachments(r) == ["client"]).await;
    // A call that waits speaks for the client from then on.
    let (_, mut events) = agent.start("get_attention_result", &json!({"request_id": name}).to_string(), Some("p")).await;
    events.progress().await;
    world.until(&name, "attached and no longer polling", |r| attached(r) && !attachments(r).contains(&"client".to_owned())).await;
    drop(events);
    world.until(&name, "detached", |r| attachments(r).is_empty()).await;
    assert!(world.request(&name).await.spec.cancel.is_none(), "a lost connection settles nothing");
    world.answer("operator", &name, &json!({"outcome": "Resolved", "message": "late"}));
    assert_eq!(agent.structured("get_attention_result", &json!({"request_id": name})).await["message"], "late");
}

#[tokio::test]
async fn a_cut_stream_of_the_newer_protocol_only_detaches() {
    let world = World::start(1, &[]).await;
    let agent = world.modern("agent");
    let (_, mut events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    drop(events);
    let cut = world.until(&name, "detached", |r| attachments(r).is_empty()).await;
    assert!(cut.spec.cancel.is_none());
    let (_, events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    world.until(&name, "attached again by the same question", attached).await;
    world.answer("operator", &name, &json!({"outcome": "Resolved"}));
    assert_eq!(events.structured().await["request_id"], json!(name));
    assert_eq!(world.requests().await.len(), 1);
}

#[tokio::test]
async fn a_client_that_comes_back_reads_on_also_when_it_was_answered_meanwhile() {
    let world = World::start(1, &[]).await;
    let agent = world.legacy("agent").await;
    for answered_while_away in [false, true] {
        let reason = format!("r {answered_while_away}");
        let (_, mut events) = agent.start("request_attention", &json!({"mode": "notify", "reason": reason}).to_string(), Some("p")).await;
        let id = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        world.until(&id, "attached", attached).await;
        let last = events.last_id.clone().expect("an event id");
        drop(events);
        world.until(&id, "detached", |r| attachments(r).is_empty()).await;
        let answer = json!({"outcome": "Resolved", "message": "welcome back"});
        if answered_while_away {
            world.answer("operator", &id, &answer);
        }
        let back = agent.resume(&last).await;
        if !answered_while_away {
            world.until(&id, "attached again", attached).await;
            world.answer("operator", &id, &answer);
        }
        let result = back.structured().await;
        assert_eq!((&result["message"], &result["request_id"]), (&json!("welcome back"), &json!(id)));
    }
}

/// In whichever phase of its call a client hangs up.
#[tokio::test]
async fn a_client_that_hangs_up_does_not_count_as_waiting() {
    let world = World::start(1, &[]).await;
    for (era, agent) in [("older", world.legacy("agent").await), ("newer", world.modern("agent"))] {
        for (phase, token) in
            [("made", false), ("made", true), ("taken in", false), ("taken in", true), ("attached", false), ("attached", true)]
        {
            let reason = format!("{era}, {phase}, {token}");
            let arguments = json!({"mode": "notify", "reason": reason}).to_string();
            let mine = |all: Vec<AttentionRequest>| all.into_iter().find(|r| r.spec.reason == reason);
            let asking = agent.start("request_attention", &arguments, token.then_some("p"));
            let reached = poll_until(Duration::from_secs(30), &reason, || async {
                mine(world.requests().await).filter(|r| match phase {
                    "made" => true,
                    "taken in" => r.status.as_ref().is_some_and(|s| s.phase.is_some()),
                    _ => attached(r),
                })
            });
            let name = tokio::select! {
                // The headers may come first; then the stream is held until the phase is reached.
                (_, events) = asking => {
                    let name = poll_until(Duration::from_secs(30), &reason, || async { mine(world.requests().await) }).await.name_any();
                    if phase == "attached" {
                        world.until(&name, "attached", attached).await;
                    }
                    drop(events);
                    name
                }
                reached = reached => reached.name_any(),
            };
            world.until(&name, "taken in", |r| r.status.as_ref().is_some_and(|s| s.phase.is_some())).await;
            // Nobody is attached, neither in the object nor in the process.
            poll_until(Duration::from_secs(30), &reason, || async {
                let [came, went] = ["attach", "detach"].map(|change| format!("beckon_gateway_attachments_total{{change=\"{change}\"}}"));
                let gateway = &world.gateways[0];
                let gone = gateway.metric(&came).await <= gateway.metric(&went).await;
                (gone && attachments(&world.request(&name).await).is_empty()).then_some(())
            })
            .await;
            assert!(world.request(&name).await.spec.cancel.is_none(), "a lost connection settles nothing");
        }
    }
}

/// The API server refuses for a while to store that the client polls: nobody may be told `pending` while nothing stands for it.
#[tokio::test]
async fn a_call_is_held_until_something_stands_for_its_client() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.modern("agent");
    let (_, mut events) = agent.start("request_attention", r#"{"mode":"notify","reason":"r"}"#, Some("p")).await;
    events.progress().await;
    let name = world.the_request("an attached request", attached).await.name_any();
    drop(events);
    world.until(&name, "detached", |r| attachments(r).is_empty()).await;

    let refusal = format!("no-polling-in-{}", world.namespace);
    let policies = Api::<ValidatingAdmissionPolicy>::all(world.plane.admin().await);
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(world.plane.admin().await);
    let policy = json!({"metadata": {"name": refusal}, "spec": {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "resourceRules": [{"apiGroups": ["beckon.dev"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["attentionrequests/status"]}],
        },
        "validations": [{"expression": "!object.?status.?attachments.orValue([]).exists(a, a.call == 'poll')", "message": "not now"}],
    }});
    let binding = json!({"metadata": {"name": refusal}, "spec": {"policyName": refusal, "validationActions": ["Deny"]}});
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let requests: Api<AttentionRequest> = Api::namespaced(world.plane.account("beckon-gateway").await, &world.namespace);
    let poll = json!({"status": {"attachments": [{"call": "poll", "gateway": "client"}]}});
    let trying = PatchParams { dry_run: true, ..PatchParams::default() };
    poll_until(Duration::from_secs(30), "a refusal", || async {
        requests.patch_status(&name, &trying, &Patch::Merge(&poll)).await.is_err_and(|e| e.to_string().contains("not now")).then_some(())
    })
    .await;

    let asked = async { agent.structured("get_attention_result", &json!({"request_id": name})).await };
    let meanwhile = async {
        poll_until(Duration::from_secs(30), "a write that failed", || async {
            world.gateways[0].process.log().contains("an attachment could not be written").then_some(())
        })
        .await;
        bindings.delete(&refusal, &DeleteParams::default()).await.unwrap();
        policies.delete(&refusal, &DeleteParams::default()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(asked, meanwhile);
    assert_eq!(answer["status"], "pending");
    assert_eq!(attachments(&world.request(&name).await), ["client"], "the client counts as polling when it is told to");
}
