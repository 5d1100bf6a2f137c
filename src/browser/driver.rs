//! The driver: everything of one session's browser in one place.

use super::cdp::{Cdp, CdpError};
use super::chooser::Uploads;
use super::control::Control;
use super::hands::Ask;
use super::live::Live;
use super::sandbox::Sandbox;
use super::tabs::Tabs;
use crate::api::v1alpha1::Viewport;
use crate::driver::{DriverState, ResizeViewport};
use crate::runtime::tasks::Tasks;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

/// How long Chromium may take to say that it lives.
pub(super) const ALIVE_LIMIT: Duration = Duration::from_secs(2);

/// Actions of the agent that wait for the one in progress.
pub(super) const MOST_WAITING: usize = 32;

/// The driver.
pub struct Driver {
    /// The connection.
    pub cdp: Cdp,
    /// Every tab.
    pub tabs: Arc<Tabs>,
    /// The arbiter.
    pub control: Arc<Control>,
    /// The live view.
    pub live: Arc<Live>,
    /// The way for a person's input.
    pub hands: mpsc::Sender<Ask>,
    /// The agent's actions take turns.
    pub turn: Arc<Mutex<()>>,
    /// How many more of them may wait for theirs.
    pub waiting: Semaphore,
    /// The agent's actions and the viewers that are under way.
    pub tasks: Tasks,
    /// What isolates the browser.
    pub sandbox: Sandbox,
    /// Chromium's product string.
    pub product: String,
    /// Where files of persons go.
    pub uploads: Uploads,
}

/// What Chromium says of itself.
#[derive(Deserialize)]
pub(super) struct Version {
    /// Such as `HeadlessChrome/156.0.0.0`.
    pub product: String,
}

impl Driver {
    /// Whether Chromium answers in time.
    pub async fn alive(&self) -> bool {
        timeout(ALIVE_LIMIT, self.cdp.call::<Version>("Browser.getVersion", json!({}))).await.is_ok_and(|answer| answer.is_ok())
    }

    /// What the driver sees.
    pub async fn state(&self) -> DriverState {
        let tab = self.tabs.active_tab();
        if let Some(tab) = &tab {
            self.tabs.refresh(tab).await;
        }
        DriverState {
            product: self.product.clone(),
            sandbox: self.sandbox.tier.to_owned(),
            sandbox_message: self.sandbox.message.clone(),
            viewport: self.tabs.size(),
            page: tab.as_ref().map(|tab| tab.page()).unwrap_or_default(),
            tabs: self.tabs.list(),
            control: self.control.now(),
            dialog: tab.and_then(|tab| tab.dialog.borrow().clone()),
        }
    }

    /// Changes the page's real size, within the bounds of the API.
    ///
    /// # Errors
    /// When Chromium is gone.
    pub async fn resize(&self, wanted: ResizeViewport) -> Result<Viewport, CdpError> {
        let size = Viewport { width: wanted.width.clamp(320, 2560), height: wanted.height.clamp(240, 1600) };
        self.tabs.resize(size).await;
        // Something has to show: else the cast is looked after.
        self.live.acted();
        Ok(self.tabs.size())
    }
}
