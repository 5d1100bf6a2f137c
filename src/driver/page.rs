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
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    /// What the page says.
    pub message: String,
    /// What a prompt suggests.
    pub default_value: String,
}

/// Resizes the agent's browser. Clamped to the bounds of the API's viewport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeViewport {
    /// CSS pixels.
    pub width: i32,
    /// CSS pixels.
    pub height: i32,
}
