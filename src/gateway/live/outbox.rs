//! What a viewer is about to be told. The newest frame wins and every kind of event is held once, so that a viewer that does
//! not read costs one frame, not memory, and gets the newest when it reads again.

use crate::driver::LiveEvent;
use axum::extract::ws::Utf8Bytes;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Refusals and notices are told one by one, up to this many.
const WORDS: usize = 8;

/// One viewer's outbox.
#[derive(Default)]
pub(super) struct Outbox {
    slots: Mutex<Slots>,
    filled: Notify,
}

#[derive(Default)]
struct Slots {
    control: Option<LiveEvent>,
    page: Option<LiveEvent>,
    dialog: Option<LiveEvent>,
    chooser: Option<LiveEvent>,
    picker: Option<LiveEvent>,
    pointer: Option<LiveEvent>,
    no_picture: Option<LiveEvent>,
    words: VecDeque<LiveEvent>,
    frame: Option<Bytes>,
}

/// What is sent next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// An event, as JSON.
    Event(Utf8Bytes),
    /// A frame, as it came.
    Frame(Bytes),
}

impl Outbox {
    /// A newer frame. Frames that were not sent are forgotten.
    pub(super) fn frame(&self, frame: Bytes) {
        self.put(|slots| {
            slots.frame = Some(frame);
            // A picture is the answer to "no picture".
            slots.no_picture = None;
        });
    }

    /// An event. An older one of its kind that was not sent is forgotten.
    pub(super) fn event(&self, event: LiveEvent) {
        self.put(|slots| match event {
            LiveEvent::Control { .. } => slots.control = Some(event),
            LiveEvent::Page { .. } => slots.page = Some(event),
            LiveEvent::Dialog { .. } => slots.dialog = Some(event),
            LiveEvent::Chooser { .. } => slots.chooser = Some(event),
            LiveEvent::Picker { .. } => slots.picker = Some(event),
            LiveEvent::Pointer { .. } => slots.pointer = Some(event),
            LiveEvent::NoPicture { .. } => {
                slots.no_picture = Some(event);
                slots.frame = None;
            }
            LiveEvent::Refused { .. } | LiveEvent::Notice { .. } => {
                if slots.words.len() == WORDS {
                    slots.words.pop_front();
                }
                slots.words.push_back(event);
            }
        });
    }

    fn put(&self, change: impl FnOnce(&mut Slots)) {
        change(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        self.filled.notify_one();
    }

    /// The next thing to send; waits until there is one. Events go before the frame.
    pub(super) async fn next(&self) -> Outgoing {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Outgoing> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let event = (slots.control.take())
            .or_else(|| slots.page.take())
            .or_else(|| slots.dialog.take())
            .or_else(|| slots.chooser.take())
            .or_else(|| slots.picker.take())
            .or_else(|| slots.words.pop_front())
            .or_else(|| slots.no_picture.take())
            .or_else(|| slots.pointer.take());
        match event {
            Some(event) => serde_json::to_string(&event).ok().map(|text| Outgoing::Event(text.into())),
            None => slots.frame.take().map(Outgoing::Frame),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
mod tests {
    use super::*;
    use crate::driver::ControlState;

    fn control(epoch: i64) -> LiveEvent {
        LiveEvent::Control { control: ControlState { epoch, ..ControlState::default() } }
    }

    fn drain(outbox: &Outbox) -> Vec<Outgoing> {
        std::iter::from_fn(|| outbox.take()).collect()
    }

    #[test]
    fn only_the_newest_of_each_kind_is_kept() {
        let outbox = Outbox::default();
        for n in 0..10_000_i64 {
            outbox.frame(Bytes::from(n.to_be_bytes().to_vec()));
            outbox.event(control(n));
            outbox.event(LiveEvent::Refused { code: n.to_string(), message: String::new() });
        }
        let got = drain(&outbox);
        assert_eq!(got.len(), 1 + WORDS + 1);
        assert!(matches!(got.first(), Some(Outgoing::Event(text)) if text.contains("9999")));
        assert_eq!(got.last(), Some(&Outgoing::Frame(Bytes::from(9_999_i64.to_be_bytes().to_vec()))));
    }

    #[test]
    fn a_picture_and_no_picture_replace_each_other() {
        let outbox = Outbox::default();
        outbox.event(LiveEvent::NoPicture { why: "starting".into() });
        outbox.frame(Bytes::from_static(b"f"));
        assert_eq!(drain(&outbox), [Outgoing::Frame(Bytes::from_static(b"f"))]);
        outbox.frame(Bytes::from_static(b"f"));
        outbox.event(LiveEvent::NoPicture { why: "crashed".into() });
        assert!(matches!(drain(&outbox).as_slice(), [Outgoing::Event(text)] if text.contains("crashed")));
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let outbox = std::sync::Arc::new(Outbox::default());
        let reader = tokio::spawn({
            let outbox = std::sync::Arc::clone(&outbox);
            async move { outbox.next().await }
        });
        tokio::task::yield_now().await;
        outbox.frame(Bytes::from_static(b"f"));
        assert_eq!(reader.await.unwrap(), Outgoing::Frame(Bytes::from_static(b"f")));
    }
}
