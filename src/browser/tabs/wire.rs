//! What Chromium says about tabs.

use crate::driver::PickerInfo;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attached {
    pub session_id: String,
    pub target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Changed {
    pub target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetInfo {
    pub target_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub url: String,
    pub opener_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detached {
    pub session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DialogOpening {
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    #[serde(default)]
    pub default_prompt: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfFrame {
    pub frame_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lifecycle {
    pub frame_id: String,
    pub loader_id: String,
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Download {
    pub suggested_filename: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChooserOpened {
    pub mode: String,
    pub backend_node_id: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Intercepted {
    pub data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BindingCalled {
    pub name: String,
    pub payload: String,
    pub execution_context_id: i64,
}

/// What our script in the page tells.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Report {
    Pointer { cursor: String, editable: bool },
    Focus,
    Picker { picker: Option<PickerInfo> },
    Program { scheme: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Window {
    pub window_id: i64,
}
