//! Every tab, kept up to date by what Chromium says, in order and without asking.
//!
//! Each page is attached to before it runs, with Page enabled first, so that its first dialog is already ours to keep. Nothing
//! here ever brings a tab to the front.

mod events;
mod setup;
mod wire;

use super::cdp::{Cdp, CdpError, Session};
use super::drag::Begun;
use super::notice::Notice;
use super::tab::Tab;
use crate::api::v1alpha1::Viewport;
use crate::driver::TabInfo;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

/// The isolated world of our script in every page.
pub(super) const WORLD: &str = "beckon";
/// Notices that a slow viewer may be behind.
const NOTICES_QUEUE: usize = 16;
/// Drags that wait for the hands. A page has one at a time.
const DRAGS_QUEUE: usize = 8;
/// How long the browser may take to tell a title.
const REFRESH_LIMIT: Duration = Duration::from_secs(1);
/// When a tab that is still there is closed again. Longer than the half second that Chromium gives the page to say goodbye.
const CLOSE_AGAIN: Duration = Duration::from_secs(1);

/// A frame of another process inside a page.
#[derive(Clone)]
pub struct FrameSession {
    /// Its session.
    pub session: Session,
    /// The frame's id, which is also its target's.
    pub frame: String,
    /// The session that it is embedded in.
    pub parent: String,
}

#[derive(Default)]
struct State {
    tabs: Vec<Arc<Tab>>,
    frames: HashMap<String, FrameSession>,
    /// Tabs that shall go, with the ids of their targets.
    closing: Vec<(Session, String)>,
    size: Viewport,
}

/// Every tab.
pub struct Tabs {
    state: Mutex<State>,
    numbers: Arc<AtomicU32>,
    /// The last name given to a dialog or a chooser.
    ids: AtomicU32,
    /// The tab that tools act on and viewers see.
    pub active: watch::Sender<Option<Arc<Tab>>>,
    /// Grows with every change of what [`Tabs::list`] says.
    pub version: watch::Sender<u64>,
    /// What happened beside the page.
    pub notices: broadcast::Sender<Notice>,
    /// Drags that began, for the hands.
    drags: mpsc::Sender<Begun>,
    begun: Mutex<Option<mpsc::Receiver<Begun>>>,
}

impl Tabs {
    /// No tab yet; each gets this size.
    #[must_use]
    pub fn new(size: Viewport) -> Self {
        let (drags, begun) = mpsc::channel(DRAGS_QUEUE);
        Self {
            notices: broadcast::Sender::new(NOTICES_QUEUE),
            drags,
            begun: Mutex::new(Some(begun)),
            state: Mutex::new(State { size, ..State::default() }),
            numbers: Arc::default(),
            ids: AtomicU32::new(1),
            active: watch::Sender::new(None),
            version: watch::Sender::new(0),
        }
    }

    /// Asks Chromium to tell about every page, each attached to before it runs.
    ///
    /// # Errors
    /// When Chromium refuses.
    pub async fn watch(cdp: &Cdp) -> Result<(), CdpError> {
        let only_pages = json!([{ "type": "page", "exclude": false }, { "exclude": true }]);
        cdp.call::<Value>("Browser.setDownloadBehavior", json!({ "behavior": "deny", "eventsEnabled": true })).await?;
        cdp.call::<Value>("Target.setDiscoverTargets", json!({ "discover": true, "filter": only_pages })).await?;
        let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": only_pages });
        cdp.call::<Value>("Target.setAutoAttach", attach).await?;
        Ok(())
    }

    /// The active tab.
    #[must_use]
    pub fn active_tab(&self) -> Option<Arc<Tab>> {
        self.active.borrow().clone()
    }

    /// Every tab, as they are listed.
    #[must_use]
    pub fn list(&self) -> Vec<TabInfo> {
        let active = self.active_tab();
        self.state().tabs.iter().map(|tab| tab.info(active.as_ref().is_some_and(|active| active.id == tab.id))).collect()
    }

    /// Whether a tab is still there.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.state().tabs.iter().any(|tab| tab.id == id)
    }

    /// Makes another tab the active one; `false` when there is no such tab.
    pub fn activate(&self, id: &str) -> bool {
        let found = self.state().tabs.iter().find(|tab| tab.id == id).cloned();
        let Some(tab) = found else { return false };
        self.active.send_replace(Some(tab));
        self.changed();
        true
    }

    /// Closes a tab. Chromium gives the order to the tab's document, and one that is replaced in that moment takes it along: it is
    /// given again until the tab is gone.
    ///
    /// # Errors
    /// When Chromium is gone.
    pub fn close(&self, tab: &Tab) -> Result<(), CdpError> {
        self.close_target(&tab.session, &tab.id)
    }

    fn close_target(&self, session: &Session, target: &str) -> Result<(), CdpError> {
        self.state().closing.push((session.clone(), target.to_owned()));
        self.changed();
        order_to_close(session, target)
    }

    /// The frames of other processes in a page, outer ones first.
    #[must_use]
    pub fn frames_of(&self, tab: &Tab) -> Vec<FrameSession> {
        let state = self.state();
        let mut inside = vec![tab.session.id().to_owned()];
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(parent) = inside.get(at).cloned() {
            for frame in state.frames.values().filter(|frame| frame.parent == parent) {
                inside.push(frame.session.id().to_owned());
                found.push(frame.clone());
            }
            at += 1;
        }
        found
    }

    /// No reference of any tab is good until its next snapshot.
    pub fn forget_references(&self) {
        for tab in &self.state().tabs {
            tab.references().forget();
        }
    }

    /// The size that every tab gets.
    #[must_use]
    pub fn size(&self) -> Viewport {
        self.state().size
    }

    /// Remembers a new size for tabs to come and resizes the ones that are there.
    pub async fn resize(&self, size: Viewport) {
        let tabs = {
            let mut state = self.state();
            state.size = size;
            state.tabs.clone()
        };
        for tab in tabs {
            setup::resize(&tab.session, &tab.id, &size).await;
        }
    }

    /// Gives each new tab its size and closes what shall go, until `over`.
    pub async fn keep(self: Arc<Self>, over: CancellationToken) {
        let mut version = self.version.subscribe();
        let mut again = interval(CLOSE_AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = HashSet::new();
        let mut under_way = FuturesUnordered::new();
        loop {
            let (tabs, size, closing) = {
                let state = self.state();
                (state.tabs.clone(), state.size, state.closing.clone())
            };
            let before = std::mem::take(&mut known);
            known.extend(tabs.iter().map(|tab| tab.id.clone()));
            for tab in tabs.into_iter().filter(|tab| !before.contains(&tab.id)) {
                under_way.push(async move { setup::resize(&tab.session, &tab.id, &size).await });
            }
            tokio::select! {
                () = over.cancelled() => return,
                // The sender is ours.
                _ = version.changed() => {}
                Some(()) = under_way.next() => {}
                _ = again.tick(), if !closing.is_empty() => {
                    for (session, target) in &closing {
                        drop(order_to_close(session, target));
                    }
                }
            }
        }
    }

    /// Asks the browser for the address and title of a tab: it does not tell of every change by itself.
    pub async fn refresh(&self, tab: &Tab) {
        let asked = tab.session.cdp().call::<wire::Changed>("Target.getTargetInfo", json!({ "targetId": tab.id }));
        if let Ok(Ok(wire::Changed { target_info: info })) = timeout(REFRESH_LIMIT, asked).await {
            self.learn(info);
        }
    }

    /// The drags that begin; for the one who has the hands.
    #[must_use]
    pub fn take_drags(&self) -> Option<mpsc::Receiver<Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody may be there to hear it.
    fn tell(&self, notice: Notice) {
        drop(self.notices.send(notice));
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    fn tab_of(&self, session: &str) -> Option<Arc<Tab>> {
        self.state().tabs.iter().find(|tab| tab.session.id() == session).cloned()
    }

    /// The tab of a page's session or of a frame's inside it.
    fn tab_around(&self, session: &str) -> Option<Arc<Tab>> {
        let mut session = session.to_owned();
        loop {
            if let Some(tab) = self.tab_of(&session) {
                return Some(tab);
            }
            let parent = self.state().frames.get(&session)?.parent.clone();
            session = parent;
        }
    }
}

fn order_to_close(session: &Session, target: &str) -> Result<(), CdpError> {
    session.cdp().fire("Target.closeTarget", &json!({ "targetId": target }))
}
