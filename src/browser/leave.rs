//! The way out of a page that does not let go: one that hangs, or asks and asks.
//!
//! Once a navigation waits for a renderer that hangs, nothing reaches that renderer any more. So it is looked at before, and one
//! that does not answer is ended: the tab stays, and the next document gets a new one. Where even that comes too late, another
//! tab takes the place of the old one.

use super::cdp::CdpError;
use super::tab::Tab;
use super::tabs::Tabs;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// A page that is alive answers within this, on a machine that is busy too.
const ALIVE: Duration = Duration::from_secs(5);
/// How long the renderer may take to be gone: on a machine that is busy a crash takes seconds.
const GONE: Duration = Duration::from_secs(10);
/// How long another tab may take to be there.
const THERE: Duration = Duration::from_secs(10);
/// A document that has opened this many dialogs does not stop.
const TOO_MANY: u32 = 10;

/// Whether the page asks so often that a dialog of its need not be answered before it is left.
#[must_use]
pub(super) fn asks_for_ever(tab: &Tab) -> bool {
    tab.dialogs.load(Ordering::Relaxed) >= TOO_MANY
}

/// Whether the page answers.
///
/// # Errors
/// When Chromium is gone.
pub(super) async fn alive(tab: &Tab) -> Result<bool, CdpError> {
    match tab.session.call_within::<Value>(ALIVE, "Page.getLayoutMetrics", json!({})).await {
        Err(CdpError::Timeout(_)) => Ok(false),
        Err(CdpError::Closed) => Err(CdpError::Closed),
        _ => Ok(true),
    }
}

/// A tab that can go on to another document: this one, or the one that takes its place. `None` when whoever leaves `may` no
/// longer, which is asked right before anything is done.
///
/// # Errors
/// When Chromium is gone.
pub(super) async fn free(tabs: &Tabs, tab: &Arc<Tab>, may: impl Fn() -> bool) -> Result<Option<Arc<Tab>>, CdpError> {
    let asks = tab.dialog.borrow().is_some();
    let free = tab.facts().crashed || (!asks && alive(tab).await?);
    if !may() {
        return Ok(None);
    }
    // A dialog may have opened meanwhile, which is no reason to end anything.
    if free || (tab.dialog.borrow().is_some() && !asks_for_ever(tab)) {
        return Ok(Some(tab.clone()));
    }
    end(tabs, tab).await.map(Some)
}

/// Ends the renderer of a page that does not answer, or else its tab; gives the tab that goes on.
///
/// # Errors
/// When Chromium is gone.
pub(super) async fn end(tabs: &Tabs, tab: &Arc<Tab>) -> Result<Arc<Tab>, CdpError> {
    tracing::info!("a page that does not answer is ended");
    if crash(tab).await? {
        return Ok(tab.clone());
    }
    tracing::info!("a tab that does not let go is replaced");
    let mut version = tabs.version.subscribe();
    let created: Created = tab.session.cdp().call("Target.createTarget", json!({ "url": "about:blank" })).await?;
    drop(timeout(THERE, version.wait_for(|_| tabs.has(&created.target_id))).await);
    if !tabs.activate(&created.target_id) {
        tab.session.cdp().fire("Target.closeTarget", &json!({ "targetId": created.target_id }))?;
        return Ok(tab.clone());
    }
    tabs.close(tab)?;
    let fresh = tabs.active_tab().filter(|fresh| fresh.id == created.target_id);
    if let Some(fresh) = &fresh {
        fresh.begun().await;
    }
    Ok(fresh.unwrap_or_else(|| tab.clone()))
}

/// Whether the renderer is gone.
async fn crash(tab: &Tab) -> Result<bool, CdpError> {
    for last in [false, true] {
        match tab.session.call_within::<Value>(GONE, "Page.crash", json!({})).await {
            Err(CdpError::Closed) => return Err(CdpError::Closed),
            // Chromium ends no renderer while its tab is on the way to another page.
            Err(CdpError::Refused { .. }) if !last => tab.session.fire("Page.stopLoading", &json!({}))?,
            _ => break,
        }
    }
    Ok(tab.facts().crashed)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    target_id: String,
}
