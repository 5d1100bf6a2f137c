//! `list_sessions`: the caller's own.

use super::{Definition, Effect, Reply};
use crate::api::v1alpha1::{BrowserSession, SessionPhase};
use crate::gateway::mcp::call::Call;
use crate::gateway::mcp::schema::object;
use crate::gateway::sessions;
use kube::ResourceExt as _;
use serde_json::{Value, json};

pub(super) const TOOL: Definition = Definition {
    name: "list_sessions",
    title: "List sessions",
    description: |_| "Lists your browser sessions, newest first, those that have ended lately included.".to_owned(),
    input: || object(&[], &[]),
    output,
    effect: Effect::Reads,
    idempotent: true,
    open_world: false,
    needs_http: false,
    run: |call, _| Box::pin(std::future::ready(Ok(list(call)))),
};

fn output() -> Value {
    let session = json!({
        "type": "object",
        "properties": {
            "session_id": {"type": "string"},
            "phase": {"type": "string", "enum": ["Pending", "Ready", "Closed", "Crashed", "Expired"]},
            "created_at": {"type": "string"},
            "page": {"type": "object", "properties": {"origin": {"type": "string"}, "title": {"type": "string"}}},
            "open_requests": {"type": "array", "items": {"type": "string"}},
            "control": {"type": "object", "properties": {"holder": {"type": "string"}, "since": {"type": "string"}}},
            "message": {"type": "string"},
        },
        "required": ["session_id", "phase"],
    });
    json!({"sessions": {"type": "array", "items": session}})
}

fn list(call: &Call) -> Reply {
    let sessions: Vec<Value> = sessions::mine(&call.gateway, &call.who).iter().map(|session| describe(session)).collect();
    json!({"sessions": sessions}).into()
}

fn describe(session: &BrowserSession) -> Value {
    let status = session.status.clone().unwrap_or_default();
    let closing = session.spec.close.is_some() && matches!(status.phase, None | Some(SessionPhase::Pending | SessionPhase::Ready));
    let phase = if closing { SessionPhase::Closed } else { status.phase.unwrap_or_default() };
    let mut value = json!({"session_id": session.name_any(), "phase": phase.as_str()});
    let more = [
        ("created_at", session.metadata.creation_timestamp.as_ref().map(|time| json!(time))),
        ("page", status.page.map(|page| json!(page))),
        ("open_requests", (!status.open_requests.is_empty()).then(|| json!(status.open_requests))),
        ("control", status.control.and_then(|control| Some(json!({"holder": control.holder?, "since": control.since?})))),
        ("message", status.message.map(Value::from)),
    ];
    if let Some(fields) = value.as_object_mut() {
        fields.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    value
}
