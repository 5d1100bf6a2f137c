//! The page tools: each is the driver's tool of the same name, for the caller's own session.

use super::{Definition, Effect, Reply};
use crate::driver::{self, DriverErrorCode, ToolReply};
use crate::gateway::driver_client::DriverFailure;
use crate::gateway::hub::watched;
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{Args, session_id, string};
use crate::gateway::{session_status, sessions};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a driver that does not answer may be about to be seen as lost.
const SEEN_LOST: Duration = Duration::from_secs(2);

macro_rules! page_tool {
    ($name:literal, $title:literal, $args:ty, $effect:expr, $idempotent:literal, $description:literal) => {
        Definition {
            name: $name,
            title: $title,
            description: |_| $description.to_owned(),
            input: || input::<$args>(),
            output,
            effect: $effect,
            idempotent: $idempotent,
            open_world: true,
            needs_http: false,
            run: |call, args| Box::pin(run(call, $name, args)),
        }
    };
}

pub(super) static TOOLS: &[Definition] = &[
    page_tool!("navigate", "Navigate", driver::Navigate, Effect::Changes, true, "Goes to an address and waits until the page has loaded."),
    page_tool!(
        "snapshot",
        "Snapshot",
        driver::Snapshot,
        Effect::Reads,
        true,
        "Reads the page as an accessibility tree. Elements carry references such as e12, which click and type take. Take a new one after \
         every change of the page, and after an operator has driven the browser."
    ),
    page_tool!("click", "Click", driver::Click, Effect::Changes, false, "Clicks an element of the newest snapshot."),
    page_tool!(
        "type",
        "Type",
        driver::Type,
        Effect::Changes,
        false,
        "Types text into an element of the newest snapshot; it replaces what is there."
    ),
    page_tool!("press_key", "Press key", driver::PressKey, Effect::Changes, false, "Presses a key, or a chord such as Control+A."),
    page_tool!("screenshot", "Screenshot", driver::Screenshot, Effect::Reads, true, "Takes a picture of the page."),
    page_tool!(
        "wait_for",
        "Wait for",
        driver::WaitFor,
        Effect::Reads,
        true,
        "Waits until the page shows a text, no longer shows it, or reaches an address."
    ),
    page_tool!(
        "handle_dialog",
        "Handle dialog",
        driver::HandleDialog,
        Effect::Changes,
        false,
        "Answers the JavaScript dialog that is open: accept true for OK, false for Cancel."
    ),
];

/// The driver's own schema of the arguments, with the session in front.
fn input<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = serde_json::to_value(schema).unwrap_or_default();
    let Some(fields) = schema.as_object_mut() else { return schema };
    for name in ["$schema", "title", "description"] {
        fields.remove(name);
    }
    let mut properties = serde_json::Map::from_iter([("session_id".to_owned(), session_id())]);
    if let Some(Value::Object(own)) = fields.remove("properties") {
        properties.extend(own.into_iter().map(|(name, schema)| (name, plain(schema))));
    }
    let mut required = vec![json!("session_id")];
    if let Some(Value::Array(own)) = fields.remove("required") {
        required.extend(own);
    }
    fields.insert("properties".to_owned(), Value::Object(properties));
    fields.insert("required".to_owned(), Value::Array(required));
    fields.insert("additionalProperties".to_owned(), json!(false));
    schema
}

/// Integer formats that validators do not know, and defaults, are noise to clients.
fn plain(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("format");
        fields.remove("default");
    }
    schema
}

fn output() -> Value {
    json!({
        "page": {
            "type": "object",
            "description": "The page after the action, without query and fragment.",
            "properties": {"origin": {"type": "string"}, "path": {"type": "string"}, "title": {"type": "string"}},
        },
        "dialog": {
            "type": "object",
            "description": "A dialog that is open and waits for an answer.",
            "properties": {"kind": {"type": "string"}, "message": {"type": "string"}, "default_value": {"type": "string"}},
        },
        "control": {
            "type": "object",
            "description": "Present when a person holds control of the browser, or asked for it.",
            "properties": {"holder": {"type": "string"}, "since": {"type": "string"}},
        },
    })
}

async fn run(call: &Call, tool: &'static str, mut args: Args) -> Result<Reply, Failure> {
    let gateway = &call.gateway;
    let id = string(&args, "session_id").unwrap_or_default().to_owned();
    args.remove("session_id");
    let arguments = Value::Object(args);
    let message = format!("{tool} in session {id}");
    let work = async {
        let session = sessions::find_ready(gateway, &call.who, &id).await?;
        gateway.activity.touch(&session);
        let done = async { gateway.drivers.of(&session).await?.tool(tool, &arguments).await }.await;
        Ok::<_, Failure>((session, done))
    };
    let (session, done) = call.while_wanted(&message, work).await?;
    match done {
        Ok(reply) => {
            session_status::page(gateway, &session, &reply.page);
            Ok(form(reply))
        }
        Err(failure) => Err(explain(call, &id, failure).await),
    }
}

fn form(reply: ToolReply) -> Reply {
    let mut fields = match reply.result {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            serde_json::Map::from_iter([("result".to_owned(), other)])
        }
    };
    // What a model reads is the tree itself, not the tree inside JSON.
    let text = fields.get("snapshot").and_then(Value::as_str).map(str::to_owned);
    fields.insert("page".to_owned(), json!(reply.page));
    if let Some(dialog) = reply.dialog {
        fields.insert("dialog".to_owned(), json!(dialog));
    }
    if let Some(control) = reply.control.and_then(|control| control_value(&control)) {
        fields.insert("control".to_owned(), control);
    }
    if let Some(image) = &reply.image {
        fields.insert("width".to_owned(), json!(image.width));
        fields.insert("height".to_owned(), json!(image.height));
    }
    let head = text.is_some().then(|| {
        let rest: serde_json::Map<String, Value> =
            fields.iter().filter(|(name, _)| *name != "snapshot").map(|(n, v)| (n.clone(), v.clone())).collect();
        Value::Object(rest).to_string()
    });
    let text = head.zip(text).map(|(head, text)| format!("{head}\n{text}"));
    Reply { result: Value::Object(fields), image: reply.image, text }
}

/// Absent fields are left out, since schemas here have no null.
fn control_value(control: &driver::ControlState) -> Option<Value> {
    let value = serde_json::to_value(control).ok()?;
    let fields = value.as_object()?.iter().filter(|(_, value)| !value.is_null());
    Some(Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// A driver that is gone is a session that crashed, closed or expired, once the controller has seen it.
async fn explain(call: &Call, id: &str, failure: DriverFailure) -> Failure {
    let gone = match &failure {
        DriverFailure::Refused(error) => error.code == DriverErrorCode::BrowserGone,
        DriverFailure::NotReady { .. } | DriverFailure::Unreachable { .. } => true,
    };
    if gone {
        let mut session = call.gateway.hub.session(&call.gateway.settings.namespace, id);
        let over = watched(&mut session, |session| session.as_ref().is_none_or(|session| sessions::ended(session).is_some()));
        if let Ok(Some(Some(over))) = tokio::time::timeout(SEEN_LOST, over).await
            && let Some(ended) = sessions::ended(&over)
        {
            return ended;
        }
    }
    let mut told = Failure::new(failure.code(), failure.to_string());
    if let DriverFailure::Refused(error) = &failure
        && let Some(control) = &error.control
    {
        if let Some(value) = control_value(control) {
            told.more.insert("control".to_owned(), value);
        }
        told.more.extend(control.holder.as_ref().map(|holder| ("holder".to_owned(), json!(holder))));
        told.more.extend(control.since.map(|since| ("since".to_owned(), json!(since))));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{ControlState, PageInfo, Picture};
    use crate::gateway::mcp::schema::check;

    fn find(name: &str) -> &'static Definition {
        TOOLS.iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn the_list_and_what_each_does_are_the_one_tables() {
        use crate::domain::tools::{Class, TOOLS as CLASSES};
        let ours: Vec<(&str, bool)> = TOOLS.iter().map(|tool| (tool.name, tool.effect != Effect::Reads)).collect();
        assert_eq!(ours.len(), CLASSES.len());
        for (name, class) in CLASSES {
            assert!(ours.contains(&(name, *class == Class::Change)), "{name}");
        }
    }

    #[test]
    fn the_schemas_are_the_drivers_with_a_session() {
        for (tool, args, want) in [
            ("navigate", json!({"session_id": "s", "url": "https://a"}), Ok(())),
            ("navigate", json!({"session_id": "s"}), Err("url is missing")),
            ("navigate", json!({"url": "https://a"}), Err("session_id is missing")),
            ("snapshot", json!({"session_id": "s"}), Ok(())),
            ("snapshot", json!({"session_id": "s", "x": 1}), Err("\"x\" is no argument")),
            ("click", json!({"session_id": "s", "ref": "e1", "double": true}), Ok(())),
            ("click", json!({"session_id": "s", "ref": 1}), Err("ref must be a string")),
            ("type", json!({"session_id": "s", "ref": "e1", "text": "x", "submit": "yes"}), Err("submit must be true or false")),
            ("wait_for", json!({"session_id": "s", "text": "x", "timeout_seconds": 301}), Err("timeout_seconds may be at most 300")),
            ("wait_for", json!({"session_id": "s", "text": "x", "timeout_seconds": 1.5}), Err("timeout_seconds must be a whole number")),
        ] {
            let checked = check(&(find(tool).input)(), args.as_object().unwrap());
            match want {
                Ok(()) => assert_eq!(checked, Ok(()), "{tool} {args}"),
                Err(start) => assert!(checked.clone().is_err_and(|e| e.starts_with(start)), "{tool} {args}: {checked:?}"),
            }
        }
    }

    #[test]
    fn a_reply_has_its_page_and_no_nulls() {
        let control = ControlState { holder: Some("ann".into()), epoch: 3, ..ControlState::default() };
        let reply = form(ToolReply {
            result: json!({"snapshot": "- button \"Pay\" [ref=e1]"}),
            image: Some(Picture { mime: "image/png".into(), data: "AA==".into(), width: 10, height: 20 }),
            page: PageInfo { origin: "https://a".into(), path: "/".into(), title: "A".into() },
            dialog: None,
            control: Some(control),
        });
        assert_eq!(reply.result["page"]["origin"], "https://a");
        assert_eq!((&reply.result["control"]["holder"], &reply.result["width"]), (&json!("ann"), &json!(10)));
        assert!(!reply.result.to_string().contains("null"));
        assert!(reply.text.unwrap().ends_with("\n- button \"Pay\" [ref=e1]"));
    }
}
