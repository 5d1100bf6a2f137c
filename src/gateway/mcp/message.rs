//! Reads a message before the library does: what it is about, and what a parser that builds numbers and maps would lose.
//!
//! `params.arguments.options` must come out token for token, so it is lifted out of the body as the text that it is, and put
//! back as a JSON string of that text. An argument that no such parser can read (`1e400`, half a surrogate pair, a thousand
//! brackets) would lose the whole message without a word about which it was; it is put back as a mark that the check of the
//! arguments names.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The tool that takes options.
const TOOL: &str = "request_attention";
/// Where a message of the newer revision names it.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the mark of an argument that can't be read.
const UNREADABLE: &str = "beckon.dev/unreadable";

type Raw<'a> = BTreeMap<String, &'a RawValue>;

/// What a message is about. In the request's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The method; empty when it is a response.
    pub method: String,
    /// The id of a request, as JSON.
    pub id: Option<String>,
    /// The protocol version that an `initialize` names.
    pub version: Option<String>,
    /// The task that a message is about.
    pub task: Option<String>,
}

/// Why a message can't be one. For its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMessage {
    /// No JSON.
    #[error("the body is no valid JSON: {0}")]
    Syntax(String),
    /// An array.
    #[error("the body is an array: batches are not served, send one message in each request")]
    Batch,
    /// Any other JSON.
    #[error("the body is no JSON-RPC message: it must be an object with jsonrpc, method and params")]
    NoObject,
    /// A part of the message; the text names it.
    #[error("{0}")]
    Part(&'static str),
    /// A part of the parameters; the text names it.
    #[error("{0}")]
    Params(&'static str),
}

impl NoMessage {
    /// The code of JSON-RPC.
    #[must_use]
    pub(super) const fn code(&self) -> i32 {
        match self {
            Self::Syntax(_) => -32700,
            Self::Batch | Self::NoObject | Self::Part(_) => -32600,
            Self::Params(_) => -32602,
        }
    }
}

impl Envelope {
    /// Whether it calls a tool and waits for the result.
    #[must_use]
    pub(super) fn is_call(&self) -> bool {
        self.method == "tools/call" && self.id.is_some()
    }
}

/// Why a body is no message, with the id of the request where it has one.
pub(super) type Unread = (NoMessage, Option<String>);

/// Reads a body: what it is about, and the body to hand on where it must be another one.
pub(super) fn read(body: &[u8]) -> Result<(Envelope, Option<Vec<u8>>), Unread> {
    let whole: &RawValue = serde_json::from_slice(body).map_err(|error| (NoMessage::Syntax(error.to_string()), None))?;
    let message: Raw<'_> = serde_json::from_str(whole.get()).map_err(|_| match whole.get().as_bytes().first() {
        Some(b'[') => (NoMessage::Batch, None),
        _ => (NoMessage::NoObject, None),
    })?;
    let id = message.get("id").map(|id| id.get().to_owned());
    let params = check(&message).map_err(|error| (error, id.clone()))?;
    let method = message.get("method").and_then(|method| text(method)).unwrap_or_default();
    let of = |name: &str| params.get(name).and_then(|value| text(value));
    let envelope = Envelope { id, version: of("protocolVersion").filter(|_| method == "initialize"), task: of("taskId"), method };
    let rewritten = if envelope.method == "tools/call" { rewrite(message, params) } else { None };
    Ok((envelope, rewritten))
}

/// What the library would only call unreadable, by name; the parameters.
fn check<'a>(message: &Raw<'a>) -> Result<Raw<'a>, NoMessage> {
    if message.get("jsonrpc").and_then(|version| text(version)).as_deref() != Some("2.0") {
        return Err(NoMessage::Part("jsonrpc must be \"2.0\""));
    }
    let method = match message.get("method") {
        Some(method) => text(method).ok_or(NoMessage::Part("method must be a string"))?,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Raw::new()),
        None => return Err(NoMessage::Part("method is missing")),
    };
    if message.get("id").is_some_and(|id| text(id).is_none() && serde_json::from_str::<i64>(id.get()).is_err()) {
        return Err(NoMessage::Part("id must be a string, or a whole number of at most 64 bits"));
    }
    let params: Raw<'a> = match message.get("params") {
        Some(params) => serde_json::from_str(params.get()).map_err(|_| NoMessage::Params("params must be an object"))?,
        None => Raw::new(),
    };
    let is_text = |name: &str| params.get(name).is_some_and(|value| text(value).is_some());
    let is_object = |name: &str| params.get(name).is_some_and(|value| value.get().starts_with('{'));
    // The newer revision, which names itself in each message, has no initialize: the library says so.
    let meta = params.get("_meta").and_then(|meta| serde_json::from_str::<Raw<'_>>(meta.get()).ok()).unwrap_or_default();
    if method == "initialize" && meta.contains_key(VERSION) {
        return Ok(params);
    }
    match method.as_str() {
        "tools/call" if !is_text("name") => Err(NoMessage::Params("params.name must be the name of a tool")),
        "tools/call" if !is_object("arguments") && params.get("arguments").is_some_and(|given| given.get() != "null") => {
            Err(NoMessage::Params("params.arguments must be an object with the arguments of the tool by their names"))
        }
        "initialize" if !is_text("protocolVersion") => {
            Err(NoMessage::Params("params.protocolVersion must be a revision of the protocol, such as 2025-11-25"))
        }
        "initialize" if !is_object("capabilities") => Err(NoMessage::Params("params.capabilities must be an object; it may be empty")),
        "initialize" if !is_object("clientInfo") => {
            Err(NoMessage::Params("params.clientInfo must be an object with the name and the version of the client"))
        }
        _ => Ok(params),
    }
}

/// The same call with its options as text and its unreadable arguments marked; `None`: it can stay as it is.
fn rewrite(message: Raw<'_>, params: Raw<'_>) -> Option<Vec<u8>> {
    let given = params.get("arguments")?.get();
    // What is put in lives shorter than the body.
    let (mut message, mut params, mut arguments): (Raw<'_>, Raw<'_>, Raw<'_>) = (message, params, serde_json::from_str(given).ok()?);
    let takes_options = params.get("name").and_then(|name| text(name)).as_deref() == Some(TOOL);
    let replaced: Vec<(String, Box<RawValue>)> = arguments
        .iter()
        .filter_map(|(name, value)| {
            let other = if takes_options && name == "options" { to_raw(value.get()) } else { mark(value.get()) };
            Some((name.clone(), other?))
        })
        .collect();
    if replaced.is_empty() {
        return None;
    }
    arguments.extend(replaced.iter().map(|(name, value)| (name.clone(), &**value)));
    let arguments = to_raw(&arguments)?;
    params.insert("arguments".to_owned(), &arguments);
    let params = to_raw(&params)?;
    message.insert("params".to_owned(), &params);
    serde_json::to_vec(&message).ok()
}

/// What stands for an argument that can't be read: for a number that is too large for any type the largest one, for anything
/// else what is wrong with it. `None`: it can be read.
fn mark(raw: &str) -> Option<Box<RawValue>> {
    let error = serde_json::from_str::<Value>(raw).err()?;
    match raw.as_bytes().first() {
        Some(b'-') => to_raw(f64::MIN),
        Some(b'0'..=b'9') => to_raw(f64::MAX),
        Some(b'"') => to_raw(serde_json::json!({UNREADABLE: "its text has half a surrogate pair"})),
        _ => {
            let why = error.to_string();
            to_raw(serde_json::json!({UNREADABLE: why.split(" at line").next().unwrap_or_default()}))
        }
    }
}

/// Why an argument could not be read; `None` for one that could.
#[must_use]
pub(super) fn unreadable(argument: &Value) -> Option<&str> {
    argument.as_object().filter(|fields| fields.len() == 1)?.get(UNREADABLE)?.as_str()
}

fn to_raw(value: impl serde::Serialize) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&value).ok()
}

fn text(value: &RawValue) -> Option<String> {
    String::deserialize(&mut serde_json::Deserializer::from_str(value.get())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(tool: &str, arguments: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"progressToken":"t"}},"name":"{tool}","arguments":{arguments}}}}}"#
        )
    }

    fn arguments(tool: &str, given: &str) -> Option<Value> {
        let (envelope, body) = read(call(tool, given).as_bytes()).unwrap();
        assert!(envelope.is_call());
        let value: Value = serde_json::from_slice(&body?).unwrap();
        assert_eq!((&value["params"]["_meta"]["progressToken"], &value["id"]), (&Value::from("t"), &Value::from(1)));
        Some(value["params"]["arguments"].clone())
    }

    fn lifted(options: &str) -> Option<String> {
        let arguments = arguments(TOOL, &format!(r#"{{"reason":"r","options":{options}}}"#))?;
        assert_eq!(arguments["reason"], "r");
        arguments["options"].as_str().map(str::to_owned)
    }

    #[test]
    fn every_token_stays() {
        for options in [
            r#"{"b":1.0,"a":1e400,"b":-0.0}"#,
            r#"[1E5, 100000000000000000000000001, 0.10, "\u0041\/\ud83d\ude00"]"#,
            "{ \"spaced\" :\t[ ]\n}",
            r#""just text""#,
            r#""{\"looks\":\"lifted\"}""#,
            r#"{"beckon.dev/unreadable":"looks marked"}"#,
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
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"request_attention"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
            call("click", r#"{"options":1}"#),
            call(TOOL, r#"{"reason":"r"}"#),
            call(TOOL, "null"),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap().1, None, "{body}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        for (body, code, part) in [
            (&b""[..], -32700, "EOF"),
            (b"not json", -32700, "line 1 column 2"),
            (b"{\"a\":}", -32700, "line 1 column 6"),
            (b"{\"a\":NaN}", -32700, "line 1 column 6"),
            (b"{} {}", -32700, "trailing characters"),
            (b"{\"a\":\"\xff\"}", -32700, "unicode"),
            (b" [{}]", -32600, "batches"),
            (b"\"text\"", -32600, "object"),
            (b"7", -32600, "object"),
            (b"null", -32600, "object"),
        ] {
            let (error, id) = read(body).unwrap_err();
            assert!(error.code() == code && error.to_string().contains(part) && id.is_none(), "{body:?}: {} {error}", error.code());
        }
    }

    #[test]
    fn a_part_that_is_wrong_is_named_to_the_request() {
        for (body, code, part) in [
            (r#"{"id":7,"method":"ping"}"#, -32600, "jsonrpc"),
            (r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, -32600, "jsonrpc"),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, "method must"),
            (r#"{"jsonrpc":"2.0","id":7}"#, -32600, "method is missing"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, -32602, "params must"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#, -32602, "params.name"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":[]}}"#, -32602, "params.arguments"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":"{}"}}"#, -32602, "params.arguments"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#, -32602, "params.protocolVersion"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"x"}}"#, -32602, "params.capabilities"),
        ] {
            let (error, id) = read(body.as_bytes()).unwrap_err();
            assert!(error.code() == code && error.to_string().contains(part), "{body}: {} {error}", error.code());
            assert_eq!(id.as_deref(), Some("7"));
        }
        for id in ["null", "1.5", "{}", "[1]", "true", "99999999999999999999"] {
            let (error, _) = read(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("id must"), "{id}: {error}");
        }
    }

    #[test]
    fn an_argument_that_no_parser_reads_is_marked_and_the_others_stay() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for (tool, value, part) in [(TOOL, r#""\ud800""#, "surrogate"), ("click", &deep, "recursion"), ("click", r#"{"a":1e400}"#, "range")]
        {
            let arguments = arguments(tool, &format!(r#"{{"x":{value},"y":[1.5,"\u00e9"]}}"#)).expect(value);
            assert!(unreadable(&arguments["x"]).is_some_and(|why| why.contains(part)), "{arguments}");
            assert_eq!(arguments["y"], serde_json::json!([1.5, "é"]));
        }
        assert_eq!(unreadable(&serde_json::json!({"a": "b"})), None);
    }

    #[test]
    fn a_number_beyond_every_type_is_as_good_as_the_largest() {
        let arguments = arguments(TOOL, r#"{"a":1e400,"b":-1e400,"c":1e300}"#).unwrap();
        assert_eq!(arguments, serde_json::json!({"a": f64::MAX, "b": f64::MIN, "c": 1e300}));
    }

    #[test]
    fn the_envelope_says_what_it_is_about() {
        let of = |body: &str| read(body.as_bytes()).unwrap().0;
        let hello = of(
            r#"{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}}}"#,
        );
        assert_eq!((hello.id.as_deref(), hello.version.as_deref(), hello.is_call()), (Some("\"x\""), Some("2025-06-18"), false));
        of(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#);
        let task = of(r#"{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"a-1","protocolVersion":"x"}}"#);
        assert_eq!((task.task.as_deref(), task.version), (Some("a-1"), None));
        assert!(!of(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#).is_call(), "a notification waits for nothing");
        assert_eq!(of(r#"{"jsonrpc":"2.0","result":{}}"#), Envelope::default());
    }

    /// JSON texts as no library would write them: odd numbers, escapes, spaces, orders of keys, doubled keys.
    fn odd_json() -> impl Strategy<Value = String> {
        let number = proptest::string::string_regex("-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?").unwrap();
        let escaped = proptest::string::string_regex(r#"([ !#-\[\]-~é値]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,12}"#).unwrap();
        let string = escaped.prop_map(|text| format!("\"{text}\"")).boxed();
        let leaf = prop_oneof![number, string.clone(), Just("null".to_owned()), Just("true".to_owned()), Just("false".to_owned())];
        let space = proptest::string::string_regex("[ \t\r\n]{0,3}").unwrap().boxed();
        leaf.prop_recursive(5, 64, 6, move |inner| {
            let spaced = (space.clone(), inner, space.clone()).prop_map(|(a, value, b)| format!("{a}{value}{b}")).boxed();
            let member = (space.clone(), prop_oneof![string.clone(), Just("\"k\"".to_owned())], space.clone(), spaced.clone())
                .prop_map(|(a, key, b, value)| format!("{a}{key}{b}:{value}"));
            prop_oneof![
                proptest::collection::vec(spaced, 1..6).prop_map(|all| format!("[{}]", all.join(","))),
                proptest::collection::vec(member, 1..6).prop_map(|all| format!("{{{}}}", all.join(","))),
                Just("[ ]".to_owned()),
                Just("{\n}".to_owned()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_text_comes_through(text in ".{0,200}") {
            let options = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(lifted(&options), Some(options.clone()));
        }

        #[test]
        fn any_json_comes_through_token_for_token(options in odd_json()) {
            prop_assert_eq!(lifted(&options), Some(options.clone()));
        }

        /// Whatever comes in, nothing panics, and what is handed on is JSON.
        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok((_, Some(other))) = read(&body) {
                prop_assert!(serde_json::from_slice::<&RawValue>(&other).is_ok());
            }
        }

        #[test]
        fn any_arguments_are_read_or_marked(value in odd_json()) {
            let body = call(TOOL, &format!(r#"{{"reason":{value}}}"#));
            let (_, other) = read(body.as_bytes()).unwrap();
            let body = other.unwrap_or(body.into_bytes());
            prop_assert!(serde_json::from_slice::<Value>(&body).is_ok(), "{}", String::from_utf8_lossy(&body));
        }
    }
}
