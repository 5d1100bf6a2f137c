//! Asks a session's driver once how well its browser is isolated.

use super::build::secret_name;
use super::observe::Observed;
use super::status::Sandbox;
use crate::api::conditions::{self, ConditionType, SandboxedReason};
use crate::api::v1alpha1::BrowserSession;
use crate::controller::context::Context;
use crate::domain::session::bounded;
use crate::driver::{DriverState, PORT, SECRET_CERTIFICATE, SECRET_TOKEN, SERVER_NAME, STATE_PATH};
use crate::k8s::client::call;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The longest that the driver may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest reply, in bytes.
const MOST_BYTES: usize = 256 * 1024;
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

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&certificate.0)?)?;
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = tokio::net::TcpStream::connect((ip, PORT)).await?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(ServerName::try_from(SERVER_NAME)?, socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = http::Request::get(STATE_PATH)
        .header(http::header::HOST, SERVER_NAME)
        .header(http::header::AUTHORIZATION, format!("Bearer {}", std::str::from_utf8(&token.0)?))
        .body(Empty::<bytes::Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("the driver answered {}", response.status()).into());
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await?.to_bytes();
        Ok::<_, Box<dyn Error + Send + Sync>>(serde_json::from_slice(&body)?)
    };
    tokio::pin!(exchange);
    tokio::select! {
        state = &mut exchange => state,
        ended = connection => { ended?; exchange.await }
    }
}
