//! Who has the hands, at the page: what was refused is not among the page's events.

use crate::harness::{Browser, CHROMIUM, SHELL, SOON, ask, reference};
use crate::site::Site;
use crate::viewer::{key, press};
use beckon::driver::{LiveEvent, TakeControl};
use serde_json::json;
use std::time::Duration;

/// Tells of every event that reaches it.
const EVENTS: &str = "<title>events</title><button style='position:fixed;left:0;top:0;width:300px;height:300px'>Button</button><script>
for (const kind of ['mousedown', 'mouseup', 'click', 'keydown', 'keyup']) addEventListener(kind, (e) => say(kind + (e.key ? ' ' + e.key : '')));
addEventListener('keydown', (e) => { if (e.key === 'd') document.body.append('Done'); });
say('ready');
</script>";

async fn events() -> Site {
    Site::start(&[("/", EVENTS)]).await
}

#[tokio::test]
async fn input_needs_the_lease_at_every_event() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    for (lease, code) in [("", "NO_LEASE"), ("00000000000000000000000000000000", "LEASE_ENDED")] {
        viewer.input(lease, press(50.0, 50.0)).await;
        assert_eq!(viewer.refusal().await, code);
    }
    let grant = browser.hold("ann").await;
    viewer.input(&grant.lease, press(50.0, 50.0)).await;
    site.told_that("click").await;
    browser.release(&json!({ "lease": grant.lease })).await.unwrap();
    viewer.input(&grant.lease, key("a", "KeyA", 0, false)).await;
    assert_eq!(viewer.refusal().await, "LEASE_ENDED");
    let again = browser.hold("ann").await;
    viewer.input(&again.lease, key("z", "KeyZ", 0, false)).await;
    site.told_that("keyup z").await;
    assert_eq!(site.told(), ["ready", "mousedown", "mouseup", "click", "keydown z", "keyup z"]);
}

#[tokio::test]
async fn a_settled_request_closes_the_gate() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let grant = browser.take_as(&TakeControl { request: Some("a-1".to_owned()), ..ask("ann") }).await.unwrap();
    browser.release(&json!({ "request": "a-2" })).await.unwrap();
    viewer.input(&grant.lease, press(50.0, 50.0)).await;
    site.told_that("click").await;
    let state = browser.release(&json!({ "request": "a-1" })).await.unwrap();
    assert_eq!(state.holder, None);
    site.forget();
    viewer.input(&grant.lease, press(50.0, 50.0)).await;
    assert_eq!(viewer.refusal().await, "LEASE_ENDED");
    assert!(site.told().is_empty());
}

#[tokio::test]
async fn a_grant_that_is_not_renewed_is_dead_and_lets_go_of_what_is_held() {
    let site = events().await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let grant = browser.take("ann").await.unwrap();
    browser.renew(&grant.lease).await.unwrap();
    let down = json!([
        { "kind": "key_down", "key": "Shift", "code": "ShiftLeft", "location": 1, "modifiers": 8, "repeat": false, "alt_graph": false },
        { "kind": "down", "x": 50, "y": 50, "button": "left", "buttons": 1, "count": 1, "modifiers": 8 },
    ]);
    viewer.input(&grant.lease, down).await;
    site.told_that("mousedown").await;
    // Nobody renews: as if the gateway were cut off.
    site.until("both are let go", |told| told.iter().any(|t| t == "keyup Shift") && told.iter().any(|t| t == "mouseup")).await;
    viewer.input(&grant.lease, key("a", "KeyA", 0, false)).await;
    assert_eq!(viewer.refusal().await, "LEASE_ENDED");
    assert_eq!(browser.renew(&grant.lease).await.unwrap_err()["code"], "LEASE_ENDED", "a dead grant stays dead");
    assert_eq!(browser.state().await.control.holder.as_deref(), Some("ann"), "until the reconnect window ends");
    assert_eq!(browser.take("bob").await.unwrap_err()["code"], "CONTROL_HELD");
    let back = browser.take("ann").await.unwrap();
    assert_eq!(back.epoch, grant.epoch, "the hands did not change");
    viewer.input(&back.lease, key("b", "KeyB", 0, false)).await;
    site.told_that("keyup b").await;
    assert!(!site.told().iter().any(|told| told == "keydown a"), "{:?}", site.told());
}

#[tokio::test]
async fn a_holder_who_does_not_come_back_loses_control() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    browser.take_as(&TakeControl { reconnect_seconds: 1, ..ask("ann") }).await.unwrap();
    browser.until("the agent has the hands", |state| state.control.holder.is_none()).await;
    assert_eq!(browser.refused("press_key", &json!({ "key": "a" })).await, "OBSERVE_FIRST");
}

#[tokio::test]
async fn what_a_viewer_holds_is_let_go_when_it_drops() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let grant = browser.hold("ann").await;
    let down =
        json!([{ "kind": "key_down", "key": "x", "code": "KeyX", "location": 0, "modifiers": 0, "repeat": false, "alt_graph": false }]);
    viewer.input(&grant.lease, down).await;
    site.told_that("keydown x").await;
    drop(viewer);
    site.told_that("keyup x").await;
    assert_eq!(browser.state().await.control.holder.as_deref(), Some("ann"));
}

#[tokio::test]
async fn the_agent_looks_while_a_person_drives_and_looks_first_afterwards() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let old = browser.find("Button").await;
    let grant = browser.hold("ann").await;
    let error = browser.tool("click", &json!({ "ref": old })).await.unwrap_err();
    assert_eq!((error["code"].as_str(), error["control"]["holder"].as_str()), (Some("CONTROL_HELD"), Some("ann")));
    assert!(error["control"]["since"].is_string() && error["message"].as_str().unwrap().contains("ann holds control since "));
    let looked = browser.tool("snapshot", &json!({})).await.unwrap();
    assert_eq!(looked.control.unwrap().holder.as_deref(), Some("ann"));
    browser.release(&json!({ "lease": grant.lease })).await.unwrap();
    for (tool, arguments) in [
        ("navigate", json!({ "url": "about:blank" })),
        ("click", json!({ "ref": old })),
        ("type", json!({ "ref": old, "text": "x" })),
        ("press_key", json!({ "key": "a" })),
    ] {
        assert_eq!(browser.refused(tool, &arguments).await, "OBSERVE_FIRST", "{tool}");
    }
    browser.tool("screenshot", &json!({})).await.unwrap();
    assert_eq!(browser.refused("click", &json!({ "ref": old })).await, "STALE_REFERENCE");
    browser.click("Button").await;
    site.told_that("click").await;
    assert_eq!(site.told().iter().filter(|told| *told == "click").count(), 1);
}

#[tokio::test]
async fn taking_waits_for_the_agents_action_in_progress() {
    let busy = "<button onclick='sayNow(`begun`); const end = performance.now() + 1000; while (performance.now() < end); sayNow(`ended`)'>Busy</button>";
    let site = Site::start(&[("/", busy)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let arguments = json!({ "ref": browser.find("Busy").await });
    let taking = async {
        site.told_that("begun").await;
        let grant = browser.take("ann").await.unwrap();
        (grant, site.told())
    };
    let asking = async {
        let state = browser.until("ann waits", |state| state.control.holder.is_some()).await;
        assert!(state.control.pending);
        assert_eq!(browser.take("bob").await.unwrap_err()["code"], "CONTROL_HELD");
        browser.refused("press_key", &json!({ "key": "a" })).await
    };
    let (clicked, (grant, told), refused) = tokio::join!(browser.tool("click", &arguments), taking, asking);
    clicked.unwrap();
    assert_eq!(refused, "CONTROL_HELD");
    assert_eq!(told, ["begun", "ended"], "the hands changed after the action");
    let state = browser.state().await.control;
    assert_eq!((state.holder.as_deref(), state.pending, state.epoch), (Some("ann"), false, grant.epoch));
}

#[tokio::test]
async fn a_wait_ends_when_a_person_takes_over_and_one_for_the_person_does_not() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let wait = json!({ "text": "Done", "timeout_seconds": 60 });
    // Nobody sees from outside that a wait has begun; one that began too late is the second kind, and the first is tried again.
    for attempt in 0.. {
        let person = async {
            browser.until("nobody holds", |state| state.control.holder.is_none()).await;
            let grant = browser.hold("ann").await;
            viewer.input(&grant.lease, key("d", "KeyD", 0, false)).await;
            grant
        };
        let (waited, grant) = tokio::join!(browser.tool("wait_for", &wait), person);
        match waited {
            Ok(late) => assert_eq!(late.control.unwrap().holder.as_deref(), Some("ann")),
            Err(ended) => {
                assert_eq!(ended["code"], "CONTROL_HELD", "not its own time limit");
                let during = browser.tool("wait_for", &wait).await.unwrap();
                assert_eq!(during.control.unwrap().holder.as_deref(), Some("ann"), "who waits for what the person does goes on");
                return;
            }
        }
        assert!(attempt < 5, "the wait goes on while a person drives");
        browser.release(&json!({ "lease": grant.lease })).await.unwrap();
        browser.snapshot().await;
        browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
    }
}

/// A client that gave up, or tried again, must not find the page clicked twice later.
#[tokio::test]
async fn an_action_that_waits_for_its_turn_is_dropped_with_its_caller() {
    let page = "<button onclick='sayNow(`busy`); const end = performance.now() + 1500; while (performance.now() < end);'>Busy</button>
        <button onclick='say(`twice`)'>Other</button><button onclick='say(`last`)'>Last</button>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let snapshot = browser.snapshot().await;
    let at = |text: &str| json!({ "ref": reference(&snapshot, text).unwrap() });
    let (busy, other, last) = (at("Busy"), at("Other"), at("Last"));
    let impatient = async {
        site.told_that("busy").await;
        let gives_up = tokio::time::timeout(Duration::from_millis(300), browser.tool("click", &other)).await;
        assert!(gives_up.is_err(), "it had its turn already");
        browser.tool("click", &last).await.unwrap();
    };
    let (clicked, ()) = tokio::join!(browser.tool("click", &busy), impatient);
    clicked.unwrap();
    site.told_that("last").await;
    assert_eq!(site.told(), ["busy", "last"]);
}

#[tokio::test]
async fn one_driver_at_a_time_and_control_is_told_to_every_viewer() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let (mut one, mut two) = (browser.viewer().await, browser.viewer().await);
    let grant = browser.hold("ann").await;
    for viewer in [&mut one, &mut two] {
        let holds = |event: &LiveEvent| matches!(event, LiveEvent::Control { control } if control.holder.as_deref() == Some("ann") && !control.pending);
        viewer.event("ann holds", holds).await;
    }
    assert_eq!(browser.take("bob").await.unwrap_err()["code"], "CONTROL_HELD");
    browser.release(&json!({ "lease": grant.lease })).await.unwrap();
    let next = browser.hold("bob").await;
    assert!(next.epoch > grant.epoch);
    two.input(&grant.lease, press(50.0, 50.0)).await;
    assert_eq!(two.refusal().await, "LEASE_ENDED");
}

#[tokio::test]
async fn messages_that_do_not_fit_reach_nothing() {
    let site = events().await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let grant = browser.hold("ann").await;
    let many: Vec<_> = (0..65).map(|_| json!({ "kind": "release_all" })).collect();
    let fine = json!({ "kind": "down", "x": 1, "y": 1, "button": "left", "buttons": 1, "count": 1, "modifiers": 0 });
    for bad in [
        "{}".to_owned(),
        "nonsense".to_owned(),
        json!({ "type": "input", "lease": grant.lease, "events": many }).to_string(),
        json!({ "type": "input", "lease": grant.lease, "events": [fine, { "kind": "text", "text": "x".repeat(4097) }] }).to_string(),
        json!({ "type": "input", "lease": grant.lease, "events": [{ "kind": "move", "x": 1, "y": 1, "buttons": 0, "modifiers": 0, "z": 1 }] }).to_string(),
    ] {
        viewer.say(&bad).await;
        assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{bad:.80}");
    }
    viewer.input(&grant.lease, key("q", "KeyQ", 0, false)).await;
    site.told_that("keyup q").await;
    assert_eq!(site.told(), ["ready", "keydown q", "keyup q"]);
    while viewer.frame(Duration::from_millis(100)).await.is_some() {}
    viewer.input(&grant.lease, key("d", "KeyD", 0, false)).await;
    assert!(viewer.frame(SOON).await.is_some(), "the view goes on");
}
