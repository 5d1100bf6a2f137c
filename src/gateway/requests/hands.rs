//! The end of a takeover: with the request the hands of its person leave the browser, on whichever replica they took over.

use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Mode};
use crate::domain::session::ended;
use crate::driver::{ControlState, DriverErrorCode, ReleaseControl};
use crate::gateway::driver_client::DriverFailure;
use crate::gateway::state::Gateway;
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Duration;

/// Waits, but no longer than this, until the driver says that no person of this takeover has the hands any more. `None`: there is
/// nothing to say, or no answer in time; then the grant ends by itself.
pub async fn off(gateway: &Gateway, request: &AttentionRequest, within: Duration) -> Option<(Arc<BrowserSession>, ControlState)> {
    let named = request.spec.session_ref.as_ref().filter(|_| request.spec.mode == Mode::Takeover)?;
    let session = gateway.hub.sessions.get(&request.namespace().unwrap_or_default(), &named.name)?;
    let same = named.uid.is_none() || named.uid == session.metadata.uid;
    if !same || ended(session.status.as_ref().and_then(|status| status.phase)) {
        return None;
    }
    let asking = async {
        let driver = gateway.drivers.of(&session).await?;
        driver.release(&ReleaseControl { lease: None, request: Some(request.name_any()) }).await
    };
    match tokio::time::timeout(within, asking).await {
        Ok(Ok(state)) => return Some((session, state)),
        // Nobody drove for it.
        Ok(Err(DriverFailure::Refused(error))) if error.code == DriverErrorCode::LeaseEnded => {}
        Ok(Err(error)) => tracing::warn!(code = error.code(), "control could not be ended at once; its grant ends by itself"),
        Err(_) => tracing::warn!("control could not be ended at once; its grant ends by itself"),
    }
    None
}
