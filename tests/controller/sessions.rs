//! The life of a session.

use crate::support::eventually;
use crate::world::{Meter, World, ended_pod, holdings, now, phase_of, request_phase, running_pod, settled_reason};
use beckon::api::v1alpha1::{
    AttentionRequest, AttentionRequestStatus, BrowserSession, BrowserSessionStatus, ExecutionRef, ExecutionState, Phase, Principal,
    SessionPhase,
};
use beckon::domain::messages;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;

fn condition(session: &BrowserSession, kind: &str) -> Option<(String, String)> {
    let conditions = &session.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind).map(|c| (c.status.clone(), c.reason.clone()))
}

fn rejected(status: &AttentionRequestStatus, reason: &str, message: &str) {
    assert_eq!((status.phase, settled_reason(status).as_str(), status.message.as_deref()), (Some(Phase::Rejected), reason, Some(message)));
}

pub async fn close(world: &World, name: &str, by: &str) {
    let api = Api::<BrowserSession>::namespaced(world.gateway.clone(), &world.namespace);
    let body = json!({"spec": {"close": {"by": {"username": by}, "reason": "done"}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_a_pod_and_a_secret_and_leaves_neither() {
    let world = World::new("session").await;
    let running = world.start(&["--historyTTL", "2s"]);
    let session = world.ready_session("s-1").await;
    assert_eq!(holdings(&world).await, ["pod/s-1", "secret/s-1-driver"]);
    let status = session.status.unwrap();
    let pod = world.pods().get("s-1").await.unwrap();
    assert_eq!(status.pod.as_ref().and_then(|pod| pod.uid.clone()), pod.uid());
    assert!(status.ends_at.is_some() && status.idle.unwrap().deadline.is_some());
    let secrets = Api::<Secret>::namespaced(world.admin.clone(), &world.namespace);
    let keys: Vec<String> = secrets.get("s-1-driver").await.unwrap().data.unwrap().into_keys().collect();
    assert_eq!(keys, ["tls.crt", "tls.key", "token"]);

    close(&world, "s-1", "agent").await;
    let session = world.session_when("s-1", "closed", |session| phase_of(session) == Some(SessionPhase::Closed)).await;
    assert_eq!(condition(&session, "Ready"), Some(("False".into(), "Closed".into())));
    // A kubelet would let the pod go.
    eventually("the pod is told to go", || async {
        world.pods().get_opt("s-1").await.unwrap().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    })
    .await;
    let _ = world.pods().delete("s-1", &DeleteParams::default().grace_period(0)).await;
    eventually("nothing is held", || async { holdings(&world).await.is_empty() }).await;
    eventually("its history is over", || async { world.sessions().get_opt("s-1").await.unwrap().is_none() }).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_session_rejects_its_requests_and_says_which() {
    let world = World::new("ends").await;
    let running = world.start(&["--idleTimeout", "1h"]);
    for name in ["closed", "by-operator", "oom", "exited", "stopped", "restarted", "deleted", "evicted", "gone", "replaced"] {
        world.ready_session(name).await;
        world.request(name, Some(name), |_| {}).await;
        let has_its_browser = |request: &AttentionRequest| request.status.as_ref().is_some_and(|status| status.incarnation.is_some());
        world.request_when(name, "open, with its browser", |r| request_phase(r) == Some(Phase::Pending) && has_its_browser(r)).await;
    }
    close(&world, "closed", "agent").await;
    close(&world, "by-operator", "operator").await;
    world.pod_status("oom", ended_pod("OOMKilled", 137, "")).await;
    world.pod_status("exited", ended_pod("Error", 3, "Chromium died: signal 11\nmore")).await;
    world.pod_status("stopped", ended_pod("Completed", 0, "")).await;
    world.pod_status("restarted", running_pod(1)).await;
    world.pods().delete("deleted", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.pods().evict("evicted", &EvictParams::default()).await.unwrap();
    world.sessions().delete("gone", &DeleteParams::default()).await.unwrap();
    world.sessions().delete("replaced", &DeleteParams::background()).await.unwrap();

    let crashed = |why: &str| messages::session_crashed(Some(why));
    rejected(&world.settled("closed").await, "SessionClosed", messages::SESSION_CLOSED);
    rejected(&world.settled("by-operator").await, "SessionClosed", messages::SESSION_CLOSED_BY_OPERATOR);
    rejected(&world.settled("oom").await, "SessionCrashed", &crashed("The browser ran out of memory."));
    rejected(&world.settled("exited").await, "SessionCrashed", &crashed("The browser exited with code 3: Chromium died: signal 11"));
    rejected(&world.settled("stopped").await, "SessionCrashed", &crashed(messages::why::STOPPED));
    rejected(&world.settled("restarted").await, "SessionCrashed", &crashed("The browser was restarted."));
    rejected(&world.settled("deleted").await, "SessionCrashed", &crashed("The pod was deleted."));
    rejected(&world.settled("gone").await, "SessionClosed", messages::SESSION_CLOSED);
    rejected(&world.settled("replaced").await, "SessionClosed", messages::SESSION_CLOSED);
    let evicted = world.settled("evicted").await;
    assert!(["SessionEvicted", "SessionCrashed"].contains(&settled_reason(&evicted).as_str()), "{evicted:?}");
    assert!(evicted.message.unwrap().starts_with(messages::SESSION_CRASHED));
    // A request that comes later is told the same.
    world.request("late", Some("oom"), |_| {}).await;
    rejected(&world.settled("late").await, "SessionCrashed", &crashed("The browser ran out of memory."));
    world.request("nowhere", Some("no-such-session"), |_| {}).await;
    rejected(&world.settled("nowhere").await, "SessionNotFound", messages::SESSION_NOT_FOUND);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hard_end_is_moved_by_nothing() {
    let world = World::new("hard").await;
    // The API's least lifetime is a minute; a setting of the installation may be shorter in a test only.
    let running = world.start(&["--maxLifetime", "60s"]);
    let session = world.ready_session("s-1").await;
    world.request("a", Some("s-1"), |_| {}).await;
    let deadline = world.opened("a").await.status.unwrap().deadline.unwrap();
    assert_eq!(Some(deadline), session.status.unwrap().ends_at, "a request never outlives its session");
    running.end().await;
}

/// Whose wait was cut short by the session's end is told of that end, not of a wait that was not over.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_lifetime_ends_takes_its_requests_along() {
    let world = World::new("lifetime").await;
    let running = world.start_with(&[], &Meter::default(), |settings| settings.max_lifetime = 20);
    world.ready_session("s-1").await;
    world.request("a", Some("s-1"), |_| {}).await;
    world.opened("a").await;
    rejected(&world.settled("a").await, "SessionExpired", messages::SESSION_EXPIRED);
    world.session_when("s-1", "expired", |session| phase_of(session) == Some(SessionPhase::Expired)).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_request_stops_the_idle_clock_and_marks_the_pod() {
    let world = World::new("idle").await;
    let running = world.start(&["--idleTimeout", "60s"]);
    world.ready_session("s-1").await;
    world.request("a", Some("s-1"), |_| {}).await;
    let paused = |session: &BrowserSession| condition(session, "IdlePaused") == Some(("True".into(), "RequestsOpen".into()));
    let session = world.session_when("s-1", "paused", paused).await;
    let idle = session.status.unwrap().idle.unwrap();
    assert_eq!((idle.deadline, idle.paused_by), (None, vec!["a".to_owned()]));
    let left = idle.remaining_seconds.unwrap();
    assert!((1..=61).contains(&left), "{left}");
    let marks = |pod: &Pod| {
        let of = |key: &str| pod.annotations().get(key).cloned();
        (
            of("karpenter.sh/do-not-disrupt"),
            of("cluster-autoscaler.kubernetes.io/safe-to-evict"),
            pod.labels().get("beckon.dev/protected").cloned(),
        )
    };
    let marked = (Some("true".to_owned()), Some("false".to_owned()), Some("true".to_owned()));
    eventually("the pod is marked", || async { marks(&world.pods().get("s-1").await.unwrap()) == marked }).await;

    world.resolve("a", "ok").await.unwrap();
    let session = world
        .session_when("s-1", "running again", |session| condition(session, "IdlePaused") == Some(("False".into(), "Running".into())))
        .await;
    let deadline = session.status.unwrap().idle.unwrap().deadline.unwrap().0;
    assert!(deadline.duration_since(now()).as_secs() >= 55, "at least a minute is left");
    eventually("the marks are gone", || async { marks(&world.pods().get("s-1").await.unwrap()) == (None, None, None) }).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_expires_unless_it_is_used() {
    let world = World::new("expire").await;
    let running = world.start(&[]);
    for name in ["idle", "used"] {
        world.session(name, |spec| spec.idle_timeout_seconds = Some(60)).await;
        world.run_pod(name).await;
        world.session_when(name, "ready", |session| phase_of(session) == Some(SessionPhase::Ready)).await;
    }
    running.end().await;
    // Both have been idle for long, as far as the record goes; one was used.
    let controller = crate::support::ControlPlane::shared().account("beckon-controller").await;
    let past = json!({"status": {"idle": {"deadline": "2026-01-01T00:00:00Z"}}});
    for name in ["idle", "used"] {
        let api = Api::<BrowserSession>::namespaced(controller.clone(), &world.namespace);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&past)).await.unwrap();
    }
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "used-activity", "labels": {"beckon.dev/session": "used"}},
        "spec": {"holderIdentity": "gateway", "renewTime": format!("{:.6}", now())},
    }))
    .unwrap();
    Api::namespaced(world.admin.clone(), &world.namespace).create(&PostParams::default(), &lease).await.unwrap();
    world.request("a", Some("idle"), |_| {}).await;
    let running = world.start(&[]);
    // A request that is open, or was never looked at, keeps it from expiring.
    world.opened("a").await;
    world
        .session_when("used", "renewed", |session| {
            session.status.as_ref().unwrap().idle.as_ref().unwrap().deadline.as_ref().unwrap().0 > now()
        })
        .await;
    assert_eq!(phase_of(&world.sessions().get("idle").await.unwrap()), Some(SessionPhase::Ready));
    running.end().await;
    world.requests().delete("a", &DeleteParams::default()).await.unwrap();
    let api = Api::<BrowserSession>::namespaced(controller, &world.namespace);
    let body = json!({"status": {"idle": {"deadline": "2026-01-01T00:00:00Z", "remainingSeconds": null, "pausedBy": null}}});
    api.patch_status("idle", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let running = world.start(&[]);
    world.session_when("idle", "expired", |session| phase_of(session) == Some(SessionPhase::Expired)).await;
    assert_eq!(phase_of(&world.sessions().get("used").await.unwrap()), Some(SessionPhase::Ready));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_needs_its_human_while_its_owners_request_is_open() {
    let world = World::new("run").await;
    let running = world.start(&[]);
    world.ready_session("s-1").await;
    let execution = |session: &BrowserSession| session.status.as_ref()?.execution.clone().map(|run| (run.id, run.state, run.state_version));
    world
        .request("foreign", Some("s-1"), |spec| {
            spec.requester = Some(Principal::named("mallory"));
            spec.execution = Some(ExecutionRef { id: "run-0".into(), expected_state_version: None });
        })
        .await;
    world.opened("foreign").await;
    for (version, name) in [(1, "a"), (3, "b")] {
        world
            .request(name, Some("s-1"), |spec| spec.execution = Some(ExecutionRef { id: "run-1".into(), expected_state_version: None }))
            .await;
        let needs = Some(("run-1".to_owned(), ExecutionState::NeedsHuman, version));
        world.session_when("s-1", "in need", |session| execution(session) == needs).await;
        world.resolve(name, "ok").await.unwrap();
        let waits = Some(("run-1".to_owned(), ExecutionState::Waiting, version + 1));
        world.session_when("s-1", "waiting", |session| execution(session) == waits).await;
    }
    assert_eq!(request_phase(&world.requests().get("foreign").await.unwrap()), Some(Phase::Pending), "it is open all the same");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_world_is_not_written_to() {
    let world = World::new("quiet").await;
    let running = world.start(&[]);
    for n in 0..5 {
        let name = format!("s-{n}");
        world.ready_session(&name).await;
        world.request(&name, Some(&name), |_| {}).await;
        world.opened(&name).await;
        world.session_when(&name, "paused", |session| condition(session, "IdlePaused").is_some_and(|(status, _)| status == "True")).await;
    }
    world.resolve("s-0", "ok").await.unwrap();
    close(&world, "s-1", "agent").await;
    world.settled("s-0").await;
    world.settled("s-1").await;
    let _ = world.pods().delete("s-1", &DeleteParams::default().grace_period(0)).await;
    let holds_nothing = |status: &BrowserSessionStatus| status.pod.is_none() && status.open_requests.is_empty();
    world.session_when("s-1", "clean", |session| session.status.as_ref().is_some_and(holds_nothing)).await;
    world.session_when("s-0", "running", |session| condition(session, "IdlePaused").is_some_and(|(status, _)| status == "False")).await;
    running.end().await;

    let meter = Meter::default();
    let running = world.start_through(&[], &meter);
    eventually("everything was looked at", || async { running.passes("BrowserSession") >= 5 && running.passes("AttentionRequest") >= 5 })
        .await;
    assert_eq!(meter.seen(), [""; 0]);
    assert_eq!(running.readiness.missing(), [""; 0]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_others_is_reported_and_left_alone() {
    let world = World::new("foreign").await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "s-1"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    let foreign = world.pods().create(&PostParams::default(), &pod).await.unwrap();
    let running = world.start(&[]);
    world.session("s-1", |_| {}).await;
    world.session("bad", |spec| spec.service_account_name = Some("none-such".into())).await;
    for name in ["s-1", "bad"] {
        let pending = |session: &BrowserSession| condition(session, "Ready") == Some(("False".into(), "PodPending".into()));
        world.session_when(name, "told why it waits", pending).await;
    }
    close(&world, "s-1", "agent").await;
    world
        .session_when("s-1", "clean", |session| {
            phase_of(session) == Some(SessionPhase::Closed) && session.status.as_ref().is_some_and(|status| status.pod.is_none())
        })
        .await;
    let still = world.pods().get("s-1").await.unwrap();
    assert_eq!((still.uid(), still.metadata.deletion_timestamp), (foreign.uid(), None));
    running.end().await;
}
