//! The page tools.

use crate::harness::{BOTH, Browser, SHELL, reference};
use crate::site::Site;
use serde_json::json;

const FORM: &str = "<title>Form</title><h1>Order</h1>
<form onsubmit='event.preventDefault(); say(JSON.stringify(Object.fromEntries(new FormData(this))))'>
<label>Name <input name=name value=old></label> <label>Code <input type=password name=code></label>
<label>Note <textarea name=note></textarea></label> <label>Day <input type=date name=day></label>
<label>Size <select name=size><option>Small<option value=l>Large</select></label>
<label><input type=checkbox name=ok> I agree</label> <input name=fixed value=1 readonly aria-label=Fixed>
<button>Send</button></form>
<button style='position:absolute;left:600px;top:300px' onclick='say(`under`)'>Under</button>
<div style='position:absolute;left:550px;top:280px;width:300px;height:100px;background:#eee'></div>
<div style='height:3000px'></div><button onclick='say(`far`)'>Far</button>";

#[tokio::test]
async fn a_form_is_read_filled_and_sent() {
    let site = Site::start(&[("/", FORM)]).await;
    for flavour in BOTH {
        site.forget();
        let browser = Browser::at(flavour, &site.url("/")).await;
        let snapshot = browser.snapshot().await;
        for line in
            ["- heading \"Order\" [level=1]", "- textbox \"Name\"", "- combobox \"Size\"", "- checkbox \"I agree\"", "- button \"Send\""]
        {
            assert!(snapshot.contains(line), "{line} in\n{snapshot}");
        }
        let at = |text: &str| reference(&snapshot, text).unwrap();
        for (name, text) in [("\"Name\"", "Ann O'Neil"), ("\"Code\"", "hunter2"), ("\"Note\"", "one\ntwo é 😀"), ("\"Size\"", "Large")] {
            browser.tool("type", &json!({ "ref": at(name), "text": text })).await.unwrap();
        }
        let day = reference(&snapshot, "\"Day\"").unwrap();
        browser.tool("type", &json!({ "ref": day, "text": "2026-12-31" })).await.unwrap();
        browser.tool("click", &json!({ "ref": at("I agree") })).await.unwrap();
        let filled = browser.snapshot().await;
        assert!(filled.contains("Ann O'Neil") && !filled.contains("hunter2") && filled.contains("(hidden)"), "{filled}");
        browser.tool("click", &json!({ "ref": at("\"Send\"") })).await.unwrap();
        let want = r#"{"name":"Ann O'Neil","code":"hunter2","note":"one\ntwo é 😀","day":"2026-12-31","size":"l","ok":"on","fixed":"1"}"#;
        site.told_that(want).await;
    }
}

#[tokio::test]
async fn what_cannot_be_done_says_why() {
    let site = Site::start(&[("/", FORM)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let snapshot = browser.snapshot().await;
    let at = |text: &str| reference(&snapshot, text).unwrap();
    assert_eq!(browser.refused("click", &json!({ "ref": at("\"Under\"") })).await, "ACTION_FAILED");
    assert_eq!(browser.refused("type", &json!({ "ref": at("\"Fixed\""), "text": "x" })).await, "ACTION_FAILED");
    assert_eq!(browser.refused("type", &json!({ "ref": at("\"Size\""), "text": "Huge" })).await, "ACTION_FAILED");
    assert_eq!(browser.refused("click", &json!({ "ref": "e99999" })).await, "STALE_REFERENCE");
    assert_eq!(browser.refused("click", &json!({ "ref": at("\"Send\""), "button": "wheel" })).await, "INVALID_ARGUMENT");
    assert_eq!(browser.refused("press_key", &json!({ "key": "Hyper+a" })).await, "INVALID_ARGUMENT");
    assert_eq!(browser.refused("wait_for", &json!({})).await, "INVALID_ARGUMENT");
    assert_eq!(browser.refused("wait_for", &json!({ "text": "x", "timeout_seconds": 301 })).await, "INVALID_ARGUMENT");
    assert_eq!(browser.refused("wait_for", &json!({ "text": "never there", "timeout_seconds": 1 })).await, "ACTION_FAILED");
    assert_eq!(browser.refused("navigate", &json!({ "url": "http://127.0.0.1:9/" })).await, "ACTION_FAILED");
    assert_eq!(browser.refused("no_such_tool", &json!({})).await, "NOT_FOUND");
    assert_eq!(browser.refused("handle_dialog", &json!({ "accept": true })).await, "NOT_FOUND");
    let error = browser.tool("type", &json!({ "ref": "e1", "text": 5 })).await.unwrap_err();
    assert_eq!(error["code"], "INVALID_ARGUMENT");
    let error = browser.tool("click", &json!({ "reff": "e1" })).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("reff"), "{error}");
    assert!(site.told().is_empty());
}

#[tokio::test]
async fn a_click_scrolls_to_what_is_far_and_a_reference_keeps_its_element() {
    let site = Site::start(&[("/", FORM)]).await;
    let browser = Browser::at(SHELL, &site.url("/")).await;
    let before = browser.find("\"Far\"").await;
    assert_eq!(browser.find("\"Far\"").await, before);
    browser.tool("click", &json!({ "ref": before })).await.unwrap();
    site.told_that("far").await;
    browser.tool("navigate", &json!({ "url": site.url("/") })).await.unwrap();
    assert_eq!(browser.refused("click", &json!({ "ref": before })).await, "STALE_REFERENCE", "another document");
    assert_ne!(browser.find("\"Far\"").await, before);
}

#[tokio::test]
async fn links_lead_on_and_keys_and_waits_work() {
    let first = "<title>first</title><a href='/second'>Next</a>";
    let second = "<title>second</title><p id=p>wait</p><script>
        addEventListener('keydown', (e) => { if (e.key === 'Enter' && e.ctrlKey) setTimeout(() => p.textContent = 'shown', 200); });</script>";
    let site = Site::start(&[("/", first), ("/second", second)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let reply = browser.click("Next").await;
        assert_eq!((reply.page.path.as_str(), reply.page.title.as_str()), ("/second", "second"), "{flavour}");
        browser.tool("press_key", &json!({ "key": "Control+Enter" })).await.unwrap();
        browser.tool("wait_for", &json!({ "text": "shown", "gone": "wait", "url": "/second", "timeout_seconds": 10 })).await.unwrap();
    }
}

#[tokio::test]
async fn pictures_have_the_size_they_say() {
    let site = Site::start(&[("/", FORM)]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let view = browser.tool("screenshot", &json!({})).await.unwrap().image.unwrap();
        assert_eq!((view.mime.as_str(), view.height), ("image/jpeg", 800), "{flavour}");
        assert!(view.data.starts_with("/9j/"), "{flavour}");
        let whole = browser.tool("screenshot", &json!({ "full_page": true })).await.unwrap().image.unwrap();
        assert!(whole.height > 3000 && whole.data.len() > view.data.len(), "{flavour}: {}", whole.height);
    }
}

#[tokio::test]
async fn a_download_is_refused_at_once() {
    let site = Site::start(&[("/", "<h1>here</h1>")]).await;
    for flavour in BOTH {
        let browser = Browser::at(flavour, &site.url("/")).await;
        let error = browser.tool("navigate", &json!({ "url": site.url("/download") })).await.unwrap_err();
        assert!(error["message"].as_str().unwrap().contains("download"), "{flavour}: {error}");
        let snapshot = browser.snapshot().await;
        assert!(snapshot.contains("here"), "{flavour}: the page stays, not {snapshot:?}");
    }
}
