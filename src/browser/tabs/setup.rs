//! What every page and every frame of another process is given before it runs.

use super::WORLD;
use super::wire::Window;
use crate::api::v1alpha1::Viewport;
use crate::browser::cdp::Session;
use serde_json::{Value, json};

/// What our script in the page calls.
pub(super) const BINDING: &str = "__beckon";
const SHIM: &str = include_str!("shim.js");

/// In this order: the keeper of dialogs first, the page's own scripts last.
pub(super) fn page_setup() -> Vec<(&'static str, Value)> {
    let mut setup = vec![
        ("Page.enable", json!({})),
        ("Inspector.enable", json!({})),
        ("Page.setLifecycleEventsEnabled", json!({ "enabled": true })),
        // Chromium's own drags lose the ones whose button is up before they have begun.
        ("Input.setInterceptDrags", json!({ "enabled": true })),
    ];
    setup.extend(frame_setup());
    setup
}

/// A tab that is not the foremost lives on: agent and person may work in different ones. Only said to a document that is there:
/// the renderer of Chromium 156 crashes when it is said while a tab leaves its first empty one.
pub(super) fn focus() -> (&'static str, Value) {
    ("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }))
}

pub(super) fn frame_setup() -> Vec<(&'static str, Value)> {
    let frames = json!([{ "type": "iframe", "exclude": false }, { "exclude": true }]);
    vec![
        ("Runtime.enable", json!({})),
        ("Page.enable", json!({})),
        ("Page.setInterceptFileChooserDialog", json!({ "enabled": true })),
        ("Runtime.addBinding", json!({ "name": BINDING, "executionContextName": WORLD })),
        // A passkey that is asked for all the same asks nobody, instead of behind a window that takes all input away.
        ("WebAuthn.enable", json!({ "enableUI": false })),
        ("Page.addScriptToEvaluateOnNewDocument", json!({ "worldName": WORLD, "source": SHIM, "runImmediately": true })),
        ("Target.setAutoAttach", json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": frames })),
        ("Runtime.runIfWaitingForDebugger", json!({})),
    ]
}

pub(super) fn begin(session: &Session, commands: &[(&'static str, Value)]) {
    for (method, params) in commands {
        if let Err(error) = session.fire(method, params) {
            tracing::warn!(%error, method, "a new tab could not be set up");
        }
    }
}

/// The page's real size, for good: unlike an emulation it survives us and is every viewer's.
pub(super) async fn resize(session: &Session, target: &str, size: &Viewport) {
    let done = async {
        let window: Window = session.cdp().call("Browser.getWindowForTarget", json!({ "targetId": target })).await?;
        let params = json!({ "windowId": window.window_id, "width": size.width, "height": size.height });
        session.cdp().call::<Value>("Browser.setContentsSize", params).await
    };
    if let Err(error) = done.await {
        tracing::warn!(%error, "a tab could not be resized");
    }
}
