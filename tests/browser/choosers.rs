//! Pickers that Chromium draws outside the page, and file choosers: told to the person and answered by them.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL};
use crate::site::Site;
use crate::viewer::{Viewer, key, press};
use base64::Engine as _;
use beckon::driver::{LiveEvent, PickerInfo};
use serde_json::json;

const PICKERS: &str = "<body style='margin:0'>
<label>Day <input type=date id=day style='position:absolute;left:20px;top:20px;width:200px;height:30px'></label>
<input type=color id=paint value='#00ff00' aria-label=Paint style='position:absolute;left:20px;top:80px;width:100px;height:30px'>
<input type=time id=hour min='08:00' max='18:00' style='position:absolute;left:20px;top:140px;width:200px;height:30px'>
<button onclick='hour.showPicker()' style='position:absolute;left:300px;top:140px;width:100px;height:30px'>Show</button>
<select id=own style='appearance:none !important;position:absolute;left:20px;top:200px;width:200px;height:30px'>
<option>Small<optgroup label=Big><option disabled>Large<option>Huge</optgroup></select>
<input id=name style='position:absolute;left:20px;top:300px;width:200px;height:30px'><script>
for (const e of [day, paint, hour, own]) { e.addEventListener('input', () => say('input ' + e.id)); e.addEventListener('change', () => say(e.id + ' ' + e.value)); }
addEventListener('keydown', (e) => say('key ' + e.key)); document.getElementById('name').addEventListener('input', (e) => say('name ' + e.target.value));
say('ready')</script>";

/// The picker that opened.
async fn picker(viewer: &mut Viewer, what: &str, kind: &str) -> PickerInfo {
    let is = |event: &LiveEvent| matches!(event, LiveEvent::Picker { picker: Some(picker) } if picker.kind == kind);
    match viewer.event(what, is).await {
        LiveEvent::Picker { picker: Some(picker) } => picker,
        other => panic!("{other:?}"),
    }
}

async fn pick(viewer: &mut Viewer, lease: &str, id: u32, value: Option<&str>) {
    viewer.say(&json!({ "type": "pick", "lease": lease, "id": id, "value": value }).to_string()).await;
}

async fn is_closed(viewer: &mut Viewer, what: &str) {
    viewer.event(what, |event| matches!(event, LiveEvent::Picker { picker: None })).await;
}

async fn answers_pickers(site: &Site, viewer: &mut Viewer, lease: &str, flavour: &str, inside: bool) {
    is_closed(viewer, "none at first").await;

    viewer.input(lease, press(208.0, 35.0)).await;
    let day = picker(viewer, "the calendar", "date").await;
    assert_eq!((day.label.as_str(), day.value.as_str()), ("Day", ""), "{flavour}");
    pick(viewer, lease, day.id, Some("tomorrow")).await;
    assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour}: what the field does not take");
    pick(viewer, lease, day.id, Some("2026-12-31")).await;
    site.told_that("day 2026-12-31").await;
    is_closed(viewer, "the calendar").await;
    pick(viewer, lease, day.id, Some("2026-12-30")).await;
    assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour}: a picker that is closed");

    viewer.input(lease, press(50.0, 95.0)).await;
    let paint = picker(viewer, "the colours", "color").await;
    assert_eq!((paint.label.as_str(), paint.value.as_str()), ("Paint", "#00ff00"), "{flavour}");
    pick(viewer, lease, paint.id, Some("#ff0000")).await;
    site.told_that("paint #ff0000").await;
    is_closed(viewer, "the colours").await;

    // The page's own button; a frame of another site may not show it.
    viewer.input(lease, if inside { press(208.0, 155.0) } else { press(350.0, 155.0) }).await;
    let hour = picker(viewer, "the clock", "time").await;
    assert_eq!((hour.min.as_str(), hour.max.as_str()), ("08:00", "18:00"), "{flavour}");
    pick(viewer, lease, hour.id, None).await;
    is_closed(viewer, "the clock").await;

    viewer.input(lease, press(100.0, 215.0)).await;
    let own = picker(viewer, "a list that insists on its look", "select").await;
    let options: Vec<_> = own.options.iter().map(|option| (option.label.as_str(), option.group.as_str(), option.disabled)).collect();
    assert_eq!(
        (own.value.as_str(), options),
        ("0", vec![("Small", "", false), ("Large", "Big", true), ("Huge", "Big", false)]),
        "{flavour}"
    );
    pick(viewer, lease, own.id, Some("1")).await;
    assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour}: what can't be chosen");
    pick(viewer, lease, own.id, Some("2")).await;
    site.told_that("own Huge").await;
    is_closed(viewer, "the list").await;

    viewer.input(lease, press(100.0, 315.0)).await;
    viewer.input(lease, key("x", "KeyX", 0, false)).await;
    site.told_that("name x").await;
    let inputs = site.told().iter().filter(|told| told.starts_with("input ")).count();
    assert_eq!(inputs, 3, "{flavour}: {:?}", site.told());
    assert!(!site.told().contains(&"key Escape".to_owned()), "{flavour}: {:?}", site.told());
}

/// A picker is in no picture: it is told, answered by its value, and the page hears of it as of any other.
#[tokio::test]
async fn pickers_are_told_and_answered() {
    let site = Site::start(&[("/", PICKERS)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        answers_pickers(&site, &mut viewer, &lease, flavour, false).await;
    }
}

#[tokio::test]
async fn pickers_of_a_frame_of_another_site_are_answered_too() {
    let site = Site::start(&[("/inner", PICKERS)]).await;
    let page = site.framed("/inner", (800, 600)).await;
    let browser = Browser::at(CHROMIUM, &page.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    viewer.hover(&site, &lease, (700, 500)).await;
    answers_pickers(&site, &mut viewer, &lease, "a frame", true).await;
}

/// The next document has no picker open, however the one before ended.
#[tokio::test]
async fn a_picker_is_gone_with_its_document() {
    let site = Site::start(&[("/", PICKERS)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    is_closed(&mut viewer, "none at first").await;
    let lease = browser.hold("ann").await.lease;
    viewer.input(&lease, press(208.0, 35.0)).await;
    picker(&mut viewer, "the calendar", "date").await;
    let mut late = browser.viewer().await;
    picker(&mut late, "who comes later sees it too", "date").await;
    browser.release(&json!({ "lease": lease })).await.unwrap();
    browser.snapshot().await;
    browser.tool("navigate", &json!({ "url": "about:blank" })).await.unwrap();
    is_closed(&mut viewer, "the calendar").await;
}

/// The list of a component's shadow is drawn in the page as well.
const FILES: &str = "<body style='margin:0'>
<input type=file multiple id=many style='position:absolute;left:0;top:0;width:200px;height:40px'>
<input type=file id=one style='position:absolute;left:0;top:60px;width:200px;height:40px'><script>
for (const e of [many, one]) {
  e.addEventListener('cancel', () => say(e.id + ' cancel'));
  e.addEventListener('change', async () => say(e.id + ' ' + (await Promise.all([...e.files].map(async (f) => f.name + '=' + (await f.text()).length))).join()));
}
say('ready')</script>";

async fn chooser(viewer: &mut Viewer, what: &str) -> (u32, bool) {
    match viewer.event(what, |event| matches!(event, LiveEvent::Chooser { chooser: Some(_) })).await {
        LiveEvent::Chooser { chooser: Some(chooser) } => (chooser.id, chooser.multiple),
        other => panic!("{other:?}"),
    }
}

/// Sends a file as a viewer does, in pieces.
async fn send_file(viewer: &mut Viewer, lease: &str, id: u32, name: &str, bytes: &[u8]) {
    let pieces: Vec<&[u8]> = if bytes.is_empty() { vec![bytes] } else { bytes.chunks(9000).collect() };
    for (at, piece) in pieces.iter().enumerate() {
        let data = base64::engine::general_purpose::STANDARD.encode(piece);
        let last = at + 1 == pieces.len();
        viewer.say(&json!({ "type": "file", "lease": lease, "id": id, "name": name, "data": data, "last": last }).to_string()).await;
    }
}

async fn choose(viewer: &mut Viewer, lease: &str, id: u32, accept: bool) {
    viewer.say(&json!({ "type": "choose", "lease": lease, "id": id, "accept": accept }).to_string()).await;
}

/// The browser's own window for files is never there: the person's are sent, or none.
#[tokio::test]
async fn a_page_that_asks_for_files_gets_the_persons() {
    let site = Site::start(&[("/", FILES)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        viewer.input(&lease, press(60.0, 20.0)).await;
        let (id, multiple) = chooser(&mut viewer, "many files").await;
        assert!(multiple, "{flavour}");
        // Far more than the queue to the hands holds.
        send_file(&mut viewer, &lease, id, "scan 1.png", &vec![7; 3_000_000]).await;
        send_file(&mut viewer, &lease, id, "résumé.pdf", b"").await;
        choose(&mut viewer, &lease, id, true).await;
        site.told_that("many scan 1.png=3000000,résumé.pdf=0").await;
        viewer.event("it asks no longer", |event| matches!(event, LiveEvent::Chooser { chooser: None })).await;

        viewer.input(&lease, press(60.0, 80.0)).await;
        let (id, multiple) = chooser(&mut viewer, "one file").await;
        assert!(!multiple, "{flavour}");
        choose(&mut viewer, &lease, id, false).await;
        site.told_that("one cancel").await;
        assert!(!viewer.was_refused(), "{flavour}");

        viewer.input(&lease, press(60.0, 80.0)).await;
        let (id, _) = chooser(&mut viewer, "one file again").await;
        for name in ["../../etc/passwd", "a/b"] {
            send_file(&mut viewer, &lease, id, name, b"x").await;
            assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour} {name}");
        }
        send_file(&mut viewer, "00000000000000000000000000000000", id, "x", b"x").await;
        assert_eq!(viewer.refusal().await, "LEASE_ENDED", "{flavour}");
        send_file(&mut viewer, &lease, id + 1, "x", b"x").await;
        assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour}");
        send_file(&mut viewer, &lease, id, "a", b"a").await;
        send_file(&mut viewer, &lease, id, "b", b"b").await;
        choose(&mut viewer, &lease, id, true).await;
        assert_eq!(viewer.refusal().await, "BAD_MESSAGE", "{flavour}: it takes one");
        // Who comes later sees that the page asks.
        let mut late = browser.viewer().await;
        let (id, _) = chooser(&mut late, "still one file").await;
        send_file(&mut late, &lease, id, "one.txt", b"one").await;
        choose(&mut late, &lease, id, true).await;
        site.told_that("one one.txt=3").await;
    }
}
