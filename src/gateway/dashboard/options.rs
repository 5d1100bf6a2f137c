//! Answers to pick from, where an agent's options plainly are some. The options themselves are shown as they came.

use serde_json::Value;

/// The most answers that become buttons.
const MOST: usize = 16;
/// The longest answer that becomes a button, in characters.
const LONGEST: usize = 256;

/// The texts of a list, or of the list under a name that says so. Anything else offers nothing.
pub(super) fn choices(options: &str) -> Vec<String> {
    let list = match serde_json::from_str(options) {
        Ok(Value::Array(list)) => list,
        Ok(Value::Object(mut named)) => match ["choices", "options", "answers"].into_iter().find_map(|name| named.remove(name)) {
            Some(Value::Array(list)) => list,
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let texts: Option<Vec<String>> = list.into_iter().map(text).collect();
    texts.filter(|texts| texts.len() <= MOST).unwrap_or_default()
}

/// A text, or what an object is called. Numbers are left alone: they would not be written as they came.
fn text(value: Value) -> Option<String> {
    let named = |value: &Value| ["label", "title", "name", "value"].into_iter().find_map(|name| value.get(name).cloned());
    let value = named(&value).unwrap_or(value);
    let text = value.as_str()?.to_owned();
    (!text.trim().is_empty() && text.chars().count() <= LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_lists_of_texts_are_answers() {
        for (options, want) in [
            (r#"["Blue", "Red"]"#, &["Blue", "Red"][..]),
            (r#"{"choices": ["solve", "skip"], "more": 1}"#, &["solve", "skip"]),
            (r#"{"options": [{"label": "Yes", "id": 1}, {"value": "no"}]}"#, &["Yes", "no"]),
            (r#"{"answers": ["<b>x</b>"]}"#, &["<b>x</b>"]),
            (r#"["one", 2]"#, &[]),
            (r"[1.0, 2]", &[]),
            (r#"{"choices": "x"}"#, &[]),
            (r#"{"a": 1e400, "choices": ["x"]}"#, &[]),
            (r#"[" "]"#, &[]),
            ("[", &[]),
            ("\"text\"", &[]),
        ] {
            assert_eq!(choices(options), want, "{options}");
        }
        assert!(choices(&format!("{:?}", vec!["x"; 17])).is_empty());
        assert!(choices(&format!("[\"{}\"]", "x".repeat(257))).is_empty());
        assert!(choices(&"[".repeat(10_000)).is_empty(), "deep ones are not followed");
    }
}
