//! The bounds of a person's input, the same for who passes it on and for who acts on it.

use super::{InputEvent, TouchPoint};

/// The most events of one message.
pub const MOST_EVENTS: usize = 64;
/// The longest text of an event, in characters.
const LONGEST_TEXT: usize = 4096;
/// The longest name or code of a key, in bytes.
const LONGEST_KEY: usize = 64;
/// Fingers.
const MOST_POINTS: usize = 10;
/// Coordinates beyond the largest viewport are nobody's pointer, in CSS pixels.
const FARTHEST: f64 = 10_000.0;
/// The most that a wheel turns at once, in CSS pixels.
const WHEEL: f64 = 100_000.0;
const BUTTONS: [&str; 5] = ["left", "middle", "right", "back", "forward"];

/// Whether an event fits its bounds.
///
/// # Errors
/// Names the field and what it must be, and nothing that was typed.
pub fn check(event: &InputEvent) -> Result<(), &'static str> {
    match event {
        InputEvent::Move { x, y, buttons, modifiers } => {
            point(*x, *y)?;
            held(*buttons, *modifiers)
        }
        InputEvent::Down { x, y, button, buttons, count, modifiers } | InputEvent::Up { x, y, button, buttons, count, modifiers } => {
            point(*x, *y)?;
            held(*buttons, *modifiers)?;
            if !BUTTONS.contains(&button.as_str()) {
                return Err("button: must be left, middle, right, back or forward");
            }
            if (1..=3).contains(count) { Ok(()) } else { Err("count: must be 1 to 3") }
        }
        InputEvent::Wheel { x, y, delta_x, delta_y, modifiers } => {
            point(*x, *y)?;
            held(0, *modifiers)?;
            let sane = |delta: f64| delta.is_finite() && delta.abs() <= WHEEL;
            if sane(*delta_x) && sane(*delta_y) { Ok(()) } else { Err("delta_x, delta_y: out of range") }
        }
        InputEvent::KeyDown { key, code, location, modifiers, .. } | InputEvent::KeyUp { key, code, location, modifiers } => {
            held(0, *modifiers)?;
            if key.is_empty() || key.len() > LONGEST_KEY || code.len() > LONGEST_KEY {
                return Err("key, code: must be at most 64 bytes, and key not empty");
            }
            if *location <= 3 { Ok(()) } else { Err("location: must be 0 to 3") }
        }
        InputEvent::Text { text } | InputEvent::Compose { text } | InputEvent::Paste { text } => {
            if text.chars().nth(LONGEST_TEXT).is_none() { Ok(()) } else { Err("text: must be at most 4096 characters") }
        }
        InputEvent::Touch { phase, points, modifiers } => {
            held(0, *modifiers)?;
            match phase.as_str() {
                "start" | "move" if points.is_empty() || points.len() > MOST_POINTS => Err("points: must be 1 to 10"),
                "end" | "cancel" if !points.is_empty() => Err("points: must be empty at the end"),
                "start" | "move" | "end" | "cancel" => points.iter().try_for_each(|TouchPoint { x, y, .. }| point(*x, *y)),
                _ => Err("phase: must be start, move, end or cancel"),
            }
        }
        InputEvent::ReleaseAll => Ok(()),
    }
}

fn point(x: f64, y: f64) -> Result<(), &'static str> {
    let sane = |value: f64| value.is_finite() && (-1.0..=FARTHEST).contains(&value);
    if sane(x) && sane(y) { Ok(()) } else { Err("x, y: out of range") }
}

fn held(buttons: u8, modifiers: u8) -> Result<(), &'static str> {
    if buttons <= 31 && modifiers <= 15 { Ok(()) } else { Err("buttons, modifiers: out of range") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let down = |button: &str, count| InputEvent::Down { x: 0.0, y: 0.0, button: button.into(), buttons: 0, count, modifiers: 0 };
        let key = |key: &str| InputEvent::KeyUp { key: key.into(), code: String::new(), location: 0, modifiers: 0 };
        let touch = |phase: &str, fingers: usize| {
            let point = TouchPoint { id: 0, x: 0.0, y: 0.0 };
            InputEvent::Touch { phase: phase.into(), points: vec![point; fingers], modifiers: 0 }
        };
        for (bad, field) in [
            (down("wheel", 1), "button"),
            (down("left", 0), "count"),
            (down("left", 4), "count"),
            (InputEvent::Move { x: f64::NAN, y: 0.0, buttons: 0, modifiers: 0 }, "x, y"),
            (InputEvent::Text { text: "x".repeat(4097) }, "text"),
            (key(&"x".repeat(65)), "key"),
            (key(""), "key"),
            (touch("start", 11), "points"),
            (touch("move", 0), "points"),
            (touch("end", 1), "points"),
            (touch("hover", 1), "phase"),
        ] {
            let why = check(&bad).unwrap_err();
            assert!(why.starts_with(field), "{bad:?}: {why}");
        }
        for good in [down("forward", 3), key("€"), touch("start", 10), touch("cancel", 0), InputEvent::Text { text: "é".repeat(4096) }] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
    }
}
