//! What happens to an object is told as Events on it, which `kubectl describe` and `kubectl events` show.

use crate::sessions::close;
use crate::support::eventually;
use crate::world::World;
use beckon::api::v1alpha1::{AttentionRequest, Source};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;

/// Type and reason of each Event on an object, in the order in which they came.
async fn told(world: &World, kind: &str, name: &str) -> Vec<(String, String)> {
    let events = Api::<Event>::namespaced(world.admin.clone(), &world.namespace).list(&ListParams::default()).await.unwrap();
    let mut events: Vec<Event> = events
        .items
        .into_iter()
        .filter(|event| event.regarding.as_ref().is_some_and(|it| it.kind.as_deref() == Some(kind) && it.name.as_deref() == Some(name)))
        .collect();
    events.sort_by(|a, b| a.event_time.cmp(&b.event_time));
    events.into_iter().map(|event| (event.type_.unwrap_or_default(), event.reason.unwrap_or_default())).collect()
}

fn near(request: &AttentionRequest) -> Option<(&str, &str)> {
    let conditions = &request.status.as_ref()?.conditions;
    let near = conditions.iter().find(|condition| condition.type_ == "DeadlineNear")?;
    Some((near.status.as_str(), near.reason.as_str()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_tells_that_it_opened_that_its_time_runs_out_and_how_it_ended() {
    let world = World::new("events").await;
    let running = world.start(&["--minAttentionWait", "0", "--lease-duration", "15s"]);
    world.request("a", None, |spec| (spec.source, spec.max_wait_seconds) = (Source::UserAction, Some(25))).await;
    let open = world.opened("a").await;
    assert_eq!(near(&open), None);
    let request = world.request_when("a", "near its deadline", |request| near(request) == Some(("True", "FourFifthsOver"))).await;
    let since = &request.status.as_ref().unwrap().conditions.iter().find(|c| c.type_ == "DeadlineNear").unwrap().last_transition_time;
    let open = request.status.as_ref().unwrap();
    let (opened, deadline) = (open.opened_at.as_ref().unwrap().0, open.deadline.as_ref().unwrap().0);
    assert!(since.0.duration_since(opened) * 5 >= deadline.duration_since(opened) * 4, "not before four fifths are over");
    // More time, and it is not near any more.
    world.patch(&world.operator, "a", json!({"extensions": [{"seconds": 600}]})).await.unwrap();
    world.request_when("a", "extended", |request| near(request) == Some(("False", "Extended"))).await;
    world.resolve("a", "here you are").await.unwrap();
    world.settled("a").await;
    let all = [("Normal", "Opened"), ("Warning", "DeadlineNear"), ("Normal", "Answered")].map(|(t, r)| (t.to_owned(), r.to_owned()));
    eventually("all is told, once", || async { told(&world, "AttentionRequest", "a").await == all }).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_tells_that_it_is_ready_and_how_it_ended() {
    let world = World::new("session-events").await;
    let running = world.start(&[]);
    world.ready_session("s-1").await;
    close(&world, "s-1", "agent").await;
    let all = [("Normal", "Ready"), ("Normal", "Closed")].map(|(t, r)| (t.to_owned(), r.to_owned()));
    eventually("all is told, once", || async { told(&world, "BrowserSession", "s-1").await == all }).await;
    running.end().await;
}
