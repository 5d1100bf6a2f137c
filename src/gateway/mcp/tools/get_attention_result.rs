//! `get_attention_result`: reads a result, or waits for it the same way.

use super::{Definition, Effect, Reply, attention_texts, outcome_properties};
use crate::domain::outcome::AgentResult;
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{self, Args, object, string, text};
use crate::gateway::mcp::waiting;
use crate::gateway::requests::store;
use crate::gateway::sessions;
use kube::ResourceExt as _;
use serde_json::{Value, json};

pub(super) const TOOL: Definition = Definition {
    name: "get_attention_result",
    title: "Get attention result",
    description: attention_texts::get_attention_result,
    input,
    output: outcome_properties,
    effect: Effect::Reads,
    idempotent: true,
    open_world: true,
    needs_http: true,
    run: |call, args| Box::pin(run(call, args)),
};

fn input() -> Value {
    let session = schema::with(schema::session_id(), "description", json!("Without request_id: your newest request of this session."));
    object(&[("request_id", text("The request's id. Absent: your newest request.", 0, 1024)), ("session_id", session)], &[])
}

async fn run(call: &Call, args: Args) -> Result<Reply, Failure> {
    let gateway = &call.gateway;
    let id = if let Some(id) = string(&args, "request_id") {
        Some(id.to_owned())
    } else {
        let session = string(&args, "session_id");
        if session.is_none() {
            only_one_session(call)?;
        }
        store::newest(gateway, &call.who, session).await?
    };
    let Some(id) = id else {
        return Ok(json!({"status": "rejected", "message": crate::domain::messages::UNKNOWN}).into());
    };
    match store::mine(gateway, &call.who, &id).await? {
        Some(request) => {
            let key = (gateway.settings.namespace.clone(), request.name_any());
            Ok(waiting::wait(call, &key).await?.into())
        }
        None => Ok(waiting::to_value(&AgentResult::unknown(id)).into()),
    }
}

/// "Your newest request" is clear only when it can be about one session.
fn only_one_session(call: &Call) -> Result<(), Failure> {
    let open = sessions::mine(&call.gateway, &call.who).into_iter().filter(|session| sessions::ended(session).is_none()).count();
    if open > 1 {
        return Err(Failure::argument(format!("request_id or session_id is missing: you have {open} open sessions")));
    }
    Ok(())
}
