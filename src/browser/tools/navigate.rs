//! `navigate`.

use super::super::error::Refused;
use super::super::leave;
use super::super::tab::Tab;
use super::click::empty;
use super::{Context, Done, Stop};
use crate::driver::Navigate;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// How long Chromium may take to answer that it goes there.
const GO_LIMIT: Duration = Duration::from_secs(25);
/// How long the load event is waited for; the page can be used before.
const LOAD_LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gone {
    loader_id: Option<String>,
    error_text: Option<String>,
    #[serde(default)]
    is_download: bool,
}

/// An address that may be gone to: http, https, or about:blank. Others read the pod's files or the browser itself.
///
/// # Errors
/// Says which ones may.
pub(crate) fn allowed(address: &str) -> Result<Url, String> {
    let wrong = || "url: must be an address that starts with http:// or https://, or about:blank".to_owned();
    let url = Url::parse(address.trim()).map_err(|_| wrong())?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "about" if url.as_str() == "about:blank" => Ok(url),
        _ => Err(wrong()),
    }
}

pub(super) async fn run(context: &Context, arguments: Navigate) -> Done {
    let url = allowed(&arguments.url).map_err(Refused::argument)?;
    // An agent's action keeps its right until it has ended.
    let tab = leave::free(&context.tabs, &context.tab, || true).await?.unwrap_or_else(|| context.tab.clone());
    if go(context, &tab, &url).await? || leave::alive(&tab).await? {
        return Ok(empty());
    }
    // It hung while it was left.
    let tab = leave::end(&context.tabs, &tab).await?;
    go(context, &tab, &url).await?;
    Ok(empty())
}

/// Goes there and waits until the page has loaded; `false` when the page of before is still there.
async fn go(context: &Context, tab: &Tab, url: &Url) -> Done<bool> {
    let mut load = tab.load.subscribe();
    if load.borrow().loader.is_empty() {
        tab.begun().await;
    }
    let go = tab.session.call_within(GO_LIMIT, "Page.navigate", json!({ "url": url.as_str() }));
    let gone: Gone = context.unless_dialog_of(tab, go).await?;
    if gone.is_download {
        return Err(Refused::failed("The address is a download; this session keeps none.").into());
    }
    if let Some(error) = gone.error_text.filter(|text| !text.is_empty()) {
        return Err(Refused::failed(format!("The page could not be opened: {error}.")).into());
    }
    // To another place in the same document.
    let Some(loader) = gone.loader_id else { return Ok(true) };
    let before = load.borrow_and_update().loader.clone();
    let mut there = before == loader;
    let loaded = async {
        // Another document may replace it at once; then that one counts.
        if !there {
            drop(load.wait_for(|load| load.loader != before).await);
            there = true;
        }
        drop(load.wait_for(|load| load.loaded).await);
        Ok::<(), Stop>(())
    };
    let limited = async { timeout(LOAD_LIMIT, loaded).await.unwrap_or(Ok(())) };
    context.unless_dialog_of(tab, limited).await?;
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_web_may_be_gone_to() {
        for good in ["http://a.example/x?y#z", "https://a.example", "about:blank", " HTTPS://A.example/ "] {
            assert!(allowed(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "file:///etc/passwd",
            "chrome://crash",
            "chrome-untrusted://x",
            "view-source:https://a.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "blob:https://a.example/1",
            "filesystem:https://a.example/x",
            "about:version",
            "about:blank#x",
            "devtools://x",
            "ftp://a.example",
            "http://",
        ] {
            assert!(allowed(bad).is_err(), "{bad}");
        }
    }
}
