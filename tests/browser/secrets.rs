//! Nothing that a person or an agent types, that a page holds or that opens a door is ever in the log, however much is asked for.

use crate::harness::{BOTH, Browser, SOON, TOKEN};
use crate::site::Site;
use crate::viewer::{key, press};
use beckon::driver::LiveEvent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// Words that are nowhere else, each for one way in.
struct Marks(Vec<(&'static str, String)>);

impl Marks {
    fn new(ways: &[&'static str]) -> Self {
        let tail: u64 = rand::random();
        Self(ways.iter().enumerate().map(|(at, way)| (*way, format!("mark{at}x{tail:x}"))).collect())
    }

    fn of(&self, way: &str) -> &str {
        &self.0.iter().find(|(known, _)| *known == way).unwrap_or_else(|| panic!("{way}")).1
    }
}

/// One key that no other part of the test presses.
const RARE_KEY: &str = "☂";

const WAYS: &[&str] = &[
    "title",
    "body",
    "path",
    "query",
    "fragment",
    "cookie",
    "console",
    "console error",
    "uncaught",
    "alert",
    "confirm",
    "prompt answer",
    "typed by the agent",
    "waited for",
    "wrong argument",
    "unknown tool",
    "unreachable host",
    "pasted",
    "composed",
    "text",
    "live message",
    "picker label",
    "picked",
    "download name",
    "file name",
    "file content",
    "postmessage",
    "field value",
    "holder request",
];

fn page(marks: &Marks) -> String {
    let m = |way: &str| marks.of(way).to_owned();
    format!(
        "<title>{}</title><body style='margin:0'><p>{}</p><input id=box aria-label=Box value='{}' style='position:absolute;left:0;top:100px;width:200px;height:30px'>
        <select aria-label='{}' style='appearance:none !important;position:absolute;left:0;top:150px;width:200px;height:30px'><option>a<option>{}</select>
        <input type=file style='position:absolute;left:0;top:200px;width:200px;height:30px'>
        <button onclick='alert(`{}`); say(`answer ` + prompt(`{}`))'>Ask</button>
        <button onclick='const a = document.createElement(`a`); a.href = URL.createObjectURL(new Blob([1])); a.download = `{}.bin`; a.click()'>Get</button>
        <script>document.cookie = 'secret={}'; console.log('{}'); console.error('{}'); postMessage('{}', '*');
        setTimeout(() => {{ throw new Error('{}'); }}); box.addEventListener('input', () => say('box ' + box.value));
        document.querySelector('[type=file]').addEventListener('change', async (e) => say('file ' + await e.target.files[0].text()));
        document.querySelector('select').addEventListener('change', () => say('picked'));
        addEventListener('keydown', (e) => say('key ' + e.key)); say('ready')</script>",
        m("title"), m("body"), m("field value"), m("picker label"), m("picked"), m("alert"), m("confirm"), m("download name"), m("cookie"),
        m("console"), m("console error"), m("postmessage"), m("uncaught"),
    )
}

#[tokio::test]
async fn no_secret_is_in_the_log_at_any_level() {
    for flavour in BOTH {
        let marks = Marks::new(WAYS);
        let m = |way: &str| marks.of(way).to_owned();
        let path: &'static str = format!("/{}", m("path")).leak();
        let site = Site::start(&[(path, &page(&marks))]).await;
        let everything = [("BECKON_LOG", "trace"), ("RUST_LOG", "trace")];
        let mut browser = Browser::start_saying(flavour, &everything).await;
        let url = format!("{}?q={}#{}", site.url(path), m("query"), m("fragment"));
        browser.tool("navigate", &json!({ "url": url })).await.unwrap();
        site.told_that("ready").await;

        // The agent.
        let snapshot = browser.snapshot().await;
        assert!(snapshot.contains(&m("body")) && snapshot.contains(&m("field value")), "the marks are on the page: {snapshot}");
        let box_ = browser.find("\"Box\"").await;
        browser.tool("type", &json!({ "ref": box_, "text": m("typed by the agent") })).await.unwrap();
        browser.tool("wait_for", &json!({ "text": m("waited for"), "timeout_seconds": 1 })).await.unwrap_err();
        browser.tool("click", &json!({ "ref": m("wrong argument"), "more": 1 })).await.unwrap_err();
        browser.tool("click", &json!({ "ref": m("wrong argument") })).await.unwrap_err();
        browser.tool(&m("unknown tool"), &json!({})).await.unwrap_err();
        browser.tool("navigate", &json!({ "url": format!("http://{}.invalid/", m("unreachable host")) })).await.unwrap_err();
        browser.tool("navigate", &json!({ "url": url })).await.unwrap();
        browser.tool("screenshot", &json!({})).await.unwrap();
        browser.click("\"Get\"").await;

        // The person.
        let mut viewer = browser.viewer().await;
        let lease = browser.hold(&m("holder request")).await.lease;
        viewer.input(&lease, press(50.0, 115.0)).await;
        viewer.input(&lease, key(RARE_KEY, "KeyQ", 0, false)).await;
        site.told_that(&format!("key {RARE_KEY}")).await;
        viewer.input(&lease, json!([{ "kind": "paste", "text": m("pasted") }])).await;
        viewer.input(&lease, json!([{ "kind": "compose", "text": m("composed") }, { "kind": "text", "text": m("text") }])).await;
        site.until("what was typed", |told| told.iter().any(|told| told.contains(&m("pasted")) && told.contains(&m("text")))).await;
        viewer.say(&m("live message")).await;
        viewer.input(&lease, json!([{ "kind": m("live message") }])).await;
        assert_eq!(viewer.refusal().await, "BAD_MESSAGE");
        viewer.input(&lease, press(100.0, 165.0)).await;
        let picker = viewer.event("the list", |event| matches!(event, LiveEvent::Picker { picker: Some(_) })).await;
        let LiveEvent::Picker { picker: Some(picker) } = picker else { unreachable!() };
        viewer.say(&json!({ "type": "pick", "lease": lease, "id": picker.id, "value": "1" }).to_string()).await;
        site.told_that("picked").await;
        viewer.input(&lease, press(60.0, 215.0)).await;
        let chooser = viewer.event("the files", |event| matches!(event, LiveEvent::Chooser { chooser: Some(_) })).await;
        let LiveEvent::Chooser { chooser: Some(chooser) } = chooser else { unreachable!() };
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, m("file content"));
        let file = json!({ "type": "file", "lease": lease, "id": chooser.id, "name": m("file name"), "data": data, "last": true });
        viewer.say(&file.to_string()).await;
        viewer.say(&json!({ "type": "choose", "lease": lease, "id": chooser.id, "accept": true }).to_string()).await;
        site.told_that(&format!("file {}", m("file content"))).await;
        browser.release(&json!({ "lease": lease })).await.unwrap();

        // Dialogs, and a page that dies with all of it.
        browser.snapshot().await;
        browser.click("\"Ask\"").await;
        browser.tool("handle_dialog", &json!({ "accept": true })).await.unwrap();
        browser.until("the question", |state| state.dialog.as_ref().is_some_and(|dialog| dialog.kind == "prompt")).await;
        browser.tool("handle_dialog", &json!({ "accept": true, "text": m("prompt answer") })).await.unwrap();
        site.told_that(&format!("answer {}", m("prompt answer"))).await;
        browser.kill_renderers();
        browser.until("a crash", |state| state.tabs[0].crashed).await;
        browser.refused("snapshot", &json!({})).await;
        kill(Pid::from_raw(browser.chromium()), Signal::SIGKILL).unwrap();
        browser.ended(SOON).await;

        let log = browser.log();
        assert!(log.iter().any(|line| line.contains("\"level\":\"DEBUG\"")), "{flavour}: it was asked for everything: {log:?}");
        assert!(log.iter().any(|line| line.contains("Chromium died")), "{flavour}: to the end");
        let secrets =
            marks.0.iter().map(|(way, mark)| (*way, mark.as_str())).chain([("token", TOKEN), ("lease", &lease), ("key", RARE_KEY)]);
        for (way, secret) in secrets {
            // A holder is named on purpose, but not here.
            let found: Vec<&String> = log.iter().filter(|line| line.contains(secret)).collect();
            assert!(found.is_empty(), "{flavour}: {way} is in the log: {found:?}");
        }
    }
}
