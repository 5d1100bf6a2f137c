//! The messages on the pipe.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Something that Chromium says by itself.
#[derive(Debug)]
pub struct Event<'a> {
    /// `Domain.name`.
    pub method: &'a str,
    /// The session it is of; absent: the browser's.
    pub session: Option<&'a str>,
    params: Option<&'a RawValue>,
}

impl Event<'_> {
    /// Its parameters, if they have this shape.
    #[must_use]
    pub fn params<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }
}

/// A frame of a screencast.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What to acknowledge it with.
    pub cast: i64,
    /// The page's width in CSS pixels.
    pub width: u16,
    /// The page's height in CSS pixels.
    pub height: u16,
    /// When it was captured, in milliseconds since the epoch.
    pub captured_millis: u64,
    /// The picture.
    pub jpeg: Bytes,
}

#[derive(Deserialize)]
pub(super) struct Incoming<'a> {
    pub id: Option<u64>,
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    pub session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    pub error: Option<RemoteError>,
}

#[derive(Deserialize)]
pub(super) struct RemoteError {
    #[serde(default)]
    pub message: String,
}

impl<'a> Incoming<'a> {
    pub(super) fn event(&'a self) -> Option<Event<'a>> {
        Some(Event { method: self.method.as_deref()?, session: self.session.as_deref(), params: self.params })
    }

    pub(super) fn frame(&self) -> Option<Frame> {
        let cast: Cast<'_> = serde_json::from_str(self.params?.get()).ok()?;
        let jpeg = STANDARD.decode(cast.data.as_bytes()).ok()?;
        Some(Frame {
            cast: cast.session,
            width: pixels(cast.metadata.width),
            height: pixels(cast.metadata.height),
            captured_millis: millis(cast.metadata.timestamp.unwrap_or_default()),
            jpeg: jpeg.into(),
        })
    }
}

/// A size in whole pixels: what is negative is none, what is more than a frame's header can say is the most.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` keeps to the bounds of the type, as is meant")]
pub(in crate::browser) fn pixels(size: f64) -> u16 {
    size as u16
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` keeps to the bounds of the type, as is meant")]
fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}

#[derive(Deserialize)]
struct Cast<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
    metadata: CastMetadata,
    #[serde(rename = "sessionId")]
    session: i64,
}

#[derive(Deserialize)]
struct CastMetadata {
    #[serde(rename = "deviceWidth")]
    width: f64,
    #[serde(rename = "deviceHeight")]
    height: f64,
    timestamp: Option<f64>,
}

/// A command's bytes, with the NUL that ends it.
pub(super) fn command(id: u64, session: Option<&str>, method: &str, params: &Value) -> Vec<u8> {
    // What it says is a page's or a person's business.
    tracing::trace!(method, "Chromium is asked");
    let mut message = json!({ "id": id, "method": method, "params": params });
    if let (Some(session), Some(object)) = (session, message.as_object_mut()) {
        object.insert("sessionId".to_owned(), session.into());
    }
    let mut bytes = message.to_string().into_bytes();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_required_empty_arrays() {
        let bytes = command(7, Some("S"), "Input.dispatchTouchEvent", &json!({ "type": "touchEnd", "touchPoints": [] }));
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            "{\"id\":7,\"method\":\"Input.dispatchTouchEvent\",\"params\":{\"type\":\"touchEnd\",\"touchPoints\":[]},\"sessionId\":\"S\"}\0"
        );
    }

    #[test]
    fn a_frame_takes_its_size_from_the_metadata() {
        let text = r#"{"method":"Page.screencastFrame","sessionId":"S","params":{"data":"/9j/","metadata":{"offsetTop":0,
            "pageScaleFactor":1,"deviceWidth":900,"deviceHeight":600,"scrollOffsetX":0,"scrollOffsetY":0,"timestamp":1.5},"sessionId":3}}"#;
        let incoming: Incoming<'_> = serde_json::from_str(text).unwrap();
        let frame = incoming.frame().unwrap();
        assert_eq!((frame.cast, frame.width, frame.height, frame.captured_millis), (3, 900, 600, 1500));
        assert_eq!(&frame.jpeg[..], [0xff, 0xd8, 0xff]);
    }
}
