//! Where a browser's buttons lead: back, on, again, and away from pages that do not let go.

use crate::harness::{BOTH, Browser, in_both};
use crate::site::Site;
use crate::viewer::{Viewer, press};
use beckon::driver::LiveEvent;
use serde_json::json;

async fn go(viewer: &mut Viewer, lease: &str, to: &str) {
    viewer.say(&json!({ "type": "go", "lease": lease, "to": to }).to_string()).await;
}

/// Why the newest order was refused.
async fn refused(viewer: &mut Viewer) -> String {
    match viewer.event("a refusal", |event| matches!(event, LiveEvent::Refused { .. })).await {
        LiveEvent::Refused { code, message } => {
            assert_eq!(code, "BAD_MESSAGE", "{message}");
            message
        }
        other => panic!("{other:?}"),
    }
}

/// Two pages, the first with a link to the second; each says its name when it runs.
async fn two_pages() -> Site {
    let page = |name: &str| format!("<title>{name}</title><h1>{name}</h1><a href=/two>Next</a><script>say('{name}')</script>");
    let (one, two) = (page("one"), page("two"));
    Site::start(&[("/one", &one), ("/two", &two)]).await
}

/// A browser that went from the first to the second, in a person's hands.
async fn at_the_second(site: &Site, flavour: &str) -> (Browser, Viewer, String) {
    site.forget();
    let browser = Browser::at(flavour, &site.url("/one")).await;
    browser.click("Next").await;
    site.told_that("two").await;
    browser.until("the second", |state| state.page.title == "two").await;
    let viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    (browser, viewer, lease)
}

/// A person has no address bar; what its buttons do they can do.
#[tokio::test]
async fn a_person_goes_back_and_on_and_closes() {
    let site = two_pages().await;
    for flavour in BOTH {
        let (browser, mut viewer, lease) = at_the_second(&site, flavour).await;
        for (to, title) in [("back", "one"), ("forward", "two"), ("reload", "two")] {
            site.forget();
            go(&mut viewer, &lease, to).await;
            site.told_that(title).await;
            browser.until(title, |state| state.page.title == title).await;
        }
        go(&mut viewer, &lease, "close").await;
        browser.until("an empty tab", |state| state.tabs.len() == 1 && state.page.origin == "about").await;
    }
}

/// Whoever reads a page's first words may be faster than Chromium is with the way that led there.
#[tokio::test]
async fn a_person_goes_to_and_fro_as_fast_as_pages_come() {
    let site = two_pages().await;
    for flavour in BOTH {
        let (_browser, mut viewer, lease) = at_the_second(&site, flavour).await;
        for _ in 0..5 {
            for (to, title) in [("back", "one"), ("forward", "two")] {
                site.forget();
                go(&mut viewer, &lease, to).await;
                site.told_that(title).await;
            }
        }
        assert!(!viewer.was_refused(), "{flavour}");
    }
}

/// A page between two documents can lose an order to close.
#[tokio::test]
async fn a_person_closes_a_page_that_loads_itself_again_and_again() {
    let site = Site::start(&[("/", "<title>again</title><script>say('here'); onload = () => location.reload()</script>")]).await;
    for flavour in BOTH {
        let browser = Browser::start(flavour).await;
        let mut viewer = browser.viewer().await;
        for _ in 0..6 {
            site.forget();
            browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
            let lease = browser.hold("ann").await.lease;
            site.until("here and here again", |told| told.len() > 2).await;
            go(&mut viewer, &lease, "close").await;
            browser.until("an empty tab", |state| state.tabs.len() == 1 && state.page.origin == "about").await;
            browser.release(&json!({ "lease": lease })).await.unwrap();
            browser.snapshot().await;
        }
    }
}

/// Silence at the end of the history would look like a button that does nothing.
#[tokio::test]
async fn at_both_ends_of_the_history_a_person_is_told() {
    let site = two_pages().await;
    for flavour in BOTH {
        let (browser, mut viewer, lease) = at_the_second(&site, flavour).await;
        go(&mut viewer, &lease, "reload").await;
        site.until("two again", |told| told.iter().filter(|told| *told == "two").count() == 2).await;
        go(&mut viewer, &lease, "forward").await;
        assert_eq!(refused(&mut viewer).await, "There is no such page.", "{flavour}");
        // One, and the empty page that the session began with.
        for path in ["/one", ""] {
            go(&mut viewer, &lease, "back").await;
            browser.until("a page before", |state| state.page.path == path).await;
        }
        go(&mut viewer, &lease, "back").await;
        assert_eq!(refused(&mut viewer).await, "There is no such page.", "{flavour}");
    }
}

#[tokio::test]
async fn a_person_brings_a_crashed_page_back() {
    let site = Site::start(&[("/", "<title>home</title><h1>home</h1><script>say('home')</script>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        site.told_that("home").await;
        site.forget();
        browser.kill_renderers();
        browser.until("a crash", |state| state.tabs[0].crashed).await;
        go(&mut viewer, &lease, "reload").await;
        site.told_that("home").await;
        browser.until("it is back", |state| state.page.title == "home" && !state.tabs[0].crashed).await;
        assert!(!viewer.was_refused(), "{flavour}");
    }
}

/// A page that hangs only when it is left takes its tab with it: another tab goes on in its place.
#[tokio::test]
async fn a_page_that_hangs_while_it_is_left_is_left_all_the_same() {
    let holds = "<title>holds</title><script>addEventListener('pagehide', () => { while (true); })</script>";
    let site = Site::start(&[("/holds", holds), ("/", "<title>home</title><h1>home</h1>")]).await;
    // One after the other, since each keeps a processor busy.
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/holds")).await;
        let reply = browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert_eq!(reply.page.title, "home", "{flavour}");
        let state = browser.until("the old tab is gone", |state| state.tabs.len() == 1).await;
        assert_eq!(state.page.title, "home", "{flavour}");
        assert!(browser.snapshot().await.contains("home"), "{flavour}");
    }
}

/// What the person clicked hangs: "back" is the way out.
#[tokio::test]
async fn a_person_leaves_a_page_that_hangs() {
    let hang = "<title>hang</title><body style='margin:0'><button style='width:100px;height:50px' onclick='sayNow(`hangs`); while (true);'>Hang</button>";
    let site = Site::start(&[("/hang", hang), ("/", "<title>home</title><h1>home</h1>")]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        browser.tool("navigate", &json!({ "url": site.url("/hang") })).await.unwrap();
        let mut viewer = browser.viewer().await;
        let lease = browser.hold("ann").await.lease;
        viewer.input(&lease, press(50.0, 25.0)).await;
        site.told_that("hangs").await;
        go(&mut viewer, &lease, "back").await;
        browser.until("it is left", |state| state.page.title == "home" && !state.tabs[0].crashed).await;
        browser.release(&json!({ "lease": lease })).await.unwrap();
        assert!(browser.snapshot().await.contains("home"), "{flavour}");
    }
}

/// An agent that can neither look nor leave would be stuck for good.
#[tokio::test]
async fn an_agent_leaves_a_page_that_hangs_or_asks_for_ever() {
    let hang = "<title>hang</title><button onclick='setTimeout(hang)'>Hang</button>";
    let asks = "<title>asks</title><script>setTimeout(() => { while (true) alert('again'); }, 100)</script>";
    let site = Site::start(&[("/hang", hang), ("/asks", asks), ("/", "<title>home</title><h1>home</h1>")]).await;
    in_both(async |flavour| {
        let browser = Browser::at(flavour, &site.url("/hang")).await;
        browser.click("Hang").await;
        // A person had the hands meanwhile: the agent has to look first, which nobody can.
        let grant = browser.hold("ann").await;
        browser.release(&json!({ "lease": grant.lease })).await.unwrap();
        assert_eq!(browser.refused("navigate", &json!({ "url": site.url("/") })).await, "OBSERVE_FIRST", "{flavour}");
        assert_eq!(browser.refused("screenshot", &json!({})).await, "ACTION_FAILED", "{flavour}");
        let reply = browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert_eq!(reply.page.title, "home", "{flavour}");

        browser.tool("navigate", &json!({ "url": site.url("/asks") })).await.unwrap();
        browser.until("it asks", |state| state.dialog.is_some()).await;
        assert_eq!(
            browser.refused("navigate", &json!({ "url": site.url("/") })).await,
            "DIALOG_OPEN",
            "{flavour}: one question is answered"
        );
        for _ in 0..10 {
            browser.until("it asks again", |state| state.dialog.is_some()).await;
            browser.tool("handle_dialog", &json!({ "accept": false })).await.unwrap();
        }
        browser.until("and again", |state| state.dialog.is_some()).await;
        let reply = browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert_eq!((reply.page.title.as_str(), reply.dialog), ("home", None), "{flavour}");
        assert!(browser.snapshot().await.contains("home"), "{flavour}");
    })
    .await;
}
