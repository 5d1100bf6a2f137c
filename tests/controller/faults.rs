//! A crash before, at and after every write: a fresh controller comes to the same end.

use crate::world::{Meter, World, holdings, phase_of, request_phase, settled_reason};
use beckon::api::v1alpha1::{ExecutionRef, Phase, SessionPhase, Source};
use futures::{StreamExt as _, stream};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// How many worlds crash at once.
const AT_ONCE: usize = 12;

/// Everything that a person could do, as soon as it can be done; then what everything has come to.
async fn story(world: &World) -> Vec<String> {
    world.ready_session("s-1").await;
    for name in ["answered", "timed-out", "cancelled", "closed"] {
        let session = (name != "timed-out").then_some("s-1");
        world
            .request(name, session, |spec| {
                if name == "timed-out" {
                    (spec.source, spec.max_wait_seconds) = (Source::UserAction, Some(2));
                }
                if name == "answered" {
                    spec.execution = Some(ExecutionRef { id: "run".into(), expected_state_version: None });
                }
            })
            .await;
        world.request_when(name, "taken in", |request| request_phase(request).is_some()).await;
    }
    let needed = |session: &beckon::api::v1alpha1::BrowserSession| session.status.as_ref().is_some_and(|status| status.execution.is_some());
    world.session_when("s-1", "in need of a human", needed).await;
    world.resolve("answered", "Done").await.unwrap();
    world.patch(&world.gateway, "cancelled", json!({"cancel": {"by": {"username": "agent"}}})).await.unwrap();
    for name in ["answered", "timed-out", "cancelled"] {
        world.settled(name).await;
    }
    let moved = |session: &beckon::api::v1alpha1::BrowserSession| {
        session.status.as_ref().and_then(|status| status.execution.as_ref()).is_some_and(|run| run.state_version >= 2)
    };
    world.session_when("s-1", "waiting", moved).await;
    let sessions = Api::<beckon::api::v1alpha1::BrowserSession>::namespaced(world.gateway.clone(), &world.namespace);
    let close = json!({"spec": {"close": {"by": {"username": "agent"}}}});
    sessions.patch("s-1", &PatchParams::default(), &Patch::Merge(close)).await.unwrap();
    world.settled("closed").await;
    let clean = |session: &beckon::api::v1alpha1::BrowserSession| {
        phase_of(session) == Some(SessionPhase::Closed)
            && session.status.as_ref().is_some_and(|status| status.pod.is_none() && status.open_requests.is_empty())
    };
    let session = world.session_when("s-1", "clean", clean).await.status.unwrap();
    crate::support::eventually("nothing is held", || async { holdings(world).await.is_empty() }).await;

    let mut end = vec![format!("session {:?} {:?} {:?} {:?}", session.phase, session.message, session.execution, session.idle)];
    for name in ["answered", "timed-out", "cancelled", "closed"] {
        let status = world.settled(name).await;
        assert_ne!(status.phase, Some(Phase::Pending));
        end.push(format!("{name} {:?} {} {:?} {:?}", status.phase, settled_reason(&status), status.message, status.resolved_by));
    }
    end
}

/// The story, with a controller that crashes at a write, and one after it that does not.
async fn crashing(name: &str, meter: Meter) -> Vec<String> {
    let world = World::new(name).await;
    let first = world.start_through(&[], &meter);
    let supervise = async {
        meter.crashed().cancelled().await;
        first.kill();
        world.start(&[])
    };
    tokio::pin!(supervise);
    let story = story(&world);
    tokio::pin!(story);
    tokio::select! {
        end = &mut story => end,
        running = &mut supervise => {
            let end = story.await;
            running.end().await;
            end
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_write_changes_nothing() {
    let meter = Meter::default();
    let whole = crashing("whole", meter.clone()).await;
    let writes = i64::try_from(meter.writes()).unwrap();
    println!("{writes} writes: {:#?}\n{whole:#?}", meter.seen());
    assert!(writes >= 15, "the story is told by its writes");

    let crashes = (0..writes).flat_map(|after| [(after, false), (after + 1, true)]);
    stream::iter(crashes)
        .for_each_concurrent(AT_ONCE, |(after, lose_reply)| {
            let whole = &whole;
            async move {
                let meter = Meter::after(after, lose_reply);
                let end = crashing("crash", meter.clone()).await;
                assert_eq!(&end, whole, "crash after {after} writes, reply lost: {lose_reply}, {:#?}", meter.seen());
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_fires_though_the_watch_tells_nothing() {
    let world = World::new("deaf").await;
    world.request("a", None, |spec| (spec.source, spec.max_wait_seconds) = (Source::UserAction, Some(3))).await;
    let running = world.start_through(&["--minAttentionWait", "0"], &Meter::deaf());
    let deadline = world.opened("a").await.status.unwrap().deadline.unwrap().0;
    let status = world.settled("a").await;
    assert_eq!(settled_reason(&status), "DeadlineExceeded");
    assert!(status.settled_at.unwrap().0 >= deadline);
    running.end().await;
}
