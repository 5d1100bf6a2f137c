//! Keys as Chromium takes them: a key without its Windows virtual-key code does nothing.

use super::tools::{Context, Done};
use serde_json::{Value, json};

/// Modifier bits of the protocol.
pub(super) const ALT: u8 = 1;
/// Control.
pub(super) const CTRL: u8 = 2;
/// Meta, the Command key.
pub(super) const META: u8 = 4;
/// Shift.
pub(super) const SHIFT: u8 = 8;

/// Named keys with the virtual-key code of each; the `code` is the same word where it is not said otherwise.
const NAMED: &[(&str, &str, i32)] = &[
    ("Enter", "Enter", 13),
    ("Tab", "Tab", 9),
    ("Backspace", "Backspace", 8),
    ("Escape", "Escape", 27),
    ("Delete", "Delete", 46),
    ("Insert", "Insert", 45),
    ("Home", "Home", 36),
    ("End", "End", 35),
    ("PageUp", "PageUp", 33),
    ("PageDown", "PageDown", 34),
    ("ArrowLeft", "ArrowLeft", 37),
    ("ArrowUp", "ArrowUp", 38),
    ("ArrowRight", "ArrowRight", 39),
    ("ArrowDown", "ArrowDown", 40),
    ("Shift", "ShiftLeft", 16),
    ("Control", "ControlLeft", 17),
    ("Alt", "AltLeft", 18),
    ("AltGraph", "AltRight", 225),
    ("Meta", "MetaLeft", 91),
    ("CapsLock", "CapsLock", 20),
    ("NumLock", "NumLock", 144),
    ("ScrollLock", "ScrollLock", 145),
    ("Pause", "Pause", 19),
    ("ContextMenu", "ContextMenu", 93),
    ("PrintScreen", "PrintScreen", 44),
    (" ", "Space", 32),
    ("F1", "F1", 112),
    ("F2", "F2", 113),
    ("F3", "F3", 114),
    ("F4", "F4", 115),
    ("F5", "F5", 116),
    ("F6", "F6", 117),
    ("F7", "F7", 118),
    ("F8", "F8", 119),
    ("F9", "F9", 120),
    ("F10", "F10", 121),
    ("F11", "F11", 122),
    ("F12", "F12", 123),
];

/// The keys of a US keyboard that are no letter: plain, shifted, code, virtual-key code.
const SIGNS: &[(char, char, &str, i32)] = &[
    ('1', '!', "Digit1", 49),
    ('2', '@', "Digit2", 50),
    ('3', '#', "Digit3", 51),
    ('4', '$', "Digit4", 52),
    ('5', '%', "Digit5", 53),
    ('6', '^', "Digit6", 54),
    ('7', '&', "Digit7", 55),
    ('8', '*', "Digit8", 56),
    ('9', '(', "Digit9", 57),
    ('0', ')', "Digit0", 48),
    ('-', '_', "Minus", 189),
    ('=', '+', "Equal", 187),
    ('[', '{', "BracketLeft", 219),
    (']', '}', "BracketRight", 221),
    ('\\', '|', "Backslash", 220),
    (';', ':', "Semicolon", 186),
    ('\'', '"', "Quote", 222),
    ('`', '~', "Backquote", 192),
    (',', '<', "Comma", 188),
    ('.', '>', "Period", 190),
    ('/', '?', "Slash", 191),
];

const NUMPAD: &[(&str, i32)] =
    &[("NumpadMultiply", 106), ("NumpadAdd", 107), ("NumpadSubtract", 109), ("NumpadDecimal", 110), ("NumpadDivide", 111)];

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// `KeyboardEvent.key`.
    pub key: String,
    /// `KeyboardEvent.code`.
    pub code: String,
    /// The Windows virtual-key code.
    pub virtual_key: i32,
    /// What it types by itself.
    pub text: Option<String>,
}

/// A key by its name.
#[must_use]
pub(super) fn named(name: &str) -> Option<Key> {
    let name = match name {
        "Space" => " ",
        "Esc" => "Escape",
        "Return" => "Enter",
        "Del" => "Delete",
        other => other,
    };
    let (key, code, virtual_key) = NAMED.iter().find(|(key, ..)| *key == name)?;
    Some(Key { key: (*key).to_owned(), code: (*code).to_owned(), virtual_key: *virtual_key, text: text_of(key) })
}

/// What a named key types: without the carriage return, Enter makes no new line and submits no form.
fn text_of(key: &str) -> Option<String> {
    match key {
        "Enter" => Some("\r".to_owned()),
        " " => Some(" ".to_owned()),
        _ => None,
    }
}

/// The key of a US keyboard that types a character, with Shift where it needs it.
#[must_use]
pub(super) fn typed(character: char) -> Option<(Key, u8)> {
    let key = |code: String, virtual_key| Key { key: character.to_string(), code, virtual_key, text: Some(character.to_string()) };
    match character {
        '\n' | '\r' => return Some((named("Enter")?, 0)),
        ' ' => return Some((named(" ")?, 0)),
        'a'..='z' | 'A'..='Z' => {
            let upper = character.to_ascii_uppercase();
            let shift = if character.is_ascii_uppercase() { SHIFT } else { 0 };
            return Some((key(format!("Key{upper}"), upper as i32), shift));
        }
        _ => {}
    }
    let (plain, _, code, virtual_key) = SIGNS.iter().find(|(plain, shifted, ..)| *plain == character || *shifted == character)?;
    Some((key((*code).to_owned(), *virtual_key), if *plain == character { 0 } else { SHIFT }))
}

/// A key with the modifiers before it, such as `Control+Shift+ArrowLeft`, `Control++` or `a`.
#[must_use]
pub(super) fn chord(text: &str) -> Option<(Key, u8)> {
    let mut modifiers = 0;
    let mut rest = text;
    while let Some((modifier, after)) = rest.split_once('+').filter(|(modifier, after)| !modifier.is_empty() && !after.is_empty()) {
        modifiers |= match modifier {
            // On Linux the shortcuts of a Mac's Command key are Control's.
            "Control" | "Ctrl" | "ControlOrMeta" | "Meta" | "Command" | "Cmd" => CTRL,
            "Alt" | "Option" => ALT,
            "Shift" => SHIFT,
            _ => return None,
        };
        rest = after;
    }
    let shortcut = modifiers & (CTRL | ALT) != 0;
    let mut letters = rest.chars();
    let (mut key, own) = match (letters.next(), letters.next()) {
        // Control+A is written so, and is no Control+Shift+a.
        (Some(one), None) if shortcut && one.is_ascii_uppercase() => typed(one.to_ascii_lowercase())?,
        (Some(one), None) => typed(one).or_else(|| Some((other(one), 0)))?,
        _ => (named(rest)?, 0),
    };
    if shortcut {
        key.text = None;
    } else if let Some(upper) = shifted(&key).filter(|_| modifiers & SHIFT != 0) {
        key.key.clone_from(&upper);
        key.text = Some(upper);
    }
    Some((key, modifiers | own))
}

/// A character that no US key types.
fn other(character: char) -> Key {
    Key { key: character.to_string(), code: String::new(), virtual_key: 0, text: Some(character.to_string()) }
}

fn shifted(key: &Key) -> Option<String> {
    let mut letters = key.key.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    if letter.is_ascii_lowercase() {
        return Some(letter.to_ascii_uppercase().to_string());
    }
    SIGNS.iter().find(|(plain, ..)| *plain == letter).map(|(_, shifted, ..)| shifted.to_string())
}

/// The virtual-key code of a person's key: by name, by what it types (so that layouts keep their shortcuts), by place.
#[must_use]
pub(super) fn virtual_key(key: &str, code: &str, location: u8) -> i32 {
    if let Some((_, _, virtual_key)) = NAMED.iter().find(|(name, ..)| *name == key) {
        return *virtual_key;
    }
    if let Some((_, virtual_key)) = NUMPAD.iter().find(|(name, _)| *name == code) {
        return *virtual_key;
    }
    let mut letters = key.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        match letter {
            '0'..='9' if location == 3 => return 96 + (letter as i32 - '0' as i32),
            'a'..='z' | 'A'..='Z' | '0'..='9' => return letter.to_ascii_uppercase() as i32,
            _ => {}
        }
    }
    if let Some((.., virtual_key)) = SIGNS.iter().find(|(_, _, name, _)| *name == code) {
        return *virtual_key;
    }
    let letter = code.strip_prefix("Key").filter(|rest| rest.len() == 1).and_then(|rest| rest.chars().next());
    letter.map_or(0, |letter| letter as i32)
}

/// The parameters of a key that goes down.
#[must_use]
pub(super) fn down(key: &Key, modifiers: u8) -> Value {
    let mut params = json!({
        "type": if key.text.is_some() { "keyDown" } else { "rawKeyDown" },
        "key": key.key, "code": key.code, "modifiers": modifiers,
        "windowsVirtualKeyCode": key.virtual_key, "nativeVirtualKeyCode": key.virtual_key,
    });
    if let (Some(text), Some(params)) = (&key.text, params.as_object_mut()) {
        params.insert("text".to_owned(), text.as_str().into());
        params.insert("unmodifiedText".to_owned(), text.as_str().into());
    }
    params
}

/// The parameters of a key that goes up.
#[must_use]
pub(super) fn up(key: &Key, modifiers: u8) -> Value {
    json!({
        "type": "keyUp", "key": key.key, "code": key.code, "modifiers": modifiers,
        "windowsVirtualKeyCode": key.virtual_key, "nativeVirtualKeyCode": key.virtual_key,
    })
}

/// Presses a key and lets it go, and waits until the page took it.
pub(super) async fn press(context: &Context, key: &Key, modifiers: u8) -> Done<()> {
    context.tab.session.fire("Input.dispatchKeyEvent", &down(key, modifiers))?;
    context.call::<Value>("Input.dispatchKeyEvent", up(key, modifiers)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords() {
        let enter = chord("Enter").unwrap();
        assert_eq!((enter.0.text.as_deref(), enter.0.virtual_key, enter.1), (Some("\r"), 13, 0));
        let all = chord("Control+A").unwrap();
        assert_eq!((all.0.code.as_str(), all.0.virtual_key, all.0.text, all.1), ("KeyA", 65, None, CTRL));
        assert_eq!(chord("Meta+a").unwrap().1, CTRL);
        assert_eq!(chord("Control++").unwrap().0.code, "Equal");
        assert_eq!(chord("+").unwrap().0.key, "+");
        assert_eq!(chord("Shift+a").unwrap().0.text.as_deref(), Some("A"));
        assert_eq!(chord("Shift+1").unwrap().0.text.as_deref(), Some("!"));
        assert_eq!(chord("é").unwrap().0.text.as_deref(), Some("é"));
        for bad in ["", "Hyper+a", "Enterr", "Control+", "ab"] {
            assert_eq!(chord(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_layouts_shortcut_keeps_its_letter() {
        assert_eq!(virtual_key("z", "KeyY", 0), 90);
        assert_eq!(virtual_key("1", "Numpad1", 3), 97);
        assert_eq!(virtual_key("я", "KeyZ", 0), 90);
        assert_eq!(virtual_key("Enter", "NumpadEnter", 3), 13);
        assert_eq!(virtual_key("ö", "Semicolon", 0), 186);
    }
}
