//! What a person answers to the browser itself.

use super::super::cdp::CdpError;
use super::super::input::Send;
use super::super::leave;
use super::super::picker::Picked;
use super::super::tab::Tab;
use super::super::tabs::Tabs;
use super::{Hands, fire, lost, refused};
use crate::driver::{LiveEvent, Way};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long the page may take to take its files.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a tab may take to be gone, with what it says as a goodbye.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// How long a page that hangs may hold up who leaves it. Each step has its own limit: one that was cut off half-way would leave a
/// crashed page and go nowhere.
const GO_LIMIT: Duration = Duration::from_mins(1);

impl Hands {
    /// Answers the dialog that is open; `false` when it is another one.
    pub(super) fn answer(&self, id: u32, accept: bool, text: Option<String>) -> bool {
        let Some(tab) = self.tabs.active_tab() else { return false };
        if tab.dialog.borrow().as_ref().is_none_or(|dialog| dialog.id != id) {
            return false;
        }
        let mut params = json!({ "accept": accept });
        if let (Some(text), Some(params)) = (text, params.as_object_mut()) {
            params.insert("promptText".to_owned(), text.into());
        }
        fire(&tab.session, &[Send { method: "Page.handleJavaScriptDialog", params }]);
        true
    }

    /// Gives files to what asks for them, if it still does.
    pub(super) fn files(&mut self, id: u32, files: Vec<PathBuf>, back: mpsc::Sender<LiveEvent>) {
        let Some(tab) = self.tabs.active_tab() else { return };
        let chooser = tab.chooser.borrow().clone().filter(|chooser| chooser.info.id == id);
        let refuse = move |why: &str| drop(back.try_send(refused("BAD_MESSAGE", why)));
        let Some(chooser) = chooser else { return refuse("id: the page does not ask for files any more") };
        if files.len() > 1 && !chooser.info.multiple {
            return refuse("id: the page takes one file");
        }
        tab.chooser.send_if_modified(|open| open.take_if(|open| open.info.id == id).is_some());
        self.first = Some(Box::pin(async move {
            let answer = async {
                if let Err(error) = chooser.answer(&files).await {
                    lost(&error);
                    refuse("The page did not take the files.");
                }
            };
            drop(timeout(ANSWER_LIMIT, answer).await);
        }));
    }

    /// Goes where a browser's buttons lead.
    pub(super) fn go(&mut self, way: Way, lease: &str, back: mpsc::Sender<LiveEvent>) {
        let Some(tab) = self.tabs.active_tab() else { return };
        let refuse = move |why: &str| drop(back.try_send(refused("BAD_MESSAGE", why)));
        if tab.dialog.borrow().is_some() && way != Way::Close && !leave::asks_for_ever(&tab) {
            return refuse("Answer the page's dialog first.");
        }
        let (tabs, may) = (self.tabs.clone(), self.may(lease));
        self.first = Some(Box::pin(async move {
            match timeout(GO_LIMIT, gone(&tabs, &tab, way, may)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => refuse("There is no such page."),
                Ok(Err(error)) if !matches!(error, CdpError::Timeout(_)) => {
                    lost(&error);
                    refuse("The browser could not go there.");
                }
                Ok(Err(_)) | Err(_) => refuse("The browser takes long to go there; see whether it still does."),
            }
        }));
    }

    /// Answers the picker that is open, if it is still that one.
    pub(super) fn pick(&mut self, id: u32, value: Option<String>, back: mpsc::Sender<LiveEvent>) {
        let Some(tab) = self.tabs.active_tab() else { return };
        let picker = tab.picker.borrow().clone().filter(|picker| picker.info.id == id);
        self.first = Some(Box::pin(async move {
            let why = match picker {
                None => "id: that picker is closed",
                Some(picker) => match picker.answer(value).await {
                    Ok(Picked::Refused) => "value: the page's field does not take it",
                    Ok(_) => return,
                    Err(error) => return lost(&error),
                },
            };
            drop(back.try_send(refused("BAD_MESSAGE", why)));
        }));
    }
}

/// `false` when there is no such page. Nothing is done once the person `may` not.
async fn gone(tabs: &Tabs, tab: &Arc<Tab>, way: Way, may: impl Fn() -> bool + Sync) -> Result<bool, CdpError> {
    let step = match way {
        Way::Close => {
            let mut version = tabs.version.subscribe();
            tabs.close(tab)?;
            let gone = timeout(CLOSE_LIMIT, version.wait_for(|_| !tabs.has(&tab.id))).await;
            return gone.map(|_| true).map_err(|_| CdpError::Timeout("Target.closeTarget"));
        }
        Way::Reload => {
            let Some(fresh) = leave::free(tabs, tab, &may).await? else { return Ok(true) };
            if fresh.id == tab.id {
                tab.session.call::<Value>("Page.reload", json!({})).await?;
                return Ok(true);
            }
            0
        }
        Way::Back => -1,
        Way::Forward => 1,
    };
    let history: History = tab.session.call("Page.getNavigationHistory", json!({})).await?;
    let at = history.current_index.checked_add(step).and_then(|at| usize::try_from(at).ok());
    let Some(entry) = at.and_then(|at| history.entries.get(at)) else { return Ok(false) };
    let Some(fresh) = leave::free(tabs, tab, &may).await? else { return Ok(true) };
    if fresh.id == tab.id {
        tab.session.call::<Value>("Page.navigateToHistoryEntry", json!({ "entryId": entry.id })).await?;
    } else {
        fresh.session.call::<Value>("Page.navigate", json!({ "url": entry.url })).await?;
    }
    Ok(true)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    current_index: i64,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: i64,
    url: String,
}
