//! The live view: one screencast of the shown tab for all viewers, none when nobody looks.

mod cast;
mod governor;
mod pace;
mod viewer;

use super::cdp::Frame;
use crate::driver::FrameHeader;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

pub(super) use cast::run as cast;
pub(super) use viewer::view;

/// A frame as viewers get it: the head and the JPEG, one copy for all.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its number.
    pub sequence: u32,
    /// The message.
    pub message: Bytes,
}

/// The live view of this session.
pub struct Live {
    /// The newest frame of the shown tab. A viewer that is slow misses the ones between.
    pub shown: watch::Sender<Option<Shown>>,
    /// Why there is no picture.
    pub no_picture: watch::Sender<Option<&'static str>>,
    /// How many views somebody looks at.
    lookers: watch::Sender<usize>,
    /// When somebody last acted on the page.
    acted: watch::Sender<Option<Instant>>,
    /// The newest frame that reached a viewer's socket.
    taken: watch::Sender<u32>,
    sequence: AtomicU32,
}

impl Live {
    /// Nobody looks.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            shown: watch::Sender::new(None),
            no_picture: watch::Sender::new(Some("starting")),
            lookers: watch::Sender::new(0),
            acted: watch::Sender::new(None),
            taken: watch::Sender::new(0),
            sequence: AtomicU32::new(0),
        })
    }

    /// Somebody acts on the page: it is shown as fast as it comes.
    pub fn acted(&self) {
        self.acted.send_replace(Some(Instant::now()));
    }

    /// Shows a frame.
    fn show(&self, frame: &Frame) -> u32 {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let header = FrameHeader { sequence, width: frame.width, height: frame.height, captured_millis: frame.captured_millis };
        let mut message = BytesMut::with_capacity(FrameHeader::LEN + frame.jpeg.len());
        message.extend_from_slice(&header.encode());
        message.extend_from_slice(&frame.jpeg);
        self.shown.send_replace(Some(Shown { sequence, message: message.freeze() }));
        self.say(None);
        sequence
    }

    fn say(&self, why: Option<&'static str>) {
        self.no_picture.send_if_modified(|known| std::mem::replace(known, why) != why);
    }

    fn took(&self, sequence: u32) {
        self.taken.send_if_modified(|taken| {
            let newer = sequence > *taken;
            if newer {
                *taken = sequence;
            }
            newer
        });
    }
}

/// Somebody looks, until this is dropped.
struct Looker(Arc<Live>);

impl Looker {
    fn new(live: &Arc<Live>) -> Self {
        live.lookers.send_modify(|count| *count += 1);
        Self(live.clone())
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.0.lookers.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Until then; for ever when there is no such time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
