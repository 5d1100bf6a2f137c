//! A person's paste. Pages that split a pasted code over several boxes listen to the event, so it comes first; what the page does
//! not take itself is typed.

use super::cdp::Session;
use super::tab::Tab;
use super::tabs::FrameSession;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How long the page may take for each of the two steps.
const LIMIT: Duration = Duration::from_secs(2);
/// How long its frames may take to say where the focus is; one that hangs keeps nobody longer.
const HEARD: Duration = Duration::from_millis(500);

/// Whether the page leaves it to us. Runs in our own world of the frame that has the focus.
const PASTE: &str = "function(text) {
  let element = document.activeElement;
  while (element && element.shadowRoot && element.shadowRoot.activeElement) element = element.shadowRoot.activeElement;
  const data = new DataTransfer();
  data.setData('text/plain', text);
  return (element ?? document).dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true, composed: true }));
}";

/// Pastes into the element that has the focus, in the tab or in one of these frames of it. A page that is busy keeps it waiting, so
/// that it is asked before each step whether the person `may` still.
pub(super) async fn paste(tab: &Tab, frames: &[FrameSession], text: String, may: impl Fn() -> bool) {
    let pasted = async {
        heard(tab, frames).await;
        if !may() {
            return;
        }
        let focus = tab.focus();
        if left_to_us(focus.as_ref(), &text).await && may() {
            // To the frame itself: the browser learns of a frame that was just clicked into a moment later.
            let session = focus.map_or_else(|| tab.session.clone(), |(session, _)| session);
            let typed = session.call_within::<Value>(LIMIT, "Input.insertText", json!({ "text": text })).await;
            if let Err(error) = typed {
                tracing::debug!(%error, "a paste was not answered");
            }
        }
    };
    let mut dialog = tab.dialog.subscribe();
    tokio::select! {
        () = pasted => {}
        // The page asks something about it, which a person has to answer first.
        _ = dialog.wait_for(Option::is_some) => {}
    }
}

/// Input is answered by the browser, which a page's own word of the focus that it moved may not have reached yet. What a page said
/// is here before its next reply is.
async fn heard(tab: &Tab, frames: &[FrameSession]) {
    let sessions = std::iter::once(&tab.session).chain(frames.iter().map(|frame| &frame.session));
    join_all(sessions.map(|session| session.call_within::<Value>(HEARD, "Runtime.getIsolateId", json!({})))).await;
}

async fn left_to_us(focus: Option<&(Session, i64)>, text: &str) -> bool {
    let Some((session, context)) = focus else { return true };
    let params = json!({
        "executionContextId": context, "functionDeclaration": PASTE, "arguments": [{ "value": text }],
        "returnByValue": true, "userGesture": true,
    });
    match session.call_within::<Called>(LIMIT, "Runtime.callFunctionOn", params).await {
        Ok(called) => called.result.value != Value::Bool(false),
        // The frame is gone.
        Err(_) => true,
    }
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    result: CalledResult,
}

#[derive(Default, Deserialize)]
struct CalledResult {
    #[serde(default)]
    value: Value,
}
