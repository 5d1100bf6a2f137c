//! `cancel_attention`: withdraws a request.

use super::{Definition, Effect, Reply, attention_texts, outcome_properties};
use crate::domain::outcome::AgentResult;
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{Args, object, printable, string, text};
use crate::gateway::mcp::waiting;
use crate::gateway::requests::store;
use kube::ResourceExt as _;
use serde_json::Value;

pub(super) const TOOL: Definition = Definition {
    name: "cancel_attention",
    title: "Cancel attention request",
    description: attention_texts::cancel_attention,
    input,
    output: outcome_properties,
    effect: Effect::Ends,
    idempotent: true,
    open_world: true,
    needs_http: true,
    run: |call, args| Box::pin(run(call, args)),
};

fn input() -> Value {
    let reason = printable("Why; the operator may read it.", 0, 2000);
    object(&[("request_id", text("The request's id.", 1, 1024)), ("reason", reason)], &["request_id"])
}

async fn run(call: &Call, args: Args) -> Result<Reply, Failure> {
    let gateway = &call.gateway;
    let id = string(&args, "request_id").unwrap_or_default();
    let Some(request) = store::mine(gateway, &call.who, id).await? else {
        return Ok(waiting::to_value(&AgentResult::unknown(id)).into());
    };
    let key = (gateway.settings.namespace.clone(), request.name_any());
    if store::is_open(&request) {
        let reason = string(&args, "reason").filter(|reason| !reason.is_empty()).unwrap_or("Cancelled by the agent.");
        store::cancel(gateway, &call.who, &key, reason).await?;
    }
    // The decision that won, this one or another.
    Ok(waiting::wait(call, &key).await?.into())
}
