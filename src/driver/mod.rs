//! The driver API: what a session's pod offers to the gateway over TLS, to bearers of the session's token.
//!
//! Types and names, and the [`client`] that gateway and controller use; the server is `browser`.

pub mod client;
mod control;
pub mod input;
mod live;
mod page;
mod tools;

pub use control::*;
pub use live::*;
pub use page::*;
pub use tools::*;

/// The port of the driver in its pod.
pub const PORT: u16 = 7443;
/// The key of the bearer token in the session's Secret.
pub const SECRET_TOKEN: &str = "token";
/// The key of the PEM certificate that the driver serves and the gateway pins.
pub const SECRET_CERTIFICATE: &str = "tls.crt";
/// The key of the PEM private key.
pub const SECRET_KEY: &str = "tls.key";
/// The name in the driver's certificate.
pub const SERVER_NAME: &str = "driver.beckon.dev";

/// `GET`, without a token: 200 when Chromium answered within 2 s.
pub const HEALTH_PATH: &str = "/healthz";
/// `GET`: [`DriverState`].
pub const STATE_PATH: &str = "/v1/state";
/// `POST {TOOLS_PATH}/{tool}`: [`ToolReply`], or [`DriverError`].
pub const TOOLS_PATH: &str = "/v1/tools";
/// `POST` [`TakeControl`]: [`ControlGrant`]. Waits for the agent's action in progress.
pub const TAKE_PATH: &str = "/v1/control/take";
/// `POST` [`RenewControl`]: [`ControlGrant`].
pub const RENEW_PATH: &str = "/v1/control/renew";
/// `POST` [`ReleaseControl`]: [`ControlState`].
pub const RELEASE_PATH: &str = "/v1/control/release";
/// `POST` [`ResizeViewport`]: the real viewport, a [`crate::api::v1alpha1::Viewport`].
pub const RESIZE_PATH: &str = "/v1/viewport";
/// A WebSocket: [`FrameHeader`] and JPEG as binary messages and [`LiveEvent`] as text, out; [`LiveCommand`] as text, in.
pub const LIVE_PATH: &str = "/v1/live";
