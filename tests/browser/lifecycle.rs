//! The start, the end, and what goes wrong with either.

use crate::harness::{BOTH, Browser, CHROMIUM, SHELL, SOON, Secret, command};
use crate::site::Site;
use beckon::driver::{HEALTH_PATH, STATE_PATH};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Nothing is left.
pub async fn gone(processes: &[(i32, String)]) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Some((_, line)) = processes.iter().find(|(pid, _)| fs::exists(format!("/proc/{pid}")).unwrap()) {
        assert!(Instant::now() < deadline, "it left {line}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Exit code and what it said.
fn fails(arguments: &[&str]) -> (i32, String) {
    let mut child = command(arguments).spawn().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code().unwrap(), text)
}

/// Noticed by what the system tells, not by a call that runs out of time: those say so.
#[tokio::test]
async fn a_killed_chromium_is_noticed_and_said_clearly() {
    for flavour in BOTH {
        let mut browser = Browser::start(flavour).await;
        let below = browser.processes();
        signal(browser.chromium(), Signal::SIGKILL);
        assert_eq!(browser.ended(SOON).await.code(), Some(70), "{flavour}");
        assert_eq!(browser.logged("Chromium died: it was ended by SIGKILL; the kernel does that when memory runs out"), 1, "{flavour}");
        gone(&below).await;
    }
}

#[tokio::test]
async fn an_order_to_stop_ends_everything_with_code_0() {
    for flavour in BOTH {
        let mut browser = Browser::start(flavour).await;
        let below = browser.processes();
        assert!(below.len() > 2, "{below:?}");
        signal(browser.pid(), Signal::SIGTERM);
        assert_eq!(browser.ended(SOON).await.code(), Some(0), "{flavour}");
        gone(&below).await;
    }
}

/// A popup of the address bar, which nobody ever opens here, would be a renderer of its own and a third of what a start costs.
#[tokio::test]
async fn no_page_of_chromium_itself_runs_beside_the_session() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let browser = Browser::at(CHROMIUM, &site.url("/")).await;
    let own: Vec<_> = browser.processes().into_iter().filter(|(_, line)| line.contains("--top-chrome-webui")).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[tokio::test]
async fn what_chromium_leaves_is_reaped() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    browser.kill_renderers();
    let zombies = || {
        browser
            .processes()
            .iter()
            .filter(|(pid, _)| {
                fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
            })
            .count()
    };
    let deadline = Instant::now() + SOON;
    while zombies() > 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_crashed_tab_answers_at_once_and_navigating_revives_it() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        browser.kill_renderers();
        browser.until("a crash", |state| state.tabs[0].crashed).await;
        // A crashed page answers nothing: a call that runs out of time says ACTION_FAILED.
        assert_eq!(browser.refused("snapshot", &json!({})).await, "TAB_CRASHED", "{flavour}");
        assert_eq!(browser.refused("screenshot", &json!({})).await, "TAB_CRASHED", "{flavour}");
        assert_eq!(browser.call("GET", HEALTH_PATH, None, &Value::Null).await.0, 200, "a crashed tab is no reason to restart the pod");
        browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
        assert!(browser.snapshot().await.contains("here"), "{flavour}");
        assert!(!browser.state().await.tabs[0].crashed, "{flavour}");
    }
}

/// The memory of a page is full of secrets, and where a node puts core dumps nobody knows.
#[tokio::test]
async fn no_process_of_a_browser_leaves_a_core_dump() {
    for flavour in BOTH {
        let browser = Browser::start(flavour).await;
        for pid in browser.renderers().into_iter().chain([browser.pid(), browser.chromium()]) {
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let of_cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
            assert_eq!(of_cores.split_whitespace().skip(4).collect::<Vec<_>>(), ["1", "1", "bytes"], "{flavour}: {pid}");
        }
    }
}

/// The code tells it from a call that ran out of time, which is ACTION_FAILED; the wait alone would take ten times as long as
/// this test waits for anything.
#[tokio::test]
async fn a_call_under_way_when_the_renderer_dies_is_told_so() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    let wait = json!({ "text": "never", "timeout_seconds": 300 });
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let killing = async {
            browser.until("the page", |state| !state.tabs.is_empty()).await;
            browser.kill_renderers();
        };
        let (answer, ()) = tokio::join!(tokio::time::timeout(SOON, browser.tool("wait_for", &wait)), killing);
        assert_eq!(answer.expect("an answer").unwrap_err()["code"], "TAB_CRASHED", "{flavour}");
    }
}

#[tokio::test]
async fn calls_under_way_when_chromium_dies_are_told_so() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    for flavour in BOTH {
        let mut browser = Browser::at(flavour, &site.url("/")).await;
        let chromium = browser.chromium();
        let wait = json!({ "text": "never", "timeout_seconds": 300 });
        let killing = async {
            browser.until("the page", |state| !state.tabs.is_empty()).await;
            signal(chromium, Signal::SIGKILL);
        };
        let (one, two, ()) = tokio::join!(browser.tool("wait_for", &wait), browser.tool("wait_for", &wait), killing);
        for answer in [one, two] {
            assert_eq!(answer.unwrap_err()["code"], "BROWSER_GONE", "{flavour}");
        }
        assert_eq!(browser.ended(SOON).await.code(), Some(70), "{flavour}");
    }
}

#[tokio::test]
async fn only_bearers_of_the_token_are_served() {
    let browser = Browser::start(SHELL).await;
    for token in [None, Some(""), Some("a-token-of-the-session-012345678"), Some("a-token-of-the-session-01234567890")] {
        let (status, body) = browser.call("GET", STATE_PATH, token, &Value::Null).await;
        assert_eq!((status, body["code"].as_str()), (401, Some("UNAUTHENTICATED")), "{token:?}");
        let (status, _) = browser.call("POST", "/v1/tools/navigate", token, &json!({ "url": "about:blank" })).await;
        assert_eq!(status, 401);
    }
    assert_eq!(browser.call("GET", HEALTH_PATH, None, &Value::Null).await, (200, json!("ok\n")));
}

#[test]
fn without_chromium_it_says_what_to_install() {
    let secret = Secret::new();
    let directory = secret.directory.path().to_str().unwrap();
    let (code, text) = fails(&["--listen", "127.0.0.1:0", "--driver-dir", directory, "--chromium-path", "/nowhere/chromium"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("looked for /nowhere/chromium") && text.contains("--chromium-path"), "{text}");
}

#[test]
fn a_missing_secret_names_the_file_and_the_flag() {
    let (code, text) = fails(&["--listen", "127.0.0.1:0", "--driver-dir", "/nowhere/driver"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("/nowhere/driver/token") && text.contains("--driver-dir"), "{text}");
}

#[test]
fn a_taken_port_names_the_flag() {
    let secret = Secret::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let (code, text) = fails(&["--listen", &listen, "--driver-dir", secret.directory.path().to_str().unwrap()]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains(&format!("--listen {listen}")), "{text}");
}

#[test]
fn what_the_browser_cannot_be_is_refused() {
    let secret = Secret::new();
    let directory = secret.directory.path().to_str().unwrap();
    let (code, text) = fails(&["--listen", "127.0.0.1:0", "--driver-dir", directory, "--start-url", "file:///etc/passwd"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("--start-url"), "{text}");
    let (code, text) = fails(&["--listen", "127.0.0.1:0", "--driver-dir", directory, "--timezone", "Europe/Atlantis"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("--timezone") && text.contains("Europe/Atlantis") && text.contains("such as Europe/Paris"), "{text}");
}

/// On a node with much to do the first answer takes longer than any later one may.
#[tokio::test]
async fn a_chromium_that_is_slow_to_start_is_waited_for() {
    let directory = tempfile::Builder::new().prefix("beckon-slow-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let slow = directory.path().join("chromium");
    let chromium = xtask::chromium::program().unwrap();
    fs::write(&slow, format!("#!/bin/sh\n/bin/sleep 12\nexec {} \"$@\"\n", chromium.display())).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let browser = Browser::start_with(CHROMIUM, &["--chromium-path", slow.to_str().unwrap()]).await;
    assert_eq!(browser.call("GET", HEALTH_PATH, None, &Value::Null).await.0, 200);
}
