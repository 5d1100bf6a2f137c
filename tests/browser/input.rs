//! Input as the page sees it.

use crate::harness::{Browser, CHROMIUM, SHELL, SOON};
use crate::site::Site;
use crate::viewer::{key, press};
use beckon::driver::LiveEvent;
use serde_json::json;

#[tokio::test]
async fn mouse_buttons_double_clicks_drags_and_the_wheel() {
    let page = "<body style='margin:0'><div style='height:3000px;width:3000px'></div><script>
        addEventListener('dblclick', () => say('double')); addEventListener('contextmenu', (e) => { e.preventDefault(); say('menu ' + e.button); });
        addEventListener('auxclick', (e) => say('aux ' + e.button));
        let dragged = 0; addEventListener('pointermove', (e) => { if (e.buttons === 1 && !dragged++) say('drag with 1'); });
        addEventListener('wheel', (e) => say('wheel ' + (e.deltaX !== 0) + ' ' + (e.deltaY > 0)));
        say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    let button = |kind: &str, x: i32, y: i32, button: &str, buttons: i32, count: i32| json!({ "kind": kind, "x": x, "y": y, "button": button, "buttons": buttons, "count": count, "modifiers": 0 });
    viewer
        .input(
            &lease,
            json!([
                button("down", 300, 300, "left", 1, 1),
                button("up", 300, 300, "left", 0, 1),
                button("down", 300, 300, "left", 1, 2),
                button("up", 300, 300, "left", 0, 2),
            ]),
        )
        .await;
    site.told_that("double").await;
    viewer.input(&lease, json!([button("down", 300, 300, "right", 2, 1), button("up", 300, 300, "right", 0, 1)])).await;
    site.told_that("menu 2").await;
    viewer.input(&lease, json!([button("down", 300, 300, "middle", 4, 1), button("up", 300, 300, "middle", 0, 1)])).await;
    site.told_that("aux 1").await;
    viewer
        .input(
            &lease,
            json!([
                { "kind": "move", "x": 300, "y": 300, "buttons": 0, "modifiers": 0 }, button("down", 300, 300, "left", 1, 1),
                { "kind": "move", "x": 320, "y": 320, "buttons": 1, "modifiers": 0 }, button("up", 320, 320, "left", 0, 1),
            ]),
        )
        .await;
    site.told_that("drag with 1").await;
    viewer.input(&lease, json!([{ "kind": "wheel", "x": 300, "y": 300, "delta_x": 40, "delta_y": 120, "modifiers": 0 }])).await;
    site.told_that("wheel true true").await;
    assert!(!viewer.was_refused());
}

#[tokio::test]
async fn fingers_go_down_and_up() {
    let page = "<body style='height:700px'><script>
        for (const kind of ['touchstart', 'touchmove', 'touchend', 'touchcancel'])
          addEventListener(kind, (e) => say(kind + ' ' + e.touches.length), { passive: true });
        addEventListener('click', () => say('click')); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    let touch = |phase: &str, points: serde_json::Value| json!([{ "kind": "touch", "phase": phase, "points": points, "modifiers": 0 }]);
    viewer.input(&lease, touch("start", json!([{ "id": 0, "x": 50, "y": 50 }]))).await;
    viewer.input(&lease, touch("end", json!([]))).await;
    site.told_that("touchend 0").await;
    site.told_that("click").await;
    let two = |spread: i32| json!([{ "id": 0, "x": 100 - spread, "y": 100 }, { "id": 1, "x": 100 + spread, "y": 100 }]);
    viewer.input(&lease, touch("start", two(10))).await;
    viewer.input(&lease, touch("move", two(40))).await;
    site.told_that("touchmove 2").await;
    // Whoever holds two fingers down goes: they are lifted.
    drop(viewer);
    site.told_that("touchcancel 0").await;
}

#[tokio::test]
async fn enter_submits_and_text_is_pasted() {
    let page = "<form onsubmit='event.preventDefault(); say(`sent ` + box.value)'><input id=box autofocus></form><script>box.focus(); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    site.told_that("ready").await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.input(&lease, key("A", "KeyA", 8, false)).await;
    viewer.input(&lease, json!([{ "kind": "text", "text": "né 😀" }])).await;
    viewer.input(&lease, key("Enter", "Enter", 0, false)).await;
    site.told_that("sent Ané 😀").await;
}

#[tokio::test]
async fn input_reaches_a_frame_of_another_site() {
    let inner = "<button style='position:fixed;inset:0' onclick='say(`inner click`)'>Inner</button>";
    let site = Site::start(&[("/inner", inner)]).await;
    let page = site.framed("/inner", (400, 300)).await;
    let browser = Browser::at(CHROMIUM, &page.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.hover(&site, &lease, (200, 150)).await;
    viewer.input(&lease, press(200.0, 150.0)).await;
    site.told_that("inner click").await;
    browser.release(&json!({ "lease": lease })).await.unwrap();
    site.forget();
    browser.snapshot().await;
    browser.click("Inner").await;
    site.told_that("inner click").await;
}

#[tokio::test]
async fn the_pointers_shape_and_whether_text_can_be_typed_are_told() {
    let page = "<body style='margin:0'><a href='#x' style='position:absolute;left:0;top:0;width:100px;height:100px'>Link</a>
        <input style='position:absolute;left:0;top:200px;width:100px;height:40px'>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.input(&lease, json!([{ "kind": "move", "x": 50, "y": 50, "buttons": 0, "modifiers": 0 }])).await;
    viewer.event("a hand", |event| matches!(event, LiveEvent::Pointer { cursor, editable: false } if cursor == "pointer")).await;
    viewer.input(&lease, press(50.0, 220.0)).await;
    viewer.event("a text field", |event| matches!(event, LiveEvent::Pointer { cursor, editable: true } if cursor == "text")).await;
    assert!(viewer.frame(SOON).await.is_some());
}
