//! What a person sees and does through a driver's live view.

use crate::harness::SOON;
use crate::site::Site;
use beckon::driver::{FrameHeader, LiveEvent};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A live view.
pub struct Viewer {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    seen: Vec<LiveEvent>,
}

/// What a view gets.
#[derive(Debug)]
pub enum Got {
    Frame { sequence: u32, width: u16, height: u16, jpeg: Bytes },
    Event(LiveEvent),
}

impl Viewer {
    pub fn of(socket: WebSocketStream<TlsStream<TcpStream>>) -> Self {
        Self { socket, seen: Vec::new() }
    }

    /// The next thing that comes; `None` when nothing comes in time.
    pub async fn next(&mut self, within: Duration) -> Option<Got> {
        let deadline = tokio::time::Instant::now() + within;
        loop {
            let message =
                tokio::time::timeout_at(deadline, self.socket.next()).await.ok()?.expect("the driver closed the live view").unwrap();
            match message {
                Message::Text(text) => {
                    let event: LiveEvent = serde_json::from_str(&text).unwrap();
                    self.seen.push(event.clone());
                    return Some(Got::Event(event));
                }
                Message::Binary(bytes) => {
                    assert_eq!(&bytes[..4], b"BF01");
                    let number = |range: std::ops::Range<usize>| bytes[range].iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
                    return Some(Got::Frame {
                        sequence: u32::try_from(number(4..8)).unwrap(),
                        width: u16::try_from(number(8..10)).unwrap(),
                        height: u16::try_from(number(10..12)).unwrap(),
                        jpeg: bytes.slice(FrameHeader::LEN..),
                    });
                }
                _ => {}
            }
        }
    }

    /// Waits for an event, the ones that came before included.
    pub async fn event(&mut self, what: &str, wanted: impl Fn(&LiveEvent) -> bool) -> LiveEvent {
        if let Some(at) = self.seen.iter().position(&wanted) {
            return self.seen.remove(at);
        }
        let deadline = Instant::now() + SOON;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await {
                Some(Got::Event(event)) if wanted(&event) => {
                    self.seen.pop();
                    return event;
                }
                Some(_) => {}
                None => panic!("{what} did not come; what came: {:?}", self.seen),
            }
        }
    }

    /// The next frame: size and picture.
    pub async fn frame(&mut self, within: Duration) -> Option<(u16, u16, Bytes)> {
        let deadline = Instant::now() + within;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await? {
                Got::Frame { width, height, jpeg, .. } => return Some((width, height, jpeg)),
                Got::Event(_) => {}
            }
        }
    }

    /// The number of the next frame, and the bytes of its picture.
    pub async fn numbered(&mut self, within: Duration) -> Option<(u32, usize)> {
        let deadline = Instant::now() + within;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now())).await? {
                Got::Frame { sequence, jpeg, .. } => return Some((sequence, jpeg.len())),
                Got::Event(_) => {}
            }
        }
    }

    /// How many frames come in this time.
    pub async fn frames_in(&mut self, time: Duration) -> usize {
        let deadline = Instant::now() + time;
        let mut count = 0;
        while self.frame(deadline.saturating_duration_since(Instant::now())).await.is_some() {
            count += 1;
        }
        count
    }

    pub async fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Sends input.
    pub async fn input(&mut self, lease: &str, events: Value) {
        self.say(&json!({ "type": "input", "lease": lease, "events": events }).to_string()).await;
    }

    /// Moves the mouse until a page in a frame hears it: Chromium knows where a frame of another process is once it is drawn.
    pub async fn hover(&mut self, site: &Site, lease: &str, (x, y): (i32, i32)) {
        let deadline = Instant::now() + SOON;
        for step in (0..2).cycle() {
            self.input(lease, json!([{ "kind": "move", "x": x + step, "y": y, "buttons": 0, "modifiers": 0 }])).await;
            if site.tells("hears", Duration::from_millis(50)).await {
                return;
            }
            assert!(Instant::now() < deadline, "the frame never hears the mouse");
        }
    }

    pub async fn refusal(&mut self) -> String {
        match self.event("a refusal", |event| matches!(event, LiveEvent::Refused { .. })).await {
            LiveEvent::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        }
    }

    /// How many such events came so far.
    pub fn seen(&self, wanted: impl Fn(&LiveEvent) -> bool) -> usize {
        self.seen.iter().filter(|event| wanted(event)).count()
    }

    /// Whether a refusal came so far.
    pub fn was_refused(&self) -> bool {
        self.seen.iter().any(|event| matches!(event, LiveEvent::Refused { .. }))
    }
}

/// A click of a person.
pub fn press(x: f64, y: f64) -> Value {
    json!([
        { "kind": "move", "x": x, "y": y, "buttons": 0, "modifiers": 0 },
        { "kind": "down", "x": x, "y": y, "button": "left", "buttons": 1, "count": 1, "modifiers": 0 },
        { "kind": "up", "x": x, "y": y, "button": "left", "buttons": 0, "count": 1, "modifiers": 0 },
    ])
}

pub fn key(key: &str, code: &str, modifiers: u8, alt_graph: bool) -> Value {
    json!([
        { "kind": "key_down", "key": key, "code": code, "location": 0, "modifiers": modifiers, "repeat": false, "alt_graph": alt_graph },
        { "kind": "key_up", "key": key, "code": code, "location": 0, "modifiers": modifiers },
    ])
}
