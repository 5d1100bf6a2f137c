//! A person's hands as Chromium takes them. Pure: what is held down is remembered, what to send is returned.

pub(super) use crate::driver::input::{MOST_EVENTS, check};

use super::keys::{self, ALT, CTRL, Key, META};
use crate::driver::InputEvent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// No page is larger, in CSS pixels.
const FARTHEST: f64 = 20_000.0;

const MOUSE: &str = "Input.dispatchMouseEvent";
const KEY: &str = "Input.dispatchKeyEvent";
const TOUCH: &str = "Input.dispatchTouchEvent";

/// A command for the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    /// The method.
    pub method: &'static str,
    /// Its parameters.
    pub params: Value,
}

/// How an event may wait: where many come, one stands for all.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Only the newest counts.
    Move(Send),
    /// The sum counts.
    Wheel {
        /// Where and with which keys; without the deltas.
        at: Value,
        /// CSS pixels.
        delta_x: f64,
        /// CSS pixels.
        delta_y: f64,
    },
    /// Each counts, in order.
    All(Vec<Send>),
}

/// What is down.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    keys: BTreeMap<String, Key>,
    buttons: u8,
    at: (f64, f64),
    touching: bool,
}

fn bit(button: &str) -> Option<u8> {
    Some(match button {
        "left" => 1,
        "right" => 2,
        "middle" => 4,
        "back" => 8,
        "forward" => 16,
        _ => return None,
    })
}

fn clamp(n: f64) -> f64 {
    n.clamp(-FARTHEST, FARTHEST)
}

impl Held {
    /// Whether the left button is down.
    #[must_use]
    pub(super) fn left(&self) -> bool {
        self.buttons & 1 != 0
    }

    /// Where the mouse was last.
    #[must_use]
    pub(super) fn at(&self) -> (f64, f64) {
        self.at
    }

    /// What to send for an event that fits its bounds.
    pub(super) fn translate(&mut self, event: &InputEvent) -> Action {
        match event {
            InputEvent::Move { x, y, buttons, modifiers } => {
                self.at = (clamp(*x), clamp(*y));
                Action::Move(mouse("mouseMoved", self.at, main_button(*buttons), *buttons, 0, command(*modifiers)))
            }
            InputEvent::Down { x, y, button, buttons, count, modifiers } => {
                self.at = (clamp(*x), clamp(*y));
                let bit = bit(button).unwrap_or_default();
                self.buttons |= bit;
                Action::All(vec![mouse("mousePressed", self.at, button, buttons | bit, (*count).clamp(1, 3), command(*modifiers))])
            }
            InputEvent::Up { x, y, button, buttons, count, modifiers } => {
                self.at = (clamp(*x), clamp(*y));
                let bit = bit(button).unwrap_or_default();
                self.buttons &= !bit;
                Action::All(vec![mouse("mouseReleased", self.at, button, buttons & !bit, (*count).clamp(1, 3), command(*modifiers))])
            }
            InputEvent::Wheel { x, y, delta_x, delta_y, modifiers } => Action::Wheel {
                at: json!({ "type": "mouseWheel", "x": clamp(*x), "y": clamp(*y), "modifiers": command(*modifiers) }),
                delta_x: clamp(*delta_x),
                delta_y: clamp(*delta_y),
            },
            InputEvent::KeyDown { key, code, location, modifiers, repeat, alt_graph } => {
                Action::All(self.key_down(key, code, *location, *modifiers, *repeat, *alt_graph))
            }
            InputEvent::KeyUp { key, code, location, modifiers } => Action::All(self.key_up(key, code, *location, *modifiers)),
            InputEvent::Text { text } => Action::All(vec![Send { method: "Input.insertText", params: json!({ "text": text }) }]),
            InputEvent::Compose { text } => {
                let end = text.encode_utf16().count();
                let params = json!({ "text": text, "selectionStart": end, "selectionEnd": end });
                Action::All(vec![Send { method: "Input.imeSetComposition", params }])
            }
            InputEvent::Touch { phase, points, modifiers } => {
                let kind = match phase.as_str() {
                    "start" => "touchStart",
                    "move" => "touchMove",
                    "end" => "touchEnd",
                    _ => "touchCancel",
                };
                self.touching = matches!(kind, "touchStart" | "touchMove");
                // Required by the protocol, also when empty.
                let points: Vec<Value> =
                    points.iter().map(|point| json!({ "id": point.id, "x": clamp(point.x), "y": clamp(point.y) })).collect();
                let params = json!({ "type": kind, "touchPoints": points, "modifiers": command(*modifiers) });
                Action::All(vec![Send { method: TOUCH, params }])
            }
            // The page is asked first whether it takes it itself.
            InputEvent::Paste { .. } => Action::All(Vec::new()),
            InputEvent::ReleaseAll => Action::All(self.release_all()),
        }
    }

    /// Lets go of everything.
    pub(super) fn release_all(&mut self) -> Vec<Send> {
        let mut sends: Vec<Send> =
            std::mem::take(&mut self.keys).into_values().map(|key| Send { method: KEY, params: keys::up(&key, 0) }).collect();
        for button in ["left", "right", "middle", "back", "forward"] {
            let bit = bit(button).unwrap_or_default();
            if self.buttons & bit != 0 {
                self.buttons &= !bit;
                sends.push(mouse("mouseReleased", self.at, button, self.buttons, 1, 0));
            }
        }
        if std::mem::take(&mut self.touching) {
            sends.push(Send { method: TOUCH, params: json!({ "type": "touchCancel", "touchPoints": [] }) });
        }
        sends
    }

    fn key_down(&mut self, key: &str, code: &str, location: u8, modifiers: u8, repeat: bool, alt_graph: bool) -> Vec<Send> {
        // An input method has the key; its text comes as a composition.
        if matches!(key, "Process" | "Unidentified" | "") {
            return Vec::new();
        }
        let (name, code) = mac(key, code);
        let modifiers = character_modifiers(key, code, modifiers, alt_graph);
        let text = match name {
            "Enter" => Some("\r".to_owned()),
            one if one.chars().count() == 1 && modifiers & (ALT | CTRL) == 0 => Some(one.to_owned()),
            _ => None,
        };
        let held = Key { key: name.to_owned(), code: code.to_owned(), virtual_key: keys::virtual_key(name, code, location), text };
        let mut params = keys::down(&held, modifiers);
        if let Some(params) = params.as_object_mut() {
            params.insert("autoRepeat".to_owned(), repeat.into());
            params.insert("location".to_owned(), location.min(3).into());
            params.insert("isKeypad".to_owned(), (location == 3).into());
        }
        self.keys.insert(if code.is_empty() { name } else { code }.to_owned(), held);
        vec![Send { method: KEY, params }]
    }

    fn key_up(&mut self, key: &str, code: &str, location: u8, modifiers: u8) -> Vec<Send> {
        if matches!(key, "Process" | "Unidentified" | "") && code.is_empty() {
            return Vec::new();
        }
        let (name, code) = mac(key, code);
        let id = if code.is_empty() { name } else { code };
        let held = self.keys.remove(id).unwrap_or_else(|| Key {
            key: name.to_owned(),
            code: code.to_owned(),
            virtual_key: keys::virtual_key(name, code, location),
            text: None,
        });
        let mut sends = vec![Send { method: KEY, params: keys::up(&held, command(modifiers)) }];
        if key == "Meta" {
            // A Mac tells nothing of keys that go up while Command is down.
            sends.extend(std::mem::take(&mut self.keys).into_values().map(|key| Send { method: KEY, params: keys::up(&key, 0) }));
        }
        sends
    }
}

/// Command is Control on the other side.
fn mac<'a>(key: &'a str, code: &'a str) -> (&'a str, &'a str) {
    match (key, code) {
        ("Meta", "MetaRight") => ("Control", "ControlRight"),
        ("Meta", _) => ("Control", "ControlLeft"),
        other => other,
    }
}

/// Modifiers as the page's keyboard has them.
#[must_use]
pub(super) fn command(modifiers: u8) -> u8 {
    let modifiers = modifiers & 0xf;
    if modifiers & META == 0 { modifiers } else { (modifiers & !META) | CTRL }
}

/// Ctrl and Alt that only made the character are no part of it: AltGr, and Option on a Mac.
fn character_modifiers(key: &str, code: &str, modifiers: u8, alt_graph: bool) -> u8 {
    let modifiers = command(modifiers);
    let mut letters = key.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return modifiers };
    let plain = letter.is_ascii_alphanumeric() || letter == ' ';
    let both = modifiers & ALT != 0 && modifiers & CTRL != 0;
    let composed = modifiers & (ALT | CTRL) == ALT && !plain && (code.starts_with("Key") || code.starts_with("Digit"));
    if alt_graph || (both && !plain) || composed { modifiers & !(ALT | CTRL) } else { modifiers }
}

/// A drag without the button reads as none.
fn main_button(buttons: u8) -> &'static str {
    match buttons {
        b if b & 1 != 0 => "left",
        b if b & 2 != 0 => "right",
        b if b & 4 != 0 => "middle",
        _ => "none",
    }
}

fn mouse(kind: &str, (x, y): (f64, f64), button: &str, buttons: u8, count: u8, modifiers: u8) -> Send {
    let params = json!({
        "type": kind, "x": x, "y": y, "button": button, "buttons": buttons & 0x1f, "clickCount": count,
        "modifiers": modifiers, "pointerType": "mouse",
    });
    Send { method: MOUSE, params }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::TouchPoint;

    fn down(key: &str, code: &str, modifiers: u8, alt_graph: bool) -> Value {
        let event = InputEvent::KeyDown { key: key.into(), code: code.into(), location: 0, modifiers, repeat: false, alt_graph };
        let Action::All(sends) = Held::default().translate(&event) else { panic!("nothing to send") };
        sends.into_iter().next().map(|send| send.params).unwrap_or_default()
    }

    #[test]
    fn keys_type_what_a_person_means() {
        for (what, key, code, modifiers, alt_graph, text, sent) in [
            ("a letter", "a", "KeyA", 0, false, Some("a"), 0),
            ("shifted", "A", "KeyA", 8, false, Some("A"), 8),
            ("Enter is a carriage return", "Enter", "Enter", 0, false, Some("\r"), 0),
            ("AltGr as Windows says it", "€", "KeyE", 3, true, Some("€"), 0),
            ("AltGr without its name", "@", "KeyQ", 3, false, Some("@"), 0),
            ("Option on a Mac", "[", "Digit5", 1, false, Some("["), 0),
            ("a shortcut", "a", "KeyA", 2, false, None, 2),
            ("Command is Control", "v", "KeyV", 4, false, None, 2),
            ("Ctrl+Alt+letter stays a shortcut", "t", "KeyT", 3, false, None, 3),
            ("a named key types nothing", "ArrowLeft", "ArrowLeft", 0, false, None, 0),
            ("a dead key is harmless", "Dead", "BracketLeft", 0, false, None, 0),
        ] {
            let params = down(key, code, modifiers, alt_graph);
            assert_eq!(params["text"].as_str(), text, "{what}");
            assert_eq!(params["modifiers"], sent, "{what}");
            assert_eq!(params["type"], if text.is_some() { "keyDown" } else { "rawKeyDown" }, "{what}");
        }
        assert_eq!(down("Backspace", "Backspace", 0, false)["windowsVirtualKeyCode"], 8);
        assert_eq!(down("Process", "KeyA", 0, false), Value::Null, "an input method's key is swallowed");
    }

    #[test]
    fn everything_held_is_let_go_once() {
        let mut held = Held::default();
        let key = |key: &str, code: &str| InputEvent::KeyDown {
            key: key.into(),
            code: code.into(),
            location: 0,
            modifiers: 0,
            repeat: false,
            alt_graph: false,
        };
        held.translate(&key("Shift", "ShiftLeft"));
        held.translate(&key("a", "KeyA"));
        held.translate(&InputEvent::Down { x: 1.0, y: 2.0, button: "left".into(), buttons: 1, count: 1, modifiers: 0 });
        held.translate(&InputEvent::Touch { phase: "start".into(), points: vec![TouchPoint { id: 1, x: 0.0, y: 0.0 }], modifiers: 0 });
        let kinds: Vec<_> = held.release_all().into_iter().map(|send| send.params["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, ["keyUp", "keyUp", "mouseReleased", "touchCancel"]);
        assert_eq!(held.release_all(), []);
    }

    #[test]
    fn what_went_up_is_not_released_again() {
        let mut held = Held::default();
        held.translate(&InputEvent::Down { x: 1.0, y: 2.0, button: "right".into(), buttons: 2, count: 1, modifiers: 0 });
        held.translate(&InputEvent::Up { x: 1.0, y: 2.0, button: "right".into(), buttons: 0, count: 1, modifiers: 0 });
        assert_eq!(held.release_all(), []);
    }

    #[test]
    fn a_click_counts_at_least_one_and_a_drag_has_its_button() {
        let mut held = Held::default();
        let Action::All(sends) =
            held.translate(&InputEvent::Down { x: 1.0, y: 2.0, button: "left".into(), buttons: 1, count: 0, modifiers: 0 })
        else {
            panic!()
        };
        assert_eq!((&sends[0].params["clickCount"], &sends[0].params["buttons"]), (&json!(1), &json!(1)));
        let Action::Move(send) = held.translate(&InputEvent::Move { x: 3.0, y: 4.0, buttons: 1, modifiers: 0 }) else { panic!() };
        assert_eq!((&send.params["button"], &send.params["buttons"]), (&json!("left"), &json!(1)));
    }

    #[test]
    fn the_end_of_a_touch_has_no_points() {
        let event = InputEvent::Touch { phase: "end".into(), points: vec![], modifiers: 0 };
        assert_eq!(check(&event), Ok(()));
        let Action::All(sends) = Held::default().translate(&event) else { panic!() };
        assert_eq!(sends[0].params["touchPoints"], json!([]));
    }

    #[test]
    fn a_composition_is_measured_in_utf16() {
        let Action::All(sends) = Held::default().translate(&InputEvent::Compose { text: "か😀".into() }) else { panic!() };
        assert_eq!(sends[0].params["selectionEnd"], 3);
    }
}
