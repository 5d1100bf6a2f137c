//! HTML's own drag and drop, by a person's mouse.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON};
use crate::site::Site;
use crate::viewer::{Viewer, key, press};
use serde_json::{Value, json};
use std::time::Duration;

const CARD: (i32, i32) = (60, 40);
const PLACE: (i32, i32) = (400, 300);

/// A card, a place that takes it, and a button that tells whether the page still hears clicks.
const BOARD: &str = "<body style='margin:0'>
<div id=card draggable=true style='position:absolute;left:20px;top:20px;width:80px;height:40px;background:#fc9'>Card</div>
<div id=place style='position:absolute;left:300px;top:200px;width:200px;height:200px;background:#cfc'></div>
<button style='position:absolute;left:20px;top:400px;width:100px;height:40px' onclick='say(`click`)'>Click</button><script>
card.addEventListener('dragstart', (e) => {
  e.dataTransfer.setData('text/plain', 'card one'); e.dataTransfer.effectAllowed = 'move'; say('start');
  const end = performance.now() + (window.slow ?? 0); while (performance.now() < end);
});
card.addEventListener('dragend', (e) => say('end ' + e.dataTransfer.dropEffect));
place.addEventListener('dragover', (e) => { e.preventDefault(); e.dataTransfer.dropEffect = 'move'; });
place.addEventListener('drop', (e) => { e.preventDefault(); say('drop ' + e.dataTransfer.getData('text/plain')); });
addEventListener('keydown', (e) => say('key ' + e.key)); say('ready')</script>";

fn button(kind: &str, (x, y): (i32, i32)) -> Value {
    json!({ "kind": kind, "x": x, "y": y, "button": "left", "buttons": i32::from(kind == "down"), "count": 1, "modifiers": 0 })
}

fn moved((x, y): (i32, i32), buttons: i32) -> Value {
    json!({ "kind": "move", "x": x, "y": y, "buttons": buttons, "modifiers": 0 })
}

/// How a hand moves.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Everything in one message: the button is up before the browser has begun the drag.
    AtOnce,
    /// One message after another, as fast as they go.
    Fast,
    /// With a picture of the screen between two moves.
    Hand,
}

/// The events from the card to the place, the last of them lets go.
fn way() -> Vec<Value> {
    let mut events = vec![moved(CARD, 0), button("down", CARD)];
    for step in 1..=8 {
        let at = |from: i32, to: i32| from + (to - from) * step / 8;
        events.push(moved((at(CARD.0, PLACE.0), at(CARD.1, PLACE.1)), 1));
    }
    events.push(button("up", PLACE));
    events
}

async fn drag(viewer: &mut Viewer, lease: &str, events: Vec<Value>, pace: Pace) {
    if matches!(pace, Pace::AtOnce) {
        return viewer.input(lease, json!(events)).await;
    }
    for event in events {
        viewer.input(lease, json!([event])).await;
        if matches!(pace, Pace::Hand) {
            viewer.frame(Duration::from_millis(16)).await;
        }
    }
}

/// The page hears clicks: no drag is left in it.
async fn clicks(site: &Site, viewer: &mut Viewer, lease: &str) {
    viewer.input(lease, press(70.0, 420.0)).await;
    site.told_that("click").await;
}

#[tokio::test]
async fn every_drag_is_dropped_once_at_any_pace() {
    let site = Site::start(&[("/", BOARD)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        for round in 0..10 {
            for pace in [Pace::AtOnce, Pace::Fast, Pace::Hand] {
                site.forget();
                drag(&mut viewer, &lease, way(), pace).await;
                let what = format!("{flavour}, {pace:?}, round {round}");
                site.until(&what, |told| told.iter().any(|told| told.starts_with("end"))).await;
                clicks(&site, &mut viewer, &lease).await;
                assert_eq!(site.told(), ["start", "drop card one", "end move", "click"], "{what}");
            }
        }
        assert!(!viewer.was_refused());
    }
}

/// A page that is slow to begin the drag: the hand has let go long before.
#[tokio::test]
async fn a_drag_that_begins_after_the_button_is_up_is_dropped_where_it_went_up() {
    let slow = BOARD.replace("<script>", "<script>window.slow = 300;");
    let site = Site::start(&[("/", &slow)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        site.forget();
        drag(&mut viewer, &lease, way(), Pace::Fast).await;
        site.told_that("end move").await;
        clicks(&site, &mut viewer, &lease).await;
        assert_eq!(site.told(), ["start", "drop card one", "end move", "click"], "{flavour}");
    }
}

/// A drag that is not ended would leave the page deaf for good.
#[tokio::test]
async fn a_drag_ends_when_its_hand_goes_or_escapes() {
    let tells = BOARD.replace("<script>", "<script>addEventListener('dragenter', () => say('over'), { once: true });");
    let site = Site::start(&[("/", &tells)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        let mut begun = way();
        begun.pop();

        site.forget();
        drag(&mut viewer, &lease, begun.clone(), Pace::Hand).await;
        // The page knows of its drag a moment before anybody else does.
        site.told_that("over").await;
        viewer.input(&lease, key("Escape", "Escape", 0, false)).await;
        site.told_that("end none").await;
        viewer.input(&lease, json!([button("up", PLACE)])).await;
        clicks(&site, &mut viewer, &lease).await;

        site.forget();
        drag(&mut viewer, &lease, begun.clone(), Pace::Hand).await;
        site.told_that("start").await;
        drop(viewer);
        site.told_that("end none").await;
        let mut viewer = browser.viewer().await;
        clicks(&site, &mut viewer, &lease).await;

        site.forget();
        drag(&mut viewer, &lease, begun, Pace::Hand).await;
        site.told_that("start").await;
        browser.release(&json!({ "lease": lease })).await.unwrap();
        site.told_that("end none").await;
        browser.click("Click").await;
        site.told_that("click").await;
        assert!(!site.told().iter().any(|told| told.starts_with("drop")), "{flavour}: {:?}", site.told());
    }
}

/// The next document, another process, a renderer that crashed and came back: drags are still ours.
#[tokio::test]
async fn drags_work_after_navigations_and_a_crash() {
    let site = Site::start(&[("/", BOARD), ("/first", "<h1>first</h1>")]).await;
    for flavour in [CHROMIUM, SHELL] {
        let browser = Browser::at(flavour, &site.url("/first")).await;
        let mut viewer = browser.viewer().await;
        for url in [site.other_site("/"), site.url("/")] {
            browser.tool("navigate", &json!({ "url": url })).await.unwrap();
            let lease = browser.hold("ann").await.lease;
            site.forget();
            drag(&mut viewer, &lease, way(), Pace::Fast).await;
            site.told_that("end move").await;
            browser.release(&json!({ "lease": lease })).await.unwrap();
            browser.snapshot().await;
        }
        browser.kill_renderers();
        browser.until("a crash", |state| state.tabs[0].crashed).await;
        browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert!(viewer.frame(SOON).await.is_some());
        let lease = browser.hold("ann").await.lease;
        site.forget();
        drag(&mut viewer, &lease, way(), Pace::Fast).await;
        site.told_that("end move").await;
        assert!(site.told().contains(&"drop card one".to_owned()), "{flavour}: {:?}", site.told());
    }
}

/// A board of another site inside the page.
#[tokio::test]
async fn drags_work_inside_a_frame_of_another_site() {
    let site = Site::start(&[("/board", BOARD)]).await;
    let page = site.framed("/board", (800, 600)).await;
    let browser = Browser::at(CHROMIUM, &page.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.hover(&site, &lease, PLACE).await;
    for pace in [Pace::Hand, Pace::Fast, Pace::AtOnce] {
        site.forget();
        drag(&mut viewer, &lease, way(), pace).await;
        site.until(&format!("{pace:?}"), |told| told.iter().any(|told| told.starts_with("end"))).await;
        clicks(&site, &mut viewer, &lease).await;
        assert_eq!(site.told(), ["start", "drop card one", "end move", "click"], "{pace:?}");
    }
}
