//! The tools, one file each.

mod attention_texts;
mod cancel_attention;
mod close_session;
mod create_session;
mod get_attention_result;
mod list_sessions;
mod page;
mod request_attention;

use super::call::{Call, Failure};
use super::schema::{self, Args};
use crate::driver::Picture;
use crate::gateway::Settings;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a tool answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The structured result.
    pub result: Value,
    /// A picture.
    pub image: Option<Picture>,
    /// What a model should read instead of the JSON.
    pub text: Option<String>,
}

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Self { result, image: None, text: None }
    }
}

/// The work of a tool.
pub type Run = for<'a> fn(&'a Call, Args) -> BoxFuture<'a, Result<Reply, Failure>>;

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only looks.
    Reads,
    /// Adds or changes.
    Changes,
    /// May end or remove something.
    Ends,
}

/// A tool.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For the model; some of it depends on the settings.
    pub description: fn(&Settings) -> String,
    /// The schema of its arguments.
    pub input: fn() -> Value,
    /// What its structured result may hold: names and schemas.
    pub output: fn() -> Value,
    /// What it does.
    pub effect: Effect,
    /// Whether doing it twice is doing it once.
    pub idempotent: bool,
    /// Whether it reaches beyond this server.
    pub open_world: bool,
    /// Whether it needs the HTTP transport.
    pub needs_http: bool,
    /// The work.
    pub run: Run,
}

/// Every tool, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    const OURS: &[&Definition] = &[
        &create_session::TOOL,
        &list_sessions::TOOL,
        &close_session::TOOL,
        &request_attention::TOOL,
        &get_attention_result::TOOL,
        &cancel_attention::TOOL,
    ];
    OURS.iter().copied().chain(page::TOOLS.iter())
}

impl Definition {
    /// As it is listed.
    pub fn to_tool(&self, settings: &Settings) -> Tool {
        let mut input = (self.input)();
        strip(&mut input);
        let mut tool = Tool::new(self.name, (self.description)(settings), object(input));
        tool.title = Some(self.title.to_owned());
        tool.output_schema = Some(object(result_schema((self.output)())));
        let changes = self.effect != Effect::Reads;
        tool.annotations = Some(ToolAnnotations::from_raw(
            Some(self.title.to_owned()),
            Some(!changes),
            Some(self.effect == Effect::Ends),
            Some(self.idempotent),
            Some(self.open_world),
        ));
        tool
    }

    /// Checks the arguments, runs, counts, and puts the answer into its form.
    pub async fn call(&self, call: &Call, args: Args) -> CallToolResult {
        let done = if self.needs_http && matches!(call.wire, super::call::Wire::Stdio) {
            Err(Failure::new(
                "ATTENTION_REQUIRES_HTTP",
                "attention requests need the HTTP transport: connect to the /mcp address of a gateway that runs with --transport http",
            ))
        } else if let Err(why) = schema::check(&(self.input)(), &args) {
            Err(Failure::argument(why))
        } else {
            (self.run)(call, without_nulls(args)).await
        };
        call.gateway.metrics.called(self.name, done.as_ref().map_or_else(|failure| failure.code, |_| "OK"));
        match done {
            Ok(reply) => success(reply),
            Err(failure) => error(&failure),
        }
    }
}

fn success(reply: Reply) -> CallToolResult {
    let text = reply.text.unwrap_or_else(|| reply.result.to_string());
    let mut content = vec![ContentBlock::text(text)];
    content.extend(reply.image.map(|image| ContentBlock::image(image.data, image.mime)));
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(reply.result);
    result
}

/// A tool error: structured, and as text.
pub fn error(failure: &Failure) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(failure.text())]);
    result.structured_content = Some(failure.to_value());
    result
}

/// Clients send null for what they leave out.
fn without_nulls(args: Args) -> Args {
    args.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

fn object(schema: Value) -> Arc<rmcp::model::JsonObject> {
    let Value::Object(fields) = schema else { return Arc::default() };
    Arc::new(fields)
}

/// Our own keywords are not for clients.
fn strip(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|name, _| !name.starts_with("x-"));
        fields.values_mut().for_each(strip);
    }
}

/// What there may be in `{status, message?, resolved_by?, resolved_at?, request_id}`.
fn outcome_properties() -> Value {
    json!({
        "status": {
            "type": "string",
            "enum": ["resolved", "rejected", "timeout", "cancelled", "pending"],
            "description": "resolved: done, continue. rejected: give up or try something else; the message says why. timeout: nobody answered in time. cancelled: withdrawn. pending: still open, call get_attention_result.",
        },
        "message": {"type": "string", "description": "The operator's reply, or what happened."},
        "resolved_by": {"type": "string", "description": "The operator."},
        "resolved_at": {"type": "integer", "description": "Milliseconds since 1970."},
        "request_id": {"type": "string", "description": "The request's id, for get_attention_result."},
    })
}

/// The schema of a structured result. An error has one as well, and clients hold it to the same schema; so nothing is required
/// in it, else they would hide the error behind one of their own.
fn result_schema(properties: Value) -> Value {
    let mut all = json!({
        "code": {"type": "string", "description": "Only of an error: a stable word for what went wrong."},
        "message": {"type": "string", "description": "Only of an error: what was wrong and what to do."},
    });
    if let (Some(all), Value::Object(properties)) = (all.as_object_mut(), properties) {
        all.extend(properties);
    }
    json!({"type": "object", "properties": all})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_tool_is_listed_once_with_both_schemas_and_no_odd_types() {
        let settings = settings(&[]);
        let mut names = HashSet::new();
        for tool in all() {
            assert!(names.insert(tool.name), "{} twice", tool.name);
            let listed = serde_json::to_value(tool.to_tool(&settings)).unwrap();
            assert_eq!(listed["inputSchema"]["type"], "object", "{}", tool.name);
            assert_eq!(listed["outputSchema"]["type"], "object", "{}", tool.name);
            let text = listed.to_string();
            assert!(listed["outputSchema"].get("required").is_none(), "{}: an error must fit too", tool.name);
            assert_eq!(listed["outputSchema"]["properties"]["code"]["type"], "string", "{}", tool.name);
            for odd in ["uint", "\"null\"", "\"x-", "$schema", "$defs"] {
                assert!(!text.contains(odd), "{}: {odd} in {text}", tool.name);
            }
            for (name, _) in listed["inputSchema"]["properties"].as_object().unwrap() {
                assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}.{name}", tool.name);
            }
        }
        let wanted = [
            "create_session",
            "list_sessions",
            "close_session",
            "navigate",
            "snapshot",
            "click",
            "type",
            "press_key",
            "screenshot",
            "wait_for",
            "handle_dialog",
            "request_attention",
            "get_attention_result",
            "cancel_attention",
        ];
        assert_eq!(names, wanted.into_iter().collect());
    }

    #[test]
    fn an_error_is_structured_and_text() {
        let result = error(&Failure::new("RATE_LIMITED", "at most 8"));
        assert_eq!(result.structured_content, Some(json!({"code": "RATE_LIMITED", "message": "at most 8"})));
        assert_eq!(result.is_error, Some(true));
        assert!(serde_json::to_string(&result.content).unwrap().contains("RATE_LIMITED: at most 8"));
        assert!(Failure::new("RATE_LIMITED", "RATE_LIMITED: at most 8").text().matches("RATE_LIMITED").count() == 1);
    }

    pub(super) fn settings(flags: &[&str]) -> Settings {
        use clap::Parser;
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            args: crate::gateway::GatewayArgs,
        }
        Cli::parse_from(std::iter::once("beckon").chain(flags.iter().copied())).args.settings().unwrap()
    }
}
