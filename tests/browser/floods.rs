//! Pages and browsers that do too much, or nothing any more.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON};
use crate::lifecycle::gone;
use crate::site::Site;
use crate::viewer::press;
use beckon::driver::{HEALTH_PATH, LiveEvent};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::Instant;

/// Each frame of another site waits for us before it runs: one that is forgotten would never run.
#[tokio::test]
async fn every_one_of_many_frames_runs() {
    const FRAMES: usize = 50;
    let site = Site::start(&[("/inner", "<script>say('in')</script>")]).await;
    let frame = format!("<iframe src='{}' style='width:9px;height:9px;border:0'></iframe>", site.other_site("/inner"));
    let page = Site::start(&[("/", &format!("<title>many</title><h1>here</h1>{}", frame.repeat(FRAMES)))]).await;
    let browser = Browser::start(CHROMIUM).await;
    browser.tool("navigate", &json!({ "url": page.url("/") })).await.unwrap();
    site.until("all run", |told| told.len() == FRAMES).await;
    assert_eq!(browser.logged("could not be set up"), 0);
    assert!(browser.snapshot().await.contains("here"));
}

/// What changes all the time leaves room for everything else.
#[tokio::test]
async fn a_page_that_changes_its_title_and_writes_to_its_console_all_the_time_drowns_nobody() {
    let page = "<title>0</title><button onclick='say(`heard`)'>Button</button><script>
        let n = 0; const flood = () => { for (let i = 0; i < 5; i += 1) { n += 1; document.title = 't' + n; console.log('x'.repeat(1000), n); } setTimeout(flood, 10); };
        setTimeout(flood, 500);</script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let mut viewer = browser.viewer().await;
        viewer.event("the flood", |event| matches!(event, LiveEvent::Page { page, .. } if page.title.starts_with('t'))).await;
        browser.click("Button").await;
        site.told_that("heard").await;
    }
}

/// Who has the hands is told when it changes, not with every key that moves the idle time.
#[tokio::test]
async fn input_does_not_tell_everybody_who_has_the_hands_again_and_again() {
    let site = Site::start(&[("/", "<script>addEventListener('mouseup', () => say('up'))</script>")]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let mut viewer = browser.viewer().await;
    let lease = browser.hold("ann").await.lease;
    let began = Instant::now();
    for _ in 0..100 {
        viewer.input(&lease, press(50.0, 50.0)).await;
    }
    site.until("all of it", |told| told.len() == 100).await;
    browser.release(&json!({ "lease": lease })).await.unwrap();
    let free = |event: &LiveEvent| matches!(event, LiveEvent::Control { control } if control.holder.is_none() && control.epoch > 0);
    viewer.event("the end of it", free).await;
    let told = viewer.seen(|event| matches!(event, LiveEvent::Control { .. }));
    // Nobody, ann, and then the time that moves.
    let most = 2 + began.elapsed().as_secs() + 1;
    assert!(told as u64 <= most, "{told} instead of at most {most}");
    assert!(!viewer.was_refused());
}

#[tokio::test]
async fn a_page_of_many_thousand_elements_is_read() {
    let page = "<title>large</title><h1>here</h1><script>
        const all = []; for (let i = 0; i < 4000; i += 1) all.push(`<li><a href=#${i}>Row ${i}</a>`); document.body.insertAdjacentHTML('beforeend', all.join(''));
        </script>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let text = browser.snapshot().await;
        assert!(text.contains("here") && text.contains("Row 10\"") && text.contains("it was cut here"), "{flavour}");
        assert!(text.len() < 200_000, "{flavour}: {}", text.len());
        assert!(browser.resident() < 256 << 20, "{flavour}: the driver holds {} MiB", browser.resident() >> 20);
        browser.click("Row 10\"").await;
    }
}

#[tokio::test]
async fn a_picture_of_a_huge_page_is_bounded() {
    let page = "<body style='margin:0'><div style='width:30000px;height:20000px;background:linear-gradient(red,blue)'>here</div>";
    let site = Site::start(&[("/", page)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let picture = browser.tool("screenshot", &json!({ "full_page": true })).await.unwrap().image.unwrap();
        assert!(picture.width <= 5_000 && picture.height <= 10_000, "{flavour}: {} x {}", picture.width, picture.height);
        assert!(picture.data.len() < 24 << 20, "{flavour}: {} MiB", picture.data.len() >> 20);
        assert!(browser.snapshot().await.contains("here"), "{flavour}");
    }
}

/// A Chromium that lives and does nothing: every answer comes in time, and the order to stop is obeyed.
#[tokio::test]
async fn a_chromium_that_does_nothing_holds_nobody_up() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let mut browser = Browser::at(SHELL, &site.url("/")).await;
    let below = browser.processes();
    kill(Pid::from_raw(browser.chromium()), Signal::SIGSTOP).unwrap();
    let (nothing, look) = (Value::Null, json!({}));
    let answers =
        async { tokio::join!(browser.call("GET", HEALTH_PATH, None, &nothing), browser.tool("snapshot", &look), browser.state()) };
    let (health, snapshot, state) = tokio::time::timeout(SOON, answers).await.expect("answers");
    assert_eq!(health.0, 503);
    assert_eq!(snapshot.unwrap_err()["code"], "ACTION_FAILED");
    assert_eq!(state.tabs.len(), 1);
    kill(Pid::from_raw(browser.pid()), Signal::SIGTERM).unwrap();
    assert_eq!(browser.ended(SOON).await.code(), Some(0));
    gone(&below).await;
}
