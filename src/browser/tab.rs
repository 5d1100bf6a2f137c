//! One tab: what is known of it without asking Chromium.

use super::cdp::{Frame, Session};
use super::chooser::Chooser;
use super::picker::Picker;
use super::snapshot::References;
use crate::driver::{DialogInfo, PageInfo, TabInfo};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

/// The longest title, in characters.
const LONGEST_TITLE: usize = 512;
/// How long a new tab may take to show its first document.
const BEGIN_LIMIT: Duration = Duration::from_secs(15);

/// How far the shown document has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The document.
    pub loader: String,
    /// Whether its load event came.
    pub loaded: bool,
    /// Whether a navigation is under way.
    pub busy: bool,
}

/// The pointer's shape, and whether the focused element takes text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// A CSS keyword.
    pub cursor: String,
    /// Whether text can be typed.
    pub editable: bool,
}

/// What Chromium said about a tab.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Whether its renderer crashed.
    pub crashed: bool,
}

/// A tab.
pub struct Tab {
    /// The target's id.
    pub id: String,
    /// Its session.
    pub session: Session,
    /// The tab that opened it.
    pub opener: Option<String>,
    facts: Mutex<Facts>,
    focus: Mutex<Option<(Session, i64)>>,
    /// The open dialog.
    pub dialog: watch::Sender<Option<DialogInfo>>,
    /// How many dialogs the shown document has opened.
    pub dialogs: AtomicU32,
    /// What asks for files.
    pub chooser: watch::Sender<Option<Chooser>>,
    /// The open picker.
    pub picker: watch::Sender<Option<Picker>>,
    /// How far it has loaded.
    pub load: watch::Sender<Load>,
    /// The newest frame of the screencast.
    pub frame: watch::Sender<Option<Arc<Frame>>>,
    /// The pointer.
    pub pointer: watch::Sender<Pointer>,
    /// The references of the newest snapshot.
    pub references: Mutex<References>,
}

impl Tab {
    /// A tab that was just attached to.
    #[must_use]
    pub fn new(id: String, session: Session, opener: Option<String>, facts: Facts, references: References) -> Self {
        Self {
            id,
            session,
            opener,
            facts: Mutex::new(facts),
            focus: Mutex::new(None),
            dialog: watch::Sender::new(None),
            dialogs: AtomicU32::new(0),
            chooser: watch::Sender::new(None),
            picker: watch::Sender::new(None),
            load: watch::Sender::default(),
            frame: watch::Sender::new(None),
            pointer: watch::Sender::new(Pointer { cursor: "default".to_owned(), editable: false }),
            references: Mutex::new(references),
        }
    }

    /// What Chromium said about it.
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The references of the newest snapshot.
    pub fn references(&self) -> MutexGuard<'_, References> {
        self.references.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its first document is there: Chromium's renderer crashes at times when it is sent on before.
    pub async fn begun(&self) {
        let mut load = self.load.subscribe();
        if timeout(BEGIN_LIMIT, load.wait_for(|load| load.loaded)).await.is_err() {
            tracing::warn!("a new tab shows nothing yet");
        }
    }

    /// Our world in the frame that had the focus last.
    #[must_use]
    pub fn focus(&self) -> Option<(Session, i64)> {
        self.focus.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A frame has the focus now.
    pub fn focused(&self, session: Session, context: i64) {
        *self.focus.lock().unwrap_or_else(PoisonError::into_inner) = Some((session, context));
    }

    /// The document is gone, and what it had opened.
    pub fn nothing_open(&self) {
        self.dialogs.store(0, Ordering::Relaxed);
        self.chooser.send_if_modified(|chooser| chooser.take().is_some());
        self.picker.send_if_modified(|picker| picker.take().is_some());
    }

    /// Its page.
    #[must_use]
    pub fn page(&self) -> PageInfo {
        let facts = self.facts();
        page_info(&facts.url, &facts.title)
    }

    /// How it is listed.
    #[must_use]
    pub fn info(&self, active: bool) -> TabInfo {
        TabInfo { id: self.id.clone(), page: self.page(), active, crashed: self.facts().crashed }
    }
}

/// A page without query, fragment and anything else that could hold what somebody typed.
#[must_use]
pub(super) fn page_info(url: &str, title: &str) -> PageInfo {
    let title = title.chars().take(LONGEST_TITLE).collect();
    let Ok(url) = Url::parse(url) else { return PageInfo { title, ..PageInfo::default() } };
    let origin = url.origin();
    if origin.is_tuple() {
        let path = if url.cannot_be_a_base() { String::new() } else { url.path().to_owned() };
        return PageInfo { origin: origin.ascii_serialization(), path, title };
    }
    PageInfo { origin: url.scheme().to_owned(), path: String::new(), title }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_nothing_typed() {
        for (url, origin, path) in [
            ("https://user:pass@shop.example:8443/pay/now?card=4111#top", "https://shop.example:8443", "/pay/now"),
            ("http://127.0.0.1:80/", "http://127.0.0.1", "/"),
            ("about:blank", "about", ""),
            ("data:text/html,secret", "data", ""),
            ("blob:https://shop.example/1-2", "https://shop.example", ""),
            ("file:///etc/passwd", "file", ""),
            ("", "", ""),
        ] {
            let page = page_info(url, "t");
            assert_eq!((page.origin.as_str(), page.path.as_str()), (origin, path), "{url}");
        }
        assert_eq!(page_info("about:blank", &"é".repeat(600)).title.chars().count(), 512);
    }
}
