//! What a viewer is told.

use crate::harness::{BOTH, Browser, SHELL, SOON};
use crate::site::Site;
use beckon::driver::LiveEvent;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_viewer_starts_with_control_page_dialog_and_picture() {
    let site = Site::start(&[("/path", "<title>A title</title><h1>here</h1>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/path?secret=1#typed")).await;
        let mut viewer = browser.viewer().await;
        viewer.event("control", |event| matches!(event, LiveEvent::Control { control } if control.holder.is_none())).await;
        let page = viewer.event("the page", |event| matches!(event, LiveEvent::Page { .. })).await;
        let LiveEvent::Page { page, tabs } = page else { unreachable!() };
        assert_eq!((page.origin + &page.path, page.title.as_str(), tabs.len()), (site.url("/path"), "A title", 1));
        viewer.event("no dialog", |event| matches!(event, LiveEvent::Dialog { dialog: None })).await;
        let (width, height, jpeg) = viewer.frame(SOON).await.unwrap();
        assert_eq!((width, height, &jpeg[..3]), (1280, 800, &[0xff, 0xd8, 0xff][..]), "{flavour}");
    }
}

#[tokio::test]
async fn a_resize_is_clamped_and_shows_in_the_frames() {
    let site =
        Site::start(&[("/", "<h1>here</h1><script>addEventListener('resize', () => say(innerWidth + 'x' + innerHeight))</script>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        for ((width, height), real) in [((20_000, 20_000), (2560, 1600)), ((1, -5), (320, 240)), ((1000, 700), (1000, 700))] {
            assert_eq!(browser.resize(width, height).await, json!({ "width": real.0, "height": real.1 }), "{flavour}");
            let mut frame = viewer.frame(SOON).await.unwrap();
            while (frame.0, frame.1) != real {
                frame = viewer.frame(SOON).await.unwrap_or_else(|| panic!("{flavour}: no frame of {real:?}"));
            }
            let viewport = browser.state().await.viewport;
            assert_eq!((viewport.width, viewport.height), (i32::from(real.0), i32::from(real.1)), "{flavour}");
        }
    }
}

#[tokio::test]
async fn a_crash_is_told_and_the_picture_comes_back() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        viewer.frame(SOON).await.unwrap();
        browser.kill_renderers();
        viewer.event("why", |event| matches!(event, LiveEvent::NoPicture { why } if why == "crashed")).await;
        browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert!(viewer.frame(SOON).await.is_some(), "{flavour}");
    }
}

#[tokio::test]
async fn a_closed_popup_gives_the_view_back_to_its_opener() {
    let opener = "<title>opener</title><button onclick='window.open(`/popup`)'>Open</button>";
    let popup = "<title>popup</title><button onclick='window.close()'>Close</button>";
    let site = Site::start(&[("/", opener), ("/popup", popup)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        browser.click("Open").await;
        viewer
            .event("the popup", |event| matches!(event, LiveEvent::Page { page, tabs } if page.title == "popup" && tabs.len() == 2))
            .await;
        browser.click("Close").await;
        viewer
            .event("the opener", |event| matches!(event, LiveEvent::Page { page, tabs } if page.title == "opener" && tabs.len() == 1))
            .await;
        assert!(viewer.frame(SOON).await.is_some(), "{flavour}");
    }
}

#[tokio::test]
async fn a_title_that_changes_later_is_told() {
    let site = Site::start(&[("/", "<title>one</title><button onclick='setTimeout(() => document.title = `two`, 300)'>Go</button>")]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    browser.click("Go").await;
    viewer.event("the title", |event| matches!(event, LiveEvent::Page { page, .. } if page.title == "two")).await;
}

/// What the log says that Chromium was asked, from this line on.
fn asked(browser: &Browser, from: usize) -> Vec<String> {
    let lines = browser.log();
    let lines = lines.iter().skip(from).filter(|line| line.contains("Chromium is asked"));
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].as_str().unwrap().to_owned()).collect()
}

/// The frames come by themselves, when the page changes: nobody asks for them, and of a page that is still there are none.
#[tokio::test]
async fn frames_come_from_the_screencast_and_are_not_asked_for() {
    const TITLE: &str = "Target.getTargetInfo";
    const TAKEN: &str = "Page.screencastFrameAck";
    const CHANGES: usize = 5;
    let still = "<title>still</title><h1>here</h1>";
    let changes = "<title>changes</title><h1 id=n>0</h1><script>setInterval(() => { n.textContent = +n.textContent + 1; say('change'); }, 1000)</script>";
    let site = Site::start(&[("/still", still), ("/changes", changes)]).await;
    let only = |asked: Vec<String>, some: &[&str]| asked.iter().all(|asked| some.contains(&asked.as_str()));
    for flavour in BOTH {
        site.forget();
        let browser = Browser::start_saying(flavour, &[("BECKON_LOG", "info,beckon=trace")]).await;
        browser.tool("navigate", &json!({ "url": site.url("/still") })).await.unwrap();
        let mut viewer = browser.viewer().await;
        viewer.frame(SOON).await.unwrap();
        while viewer.frame(Duration::from_secs(1)).await.is_some() {}
        let (from, mut frames) = (browser.log().len(), 0);
        // Every two seconds, as long as somebody looks.
        while asked(&browser, from).iter().filter(|asked| *asked == TITLE).count() < 2 {
            frames += viewer.frames_in(Duration::from_millis(100)).await;
        }
        assert_eq!(frames, 0, "{flavour}: frames of a page that is still");
        assert!(only(asked(&browser, from), &[TITLE]), "{flavour}: {:?}", asked(&browser, from));

        browser.tool("navigate", &json!({ "url": site.url("/changes") })).await.unwrap();
        viewer.event("the page", |event| matches!(event, LiveEvent::Page { page, .. } if page.title == "changes")).await;
        site.told_that("change").await;
        while viewer.frame(Duration::from_millis(500)).await.is_some() {}
        let (from, before, mut frames) = (browser.log().len(), site.told().len(), 0);
        while site.told().len() < before + CHANGES {
            frames += viewer.frames_in(Duration::from_millis(100)).await;
        }
        assert!((1..=2 * CHANGES).contains(&frames), "{flavour}: {frames} frames of {CHANGES} changes");
        assert!(only(asked(&browser, from), &[TITLE, TAKEN]), "{flavour}: {:?}", asked(&browser, from));
        assert!(asked(&browser, from).iter().any(|asked| asked == TAKEN), "{flavour}");
        // A picture that is asked for is seen here.
        browser.tool("screenshot", &json!({})).await.unwrap();
        assert!(asked(&browser, from).iter().any(|asked| asked == "Page.captureScreenshot"), "{flavour}");
        assert!(asked(&browser, 0).iter().any(|asked| asked == "Page.startScreencast"), "{flavour}");
    }
}
