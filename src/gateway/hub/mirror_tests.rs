use super::*;
use crate::api::v1alpha1::{AttentionRequest, AttentionRequestSpec};
use axum::body::Body;
use bytes::Bytes;
use serde_json::json;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use tower::Layer as _;

const WATCHED: &str = "/apis/beckon.dev/v1alpha1/namespaces/ns/attentionrequests";

fn mirror() -> Mirror<AttentionRequest> {
    Mirror::new("attentionrequests", |_| {}, &WatchProgress::default())
}

fn request(name: &str, version: &str) -> AttentionRequest {
    let mut object = AttentionRequest::new(name, AttentionRequestSpec::default());
    object.metadata.namespace = Some("ns".into());
    object.metadata.resource_version = Some(version.into());
    object
}

#[test]
fn a_relist_drops_what_is_gone_and_wakes_who_waits() {
    let mirror = mirror();
    let mut listed = HashSet::new();
    let mut early = mirror.watch("ns", "a");
    assert!(mirror.stale().is_some());
    for event in [Step::Begun, Step::Listed(request("a", "1")), Step::Listed(request("b", "2")), Step::Complete] {
        mirror.take(event, &mut listed);
    }
    assert!(mirror.stale().is_none());
    assert!(early.borrow_and_update().is_some());
    let mut changes = mirror.subscribe();
    for event in [Step::Begun, Step::Listed(request("b", "2")), Step::Complete] {
        mirror.take(event, &mut listed);
    }
    assert!(early.has_changed().unwrap() && early.borrow_and_update().is_none());
    assert_eq!(mirror.all().len(), 1);
    let keys: Vec<String> = std::iter::from_fn(|| changes.try_recv().ok()).map(|(_, name)| name).collect();
    assert_eq!(keys, ["a"], "b did not change");
}

#[test]
fn an_offer_never_goes_back() {
    let mirror = mirror();
    mirror.offer(request("a", "9"));
    mirror.offer(request("a", "10"));
    mirror.offer(request("a", "8"));
    assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("10"));
    assert!(mirror.get("ns", "b").is_none());
}

#[test]
fn what_is_written_while_a_list_is_read_is_not_taken_for_gone() {
    let mirror = mirror();
    let mut listed = HashSet::new();
    mirror.offer(request("before", "1"));
    for event in [Step::Begun, Step::Listed(request("listed", "2"))] {
        mirror.take(event, &mut listed);
    }
    mirror.offer(request("meanwhile", "3"));
    mirror.take(Step::Complete, &mut listed);
    assert!(mirror.get("ns", "meanwhile").is_some() && mirror.get("ns", "listed").is_some());
    assert!(mirror.get("ns", "before").is_none(), "the list is younger, and does not have it");
    mirror.take(Step::Deleted(request("meanwhile", "4")), &mut listed);
    assert!(mirror.get("ns", "meanwhile").is_none());
}

#[test]
fn a_late_watch_does_not_go_back_and_a_new_object_of_the_name_is_taken() {
    let mirror = mirror();
    let mut listed = HashSet::new();
    mirror.offer(request("a", "9"));
    mirror.take(Step::Applied(request("a", "8")), &mut listed);
    assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("9"));
    mirror.take(Step::Deleted(request("a", "7")), &mut listed);
    assert!(mirror.get("ns", "a").is_some(), "the deletion of an earlier one of the name");
    let mut other = request("a", "5");
    other.metadata.uid = Some("restored".into());
    mirror.take(Step::Applied(other), &mut listed);
    assert_eq!(mirror.get("ns", "a").and_then(|r| r.resource_version()).as_deref(), Some("5"));
}

#[test]
fn an_object_that_can_not_be_read_harms_no_other() {
    let mirror = mirror();
    let mut listed = HashSet::new();
    mirror.offer(request("a", "1"));
    let unreadable = Unreadable { namespace: Some("ns".into()), name: "a".into(), why: "unknown variant `Telepathy`".into() };
    for step in [Step::Begun, Step::Unreadable(unreadable), Step::Listed(request("b", "2")), Step::Complete] {
        mirror.take(step, &mut listed);
    }
    assert!(mirror.get("ns", "a").is_some(), "what is there is not taken for gone");
    assert!(mirror.get("ns", "b").is_some());
}

#[test]
fn a_list_that_is_never_read_says_why() {
    let mirror = mirror();
    assert!(mirror.stale().unwrap().contains("was not read yet"));
    mirror.failed("forbidden", Some("ns"), WATCHED);
    assert!(mirror.stale().unwrap().contains("forbidden"));
}

/// The API server as the mirror sees it: the n-th list has the object `a-n`, each opening of a watch is answered with the next of
/// these codes, and one that succeeds stays open without a word.
fn server(openings: &'static [u16], progress: &WatchProgress) -> kube::Client {
    let (lists, watches) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let answer = move |asked: http::Request<kube::client::Body>| {
        let watch = asked.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, body) = if watch {
            match openings.get(watches.fetch_add(1, Ordering::SeqCst)) {
                None | Some(200) => (200, Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())),
                Some(code) => {
                    let why = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Expired", "code": code});
                    (*code, Body::from(why.to_string()))
                }
            }
        } else {
            let n = lists.fetch_add(1, Ordering::SeqCst) + 1;
            let items = [serde_json::to_value(request(&format!("a-{n}"), "1")).unwrap()];
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "7"}, "items": items});
            (200, Body::from(list.to_string()))
        };
        std::future::ready(http::Response::builder().status(code).body(body))
    };
    kube::Client::new(progress.layer(tower::service_fn(answer)), "ns")
}

/// Runs the mirror until this holds.
async fn run_until(mirror: &Mirror<AttentionRequest>, client: kube::Client, holds: impl Fn() -> bool) {
    let running = mirror.run(client, Some("ns"), CancellationToken::new());
    let held = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = running => panic!("a mirror does not end"),
        held = tokio::time::timeout(Duration::from_secs(20), held) => held.expect("it comes to hold"),
    }
}

#[tokio::test]
async fn a_watch_that_can_not_go_on_reads_everything_anew() {
    let progress = WatchProgress::default();
    let mirror = Mirror::new("attentionrequests", |_: &mut AttentionRequest| {}, &progress);
    run_until(&mirror, server(&[410, 410], &progress), || mirror.get("ns", "a-3").is_some()).await;
    assert!(mirror.get("ns", "a-2").is_none(), "what is no longer there is gone");
}

#[tokio::test]
async fn a_watch_that_goes_on_is_not_stale_though_nothing_happens() {
    let progress = WatchProgress::default();
    let mirror = Mirror::new("attentionrequests", |_: &mut AttentionRequest| {}, &progress);
    run_until(&mirror, server(&[500, 200], &progress), || progress.opened(WATCHED).is_some()).await;
    let long_ago = Instant::now().checked_sub(STALE * 2).unwrap();
    mirror.inner.lock().unwrap().failing.as_mut().expect("it has failed").since = long_ago;
    assert_eq!(mirror.stale(), None);
    // It breaks again: that it failed once long ago says nothing.
    mirror.failed("cut", Some("ns"), WATCHED);
    assert_eq!(mirror.stale(), None, "it has just begun to fail");
    mirror.inner.lock().unwrap().failing.as_mut().expect("it fails").since = long_ago;
    assert!(mirror.stale().unwrap().contains("cut"));
}

#[test]
fn a_slot_that_nobody_holds_is_given_up() {
    let mirror = mirror();
    drop(mirror.watch("ns", "never"));
    mirror.take(Step::Applied(request("a", "1")), &mut HashSet::new());
    mirror.take(Step::Deleted(request("a", "2")), &mut HashSet::new());
    assert_eq!(mirror.inner.lock().unwrap().slots.len(), 0);
}
