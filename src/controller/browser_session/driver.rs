//! Asks a session's driver once how well its browser is isolated.

use super::build::secret_name;
use super::observe::Observed;
use super::status::Sandbox;
use crate::api::conditions::{self, ConditionType, SandboxedReason};
use crate::api::v1alpha1::BrowserSession;
use crate::controller::context::Context;
use crate::domain::session::bounded;
use crate::driver::client::Driver;
use crate::driver::{DriverState, SECRET_CERTIFICATE, SECRET_TOKEN};
use crate::k8s::client::call;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

/// The longest that the driver may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A driver that does not answer is asked this often.
const ATTEMPTS: u32 = 5;

/// Whether it is still to be asked.
pub(super) fn worth_asking(session: &BrowserSession, context: &Context) -> bool {
    context.asked_drivers.count(&session.uid().unwrap_or_default()) < ATTEMPTS
}

/// What it says: what was recorded, or `None` when it can't be asked now.
pub(super) async fn sandbox(session: &BrowserSession, observed: &Observed, context: &Context) -> Option<Sandbox> {
    let known = session.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(condition) = conditions::find(known, ConditionType::Sandboxed) {
        return SandboxedReason::parse(&condition.reason).map(|tier| Sandbox { tier, message: condition.message.clone() });
    }
    let uid = session.uid().unwrap_or_default();
    if !worth_asking(session, context) {
        return None;
    }
    let ip = observed.life.as_ref().and_then(|life| life.ip.as_ref()?.parse().ok())?;
    context.asked_drivers.failed(&uid);
    match tokio::time::timeout(TIMEOUT, ask(session, ip, context)).await {
        Ok(Ok(state)) => {
            context.asked_drivers.reset(&uid);
            let tier = SandboxedReason::parse(&state.sandbox).unwrap_or(SandboxedReason::Compat);
            Some(Sandbox { tier, message: state.sandbox_message.as_deref().map(bounded).unwrap_or_default() })
        }
        Ok(Err(error)) => {
            tracing::info!(%error, "a driver could not be asked about its sandbox");
            None
        }
        Err(_) => {
            tracing::info!("a driver could not be asked about its sandbox in time");
            None
        }
    }
}

async fn ask(session: &BrowserSession, ip: IpAddr, context: &Context) -> Result<DriverState, Box<dyn Error + Send + Sync>> {
    let secrets = context.api::<Secret>(&session.namespace().unwrap_or_default());
    let data = call(secrets.get(&secret_name(session))).await?.data.unwrap_or_default();
    let token = data.get(SECRET_TOKEN).ok_or("the secret has no token")?;
    let certificate = data.get(SECRET_CERTIFICATE).ok_or("the secret has no certificate")?;
    Ok(Driver::new(&session.name_any(), ip, &token.0, &certificate.0)?.state().await?)
}
