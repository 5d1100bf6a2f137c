//! What a person pastes.

use crate::harness::{BOTH, Browser, CHROMIUM};
use crate::site::Site;
use crate::viewer::{Viewer, press};
use serde_json::{Value, json};
use std::time::Duration;

/// A code of four digits in boxes that take one each, a plain field, and an editor that takes pastes in its own way.
const PAGE: &str = "<body style='margin:0'><style>input, div { position: absolute; height: 30px; left: 0 }</style>
<input class=digit style='width:30px;top:0'><input class=digit style='width:30px;top:0;left:40px'>
<input class=digit style='width:30px;top:0;left:80px'><input class=digit style='width:30px;top:0;left:120px'>
<input id=plain style='width:200px;top:50px'><div id=editor contenteditable style='width:200px;top:100px'></div><script>
const digits = [...document.querySelectorAll('.digit')];
digits[0].maxLength = 1;
digits[0].addEventListener('paste', (e) => { e.preventDefault();
  [...e.clipboardData.getData('text/plain')].forEach((d, i) => { digits[i].value = d; }); say('code ' + digits.map((d) => d.value).join('')); });
plain.addEventListener('paste', () => say('paste')); plain.addEventListener('input', (e) => say('plain ' + plain.value));
plain.addEventListener('keydown', (e) => say('key ' + e.key + ' with ' + plain.value.length));
editor.addEventListener('input', () => say('editor ' + editor.innerText)); say('ready')</script>";

/// Into the first field, in one message.
fn press_and_paste(text: &str) -> Value {
    let mut events = press(10.0, 10.0);
    events.as_array_mut().unwrap().push(json!({ "kind": "paste", "text": text }));
    events
}

async fn pastes(site: &Site, viewer: &mut Viewer, lease: &str, what: &str) {
    let paste = |text: &str| json!({ "kind": "paste", "text": text });
    viewer.input(lease, press(10.0, 10.0)).await;
    viewer.input(lease, json!([paste("1234")])).await;
    site.told_that("code 1234").await;

    // 3 KB, then a key in the same message: it must not overtake.
    let long: String = "grüße 日本 ".chars().cycle().take(3000).collect();
    viewer.input(lease, press(10.0, 65.0)).await;
    let enter =
        json!({ "kind": "key_down", "key": "Enter", "code": "Enter", "location": 0, "modifiers": 0, "repeat": false, "alt_graph": false });
    viewer.input(lease, json!([paste(&long), enter])).await;
    site.told_that("key Enter with 3000").await;
    assert!(site.told().contains(&format!("plain {long}")), "{what}");
    assert_eq!(site.told().iter().filter(|told| *told == "paste").count(), 1, "{what}");

    viewer.input(lease, press(10.0, 115.0)).await;
    viewer.input(lease, json!([paste("typed")])).await;
    site.told_that("editor typed").await;
    assert!(!viewer.was_refused(), "{what}");
}

#[tokio::test]
async fn a_paste_is_the_pages_first_and_else_typed() {
    let site = Site::start(&[("/", PAGE)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        pastes(&site, &mut viewer, &lease, flavour).await;
    }
}

/// Where the press led is known when the paste comes, however soon that is.
#[tokio::test]
async fn a_paste_right_behind_a_press_goes_where_it_led() {
    let site = Site::start(&[("/", PAGE)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        for round in 0..40 {
            browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
            let lease = browser.hold("ann").await.lease;
            site.forget();
            viewer.input(&lease, press_and_paste("1234")).await;
            site.until(&format!("{flavour}, round {round}"), |told| told.iter().any(|told| told == "code 1234")).await;
            browser.release(&json!({ "lease": lease })).await.unwrap();
            browser.snapshot().await;
        }
    }
}

#[tokio::test]
async fn a_paste_reaches_the_frame_that_has_the_focus() {
    let site = Site::start(&[("/inner", PAGE)]).await;
    let page = site.framed("/inner", (600, 400)).await;
    let browser = Browser::at(CHROMIUM, &page.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.hover(&site, &lease, (500, 300)).await;
    pastes(&site, &mut viewer, &lease, "a frame of another site").await;
}

/// What a page was too busy for is not done to it once its person has no hands on it any more.
#[tokio::test]
async fn a_paste_that_has_to_wait_ends_with_its_lease() {
    let page = "<body style='margin:0'><input id=plain style='position:absolute;left:0;top:0;width:200px;height:30px'><script>
        plain.addEventListener('mousedown', () => { sayNow('busy'); const end = performance.now() + 1500; while (performance.now() < end); });
        for (const kind of ['paste', 'input']) plain.addEventListener(kind, () => say(kind)); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        viewer.input(&lease, press_and_paste("secret")).await;
        site.told_that("busy").await;
        browser.release(&json!({ "lease": lease })).await.unwrap();
        browser.snapshot().await;
        for kind in ["paste", "input"] {
            assert!(!site.tells(kind, Duration::from_secs(1)).await, "{flavour}: {kind}");
        }
    }
}
