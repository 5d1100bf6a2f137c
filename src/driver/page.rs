//! What the driver sees.

use super::control::ControlState;
use crate::api::v1alpha1::Viewport;
use serde::{Deserialize, Serialize};

/// The driver and its browser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriverState {
    /// Chromium's product string.
    pub product: String,
    /// `Native`, `Runtime` or `Compat`.
    pub sandbox: String,
    /// Why the sandbox is not Native, for a person.
    pub sandbox_message: Option<String>,
    /// The shown tab's real size.
    pub viewport: Viewport,
    /// The shown tab's page.
    pub page: PageInfo,
    /// Every tab.
    pub tabs: Vec<TabInfo>,
    /// Who has the hands.
    pub control: ControlState,
    /// The dialog that is open in the shown tab.
    pub dialog: Option<DialogInfo>,
}

/// A page: no query, no fragment, nothing typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    /// Scheme, host and port; the scheme alone for pages without an origin.
    pub origin: String,
    /// The path.
    pub path: String,
    /// The title, cut to 512 characters.
    pub title: String,
}

/// A tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabInfo {
    /// The target's id.
    pub id: String,
    /// Its page.
    pub page: PageInfo,
    /// Whether it is the tab that tools act on and viewers see.
    pub active: bool,
    /// Whether its renderer crashed.
    pub crashed: bool,
}

/// An open JavaScript dialog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogInfo {
    /// Names it in an answer: the next dialog has another one.
    #[serde(default)]
    pub id: u32,
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    /// What the page says.
    pub message: String,
    /// What a prompt suggests.
    pub default_value: String,
}

/// A picker of the browser itself that is open over the page: it is in no picture, and is answered in another way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickerInfo {
    /// Names it in an answer.
    pub id: u32,
    /// `select`, or the type of the input: `date`, `time`, `datetime-local`, `month`, `week` or `color`.
    pub kind: String,
    /// What the page calls it.
    pub label: String,
    /// The value: an input's, or the number of the chosen option from 0 on.
    pub value: String,
    /// The bounds and the step as the page gives them; empty: none.
    #[serde(default)]
    pub min: String,
    /// See `min`.
    #[serde(default)]
    pub max: String,
    /// See `min`.
    #[serde(default)]
    pub step: String,
    /// What a select offers; at most 500.
    #[serde(default)]
    pub options: Vec<PickerOption>,
}

/// What a select offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickerOption {
    /// Its text.
    pub label: String,
    /// The group that it is in; empty: none.
    #[serde(default)]
    pub group: String,
    /// Whether it can't be chosen.
    #[serde(default)]
    pub disabled: bool,
}

/// The page asks for files. Only the viewers know any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChooserInfo {
    /// Names it in an answer.
    pub id: u32,
    /// Whether it takes more than one.
    pub multiple: bool,
}

/// Resizes the agent's browser. Clamped to the bounds of the API's viewport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeViewport {
    /// CSS pixels.
    pub width: i32,
    /// CSS pixels.
    pub height: i32,
}
