//! The flags of `beckon browser`.

use crate::api::v1alpha1::Viewport;
use crate::driver::PORT;
use clap::{Args, ValueEnum};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The flags of `beckon browser`.
#[derive(Args, Debug, Clone)]
pub struct BrowserArgs {
    /// Address of the driver API [default: $POD_IP:7443, or 127.0.0.1:7443]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<SocketAddr>,
    /// Directory of the session's Secret: token, tls.crt, tls.key
    #[arg(long, value_name = "DIR", default_value = "/etc/beckon/driver")]
    pub driver_dir: PathBuf,
    /// Which browser
    #[arg(long, value_enum, ignore_case = true, default_value_t = Flavour::Chromium)]
    pub flavour: Flavour,
    /// The first page: http://, https:// or about:blank
    #[arg(long, value_name = "URL", default_value = "about:blank")]
    pub start_url: String,
    /// Width of the page in CSS pixels, 320 to 2560
    #[arg(long, default_value_t = 1280, value_parser = clap::value_parser!(i32).range(320..=2560))]
    pub width: i32,
    /// Height of the page in CSS pixels, 240 to 1600
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(i32).range(240..=1600))]
    pub height: i32,
    /// Language, such as en-GB
    #[arg(long, value_name = "TAG")]
    pub locale: Option<String>,
    /// Time zone, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// The User-Agent header
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Proxy server, as Chromium's --proxy-server takes it
    #[arg(long, value_name = "SERVER")]
    pub proxy: Option<String>,
    /// The browser's real binary [default: where the packages put it]
    #[arg(long, value_name = "FILE")]
    pub chromium_path: Option<PathBuf>,
    /// Go on without a sandbox where the platform allows Chromium none
    #[arg(long)]
    pub allow_no_sandbox: bool,
    /// What isolates the browser: Native is Chromium's own sandbox, Runtime the pod's runtime class
    #[arg(long, value_enum, ignore_case = true, default_value_t = SandboxTier::Native)]
    pub sandbox_tier: SandboxTier,
}

/// Which browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Flavour {
    /// The full browser.
    Chromium,
    /// The old headless mode: half the memory.
    HeadlessShell,
}

/// What isolates the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum SandboxTier {
    /// Chromium's own sandbox.
    Native,
    /// The pod's runtime class; Chromium's own sandbox as well where it starts.
    Runtime,
}

impl BrowserArgs {
    /// Where the driver API listens: the flag, else the pod's address, else loopback.
    ///
    /// # Errors
    /// When `POD_IP` is no address.
    pub fn address(&self) -> Result<SocketAddr, String> {
        if let Some(address) = self.listen {
            return Ok(address);
        }
        match std::env::var("POD_IP").ok().filter(|ip| !ip.is_empty()) {
            None => Ok((Ipv4Addr::LOCALHOST, PORT).into()),
            Some(ip) => {
                let ip: IpAddr = ip.parse().map_err(|_| format!("POD_IP is no IP address: {ip:?}; give --listen IP:PORT instead"))?;
                Ok((ip, PORT).into())
            }
        }
    }

    /// The page's size.
    #[must_use]
    pub fn viewport(&self) -> Viewport {
        Viewport { width: self.width, height: self.height }
    }
}
