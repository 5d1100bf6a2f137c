//! The page tools: their arguments, which the gateway publishes as schemas and the driver reads, and their replies.

use super::control::ControlState;
use super::page::{DialogInfo, PageInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Goes to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Navigate {
    /// The address: http://, https:// or about:blank.
    pub url: String,
}

/// Reads the page as an accessibility tree with element references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {}

/// Clicks an element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Click {
    /// The element's reference from the newest snapshot, such as e12.
    #[serde(rename = "ref")]
    pub reference: String,
    /// left (default), middle or right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub button: Option<String>,
    /// Click twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub double: bool,
}

/// Types text into an element.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Type {
    /// The element's reference from the newest snapshot.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The text. Replaces what is there.
    pub text: String,
    /// Press Enter afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub submit: bool,
}

/// Presses a key, or a chord such as Control+A.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PressKey {
    /// A `KeyboardEvent.key` such as Enter, Tab, ArrowDown or a; modifiers before it with `+`.
    pub key: String,
}

/// Takes a picture of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Screenshot {
    /// The whole page instead of what is in view.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_page: bool,
}

/// Waits until the page shows something. At least one of text, gone and url.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFor {
    /// Until this text is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub text: Option<String>,
    /// Until this text is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub gone: Option<String>,
    /// Until the address contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    /// For at most this many seconds: 1 to 300, 30 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 1, max = 300))]
    pub timeout_seconds: Option<i64>,
}

/// Answers the open dialog.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandleDialog {
    /// OK (true) or Cancel (false).
    pub accept: bool,
    /// The text of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub text: Option<String>,
}

/// What a page tool answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The structured result, a JSON object.
    pub result: Value,
    /// A picture, for `screenshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Picture>,
    /// The page after the action.
    pub page: PageInfo,
    /// A dialog that the action opened; it waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialog: Option<DialogInfo>,
    /// Set when a person holds control or asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlState>,
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// The MIME type.
    pub mime: String,
    /// The bytes in base64.
    pub data: String,
    /// CSS pixels.
    pub width: i32,
    /// CSS pixels.
    pub height: i32,
}

/// Why the driver refused or failed. `code` is stable; agents see it unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverError {
    /// See [`DriverErrorCode`].
    pub code: DriverErrorCode,
    /// What happened and what to do. No page text, nothing typed.
    pub message: String,
    /// For CONTROL_HELD: who and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlState>,
}

/// The driver's stable error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DriverErrorCode {
    /// 400: an argument is wrong; the message names it.
    InvalidArgument,
    /// 401: no token, or a wrong one.
    Unauthenticated,
    /// 404: no such tool or tab.
    NotFound,
    /// 409: a person drives.
    ControlHeld,
    /// 409: look at the page first (`snapshot`, `screenshot`): it may have changed under the agent.
    ObserveFirst,
    /// 409: the reference is not of the newest snapshot.
    StaleReference,
    /// 409: a dialog waits for an answer.
    DialogOpen,
    /// 409: the lease of control is not, or no longer, the caller's.
    LeaseEnded,
    /// 422: the page did not do it: no such address, the element can't be clicked, the wait ran out.
    ActionFailed,
    /// 502: the tab's renderer crashed; navigate to revive it.
    TabCrashed,
    /// 503: Chromium is gone.
    BrowserGone,
    /// 500: anything else.
    Internal,
}
