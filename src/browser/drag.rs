//! HTML's own drag and drop. Chromium hands a drag over when it begins, and from then on the page hears nothing of the mouse
//! until the drag is ended from here: one that nobody ends leaves the page deaf.
//!
//! A drag begins a moment after the move that starts it, on a busy page long after, when the button may be up again.

use super::cdp::Session;
use super::input::Send;
use super::tab::Tab;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is dragged goes to Chromium again with every move. More than this, in bytes, is not dragged at all.
const LARGEST: usize = 1 << 20;

const DRAG: &str = "Input.dispatchDragEvent";

/// What is dragged, as Chromium said it.
#[derive(Clone, Debug)]
pub struct Data(Value);

/// A drag that began.
pub struct Begun {
    /// In this tab.
    pub tab: Arc<Tab>,
    /// What is dragged.
    pub data: Data,
}

impl Data {
    /// Absent when it is too much.
    #[must_use]
    pub fn read(data: Value) -> Option<Self> {
        let items = data.get("items").and_then(Value::as_array);
        let size: usize = items.into_iter().flatten().filter_map(|item| item.get("data")?.as_str()).map(str::len).sum();
        (size <= LARGEST).then_some(Self(data))
    }

    /// It is here now. Said as an entrance each time: a frame of another process that it comes to knows nothing of it yet, and to
    /// the one where it was already an entrance is a move.
    #[must_use]
    pub fn over(&self, at: (f64, f64), modifiers: u8) -> Send {
        self.send("dragEnter", at, modifiers)
    }

    /// It is let go here.
    #[must_use]
    pub fn dropped(&self, at: (f64, f64), modifiers: u8) -> Send {
        self.send("drop", at, modifiers)
    }

    fn send(&self, kind: &str, (x, y): (f64, f64), modifiers: u8) -> Send {
        Send { method: DRAG, params: json!({ "type": kind, "x": x, "y": y, "data": self.0, "modifiers": modifiers }) }
    }
}

/// Ends a drag without a drop.
pub(super) fn cancel(session: &Session, (x, y): (f64, f64)) {
    let data = json!({ "items": [], "dragOperationsMask": 0 });
    if let Err(error) = session.fire(DRAG, &json!({ "type": "dragCancel", "x": x, "y": y, "data": data })) {
        tracing::warn!(%error, "a drag could not be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_not_dragged() {
        let data = |size: usize| json!({ "items": [{ "mimeType": "text/plain", "data": "x".repeat(size) }, { "mimeType": "text/html" }], "dragOperationsMask": 1 });
        assert!(Data::read(data(LARGEST)).is_some());
        assert!(Data::read(data(LARGEST + 1)).is_none());
    }
}
