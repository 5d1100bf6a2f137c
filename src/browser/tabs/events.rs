//! What Chromium says by itself, taken in in order.

use super::setup::{self, BINDING, begin, frame_setup, page_setup};
use super::wire::{
    Attached, BindingCalled, Changed, ChooserOpened, Detached, DialogOpening, Download, Intercepted, Lifecycle, OfFrame, Report, TargetInfo,
};
use super::{FrameSession, Tabs};
use crate::browser::cdp::{Cdp, Event, Frame, Session, Sink};
use crate::browser::chooser::Chooser;
use crate::browser::drag::{self, Begun};
use crate::browser::notice::Notice;
use crate::browser::picker::Picker;
use crate::browser::snapshot::References;
use crate::browser::tab::{Facts, Load, Pointer, Tab};
use crate::driver::{ChooserInfo, DialogInfo};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the page says in a dialog is cut to this many characters.
const LONGEST_DIALOG: usize = 4000;
/// What our script in the page tells at once is at most this, in bytes.
const LONGEST_REPORT: usize = 256 << 10;
/// Tabs of a session. A page can open more of them than any machine has room for.
const MOST_TABS: usize = 32;

impl Tabs {
    /// A drag began, and the page waits for its end.
    fn dragged(&self, session: Option<&str>, event: &Event<'_>) {
        let Some(tab) = session.and_then(|session| self.tab_around(session)) else { return };
        let begun = event.params::<Intercepted>().and_then(|drag| drag::Data::read(drag.data)).map(|data| Begun { tab: tab.clone(), data });
        if begun.is_none_or(|begun| self.drags.try_send(begun).is_err()) {
            drag::cancel(&tab.session, (0.0, 0.0));
        }
    }

    pub(super) fn learn(&self, info: TargetInfo) {
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
            drop(self.close_target(&session, &info.target_id));
            return self.tell(Notice::tab(MOST_TABS));
        }
        begin(&session, &page_setup());
        let facts = Facts { url: info.url, title: info.title, crashed: false };
        let tab = Arc::new(Tab::new(info.target_id, session, info.opener_id, facts, References::new(self.numbers.clone())));
        self.state().tabs.push(tab.clone());
        // A tab that the active one opened is what a browser shows next.
        let active = self.active_tab();
        if active.is_none_or(|active| tab.opener.as_deref() == Some(active.id.as_str())) {
            self.active.send_replace(Some(tab.clone()));
        }
        self.changed();
    }

    fn detached(&self, cdp: &Cdp, session: &str) {
        let (gone, next, none_left) = {
            let mut state = self.state();
            state.frames.remove(session);
            state.closing.retain(|(closing, _)| closing.id() != session);
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
                        begin(&tab.session, &[setup::focus()]);
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
                if let (Some(tab), Some(session), Some(called)) = (tab, event.session, event.params::<BindingCalled>())
                    && let Some(notice) = reported(&tab, cdp.session(session), &called)
                {
                    self.tell(notice);
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

fn main_frame(tab: &Tab, event: &Event<'_>, change: impl FnOnce(&mut Load)) {
    if event.params::<OfFrame>().is_some_and(|of| of.frame_id == tab.id) {
        tab.load.send_modify(change);
    }
}

/// The page's own world can't reach the binding, but a page can make its elements say what it likes: bounded and checked.
fn reported(tab: &Tab, session: Session, called: &BindingCalled) -> Option<Notice> {
    if called.name != BINDING || called.payload.len() > LONGEST_REPORT {
        return None;
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
            let of = session.id().to_owned();
            tab.picker.send_if_modified(|known| match picker {
                Some(info) => {
                    *known = Some(Picker { info, session, context });
                    true
                }
                // A frame that closes its own does not close another's.
                None => known.take_if(|known| known.session.id() == of && known.context == context).is_some(),
            });
        }
        Ok(Report::Program { scheme }) => return Some(Notice::program(&scheme)),
        Err(_) => {}
    }
    None
}
