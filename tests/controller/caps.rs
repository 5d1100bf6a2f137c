//! The caps under concurrent creates.

use crate::support::poll_until;
use crate::world::{Meter, World, request_phase, settled_reason};
use beckon::api::v1alpha1::{AttentionRequest, AttentionRequestSpec, Phase, Principal, Source};
use beckon::domain::messages;
use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::time::Duration;

/// All requests, once each has a phase.
async fn decided(world: &World, count: usize) -> Vec<AttentionRequest> {
    poll_until(Duration::from_mins(1), "every request is decided", || async {
        let all = world.requests().list(&ListParams::default()).await.unwrap().items;
        (all.len() == count && all.iter().all(|request| request_phase(request).is_some())).then_some(all)
    })
    .await
}

fn open(all: &[AttentionRequest]) -> Vec<&AttentionRequest> {
    all.iter().filter(|request| request_phase(request) == Some(Phase::Pending)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_ninth_is_refused_and_a_settled_one_makes_room() {
    let world = World::new("cap8").await;
    let running = world.start(&["--maxLifetime", "1h"]);
    world.ready_session("s-1").await;
    world.ready_session("s-2").await;
    let names: Vec<String> = (0..20).map(|n| format!("a{n:02}")).collect();
    stream::iter(&names).for_each_concurrent(20, |name| async { drop(world.request(name, Some("s-1"), |_| {}).await) }).await;
    let all = decided(&world, 20).await;
    assert_eq!(open(&all).len(), 8);
    for refused in all.iter().filter(|request| request_phase(request) != Some(Phase::Pending)) {
        let status = refused.status.as_ref().unwrap();
        assert_eq!((status.phase, settled_reason(status).as_str()), (Some(Phase::Rejected), "RateLimited"));
        assert_eq!(status.message.as_deref(), Some(messages::session_cap(8).as_str()));
        let accepted = status.conditions.iter().find(|condition| condition.type_ == "Accepted").unwrap();
        assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("False", "RateLimited"));
    }
    world.request("other", Some("s-2"), |_| {}).await;
    world.opened("other").await;
    // Answered and at once asked again: there is room, whatever the watch has told yet.
    for n in 0..5 {
        // One that is answered is open until that is recorded.
        let settled = open(&world.requests().list(&ListParams::default()).await.unwrap().items)
            .iter()
            .find(|r| r.name_any() != "other" && r.spec.resolution.is_none())
            .unwrap()
            .name_any();
        world.resolve(&settled, "ok").await.unwrap();
        let name = format!("b{n}");
        world.request(&name, Some("s-1"), |_| {}).await;
        world.opened(&name).await;
    }
    running.end().await;
}

/// Made with kubectl, a request may name any session; it takes none of the places of that session's owner.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_asks_of_a_session_is_refused_and_takes_no_place() {
    let world = World::new("foreign").await;
    world.session("s-1", |_| {}).await;
    let foreign = |spec: &mut AttentionRequestSpec| {
        spec.source = Source::Kubectl;
        spec.requester = Some(Principal::named("agent-2"));
    };
    // All are there before a controller is, the foreign ones first.
    for n in 0..9 {
        world.request(&format!("f{n}"), Some("s-1"), foreign).await;
    }
    world.request("own", Some("s-1"), |spec| spec.source = Source::Kubectl).await;
    let running = world.start(&[]);
    world.opened("own").await;
    for refused in decided(&world, 10).await.iter().filter(|request| request.name_any() != "own") {
        let status = refused.status.as_ref().unwrap();
        assert_eq!((status.phase, settled_reason(status).as_str()), (Some(Phase::Rejected), "ForeignSession"));
        assert_eq!(status.message.as_deref(), Some(messages::FOREIGN_SESSION));
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_257th_is_refused_even_across_a_change_of_leaders() {
    let world = World::new("cap256").await;
    let first = world.start(&[]);
    let second = world.start(&[]);
    let names: Vec<String> = (0..300).map(|n| format!("a{n:03}")).collect();
    let creating = stream::iter(&names).for_each_concurrent(16, |name| async { drop(world.request(name, None, |_| {}).await) });
    let half = async {
        poll_until(Duration::from_mins(1), "half of them", || async {
            let all = world.requests().list(&ListParams::default()).await.unwrap().items;
            (open(&all).len() >= 100).then_some(())
        })
        .await;
        let leader = [first, second].into_iter().partition::<Vec<_>, _>(|running| running.metric("beckon_controller_leader") == Some(1.0));
        let (leading, standing_by) = leader;
        leading.into_iter().for_each(crate::world::Running::kill);
        standing_by
    };
    let ((), mut left) = tokio::join!(creating, half);
    let all = decided(&world, 300).await;
    assert_eq!(open(&all).len(), 256);
    assert!(
        all.iter()
            .filter(|r| request_phase(r) != Some(Phase::Pending))
            .all(|r| settled_reason(r.status.as_ref().unwrap()) == "RateLimited")
    );
    left.remove(0).end().await;
}

/// Whoever floods an installation costs it refusals, not a list of all open requests for each.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_share_the_question_what_is_open() {
    const MANY: usize = 96;
    let world = World::new("flood").await;
    let names: Vec<String> = (0..MANY).map(|n| format!("a{n:02}")).collect();
    stream::iter(&names).for_each_concurrent(16, |name| async { drop(world.request(name, None, |_| {}).await) }).await;
    let meter = Meter::slow(Duration::from_millis(100));
    let running = world.start_through(&["--maxTotal", "4", "--lease-duration", "15s"], &meter);
    assert_eq!(open(&decided(&world, MANY).await).len(), 4);
    let questions = meter.questions();
    println!("{questions} questions for {} refusals", MANY - 4);
    assert!((1..=MANY as u64 / 4).contains(&questions), "{questions}");
    running.end().await;
}
