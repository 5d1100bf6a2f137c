//! `press_key` and `handle_dialog`.

use super::super::error::Refused;
use super::super::keys;
use super::click::empty;
use super::{Context, Done};
use crate::driver::{DriverErrorCode, HandleDialog, PressKey};
use serde_json::{Value, json};

pub(super) async fn run(context: &Context, arguments: PressKey) -> Done {
    let (key, modifiers) = keys::chord(&arguments.key).ok_or_else(|| {
        Refused::argument("key: must be a key such as Enter, Tab, ArrowDown or a, with Control+, Alt+, Shift+ or Meta+ before it")
    })?;
    keys::press(context, &key, modifiers).await?;
    context.settle().await?;
    Ok(empty())
}

pub(super) async fn dialog(context: &Context, arguments: HandleDialog) -> Done {
    if context.tab.dialog.borrow().is_none() {
        return Err(Refused::new(DriverErrorCode::NotFound, "No dialog is open.").into());
    }
    let mut params = json!({ "accept": arguments.accept });
    if let (Some(text), Some(params)) = (arguments.text, params.as_object_mut()) {
        params.insert("promptText".to_owned(), text.into());
    }
    context.tab.session.call::<Value>("Page.handleJavaScriptDialog", params).await?;
    // Chromium tells that it is closed before it answers.
    context.settle().await?;
    Ok(empty())
}
