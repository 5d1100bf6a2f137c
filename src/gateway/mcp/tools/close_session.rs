//! `close_session`: ends a session of one's own.

use super::{Definition, Effect, Reply};
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{Args, object, session_id, string};
use crate::gateway::sessions;
use serde_json::json;

pub(super) const TOOL: Definition = Definition {
    name: "close_session",
    title: "Close session",
    description: |_| {
        "Ends a browser session. Its open attention requests are rejected. Closing a closed session changes nothing.".to_owned()
    },
    input: || object(&[("session_id", session_id())], &["session_id"]),
    output: || json!({"session_id": {"type": "string"}, "closed": {"type": "boolean"}}),
    effect: Effect::Ends,
    idempotent: true,
    open_world: false,
    needs_http: false,
    run: |call, args| Box::pin(run(call, args)),
};

async fn run(call: &Call, args: Args) -> Result<Reply, Failure> {
    let id = string(&args, "session_id").unwrap_or_default();
    let session = sessions::find(&call.gateway, &call.who, id).await?;
    if sessions::ended(&session).is_none() {
        sessions::close(&call.gateway, &call.who, &session).await?;
    }
    Ok(json!({"session_id": id, "closed": true}).into())
}
