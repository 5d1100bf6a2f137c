//! The tools' input schemas, and a check of arguments against them that names the field and says what would do.

use super::message::unreadable;
use serde_json::{Map, Value, json};

/// The arguments of a call.
pub(super) type Args = Map<String, Value>;

/// An object schema from `(name, schema)` pairs; nothing else is allowed in it.
pub(super) fn object(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> = properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if required.is_empty() { schema } else { with(schema, "required", json!(required)) }
}

/// A schema with one more keyword.
pub(super) fn with(mut schema: Value, keyword: &str, value: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(keyword.to_owned(), value);
    }
    schema
}

/// A text that people read: no control characters but line breaks and tabs.
pub(super) fn printable(description: &str, min: usize, max: usize) -> Value {
    with(text(description, min, max), "x-printable", json!(true))
}

/// A text of one line.
pub(super) fn line(description: &str, min: usize, max: usize) -> Value {
    with(printable(description, min, max), "x-line", json!(true))
}

/// A text of `min` to `max` characters.
pub(super) fn text(description: &str, min: usize, max: usize) -> Value {
    json!({"type": "string", "description": description, "minLength": min, "maxLength": max})
}

/// The session that a tool acts on.
pub(super) fn session_id() -> Value {
    text("The session's id, from create_session.", 1, 253)
}

/// Checks arguments. The error is one sentence that names the field.
pub(super) fn check(schema: &Value, args: &Args) -> Result<(), String> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if args.get(name).is_none_or(Value::is_null) {
            return Err(format!("{name} is missing: {}", hint(properties.get(name))));
        }
    }
    for (name, value) in args {
        match properties.get(name) {
            None => {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                let known =
                    if known.is_empty() { "this tool takes no arguments".to_owned() } else { format!("known are {}", known.join(", ")) };
                return Err(format!("{} is no argument of this tool: {known}", shorten(name)));
            }
            // Clients send null for what they leave out.
            Some(_) if value.is_null() => {}
            Some(property) => match unreadable(value) {
                Some(why) => return Err(format!("{name} can't be read: {why}")),
                None => check_value(name, property, value)?,
            },
        }
    }
    Ok(())
}

fn check_value(name: &str, schema: &Value, value: &Value) -> Result<(), String> {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => {
            let Some(text) = value.as_str() else { return Err(format!("{name} must be a string, not {}", kind(value))) };
            if let Some(words) = schema.get("enum").and_then(Value::as_array) {
                if !words.contains(value) {
                    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                    return Err(format!("{name} must be one of {}, not {}", words.join(", "), shorten(text)));
                }
                return Ok(());
            }
            let length = text.chars().count() as u64;
            if let Some(max) = schema.get("maxLength").and_then(Value::as_u64).filter(|max| length > *max) {
                return Err(format!("{name} may have at most {max} characters, not {length}"));
            }
            if schema.get("minLength").and_then(Value::as_u64).is_some_and(|min| length < min) {
                return Err(format!("{name} may not be empty"));
            }
            if schema.get("x-printable").is_some_and(|p| p == true)
                && let Some(control) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            {
                return Err(format!("{name} may not contain control characters, such as U+{:04X}", u32::from(control)));
            }
            if schema.get("x-line").is_some_and(|l| l == true) && text.contains(['\n', '\r', '\t']) {
                return Err(format!("{name} must be one line, without tabs"));
            }
            Ok(())
        }
        Some("integer") => {
            let Some(number) = whole(value) else {
                let what = if value.is_number() { value.to_string() } else { kind(value).to_owned() };
                return Err(format!("{name} must be a whole number, not {what}"));
            };
            if let Some(min) = schema.get("minimum").and_then(Value::as_f64).filter(|min| number < *min) {
                return Err(format!("{name} must be at least {min}, not {value}"));
            }
            if let Some(max) = schema.get("maximum").and_then(Value::as_f64).filter(|max| number > *max) {
                return Err(format!("{name} may be at most {max}, not {value}"));
            }
            Ok(())
        }
        Some("boolean") if !value.is_boolean() => Err(format!("{name} must be true or false, not {}", kind(value))),
        Some("object") => {
            let Some(fields) = value.as_object() else { return Err(format!("{name} must be an object, not {}", kind(value))) };
            check(schema, fields).map_err(|error| format!("{name}.{error}"))
        }
        _ => Ok(()),
    }
}

/// A JSON integer, also when it is written as `30.0` or is larger than any integer type.
fn whole(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.fract() == 0.0)
}

/// An integer argument, clamped to what fits.
#[expect(clippy::cast_possible_truncation, reason = "`as` keeps to the bounds of the type, as is meant")]
pub(super) fn integer(args: &Args, name: &str) -> Option<i64> {
    let value = args.get(name)?;
    value.as_i64().or_else(|| whole(value).map(|number| number as i64))
}

/// A text argument.
pub(super) fn string<'a>(args: &'a Args, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

fn hint(property: Option<&Value>) -> &str {
    property.and_then(|p| p.get("description")).and_then(Value::as_str).unwrap_or("it is required")
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn shorten(text: &str) -> String {
    let short: String = text.chars().take(40).filter(|c| !c.is_control()).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        let reason = printable("What you need.", 1, 5);
        object(
            &[
                ("reason", reason),
                ("mode", json!({"type": "string", "enum": ["takeover", "notify"]})),
                ("wait", json!({"type": "integer", "minimum": 0})),
                ("full", json!({"type": "boolean"})),
                ("line", line("One line.", 0, 9)),
                ("size", object(&[("width", json!({"type": "integer", "minimum": 320, "maximum": 2560}))], &["width"])),
                ("any", json!({})),
            ],
            &["reason"],
        )
    }

    #[test]
    fn every_error_names_the_field_and_what_would_do() {
        for (args, want) in [
            (json!({}), "reason is missing: What you need."),
            (json!({"reason": null}), "reason is missing: What you need."),
            (json!({"reason": ""}), "reason may not be empty"),
            (json!({"reason": "äöüßéx"}), "reason may have at most 5 characters, not 6"),
            (json!({"reason": 1}), "reason must be a string, not a number"),
            (json!({"reason": "a\u{1b}"}), "reason may not contain control characters, such as U+001B"),
            (json!({"reason": "r", "mode": "drive"}), "mode must be one of takeover, notify, not \"drive\""),
            (json!({"reason": "r", "wait": -5}), "wait must be at least 0, not -5"),
            (json!({"reason": "r", "wait": 1.5}), "wait must be a whole number, not 1.5"),
            (json!({"reason": "r", "wait": "60"}), "wait must be a whole number, not a string"),
            (json!({"reason": "r", "full": "yes"}), "full must be true or false, not a string"),
            (json!({"reason": "r", "line": "a\r\nb"}), "line must be one line, without tabs"),
            (json!({"reason": "r", "size": {"width": 1}}), "size.width must be at least 320, not 1"),
            (json!({"reason": "r", "size": {}}), "size.width is missing: it is required"),
            (json!({"reason": "r", "size": 3}), "size must be an object, not a number"),
            (
                json!({"reason": "r", "reson": 1}),
                "\"reson\" is no argument of this tool: known are reason, mode, wait, full, line, size, any",
            ),
        ] {
            assert_eq!(check(&schema(), args.as_object().unwrap()), Err(want.to_owned()));
        }
        let mark = json!({"reason": "r", "wait": {"beckon.dev/unreadable": "number out of range"}});
        assert_eq!(check(&schema(), mark.as_object().unwrap()), Err("wait can't be read: number out of range".to_owned()));
        assert!(check(&object(&[], &[]), json!({"x": 1}).as_object().unwrap()).is_err_and(|e| e.contains("takes no arguments")));
    }

    #[test]
    fn what_fits_passes() {
        for args in [
            json!({"reason": "a\nb"}),
            json!({"reason": "r", "wait": 0, "mode": null}),
            json!({"reason": "r", "wait": 30.0}),
            json!({"reason": "r", "wait": 1e30}),
            json!({"reason": "r", "any": {"x": [1]}, "full": false}),
        ] {
            assert_eq!(check(&schema(), args.as_object().unwrap()), Ok(()), "{args}");
        }
    }

    #[test]
    fn integers_beyond_every_type_are_clamped() {
        let args = json!({"a": 1e30, "b": 30.0, "c": -1, "d": 18_446_744_073_709_551_615_u64});
        let args = args.as_object().unwrap();
        assert_eq!(integer(args, "a"), Some(i64::MAX));
        assert_eq!(integer(args, "b"), Some(30));
        assert_eq!(integer(args, "c"), Some(-1));
        assert_eq!(integer(args, "d"), Some(i64::MAX));
        assert_eq!(integer(args, "e"), None);
    }
}
