use super::*;
use crate::api::v1alpha1::BrowserSessionSpec;
use serde_json::json;

fn session() -> BrowserSession {
    let mut session = BrowserSession::new("s-1", BrowserSessionSpec::default());
    session.metadata.uid = Some("session-uid".into());
    session
}

fn pod(status: serde_json::Value, deleted: bool) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": "s-1", "uid": "pod-uid",
            "ownerReferences": [{"apiVersion": "beckon.dev/v1alpha1", "kind": "BrowserSession", "name": "s-1", "uid": "session-uid", "controller": true}],
        },
        "status": status,
    });
    if deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-30T10:00:00Z");
    }
    serde_json::from_value(pod).expect("a pod")
}

fn ended(reason: &str, code: i32, message: Option<&str>) -> serde_json::Value {
    json!({"phase": "Failed", "containerStatuses": [{
        "name": "browser", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}},
    }]})
}

#[test]
fn why_a_browser_is_lost() {
    let disrupted =
        |reason: &str| json!({"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]});
    for (status, deleted, want) in [
        (json!({"phase": "Running"}), false, None),
        (json!({"phase": "Running"}), true, Some(Loss::Deleted)),
        (ended("OOMKilled", 137, None), false, Some(Loss::OutOfMemory)),
        (ended("Error", 1, Some("no display\nmore")), false, Some(Loss::Exited(1, Some("no display".into())))),
        (ended("Completed", 0, None), false, Some(Loss::Exited(0, None))),
        (json!({"phase": "Failed", "reason": "Evicted"}), false, Some(Loss::Evicted)),
        (disrupted("EvictionByEvictionAPI"), true, Some(Loss::Evicted)),
        (disrupted("EvictionByEvictionAPI"), false, None),
        (disrupted("PreemptionByScheduler"), true, Some(Loss::Preempted)),
        (disrupted("DeletionByTaintManager"), true, Some(Loss::NodeLost)),
        (json!({"phase": "Failed", "reason": "NodeLost"}), false, Some(Loss::NodeLost)),
    ] {
        assert_eq!(life(&pod(status.clone(), deleted), &session()).lost, want, "{status} {deleted}");
    }
}

#[test]
fn what_a_pod_waits_for() {
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]});
    let pulling = json!({"phase": "Pending", "containerStatuses": [{
        "name": "browser", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
    }]});
    for (status, want) in [(unschedulable, "Unschedulable: 0/3 nodes"), (pulling, "ImagePullBackOff: no such image")] {
        let seen = life(&pod(status, false), &session());
        assert_eq!((seen.waiting.as_deref(), seen.ready, seen.lost), (Some(want), false, None));
    }
}

#[test]
fn only_the_sessions_own_pod_is_its_pod() {
    let mut other = session();
    other.metadata.uid = Some("another".into());
    let running = pod(json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}), false);
    let seen = life(&running, &session());
    assert_eq!((seen.ours, seen.ready, seen.ip.as_deref()), (true, true, Some("10.0.0.1")));
    assert!(!life(&running, &other).ours);
}
