//! The MCP server: one for each session or call, all over the same shared handles.

use super::busy::Busy;
use super::call::{Call, NewCall, Wire};
use super::cancel::{Calls, call_name, meant};
use super::guard::{Reader, Resumed};
use super::tools;
use crate::gateway::auth::Principal;
use crate::gateway::process_lease::random_name;
use crate::gateway::state::Shared;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, Extensions, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::sync::Arc;

/// What all servers of this process share.
#[derive(Clone)]
pub(super) struct Agents {
    /// The shared handles.
    pub gateway: Shared,
    /// The running calls.
    pub calls: Calls,
    /// The streams that came back.
    pub resumed: Resumed,
    /// The sessions with a call in flight.
    pub busy: Busy,
    /// The caller of standard input; absent over HTTP, where each request has its own.
    pub local: Option<Arc<Principal>>,
}

impl Agents {
    fn caller(&self, extensions: &Extensions) -> Option<Arc<Principal>> {
        self.local.clone().or_else(|| extensions.get::<http::request::Parts>()?.extensions.get::<Arc<Principal>>().cloned())
    }

    fn call(&self, context: &RequestContext<RoleServer>) -> Result<Call, ErrorData> {
        let who = self.caller(&context.extensions).ok_or_else(|| ErrorData::internal_error("the call has no caller", None))?;
        let parts = context.extensions.get::<http::request::Parts>();
        let session = session_of(&context.extensions).filter(|_| is_session(context));
        let (wire, name) = match (&self.local, session) {
            (Some(_), _) => (Wire::Stdio, call_name("stdio", &context.id)),
            (None, Some(session)) => (Wire::Session { resumed: self.resumed.watch(&session) }, call_name(&session, &context.id)),
            (None, None) => (Wire::Stateless, format!("c-{}", random_name(20))),
        };
        let reader = parts.and_then(|parts| parts.extensions.get::<Reader>()).map(|reader| reader.0.clone());
        let token = context.meta.get_progress_token();
        let new = NewCall {
            gateway: Arc::clone(&self.gateway),
            who,
            wire,
            name,
            progress: token.map(|token| (context.peer.clone(), token)),
            stopped: context.ct.clone(),
            reader,
        };
        Ok(Call::enter(&self.calls, new))
    }
}

fn session_of(extensions: &Extensions) -> Option<String> {
    let parts = extensions.get::<http::request::Parts>()?;
    parts.headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The newer revision has no sessions, whatever header a client sends.
fn is_session(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.as_str() < ProtocolVersion::V_2026_07_28.as_str())
}

impl ServerHandler for Agents {
    fn get_info(&self) -> ServerConfig {
        let mut about = Implementation::new("beckon", env!("CARGO_PKG_VERSION"));
        about.title = Some("Beckon".to_owned());
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(about)
            .with_instructions(if self.local.is_some() { LOCAL } else { INSTRUCTIONS })
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().map(|tool| tool.to_tool(&self.gateway.settings)).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().find(|tool| tool.name == name).map(|tool| tool.to_tool(&self.gateway.settings))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::all().find(|tool| tool.name == request.name) else {
            let known: Vec<&str> = tools::all().map(|tool| tool.name).collect();
            let name: String = request.name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}; there are {}", known.join(", ")), None));
        };
        let _in_flight = session_of(&context.extensions).map(|session| self.busy.enter(&session));
        let call = self.call(&context)?;
        Ok(tool.call(&call, request.arguments.unwrap_or_default()).await.into())
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, context: NotificationContext<RoleServer>) {
        let Some(id) = cancelled.request_id else { return };
        let meant = meant(cancelled.reason.as_deref());
        let session = match &self.local {
            Some(_) => "stdio".to_owned(),
            None => match session_of(&context.extensions) {
                Some(session) => session,
                None => return,
            },
        };
        let name = call_name(&session, &id);
        if !self.calls.tell(&name, meant)
            && let Some(who) = self.caller(&context.extensions)
        {
            super::elsewhere::cancel(&self.gateway, &who, &name, meant).await;
        }
    }
}

const INSTRUCTIONS: &str = "Beckon gives you a browser and, when you need one, a person. Call create_session first; its session_id goes \
into every page tool. Read the page with snapshot, act with click, type and press_key on the references of the newest snapshot. When only \
a person can go on, call request_attention and wait for its result. Look at the page again after a person has driven it.";

const LOCAL: &str = "Beckon gives you a browser. Call create_session first; its session_id goes into every page tool. Read the page with \
snapshot, act with click, type and press_key on the references of the newest snapshot. Nobody can be asked over this connection.";
