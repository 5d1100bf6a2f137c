//! The client of a driver: TLS pinned to the session's own certificate, the session's token, bounded waits.

use super::{
    ControlGrant, ControlState, DriverError, DriverErrorCode, DriverState, LIVE_PATH, PORT, RELEASE_PATH, RENEW_PATH, RESIZE_PATH,
    ReleaseControl, RenewControl, ResizeViewport, SERVER_NAME, STATE_PATH, TAKE_PATH, TOOLS_PATH, TakeControl, ToolReply,
};
use crate::api::v1alpha1::Viewport;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite;

/// A tool waits for at most 300 s by itself; a little more for the way.
const TOOL: Duration = Duration::from_secs(330);
/// Taking control waits for the agent's action in progress.
const TAKE: Duration = Duration::from_mins(1);
const QUICK: Duration = Duration::from_secs(5);
/// The largest reply: a picture of a whole page, in base64.
const LARGEST: usize = 48 * 1024 * 1024;

/// The live view's socket to the driver.
pub type LiveSocket = tokio_tungstenite::WebSocketStream<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>;

/// Why a driver can't be used, or what it refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverFailure {
    /// The driver's own answer, for the agent as it is.
    #[error("{}", .0.message)]
    Refused(Box<DriverError>),
    /// The session has no pod, or its Secret is not there.
    #[error("the browser of session {session} is not there yet: {why}")]
    NotReady {
        /// The session.
        session: String,
        /// What is missing.
        why: String,
    },
    /// The pod did not answer.
    #[error("the browser of session {session} did not answer: {why}")]
    Unreachable {
        /// The session.
        session: String,
        /// For a person; no addresses of pages, nothing typed.
        why: String,
    },
}

impl DriverFailure {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(error) => code(error.code),
            Self::NotReady { .. } => "SESSION_NOT_READY",
            Self::Unreachable { .. } => "BROWSER_UNREACHABLE",
        }
    }
}

/// The code as agents read it.
#[must_use]
pub const fn code(code: DriverErrorCode) -> &'static str {
    match code {
        DriverErrorCode::InvalidArgument => "INVALID_ARGUMENT",
        DriverErrorCode::Unauthenticated => "UNAUTHENTICATED",
        DriverErrorCode::NotFound => "NOT_FOUND",
        DriverErrorCode::ControlHeld => "CONTROL_HELD",
        DriverErrorCode::ObserveFirst => "OBSERVE_FIRST",
        DriverErrorCode::StaleReference => "STALE_REFERENCE",
        DriverErrorCode::DialogOpen => "DIALOG_OPEN",
        DriverErrorCode::LeaseEnded => "LEASE_ENDED",
        DriverErrorCode::ActionFailed => "ACTION_FAILED",
        DriverErrorCode::TabCrashed => "TAB_CRASHED",
        DriverErrorCode::BrowserGone => "BROWSER_GONE",
        DriverErrorCode::Internal => "INTERNAL",
    }
}

type Https = hyper_rustls::HttpsConnector<HttpConnector>;

/// The driver of one pod.
#[derive(Clone)]
pub struct Driver {
    session: Arc<str>,
    address: IpAddr,
    token: HeaderValue,
    tls: Arc<rustls::ClientConfig>,
    http: Client<Https, Full<Bytes>>,
}

impl Driver {
    /// The driver of a session's pod at `address`, with the token and the certificate (PEM) of the session's Secret.
    ///
    /// # Errors
    /// What is malformed.
    pub fn new(session: &str, address: IpAddr, token: &[u8], certificate: &[u8]) -> Result<Self, &'static str> {
        let certificate = CertificateDer::from_pem_slice(certificate).map_err(|_| "the certificate in its Secret is malformed")?;
        let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).map_err(|_| "the token in its Secret is malformed")?;
        header.set_sensitive(true);
        let name = ServerName::try_from(SERVER_NAME).map_err(|_| "the server's name is malformed")?;
        let tls = Arc::new(pin::config(certificate));
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(QUICK));
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config((*tls).clone())
            .https_only()
            .with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(tcp);
        let http = Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_mins(1)).pool_max_idle_per_host(8).build(https);
        Ok(Self { session: session.into(), address, token: header, tls, http })
    }

    /// What the driver sees.
    pub async fn state(&self) -> Result<DriverState, DriverFailure> {
        self.call(Method::GET, STATE_PATH, None::<&()>, QUICK).await
    }

    /// Calls a page tool.
    pub async fn tool(&self, tool: &str, arguments: &Value) -> Result<ToolReply, DriverFailure> {
        self.call(Method::POST, &format!("{TOOLS_PATH}/{tool}"), Some(arguments), TOOL).await
    }

    /// Takes control for a person.
    pub async fn take(&self, take: &TakeControl) -> Result<ControlGrant, DriverFailure> {
        self.call(Method::POST, TAKE_PATH, Some(take), TAKE).await
    }

    /// Keeps a grant alive.
    pub async fn renew(&self, renew: &RenewControl) -> Result<ControlGrant, DriverFailure> {
        self.call(Method::POST, RENEW_PATH, Some(renew), QUICK).await
    }

    /// Hands back.
    pub async fn release(&self, release: &ReleaseControl) -> Result<ControlState, DriverFailure> {
        self.call(Method::POST, RELEASE_PATH, Some(release), QUICK).await
    }

    /// Resizes the agent's browser; answers the real size.
    pub async fn resize(&self, size: ResizeViewport) -> Result<Viewport, DriverFailure> {
        self.call(Method::POST, RESIZE_PATH, Some(&size), QUICK).await
    }

    /// Opens the live view.
    pub async fn live(&self) -> Result<LiveSocket, DriverFailure> {
        let unreachable = |why: String| DriverFailure::Unreachable { session: self.session.to_string(), why };
        let connect = async {
            let tcp = tokio::net::TcpStream::connect((self.address, PORT)).await.map_err(|e| unreachable(e.to_string()))?;
            tcp.set_nodelay(true).map_err(|e| unreachable(e.to_string()))?;
            let name = ServerName::try_from(SERVER_NAME).map_err(|e| unreachable(e.to_string()))?;
            let tls = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await;
            let tls = tls.map_err(|e| unreachable(e.to_string()))?;
            let mut request = tungstenite::client::IntoClientRequest::into_client_request(format!("wss://{SERVER_NAME}{LIVE_PATH}"))
                .map_err(|e| unreachable(e.to_string()))?;
            request.headers_mut().insert(AUTHORIZATION, self.token.clone());
            tokio_tungstenite::client_async(request, tls).await.map(|(socket, _)| socket).map_err(|error| {
                if let tungstenite::Error::Http(reply) = &error {
                    return unreachable(format!("the live view answered {}", reply.status()));
                }
                unreachable(error.to_string())
            })
        };
        tokio::time::timeout(QUICK, connect).await.unwrap_or_else(|_| Err(unreachable("no reply in time".to_owned())))
    }

    async fn call<B: Serialize, R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        within: Duration,
    ) -> Result<R, DriverFailure> {
        let unreachable = |why: &str| DriverFailure::Unreachable { session: self.session.to_string(), why: why.to_owned() };
        let body = body.map(serde_json::to_vec).transpose().map_err(|_| unreachable("the call could not be written as JSON"))?;
        let host = match self.address {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{host}:{PORT}{path}"))
            .header(AUTHORIZATION, self.token.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|_| unreachable("the call could not be built"))?;
        let exchange = async {
            let reply = self.http.request(request).await.map_err(|error| unreachable(&cause(&error)))?;
            let status = reply.status();
            let bytes =
                Limited::new(reply.into_body(), LARGEST).collect().await.map_err(|_| unreachable("its reply broke off"))?.to_bytes();
            if status.is_success() {
                return serde_json::from_slice(&bytes).map_err(|_| unreachable("its reply could not be read"));
            }
            match serde_json::from_slice::<DriverError>(&bytes) {
                Ok(error) => Err(DriverFailure::Refused(Box::new(error))),
                Err(_) => Err(unreachable(&format!("it answered {status}"))),
            }
        };
        tokio::time::timeout(within, exchange).await.unwrap_or_else(|_| Err(unreachable("no reply in time")))
    }
}

/// The innermost cause, which names what went wrong on the way.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// TLS that believes exactly one certificate.
mod pin {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
    use std::sync::Arc;
    use subtle::ConstantTimeEq as _;

    #[derive(Debug)]
    struct Pinned {
        certificate: CertificateDer<'static>,
        provider: Arc<CryptoProvider>,
    }

    /// A client that accepts `certificate` from the server, and no other.
    pub(super) fn config(certificate: CertificateDer<'static>) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(Pinned { certificate, provider });
        ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    }

    impl ServerCertVerifier for Pinned {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            _server_name: &ServerName<'_>,
            _ocsp: &[u8],
            _now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            if bool::from(end_entity.as_ref().ct_eq(self.certificate.as_ref())) {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    }
}
