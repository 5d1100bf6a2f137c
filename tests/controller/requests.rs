//! The life of a request.

use crate::support::ControlPlane;
use crate::world::{World, now, request_phase, settled_reason};
use beckon::api::v1alpha1::{Phase, Source, Waiter};
use beckon::domain::messages;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::SignedDuration;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_answer_is_recorded_with_who_and_when() {
    let world = World::new("answer").await;
    let running = world.start(&[]);
    world.request("a", None, |_| {}).await;
    let open = world.opened("a").await;
    let status = open.status.unwrap();
    let wait = status.deadline.unwrap().0.duration_since(status.opened_at.unwrap().0);
    assert!(wait >= SignedDuration::from_secs(21_600) && wait <= SignedDuration::from_secs(21_601), "{wait}");

    let answered = world.resolve("a", "Done, continue.").await.unwrap();
    let status = world.settled("a").await;
    assert_eq!(status.phase, Some(Phase::Resolved));
    assert_eq!((status.message.as_deref(), status.resolved_by.as_deref()), (Some("Done, continue."), Some("operator")));
    assert_eq!(settled_reason(&status), "Answered");
    // What the gateway says at once, from the decision alone, is what is recorded.
    let at_once = beckon::domain::outcome::AgentResult::known(&answered, now()).unwrap();
    let later = beckon::domain::outcome::AgentResult::known(&world.requests().get("a").await.unwrap(), now()).unwrap();
    assert_eq!(at_once, later);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_deadline_fires_within_a_second_and_never_early() {
    let world = World::new("deadline").await;
    let running = world.start(&["--minAttentionWait", "0", "--reattachGrace", "0", "--lease-duration", "15s"]);
    for n in 0..24 {
        world.request(&format!("a{n}"), None, |spec| spec.max_wait_seconds = Some(3 + n % 3)).await;
    }
    for n in 0..24 {
        let name = format!("a{n}");
        let request = world.request_when(&name, "timed out", |request| request_phase(request) == Some(Phase::Timeout)).await;
        let status = request.status.unwrap();
        let deadline = status.deadline.unwrap().0;
        let waited = status.settled_at.unwrap().0.duration_since(deadline);
        assert!(!waited.is_negative() && waited <= SignedDuration::from_secs(1), "{name}: {waited} after its deadline");
        assert_eq!(status.message.as_deref(), Some(messages::TIMED_OUT));
        assert_eq!((status.resolved_by, request.spec.resolution), (None, None));
    }
    let lag = running.metric("beckon_attention_deadline_lag_seconds_sum").unwrap() / 24.0;
    assert!(lag < 1.0, "{lag}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_moves_the_deadline() {
    let world = World::new("extend").await;
    let running = world.start(&["--minAttentionWait", "0", "--lease-duration", "15s"]);
    world.request("a", None, |spec| spec.max_wait_seconds = Some(100)).await;
    let first = world.opened("a").await.status.unwrap().deadline.unwrap().0;
    world.patch(&world.operator, "a", json!({"extensions": [{"seconds": 50}]})).await.unwrap();
    let moved = |request: &beckon::api::v1alpha1::AttentionRequest| request.status.as_ref().unwrap().deadline.as_ref().unwrap().0 > first;
    let request = world.request_when("a", "extended", moved).await;
    assert_eq!(request.status.unwrap().deadline.unwrap().0.duration_since(first), SignedDuration::from_secs(50));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_times_out_in_its_own_words() {
    let world = World::new("run").await;
    let request = |spec: &mut beckon::api::v1alpha1::AttentionRequestSpec| (spec.source, spec.max_wait_seconds) = (Source::Run, Some(60));
    world.request("run", None, request).await;
    // It opened when another controller led, so that the minute that a run waits at least is nearly over.
    let opened = (now() - SignedDuration::from_secs(57)).strftime("%FT%TZ").to_string();
    let status = json!({"status": {"phase": "Pending", "openedAt": opened}});
    let other = ControlPlane::shared().account("beckon-controller").await;
    let api = Api::<beckon::api::v1alpha1::AttentionRequest>::namespaced(other, &world.namespace);
    api.patch_status("run", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let running = world.start(&[]);
    let status = world.settled("run").await;
    assert_eq!((status.phase, status.message.as_deref()), (Some(Phase::Timeout), Some("no human response within 1 minutes")));
    let waited = status.settled_at.unwrap().0.duration_since(status.opened_at.unwrap().0);
    assert!(waited >= SignedDuration::from_secs(60), "{waited}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requesters_cancel_settles_even_before_it_was_taken_in() {
    let world = World::new("cancel").await;
    world.request("early", None, |_| {}).await;
    world.patch(&world.gateway, "early", json!({"cancel": {"by": {"username": "agent"}}})).await.unwrap();
    let running = world.start(&[]);
    world.request("late", None, |_| {}).await;
    world.opened("late").await;
    world.patch(&world.gateway, "late", json!({"cancel": {"by": {"username": "agent"}}})).await.unwrap();
    for name in ["early", "late"] {
        let status = world.settled(name).await;
        assert_eq!((status.phase, status.message.as_deref()), (Some(Phase::Cancelled), Some(messages::CLIENT_CANCELLED)), "{name}");
    }
    running.end().await;
}

async fn attach(world: &World, request: &str, gateway: &str, attachments: serde_json::Value) {
    let api = Api::<beckon::api::v1alpha1::AttentionRequest>::namespaced(world.gateway.clone(), &world.namespace);
    let body = json!({
        "apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": request},
        "status": {"attachments": attachments},
    });
    api.patch_status(request, &PatchParams::apply(gateway).force(), &Patch::Apply(body)).await.unwrap();
}

async fn detach(world: &World, request: &str, gateway: &str) {
    let api = Api::<beckon::api::v1alpha1::AttentionRequest>::namespaced(world.gateway.clone(), &world.namespace);
    let body = json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": request}});
    api.patch_status(request, &PatchParams::apply(gateway), &Patch::Apply(body)).await.unwrap();
}

/// The Lease of a gateway process: `seconds` long, renewed once.
async fn process(world: &World, name: &str, seconds: i32) {
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"beckon.dev/role": "gateway"}},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": format!("{:.6}", now())},
    }))
    .unwrap();
    Api::namespaced(world.gateway.clone(), &world.namespace).create(&PostParams::default(), &lease).await.unwrap();
}

fn gateways(request: &beckon::api::v1alpha1::AttentionRequest) -> Vec<String> {
    request.status.iter().flat_map(|status| &status.attachments).map(|attachment| attachment.gateway.clone()).collect()
}

fn attached(request: &beckon::api::v1alpha1::AttentionRequest) -> Option<String> {
    let conditions = &request.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == "Attached").map(|condition| condition.reason.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_gone_decides_how_the_grace_ends() {
    let world = World::new("grace").await;
    let running = world.start(&["--reattachGrace", "2s"]);
    let leases = Api::<Lease>::namespaced(world.gateway.clone(), &world.namespace);
    process(&world, "gw-lives", 600).await;
    process(&world, "gw-dies", 600).await;
    process(&world, "gw-ends", 600).await;
    for (name, gateway) in [("client", "gw-lives"), ("lost", "gw-dies"), ("shut", "gw-ends"), ("back", "gw-dies"), ("polls", "gw-lives")] {
        world.request(name, None, |spec| spec.waiter = Waiter::Required).await;
        world.opened(name).await;
        attach(&world, name, gateway, json!([{"call": "c1", "gateway": gateway}])).await;
        world.request_when(name, "attached", |request| attached(request).as_deref() == Some("Waiting")).await;
    }
    // One comes back at another process, one polls, one's process announces its end, one's client goes.
    attach(&world, "back", "gw-lives", json!([{"call": "c2", "gateway": "gw-lives"}])).await;
    attach(&world, "polls", "beckon-gateway-poll", json!([{"call": "poll", "gateway": "client"}])).await;
    detach(&world, "polls", "gw-lives").await;
    leases
        .patch(
            "gw-ends",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": {"annotations": {"beckon.dev/shutting-down": "true"}}})),
        )
        .await
        .unwrap();
    detach(&world, "client", "gw-lives").await;
    // Its last renewal is older than that.
    leases.patch("gw-dies", &PatchParams::default(), &Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}))).await.unwrap();

    for (name, phase, reason, message) in [
        ("client", Phase::Cancelled, "ClientGone", messages::CLIENT_GONE),
        ("lost", Phase::Rejected, "ServerRestarted", messages::SERVER_RESTARTED),
        ("shut", Phase::Rejected, "ServerShutdown", messages::SERVER_SHUTDOWN),
    ] {
        let status = world.settled(name).await;
        assert_eq!(
            (status.phase, settled_reason(&status).as_str(), status.message.as_deref()),
            (Some(phase), reason, Some(message)),
            "{name}"
        );
    }
    world.request_when("back", "only who lives is attached", |request| gateways(request) == ["gw-lives"]).await;
    assert!(gateways(&world.requests().get("lost").await.unwrap()).is_empty(), "nobody waits on a settled request");
    for name in ["back", "polls"] {
        let request = world.requests().get(name).await.unwrap();
        assert_eq!((request_phase(&request), attached(&request).as_deref()), (Some(Phase::Pending), Some("Waiting")), "{name}");
    }
    running.end().await;
}

/// As where there is no grace at all: a call that is lost is the end of its request.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_grace_whoever_goes_is_gone() {
    let world = World::new("nograce").await;
    let running = world.start(&["--reattachGrace", "0"]);
    process(&world, "gw-lives", 600).await;
    process(&world, "gw-dies", 2).await;
    for (name, gateway) in [("client", "gw-lives"), ("lost", "gw-dies")] {
        world.request(name, None, |spec| spec.waiter = Waiter::Required).await;
        world.opened(name).await;
        attach(&world, name, gateway, json!([{"call": "c1", "gateway": gateway}])).await;
    }
    world.request_when("client", "attached", |request| attached(request).as_deref() == Some("Waiting")).await;
    detach(&world, "client", "gw-lives").await;
    for (name, reason, message) in
        [("client", "ClientGone", messages::CLIENT_GONE), ("lost", "ServerRestarted", messages::SERVER_RESTARTED)]
    {
        let status = world.settled(name).await;
        assert_eq!((settled_reason(&status).as_str(), status.message.as_deref()), (reason, Some(message)), "{name}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_ends_after_its_time_and_a_settled_request_is_never_written() {
    let world = World::new("history").await;
    let running = world.start(&[]);
    for n in 0..10 {
        let name = format!("a{n}");
        world.request(&name, None, |_| {}).await;
        world.opened(&name).await;
        world.resolve(&name, "ok").await.unwrap();
        world.settled(&name).await;
    }
    running.end().await;

    // A fresh controller has nothing to say about them.
    let meter = crate::world::Meter::default();
    let running = world.start_through(&[], &meter);
    crate::support::eventually("the passes", || async { running.passes("AttentionRequest") >= 10 }).await;
    assert_eq!(meter.seen(), [""; 0]);
    running.end().await;

    let running = world.start(&["--historyTTL", "1s"]);
    crate::support::eventually("the history is over", || async {
        world.requests().list(&kube::api::ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    running.end().await;
}
