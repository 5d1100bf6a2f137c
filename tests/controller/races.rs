//! Answer against answer, against the deadline and against a cancel: exactly one outcome each, for ever.

use crate::support::{ControlPlane, Options};
use crate::told::Told;
use crate::world::{World, now};
use beckon::api::v1alpha1::{Phase, Source};
use futures::{StreamExt as _, stream};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How many races there are; `BECKON_RACES` says otherwise. Each costs some 50 ms of CPU time, most of it in the API server.
const RACES: usize = 10_000;
/// How many run at once.
const AT_ONCE: usize = 192;

/// Tries to decide, up to so many milliseconds after `at` or a little before; whether it was stored.
async fn decide(world: &World, client: &Client, name: &str, spec: Value, (at, late): (Timestamp, i64)) -> bool {
    let jitter = SignedDuration::from_millis(rand::random_range(-20..=late));
    let pause = at.checked_add(jitter).unwrap().duration_since(now());
    tokio::time::sleep(Duration::try_from(pause).unwrap_or_default()).await;
    match world.patch(client, name, spec).await {
        Ok(stored) => stored.spec.resolution.is_some() || stored.spec.cancel.is_some(),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            assert!(status.message.contains("already"), "the loser is told who won: {}", status.message);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

async fn race(world: &World, second: &Client, told: &Told, n: usize) {
    let name = format!("r{n:05}");
    let due = n % 4 == 1 || n % 4 == 3;
    let change = |spec: &mut beckon::api::v1alpha1::AttentionRequestSpec| {
        (spec.source, spec.max_wait_seconds) = (Source::UserAction, due.then_some(1));
    };
    world.request(&name, None, change).await;
    let deadline = told.open(&name).await;
    // The deadline is one of the contenders, or far away.
    // It is recorded some time after it has passed, so that those who contend with it have to come late to lose at times.
    let at = if due { (deadline, 250) } else { (now(), 20) };
    let resolve = json!({"resolution": {"outcome": "Resolved", "message": "yes"}});
    let reject = json!({"resolution": {"outcome": "Rejected", "message": "no"}});
    let cancel = json!({"cancel": {"by": {"username": "agent"}}});
    let (first, other) = match n % 4 {
        0 => tokio::join!(decide(world, &world.operator, &name, resolve, at), decide(world, second, &name, reject, at)),
        1 => (decide(world, &world.operator, &name, resolve, at).await, false),
        2 => tokio::join!(decide(world, &world.operator, &name, resolve, at), decide(world, &world.gateway, &name, cancel, at)),
        _ => tokio::join!(decide(world, second, &name, reject, at), decide(world, &world.gateway, &name, cancel, at)),
    };
    assert!(!(first && other), "{name}: two decisions were stored");
    assert!(due || first || other, "{name}: nobody won");
    let (phase, reason, by) = told.settled(&name).await;
    let expected = match (n % 4, first, other) {
        (0..=2, true, _) => (Phase::Resolved, "Answered", Some("operator")),
        (0, false, true) | (3, true, _) => (Phase::Rejected, "Answered", Some("operator-2")),
        (2 | 3, false, true) => (Phase::Cancelled, "ClientCancelled", None),
        _ => (Phase::Timeout, "DeadlineExceeded", None),
    };
    assert_eq!((phase, reason.as_str(), by.as_deref()), expected, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_outcome_each() {
    let races = std::env::var("BECKON_RACES").ok().and_then(|n| n.parse().ok()).unwrap_or(RACES);
    // Its own, which leaves the processors to the suites that hold times.
    let plane = ControlPlane::start(&Options { controller_manager: false, background: true, ..Options::default() });
    let world = World::on(&plane, "races").await;
    let second = plane.user("operator-2").await;
    let (told, listening) = Told::watch(&world);
    let running = world.start(&["--minAttentionWait", "0", "--maxTotal", "100000", "--lease-duration", "60s"]);
    let started = std::time::Instant::now();
    stream::iter(0..races).for_each_concurrent(AT_ONCE, |n| race(&world, &second, &told, n)).await;
    println!("{races} races in {:?}", started.elapsed());

    let outcomes = told.outcomes();
    let mut won: HashMap<String, usize> = HashMap::new();
    for (name, outcomes) in &outcomes {
        assert_eq!(outcomes.len(), 1, "{name} had {outcomes:?}");
        for (_, reason, by) in outcomes {
            *won.entry(format!("{reason} {}", by.as_deref().unwrap_or("-"))).or_default() += 1;
        }
    }
    assert_eq!(outcomes.len(), races);
    println!("{won:?}");
    assert!(races < 1000 || won.len() == 4, "every contender wins sometimes: {won:?}");
    listening.abort();
    running.end().await;
}
