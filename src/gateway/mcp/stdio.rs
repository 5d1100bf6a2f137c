//! MCP over standard input and output, for a local client: the page tools, as the user of the kubeconfig.

use super::busy::Busy;
use super::cancel::Calls;
use super::guard::Resumed;
use super::server::Agents;
use crate::gateway::auth::Principal;
use crate::gateway::state::Shared;
use crate::k8s::user;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use std::sync::Arc;

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The API server does not say who the user is.
    #[error("the API server could not be asked who you are: {0}")]
    Whoami(String),
    /// The client did not begin the protocol.
    #[error("the client did not begin: {0}")]
    Client(String),
}

/// Serves until the client closes standard input, or the process is told to stop.
pub async fn serve(gateway: Shared) -> Result<(), StdioError> {
    let local = Some(Arc::new(whoami(&gateway).await?));
    let stop = gateway.stop.clone();
    let agents = Agents { gateway, calls: Calls::default(), resumed: Resumed::default(), busy: Busy::default(), local };
    let begun = tokio::select! {
        begun = agents.serve(rmcp::transport::stdio()) => begun,
        () = stop.cancelled() => return Ok(()),
    };
    let running = begun.map_err(|error| StdioError::Client(why_not(&error)))?;
    let cancel = running.cancellation_token();
    tokio::select! {
        ended = running.waiting() => drop(ended),
        () = stop.cancelled() => cancel.cancel(),
    }
    Ok(())
}

/// The library's own text would print the message, with what an agent types.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
fn why_not(error: &ServerInitializeError) -> String {
    match error {
        ServerInitializeError::ExpectedInitializeRequest(_) => "its first message must be initialize".to_owned(),
        ServerInitializeError::ConnectionClosed(_) => "it closed standard input before initialize".to_owned(),
        ServerInitializeError::InitializeFailed(error) => error.message.to_string(),
        _ => "its initialize could not be answered".to_owned(),
    }
}

async fn whoami(gateway: &Shared) -> Result<Principal, StdioError> {
    let user = user::whoami(&gateway.client).await.map_err(|error| StdioError::Whoami(error.to_string()))?;
    Principal::of(user).ok_or_else(|| StdioError::Whoami("no user name".to_owned()))
}
