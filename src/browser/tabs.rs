//! Every tab, kept up to date by what Chromium says, in order and without asking.
//!
//! Each page is attached to before it runs, with Page enabled first, so that its first dialog is already ours to keep. Nothing
//! here ever closes a tab or brings one to the front.

use super::cdp::{Cdp, Event, Frame, Session, Sink};
use super::chooser::Chooser;
use super::drag::{self, Begun};
use super::notice::Notice;
use super::picker::Picker;
use super::snapshot::References;
use super::tab::{Facts, Pointer, Tab};
use crate::api::v1alpha1::Viewport;
use crate::driver::{ChooserInfo, DialogInfo, PickerInfo, TabInfo};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::timeout;

/// The isolated world of our script in every page.
pub const WORLD: &str = "beckon";
const BINDING: &str = "__beckon";
const SHIM: &str = include_str!("shim.js");
/// What the page says in a dialog is cut to this many characters.
const LONGEST_DIALOG: usize = 4000;
/// What our script in the page tells at once is at most this, in bytes.
const LONGEST_REPORT: usize = 256 << 10;
/// Tabs of a session. A page can open more of them than any machine has room for.
const MOST_TABS: usize = 32;
/// Notices that a slow viewer may be behind.
const NOTICES_QUEUE: usize = 16;
/// Drags that wait for the hands. A page has one at a time.
const DRAGS_QUEUE: usize = 8;
/// How long the browser may take to tell a title.
const REFRESH_LIMIT: Duration = Duration::from_secs(1);

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
    pub async fn watch(cdp: &Cdp) -> Result<(), super::cdp::CdpError> {
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
            resize(&tab.session, &tab.id, &size).await;
        }
    }

    /// Asks the browser for the address and title of a tab: it does not tell of every change by itself.
    pub async fn refresh(&self, tab: &Tab) {
        let asked = tab.session.cdp().call::<Changed>("Target.getTargetInfo", json!({ "targetId": tab.id }));
        if let Ok(Ok(Changed { target_info: info })) = timeout(REFRESH_LIMIT, asked).await {
            self.learn(info);
        }
    }

    /// The drags that begin; for the one who has the hands.
    #[must_use]
    pub fn take_drags(&self) -> Option<mpsc::Receiver<Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A drag began, and the page waits for its end.
    fn dragged(&self, session: Option<&str>, event: &Event<'_>) {
        let Some(tab) = session.and_then(|session| self.tab_around(session)) else { return };
        let begun = event.params::<Intercepted>().and_then(|drag| drag::Data::read(drag.data)).map(|data| Begun { tab: tab.clone(), data });
        if begun.is_none_or(|begun| self.drags.try_send(begun).is_err()) {
            drag::cancel(&tab.session, (0.0, 0.0));
        }
    }

    fn learn(&self, info: TargetInfo) {
        let tab = self.state().tabs.iter().find(|tab| tab.id == info.target_id).cloned();
        let Some(tab) = tab else { return };
        let changed = {
            let mut facts = tab.facts();
            let changed = facts.url != info.url || facts.title != info.title;
            facts.url = info.url;
            facts.title = info.title;
            changed
        };
        if changed {
            self.changed();
        }
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

    fn attached(&self, cdp: &Cdp, parent: Option<&str>, attached: Attached) {
        let session = cdp.session(&attached.session_id);
        let info = attached.target_info;
        match (info.kind.as_str(), parent) {
            ("page", _) => self.attached_page(session, info),
            ("iframe", Some(parent)) => {
                let frame = FrameSession { session: session.clone(), frame: info.target_id, parent: parent.to_owned() };
                self.state().frames.insert(attached.session_id, frame);
                begin(&session, &frame_setup());
            }
            _ => begin(&session, &[("Runtime.runIfWaitingForDebugger", json!({}))]),
        }
    }

    fn attached_page(&self, session: Session, info: TargetInfo) {
        if self.state().tabs.len() >= MOST_TABS {
            // One that still waits would hold up the page that opened it.
            begin(&session, &[("Runtime.runIfWaitingForDebugger", json!({}))]);
            drop(session.cdp().fire("Target.closeTarget", &json!({ "targetId": info.target_id })));
            return self.tell(Notice::tab(MOST_TABS));
        }
        begin(&session, &page_setup());
        let facts = Facts { url: info.url, title: info.title, crashed: false };
        let tab = Arc::new(Tab::new(info.target_id, session, info.opener_id, facts, References::new(self.numbers.clone())));
        let size = {
            let mut state = self.state();
            state.tabs.push(tab.clone());
            state.size
        };
        // A tab that the active one opened is what a browser shows next.
        let active = self.active_tab();
        if active.is_none_or(|active| tab.opener.as_deref() == Some(active.id.as_str())) {
            self.active.send_replace(Some(tab.clone()));
        }
        self.changed();
        tokio::spawn(async move { resize(&tab.session, &tab.id, &size).await });
    }

    fn detached(&self, cdp: &Cdp, session: &str) {
        let (gone, next, none_left) = {
            let mut state = self.state();
            state.frames.remove(session);
            let Some(at) = state.tabs.iter().position(|tab| tab.session.id() == session) else { return };
            let gone = state.tabs.remove(at);
            let opener = state.tabs.iter().find(|tab| gone.opener.as_deref() == Some(tab.id.as_str()));
            (gone.clone(), opener.or(state.tabs.last()).cloned(), state.tabs.is_empty())
        };
        if self.active_tab().is_some_and(|active| active.id == gone.id) {
            self.active.send_replace(next);
        }
        if none_left {
            // A session always has a tab.
            drop(cdp.fire("Target.createTarget", &json!({ "url": "about:blank" })));
        }
        self.changed();
    }

    /// Takes in what a page says; `true` when the list of tabs now reads otherwise.
    fn page_event(&self, tab: &Tab, event: &Event<'_>) -> bool {
        match event.method {
            "Page.javascriptDialogOpening" => {
                if let Some(opening) = event.params::<DialogOpening>() {
                    let cut = |text: String| text.chars().take(LONGEST_DIALOG).collect();
                    tab.dialogs.fetch_add(1, Ordering::Relaxed);
                    let id = self.ids.fetch_add(1, Ordering::Relaxed);
                    let dialog =
                        DialogInfo { id, kind: opening.kind, message: cut(opening.message), default_value: cut(opening.default_prompt) };
                    tab.dialog.send_replace(Some(dialog));
                }
            }
            "Page.javascriptDialogClosed" => drop(tab.dialog.send_replace(None)),
            "Inspector.targetCrashed" => {
                tab.facts().crashed = true;
                tab.dialog.send_replace(None);
                tab.nothing_open();
                tab.load.send_modify(|load| load.busy = false);
                return true;
            }
            "Inspector.targetReloadedAfterCrash" => {
                tab.facts().crashed = false;
                return true;
            }
            "Page.frameStartedLoading" | "Page.frameStartedNavigating" => main_frame(tab, event, |load| load.busy = true),
            "Page.frameStoppedLoading" => main_frame(tab, event, |load| load.busy = false),
            "Page.lifecycleEvent" => {
                if let Some(life) = event.params::<Lifecycle>().filter(|life| life.frame_id == tab.id) {
                    if life.name == "init" {
                        tab.references().new_document();
                        tab.nothing_open();
                    }
                    let loaded = life.name == "load";
                    tab.load.send_if_modified(|load| match life.name.as_str() {
                        "init" => {
                            load.loader = life.loader_id;
                            load.loaded = false;
                            true
                        }
                        // What happened before we listened is told without its beginning.
                        "load" if load.loader == life.loader_id || load.loader.is_empty() => {
                            load.loader = life.loader_id;
                            load.loaded = true;
                            true
                        }
                        _ => false,
                    });
                    if loaded {
                        begin(&tab.session, &[focus()]);
                    }
                }
            }
            _ => {}
        }
        false
    }
}

impl Sink for Tabs {
    fn frame(&self, cdp: &Cdp, session: &str, frame: Frame) {
        match self.tab_of(session) {
            Some(tab) => drop(tab.frame.send_replace(Some(Arc::new(frame)))),
            // Nobody will acknowledge it.
            None => drop(cdp.session(session).fire("Page.screencastFrameAck", &json!({ "sessionId": frame.cast }))),
        }
    }

    fn event(&self, cdp: &Cdp, event: &Event<'_>) {
        match event.method {
            "Target.attachedToTarget" => {
                if let Some(attached) = event.params::<Attached>() {
                    self.attached(cdp, event.session, attached);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some(detached) = event.params::<Detached>() {
                    self.detached(cdp, &detached.session_id);
                }
            }
            "Target.targetInfoChanged" => {
                if let Some(Changed { target_info: info }) = event.params() {
                    self.learn(info);
                }
            }
            "Browser.downloadWillBegin" => {
                if let Some(download) = event.params::<Download>() {
                    self.tell(Notice::download(&download.suggested_filename));
                }
            }
            "Page.fileChooserOpened" => {
                let tab = event.session.and_then(|session| self.tab_around(session));
                if let (Some(tab), Some(session), Some(opened)) = (tab, event.session, event.params::<ChooserOpened>()) {
                    let info = ChooserInfo { id: self.ids.fetch_add(1, Ordering::Relaxed), multiple: opened.mode == "selectMultiple" };
                    let chooser = opened.backend_node_id.map(|node| Chooser { info, session: cdp.session(session), node });
                    tab.chooser.send_replace(chooser);
                }
            }
            "Input.dragIntercepted" => self.dragged(event.session, event),
            "Runtime.bindingCalled" => {
                let tab = event.session.and_then(|session| self.tab_around(session));
                if let (Some(tab), Some(session), Some(called)) = (tab, event.session, event.params::<BindingCalled>()) {
                    reported(&tab, cdp.session(session), &called);
                }
            }
            _ => {
                // A dialog of a frame inside blocks the whole page.
                let dialog = event.method.starts_with("Page.javascriptDialog");
                let tab = event.session.and_then(|session| if dialog { self.tab_around(session) } else { self.tab_of(session) });
                if tab.is_some_and(|tab| self.page_event(&tab, event)) {
                    self.changed();
                }
            }
        }
    }
}

fn main_frame(tab: &Tab, event: &Event<'_>, change: impl FnOnce(&mut super::tab::Load)) {
    if event.params::<OfFrame>().is_some_and(|of| of.frame_id == tab.id) {
        tab.load.send_modify(change);
    }
}

/// The page's own world can't reach the binding, but a page can make its elements say what it likes: bounded and checked.
fn reported(tab: &Tab, session: Session, called: &BindingCalled) {
    if called.name != BINDING || called.payload.len() > LONGEST_REPORT {
        return;
    }
    match serde_json::from_str::<Report>(&called.payload) {
        Ok(Report::Pointer { cursor, editable }) => {
            let known = cursor.len() <= 16 && cursor.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let cursor = if known { cursor } else { "default".to_owned() };
            tab.pointer.send_if_modified(|pointer| {
                let new = Pointer { cursor, editable };
                let changed = *pointer != new;
                *pointer = new;
                changed
            });
        }
        Ok(Report::Focus) => tab.focused(session, called.execution_context_id),
        Ok(Report::Picker { picker }) => {
            let context = called.execution_context_id;
            let picker = picker.map(|info| Picker { info, session, context });
            tab.picker.send_if_modified(|known| {
                // A frame that closes its own does not close another's.
                let other = picker.is_none() && known.as_ref().is_none_or(|known| known.context != context);
                if !other {
                    *known = picker;
                }
                !other
            });
        }
        Err(_) => {}
    }
}

/// In this order: the keeper of dialogs first, the page's own scripts last.
fn page_setup() -> Vec<(&'static str, Value)> {
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
fn focus() -> (&'static str, Value) {
    ("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }))
}

fn frame_setup() -> Vec<(&'static str, Value)> {
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

fn begin(session: &Session, commands: &[(&'static str, Value)]) {
    for (method, params) in commands {
        if let Err(error) = session.fire(method, params) {
            tracing::warn!(%error, method, "a new tab could not be set up");
        }
    }
}

/// The page's real size, for good: unlike an emulation it survives us and is every viewer's.
async fn resize(session: &Session, target: &str, size: &Viewport) {
    let done = async {
        let window: Window = session.cdp().call("Browser.getWindowForTarget", json!({ "targetId": target })).await?;
        let params = json!({ "windowId": window.window_id, "width": size.width, "height": size.height });
        session.cdp().call::<Value>("Browser.setContentsSize", params).await
    };
    if let Err(error) = done.await {
        tracing::warn!(%error, "a tab could not be resized");
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attached {
    session_id: String,
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfo {
    target_id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    opener_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detached {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DialogOpening {
    #[serde(rename = "type")]
    kind: String,
    message: String,
    #[serde(default)]
    default_prompt: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfFrame {
    frame_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    frame_id: String,
    loader_id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Download {
    suggested_filename: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChooserOpened {
    mode: String,
    backend_node_id: Option<i64>,
}

#[derive(Deserialize)]
struct Intercepted {
    data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingCalled {
    name: String,
    payload: String,
    execution_context_id: i64,
}

/// What our script in the page tells.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Report {
    Pointer { cursor: String, editable: bool },
    Focus,
    Picker { picker: Option<PickerInfo> },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Window {
    window_id: i64,
}
