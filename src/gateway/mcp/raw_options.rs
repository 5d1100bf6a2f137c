//! Keeps the agent's `options` token for token.
//!
//! A JSON parser that builds numbers and maps loses `1.0`, `1e400`, duplicate keys and escapes. So before anything parses a
//! call, `params.arguments.options` is lifted out of the body as the text that it is, and put back as a JSON string of that text.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The tool that takes options.
const TOOL: &str = "request_attention";

type Raw<'a> = BTreeMap<String, &'a RawValue>;

/// The body with the options as a string of their own text; `None`: there is nothing to lift, or it is no such call.
#[must_use]
pub fn lift(body: &[u8]) -> Option<Vec<u8>> {
    let mut message: Raw<'_> = serde_json::from_slice(body).ok()?;
    if text(message.get("method")?)? != "tools/call" {
        return None;
    }
    let mut params: Raw<'_> = serde_json::from_str(message.get("params")?.get()).ok()?;
    if text(params.get("name")?)? != TOOL {
        return None;
    }
    let mut arguments: Raw<'_> = serde_json::from_str(params.get("arguments")?.get()).ok()?;
    let options = serde_json::to_string(arguments.get("options")?.get()).ok()?;
    let options = RawValue::from_string(options).ok()?;
    arguments.insert("options".to_owned(), &options);
    let arguments = raw(&arguments)?;
    params.insert("arguments".to_owned(), &arguments);
    let params = raw(&params)?;
    message.insert("params".to_owned(), &params);
    serde_json::to_vec(&message).ok()
}

fn raw(object: &Raw<'_>) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(object).ok()
}

fn text(value: &RawValue) -> Option<String> {
    String::deserialize(&mut serde_json::Deserializer::from_str(value.get())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn call(options: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"progressToken":"t"}},"name":"request_attention","arguments":{{"reason":"r","options":{options}}}}}}}"#
        )
    }

    fn lifted(options: &str) -> Option<String> {
        let body = lift(call(options).as_bytes())?;
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["params"]["_meta"]["progressToken"], "t");
        assert_eq!((&value["id"], &value["params"]["arguments"]["reason"]), (&Value::from(1), &Value::from("r")));
        value["params"]["arguments"]["options"].as_str().map(str::to_owned)
    }

    #[test]
    fn every_token_stays() {
        for options in [
            r#"{"b":1.0,"a":1e400,"b":-0.0}"#,
            r#"[1E5, 100000000000000000000000001, 0.10, "\u0041\/\ud83d\ude00"]"#,
            "{ \"spaced\" :\t[ ]\n}",
            r#""just text""#,
            r#""{\"looks\":\"lifted\"}""#,
            "null",
            "true",
            "\"\\ud800\"",
            "{\"ключ\":\"値\"}",
        ] {
            assert_eq!(lifted(options).as_deref(), Some(options));
        }
    }

    #[test]
    fn deep_options_do_not_overflow_anything() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(lifted(&deep).as_deref(), Some(deep.as_str()));
    }

    #[test]
    fn other_messages_are_left_alone() {
        for body in [
            "",
            "not json",
            "[1]",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"click","arguments":{"options":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_attention","arguments":{"reason":"r"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_attention"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_attention","arguments":{"options":{"a":}}}}"#,
        ] {
            assert_eq!(lift(body.as_bytes()), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_through(text in ".{0,200}") {
            let options = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(lifted(&options), Some(options.clone()));
        }
    }
}
