//! How long an end takes to be noticed. Nothing here can fail for being slow: `cargo xtask bench` prints it.

use crate::harness::{BOTH, Browser, SOON};
use crate::percentiles::percentiles;
use crate::site::Site;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::time::Instant;

const TIMES: usize = 20;

#[tokio::test]
#[ignore = "a measurement"]
async fn until_a_killed_chromium_is_said() {
    for flavour in BOTH {
        let mut all = Vec::new();
        for _ in 0..TIMES {
            let mut browser = Browser::start(flavour).await;
            kill(Pid::from_raw(browser.chromium()), Signal::SIGKILL).unwrap();
            let killed = Instant::now();
            browser.says("Chromium died").await;
            all.push(killed.elapsed());
            browser.ended(SOON).await;
        }
        println!("{flavour} is killed until the driver says so: {}", percentiles(all));
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn until_a_call_of_a_killed_renderer_ends() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let wait = json!({ "text": "never", "timeout_seconds": 300 });
    for flavour in BOTH {
        let mut all = Vec::new();
        for _ in 0..TIMES {
            let browser = Browser::at(flavour, &site.url("/")).await;
            let killing = async {
                browser.until("the page", |state| !state.tabs.is_empty()).await;
                browser.kill_renderers();
                Instant::now()
            };
            let (_, killed) = tokio::join!(browser.tool("wait_for", &wait), killing);
            all.push(killed.elapsed());
        }
        println!("a renderer of {flavour} is killed until the call under way is answered: {}", percentiles(all));
    }
}
