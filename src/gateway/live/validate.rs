//! What a viewer says, understood or refused: a closed set of messages, every number, list and text of it bounded.

use crate::driver::input::{self, MOST_EVENTS};
use crate::driver::{LiveCommand, MAX_COMMAND_BYTES};
use crate::runtime::json::Object;
use serde::Deserialize;

/// The longest text that answers a dialog, in characters.
const TEXT: usize = 4096;
/// The longest name of a file, in bytes.
const NAME: usize = 255;
/// The largest piece of a file, in base64.
const PIECE: usize = 12 * 1024 / 3 * 4;
/// The longest value of a picker, in bytes.
const PICK: usize = 256;
/// The longest lease or target id.
const ID: usize = 128;

/// A message of a viewer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Heard {
    /// For the driver.
    Command(LiveCommand),
    /// The viewer holds this lease: keep it alive while this socket is open.
    Hold {
        /// The lease.
        lease: String,
    },
}

/// Messages between page and gateway alone.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Own {
    Hold { lease: String },
}

/// Why a message is refused; names the field, never its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is refused: {0}")]
pub(super) struct Refusal(pub &'static str);

/// Reads one message.
pub(super) fn read(text: &str) -> Result<Heard, Refusal> {
    if text.len() > MAX_COMMAND_BYTES {
        return Err(Refusal("it is too long"));
    }
    let Ok(Object(command)) = serde_json::from_str::<Object<LiveCommand>>(text) else {
        let Ok(Object(Own::Hold { lease })) = serde_json::from_str(text) else {
            return Err(Refusal("it is not one of the known messages"));
        };
        return id(&lease).map(|()| Heard::Hold { lease });
    };
    match &command {
        LiveCommand::Input { lease, events } => {
            id(lease)?;
            if events.is_empty() || events.len() > MOST_EVENTS {
                return Err(Refusal("events must be 1 to 64"));
            }
            events.iter().try_for_each(input::check).map_err(Refusal)?;
        }
        LiveCommand::Dialog { lease, id: _, accept: _, text: said } => {
            id(lease)?;
            if said.as_ref().is_some_and(|said| said.chars().count() > TEXT) {
                return Err(Refusal("text is too long"));
            }
        }
        LiveCommand::File { lease, id: _, name, data, last: _ } => {
            id(lease)?;
            if name.is_empty() || name.len() > NAME || data.len() > PIECE {
                return Err(Refusal("name or data is out of range"));
            }
        }
        LiveCommand::Choose { lease, .. } | LiveCommand::Go { lease, .. } => id(lease)?,
        LiveCommand::Pick { lease, id: _, value } => {
            id(lease)?;
            if value.as_ref().is_some_and(|value| value.len() > PICK) {
                return Err(Refusal("value is too long"));
            }
        }
        LiveCommand::Tab { lease, id: tab } => {
            id(lease)?;
            id(tab)?;
        }
        LiveCommand::Drawn { .. } | LiveCommand::Visible { .. } => {}
    }
    Ok(Heard::Command(command))
}

/// The lease that a command quotes, where it needs one.
pub(super) fn lease(command: &LiveCommand) -> Option<&str> {
    match command {
        LiveCommand::Input { lease, .. }
        | LiveCommand::Dialog { lease, .. }
        | LiveCommand::File { lease, .. }
        | LiveCommand::Choose { lease, .. }
        | LiveCommand::Go { lease, .. }
        | LiveCommand::Pick { lease, .. }
        | LiveCommand::Tab { lease, .. } => Some(lease),
        LiveCommand::Drawn { .. } | LiveCommand::Visible { .. } => None,
    }
}

fn id(text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > ID || !text.is_ascii() { Err(Refusal("lease or id is out of range")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn message(event: serde_json::Value) -> String {
        json!({"type": "input", "lease": "l", "events": [event]}).to_string()
    }

    #[test]
    fn the_known_messages_pass() {
        for text in [
            message(json!({"kind": "move", "x": 1.5, "y": 0, "buttons": 1, "modifiers": 0})),
            message(json!({"kind": "down", "x": 1, "y": 2, "button": "left", "buttons": 1, "count": 2, "modifiers": 15})),
            message(json!({"kind": "up", "x": 1, "y": 2, "button": "forward", "buttons": 0, "count": 1, "modifiers": 0})),
            message(json!({"kind": "wheel", "x": 1, "y": 2, "delta_x": 0, "delta_y": -120.5, "modifiers": 0})),
            message(
                json!({"kind": "key_down", "key": "€", "code": "KeyE", "location": 0, "modifiers": 3, "repeat": false, "alt_graph": true}),
            ),
            message(json!({"kind": "key_up", "key": "Shift", "code": "ShiftLeft", "location": 1, "modifiers": 0})),
            message(json!({"kind": "text", "text": "日本語"})),
            message(json!({"kind": "compose", "text": ""})),
            message(json!({"kind": "paste", "text": "123456"})),
            message(json!({"kind": "touch", "phase": "end", "points": [], "modifiers": 0})),
            message(json!({"kind": "release_all"})),
            json!({"type": "dialog", "lease": "l", "id": 1, "accept": true, "text": null}).to_string(),
            json!({"type": "file", "lease": "l", "id": 1, "name": "a.png", "data": "A".repeat(PIECE - 300), "last": false}).to_string(),
            json!({"type": "choose", "lease": "l", "id": 1, "accept": true}).to_string(),
            json!({"type": "go", "lease": "l", "to": "reload"}).to_string(),
            json!({"type": "tab", "lease": "l", "id": "T1"}).to_string(),
            json!({"type": "pick", "lease": "l", "id": 1, "value": "2026-12-31"}).to_string(),
            json!({"type": "pick", "lease": "l", "id": 1, "value": null}).to_string(),
            json!({"type": "drawn", "sequence": 7}).to_string(),
            json!({"type": "visible", "visible": false}).to_string(),
        ] {
            assert!(matches!(read(&text), Ok(Heard::Command(_))), "{text}");
        }
        assert_eq!(read(r#"{"type":"hold","lease":"l"}"#), Ok(Heard::Hold { lease: "l".into() }));
    }

    #[test]
    fn everything_else_is_refused() {
        let down = |button: &str, count: i64| {
            message(json!({"kind": "down", "x": 1, "y": 2, "button": button, "buttons": 1, "count": count, "modifiers": 0}))
        };
        let many = |n: usize| json!({"type": "input", "lease": "l", "events": vec![json!({"kind": "release_all"}); n]}).to_string();
        for text in [
            String::new(),
            "[]".into(),
            r#"["hold","l"]"#.into(),
            r#"["drawn",1]"#.into(),
            r#"{"type":"evaluate","script":"1"}"#.into(),
            r#"{"type":"drawn","sequence":-1}"#.into(),
            r#"{"type":"drawn","sequence":1,"more":1}"#.into(),
            r#"{"type":"hold","lease":""}"#.into(),
            r#"{"type":"hold","lease":"l","more":1}"#.into(),
            message(json!({"kind": "move", "x": 1e9, "y": 0, "buttons": 0, "modifiers": 0})),
            message(json!({"kind": "move", "x": 1, "y": 0, "buttons": 32, "modifiers": 0})),
            message(json!({"kind": "move", "x": 1, "y": 0, "buttons": 0, "modifiers": 16})),
            message(json!({"kind": "move", "x": null, "y": 0, "buttons": 0, "modifiers": 0})),
            message(json!({"kind": "move", "x": 1, "y": 0, "buttons": 0, "modifiers": 0, "extra": 1})),
            message(json!({"kind": "script", "text": "x"})),
            message(json!({"kind": "text", "text": "x".repeat(4097)})),
            message(json!({"kind": "paste", "text": "x".repeat(4097)})),
            message(json!({"kind": "key_down", "key": "", "code": "", "location": 0, "modifiers": 0, "repeat": false, "alt_graph": false})),
            message(json!({"kind": "key_up", "key": "a", "code": "x".repeat(65), "location": 0, "modifiers": 0})),
            message(json!({"kind": "touch", "phase": "hover", "points": [], "modifiers": 0})),
            message(json!({"kind": "touch", "phase": "start", "points": vec![json!({"id": 0, "x": 1, "y": 1}); 11], "modifiers": 0})),
            down("left", 0),
            down("left", 4),
            down("nose", 1),
            many(0),
            many(65),
            json!({"type": "tab", "lease": "l", "id": "x".repeat(129)}).to_string(),
            json!({"type": "pick", "lease": "l", "id": 1, "value": "x".repeat(257)}).to_string(),
            json!({"type": "dialog", "lease": "l", "accept": true, "text": null}).to_string(),
            json!({"type": "file", "lease": "l", "id": 1, "name": "", "data": "", "last": true}).to_string(),
            json!({"type": "file", "lease": "l", "id": 1, "name": "x".repeat(256), "data": "", "last": true}).to_string(),
            json!({"type": "go", "lease": "l", "to": "http://a.example"}).to_string(),
            json!({"type": "input", "lease": "", "events": [{"kind": "release_all"}]}).to_string(),
            format!("{}{}", " ".repeat(MAX_COMMAND_BYTES), r#"{"type":"drawn","sequence":1}"#),
        ] {
            assert!(read(&text).is_err(), "{}", text.chars().take(200).collect::<String>());
        }
        assert!(read(&many(64)).is_ok());
    }

    proptest! {
        #[test]
        fn nothing_that_a_viewer_sends_breaks_it(text in ".{0,300}") {
            drop(read(&text));
        }

        #[test]
        fn numbers_in_range_pass_and_others_do_not(x in -20_000.0..20_000.0f64, y in -20_000.0..20_000.0f64) {
            let sane = (-1.0..=10_000.0).contains(&x) && (-1.0..=10_000.0).contains(&y);
            let text = message(json!({"kind": "move", "x": x, "y": y, "buttons": 0, "modifiers": 0}));
            prop_assert_eq!(read(&text).is_ok(), sane);
        }
    }
}
