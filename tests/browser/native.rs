//! What a browser shows outside of its page: a person sees only the page, and must be able to go on all the same.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON, Viewer, key, press};
use crate::site::Site;
use beckon::driver::{LiveEvent, PickerInfo};
use serde_json::json;

/// Asks for something at the press of a button, and tells whether it still hears another one.
fn asking(what: &str) -> String {
    format!(
        "<body style='margin:0'><button style='position:absolute;left:0;top:0;width:100px;height:50px' onclick='ask()'>Ask</button>
        <button style='position:absolute;left:0;top:100px;width:100px;height:50px' onclick='say(`heard`)'>Hear</button>
        <script>const bytes = new Uint8Array(16), never = 600000; const ask = async () => {{
          say('asked'); try {{ await ({what}); say('answer') }} catch (e) {{ say('answer ' + e.name) }} }}; say('ready')</script>"
    )
}

async fn clicked(site: &Site, viewer: &mut Viewer, lease: &str, (x, y): (f64, f64), wanted: &str) {
    viewer.input(lease, press(x, y)).await;
    site.told_that(wanted).await;
}

/// A window of the browser itself that takes all input away would leave agent and person with a dead page.
#[tokio::test]
async fn prompts_that_nobody_sees_take_no_input_away() {
    let asks = [
        "navigator.credentials.get({ publicKey: { challenge: bytes, timeout: never } })",
        "navigator.credentials.create({ publicKey: { challenge: bytes, rp: { name: 'x' }, timeout: never,
            user: { id: bytes, name: 'n', displayName: 'd' }, pubKeyCredParams: [{ type: 'public-key', alg: -7 }] } })",
        "navigator.mediaDevices.getDisplayMedia({ video: true })",
        "new PaymentRequest([{ supportedMethods: 'secure-payment-confirmation' }],
            { total: { label: 'x', amount: { currency: 'EUR', value: '1' } } }).show()",
        "navigator.credentials.get({ identity: { mode: 'active', providers: [{ configURL: 'https://127.0.0.1:1/x', clientId: '1' }] } })",
        "navigator.credentials.get({ digital: { requests: [{ protocol: 'openid4vp', data: {} }] } })",
        "navigator.mediaDevices.getUserMedia({ video: true, audio: true })",
        "new Promise((done, fail) => navigator.geolocation.getCurrentPosition(done, fail))",
        "Notification.requestPermission()",
        "navigator.clipboard.readText()",
        "navigator.usb.requestDevice({ filters: [] })",
        "navigator.serial.requestPort()",
        "navigator.hid.requestDevice({ filters: [] })",
        "showSaveFilePicker()",
        "showDirectoryPicker()",
        "print()",
        "open('mailto:a@b.example', '_self')",
        "open('zoommtg://x', '_self')",
    ];
    let paths: Vec<&'static str> = (0..asks.len()).map(|at| &*format!("/{at}").leak()).collect();
    let pages: Vec<String> = asks.iter().map(|ask| asking(ask)).collect();
    let site = Site::start(&paths.iter().copied().zip(pages.iter().map(String::as_str)).collect::<Vec<_>>()).await;
    for flavour in BOTH {
        let browser = Browser::start(flavour).await;
        let mut viewer = browser.viewer().await;
        for (path, what) in paths.iter().zip(asks) {
            site.forget();
            browser.tool("navigate", &json!({ "url": site.other_site(path) })).await.unwrap();
            site.told_that("ready").await;
            let lease = browser.hold("ann").await.lease;
            clicked(&site, &mut viewer, &lease, (50.0, 25.0), "asked").await;
            // What it shows comes a moment after it was asked for; a page that hears nothing tells nothing, however often.
            for again in 0..4 {
                site.forget();
                viewer.input(&lease, press(50.0, 125.0)).await;
                site.until(&format!("{flavour} {what} {again}"), |told| told.iter().any(|told| told == "heard")).await;
                viewer.frame(std::time::Duration::from_millis(100)).await;
            }
            browser.release(&json!({ "lease": lease })).await.unwrap();
            browser.snapshot().await;
        }
    }
}

/// What a link opens beside the page is what the person goes on with, whether or not it may reach its opener.
#[tokio::test]
async fn a_link_to_a_new_tab_is_followed() {
    let links = "<title>links</title><body style='margin:0'>
        <a target=_blank href=/next style='position:absolute;left:0;top:0;width:100px;height:50px'>Blank</a>
        <a target=_blank rel='noopener noreferrer' href=/next style='position:absolute;left:0;top:100px;width:100px;height:50px'>Closed off</a>
        <script>say('ready')</script>";
    let site = Site::start(&[("/", links), ("/next", "<title>next</title><script>say('next')</script>")]).await;
    for flavour in BOTH {
        for y in [25.0, 125.0] {
            site.forget();
            let browser = Browser::at(flavour, &site.url("/")).await;
            let mut viewer = browser.viewer().await;
            let lease = browser.hold("ann").await.lease;
            clicked(&site, &mut viewer, &lease, (50.0, y), "next").await;
            viewer
                .event("the new tab", |event| matches!(event, LiveEvent::Page { page, tabs } if page.title == "next" && tabs.len() == 2))
                .await;
            assert!(browser.viewer().await.frame(SOON).await.is_some(), "{flavour}");
        }
    }
}

/// In a browser the window listens to Escape; here nobody but the page hears it.
#[tokio::test]
async fn escape_leaves_fullscreen() {
    let page = "<body style='margin:0'><button style='position:absolute;left:0;top:0;width:100px;height:50px'
        onclick='document.documentElement.requestFullscreen()'>Full</button><script>
        document.addEventListener('fullscreenchange', () => say('full ' + !!document.fullscreenElement));
        addEventListener('resize', () => say(`size ${innerWidth}x${innerHeight}`)); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        clicked(&site, &mut viewer, &lease, (50.0, 25.0), "full true").await;
        viewer.input(&lease, key("Escape", "Escape", 0, false)).await;
        site.told_that("full false").await;
        viewer.input(&lease, json!([{ "kind": "move", "x": 200, "y": 200, "buttons": 0, "modifiers": 0 }])).await;
        let deadline = std::time::Instant::now() + SOON;
        while viewer.frame(SOON).await.is_none_or(|(width, height, _)| (width, height) != (1280, 800)) {
            assert!(std::time::Instant::now() < deadline, "{flavour}: the size of before does not come back: {:?}", site.told());
            viewer.input(&lease, key("a", "KeyA", 0, false)).await;
        }
    }
}

/// A download is refused, and everybody knows why nothing happens.
#[tokio::test]
async fn a_refused_download_is_told_to_person_and_agent() {
    let page = "<body style='margin:0'><a href=/download style='position:absolute;left:0;top:0;width:100px;height:50px'>Get</a>
        <script>say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let told = |event: &LiveEvent| matches!(event, LiveEvent::Notice { code, message } if code == "DOWNLOAD_REFUSED" && message.contains("x.bin"));
        // On a machine that is busy the click may have ended before the browser began the download.
        for attempt in 0.. {
            let reply = browser.click("Get").await;
            if reply.result["notice"].as_str().is_some_and(|notice| notice.contains("x.bin")) {
                break;
            }
            assert!(attempt < 10, "{flavour}: {reply:?}");
        }
        viewer.event("what the agent did", told).await;
        let lease = browser.hold("ann").await.lease;
        viewer.input(&lease, press(50.0, 25.0)).await;
        viewer.event("what the person did", told).await;
    }
}

/// The old headless mode blocks no popups: a page could open them until the machine has no memory left.
#[tokio::test]
async fn a_flood_of_tabs_is_bounded() {
    let page = "<title>flood</title><button onclick='setTimeout(() => { for (let i = 0; i < 60; i += 1) window.open(`/next`); say(`flooded`) })'>Flood</button>";
    let site = Site::start(&[("/", page), ("/next", "<title>next</title>")]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    browser.click("Flood").await;
    site.told_that("flooded").await;
    viewer.event("that it was too much", |event| matches!(event, LiveEvent::Notice { code, .. } if code == "TAB_REFUSED")).await;
    let state = browser.until("the others are gone", |state| state.page.title == "next" && state.tabs.len() == 32).await;
    assert_eq!(state.tabs.iter().filter(|tab| tab.active).count(), 1);
    assert!(browser.snapshot().await.len() < 1000, "and it goes on");
}

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
    let outer =
        format!("<body style='margin:0'><iframe src='{}' style='border:0;width:800px;height:600px'></iframe>", site.other_site("/inner"));
    let page = Site::start(&[("/", &outer)]).await;
    let browser = Browser::at(CHROMIUM, &page.url("/")).await;
    site.told_that("ready").await;
    let mut viewer = browser.viewer().await;
    assert!(viewer.frame(SOON).await.is_some());
    let lease = browser.hold("ann").await.lease;
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
#[tokio::test]
async fn a_select_list_in_a_shadow_is_seen_and_clicked() {
    let page = "<body style='margin:0'><div id=host style='position:absolute;left:20px;top:20px'></div><script>
        const root = host.attachShadow({ mode: 'open' });
        root.innerHTML = '<select style=\"width:200px;height:40px\"><option>Small<option>Medium<option>Large</select>';
        const list = root.querySelector('select'); list.addEventListener('change', () => say('chosen ' + list.value));
        const wait = () => { const box = list.options[2].getBoundingClientRect();
          if (box.height > 0) say('option ' + (box.left + box.width / 2) + ' ' + (box.top + box.height / 2)); else requestAnimationFrame(wait); };
        requestAnimationFrame(wait); say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        viewer.input(&lease, press(100.0, 40.0)).await;
        site.until("the list is open", |told| told.iter().any(|told| told.starts_with("option "))).await;
        let place = site.told().iter().find_map(|told| told.strip_prefix("option ").map(str::to_owned)).unwrap();
        let (x, y) = place.split_once(' ').unwrap();
        viewer.input(&lease, press(x.parse().unwrap(), y.parse().unwrap())).await;
        site.told_that("chosen Large").await;
    }
}
