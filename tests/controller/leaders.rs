//! Two controllers, and the end of one.

use crate::support::{eventually, poll_until};
use crate::told::Told;
use crate::world::{Meter, World, now, request_phase, settled_reason};
use beckon::api::v1alpha1::{Phase, Source};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::SignedDuration;
use kube::api::Api;
use serde_json::json;
use std::time::Duration;

async fn holder(world: &World) -> Option<String> {
    let lease = Api::<Lease>::namespaced(world.admin.clone(), &world.namespace).get_opt("beckon-controller").await.unwrap()?;
    lease.spec?.holder_identity
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_mid_wait_loses_no_deadline() {
    let world = World::new("leaders").await;
    let all: Vec<_> = (0..2).map(|_| world.start(&["--minAttentionWait", "0"])).collect();
    world.request("a", None, |spec| spec.max_wait_seconds = Some(25)).await;
    world.request("b", None, |_| {}).await;
    let deadline = world.opened("a").await.status.unwrap().deadline.unwrap().0;
    world.opened("b").await;
    eventually("one leads", || async { all.iter().filter(|running| running.metric("beckon_controller_leader") == Some(1.0)).count() == 1 })
        .await;
    let (leading, mut left): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|running| running.metric("beckon_controller_leader") == Some(1.0));
    leading.into_iter().for_each(crate::world::Running::kill);
    world.resolve("b", "while nobody leads").await.unwrap();
    let status = world.settled("b").await;
    assert_eq!((status.phase, status.message.as_deref()), (Some(Phase::Resolved), Some("while nobody leads")));
    assert!(now() < deadline, "the other one leads in time");
    let request = world.request_when("a", "timed out", |request| request_phase(request) == Some(Phase::Timeout)).await;
    let late = request.status.unwrap().settled_at.unwrap().0.duration_since(deadline);
    assert!(!late.is_negative() && late <= SignedDuration::from_secs(1), "{late}");
    left.remove(0).end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_gives_the_lease_back() {
    let world = World::new("handover").await;
    let first = world.start(&["--lease-duration", "60s"]);
    poll_until(Duration::from_secs(30), "a leader", || holder(&world)).await;
    let second = world.start(&["--lease-duration", "60s"]);
    world.request("a", None, |_| {}).await;
    world.opened("a").await;
    let started = std::time::Instant::now();
    first.end().await;
    assert!(started.elapsed() < Duration::from_secs(10), "an end is quick");
    eventually("the other one leads", || async { second.metric("beckon_controller_leader") == Some(1.0) }).await;
    assert!(started.elapsed() < Duration::from_secs(30), "long before the lease of a minute is over");
    world.resolve("a", "ok").await.unwrap();
    assert_eq!(settled_reason(&world.settled("a").await), "Answered");
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_is_taken_stops_its_work() {
    let world = World::new("fence").await;
    let running = world.start(&[]);
    eventually("it leads", || async { running.metric("beckon_controller_leader") == Some(1.0) }).await;
    // Somebody else leads now, for ever.
    let api = Api::<Lease>::namespaced(world.admin.clone(), &world.namespace);
    loop {
        let mut lease = api.get("beckon-controller").await.unwrap();
        let spec = lease.spec.as_mut().unwrap();
        (spec.holder_identity, spec.lease_duration_seconds) = (Some("usurper".into()), Some(3600));
        if api.replace("beckon-controller", &kube::api::PostParams::default(), &lease).await.is_ok() {
            break;
        }
    }
    eventually("it stops", || async { running.metric("beckon_controller_leader") == Some(0.0) }).await;
    let passes = running.passes("AttentionRequest");
    world.request("a", None, |_| {}).await;
    world.request("b", None, |_| {}).await;
    poll_until(Duration::from_secs(20), "both are in the watch", || async {
        (running.metric("beckon_attention_requests_open") == Some(2.0)).then_some(())
    })
    .await;
    assert_eq!(running.passes("AttentionRequest"), passes, "it watches and does nothing");
    assert_eq!(holder(&world).await.as_deref(), Some("usurper"));
    running.end().await;
    assert_eq!(holder(&world).await.as_deref(), Some("usurper"), "what is another's is not given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_cut_off_takes_up_everything_when_it_is_back() {
    let world = World::new("cut").await;
    let meter = Meter::default();
    let running = world.start_through(&["--minAttentionWait", "0"], &meter);
    let (told, listening) = Told::watch(&world);
    let names = |what: &str| (0..4).map(|n| format!("{what}-{n}")).collect::<Vec<_>>();
    for name in [names("answered"), names("cancelled"), names("timed-out")].concat() {
        let due = name.starts_with("timed-out");
        world.request(&name, None, |spec| (spec.source, spec.max_wait_seconds) = (Source::UserAction, due.then_some(15))).await;
        told.open(&name).await;
    }
    meter.cut(true);
    eventually("it stops its work", || async { running.metric("beckon_controller_leader") == Some(0.0) }).await;
    for name in names("answered") {
        world.resolve(&name, "yes").await.unwrap();
    }
    for name in names("cancelled") {
        world.patch(&world.gateway, &name, json!({"cancel": {"by": {"username": "agent"}}})).await.unwrap();
    }
    let deadline = told.open("timed-out-3").await;
    eventually("the deadlines are over", || async { now() > deadline }).await;
    assert!(told.outcomes().is_empty(), "nothing is recorded by who does not lead");
    meter.cut(false);
    for (what, reason) in [("answered", "Answered"), ("cancelled", "ClientCancelled"), ("timed-out", "DeadlineExceeded")] {
        for name in names(what) {
            assert_eq!(told.settled(&name).await.1, reason, "{name}");
        }
    }
    assert_eq!(running.metric("beckon_controller_leader"), Some(1.0));
    assert!(told.outcomes().values().all(|outcomes| outcomes.len() == 1));
    listening.abort();
    running.end().await;
}
