//! What a browser shows outside of its page: a person sees only the page, and must be able to go on all the same.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON};
use crate::site::Site;
use crate::viewer::{Viewer, key, press};
use beckon::driver::LiveEvent;
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
        "document.body.append(Object.assign(document.createElement('iframe'), { src: 'zoommtg://x', style: 'position:absolute;top:200px' }))",
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
    // Two links: of two presses on one within moments, Chromium hears only the first.
    let page = "<body style='margin:0'><a href=/download?agent style='position:absolute;left:0;top:0;width:100px;height:50px'>Get</a>
        <a href=/download?person style='position:absolute;left:0;top:100px;width:100px;height:50px'>Take</a>";
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
        viewer.input(&lease, press(50.0, 125.0)).await;
        viewer.event("what the person did", told).await;
    }
}

/// A redirect that leads to another program gets past what keeps a page from it.
#[tokio::test]
async fn a_page_that_leads_to_another_program_is_left_again() {
    let page = "<title>page</title><body style='margin:0'><a href=/program style='position:absolute;left:0;top:0;width:100px;height:50px'>Redirect</a>
        <a href='zoommtg://x' style='position:absolute;left:0;top:100px;width:100px;height:50px'>Link</a>
        <button style='position:absolute;left:0;top:200px;width:100px;height:50px' onclick='say(`heard`)'>Hear</button><script>say('ready')</script>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    site.told_that("ready").await;
    viewer.input(&lease, press(50.0, 125.0)).await;
    let told = |event: &LiveEvent| matches!(event, LiveEvent::Notice { code, message } if code == "PROGRAM_REFUSED" && message.contains("zoommtg:"));
    viewer.event("what the page wanted", told).await;
    clicked(&site, &mut viewer, &lease, (50.0, 225.0), "heard").await;
    viewer.input(&lease, press(50.0, 25.0)).await;
    browser.until("a page that says why", |state| state.page.title != "page").await;
    site.forget();
    viewer.say(&json!({ "type": "go", "lease": lease, "to": "back" }).to_string()).await;
    site.told_that("ready").await;
    clicked(&site, &mut viewer, &lease, (50.0, 225.0), "heard").await;
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

/// Two quick presses on OK must not answer the next question as well.
#[tokio::test]
async fn an_answer_is_for_the_dialog_that_was_seen() {
    let page = "<button onclick='alert(`Noted.`); say(`pay ` + confirm(`Pay now?`))'>Ask</button>";
    let site = Site::start(&[("/", page)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    browser.click("Ask").await;
    let lease = browser.hold("ann").await.lease;
    let id = |event: &LiveEvent| match event {
        LiveEvent::Dialog { dialog: Some(dialog) } => dialog.id,
        other => panic!("{other:?}"),
    };
    let first = id(&viewer.event("the note", |event| matches!(event, LiveEvent::Dialog { dialog: Some(_) })).await);
    let ok = |id: u32| json!({ "type": "dialog", "lease": lease, "id": id, "accept": true, "text": null }).to_string();
    viewer.say(&ok(first)).await;
    let second = id(&viewer.event("the question", |event| matches!(event, LiveEvent::Dialog { dialog: Some(d) } if d.id != first)).await);
    viewer.say(&ok(first)).await;
    assert_eq!(viewer.refusal().await, "BAD_MESSAGE");
    assert!(site.told().is_empty());
    viewer.say(&ok(second)).await;
    site.told_that("pay true").await;
}
