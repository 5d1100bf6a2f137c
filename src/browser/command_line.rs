//! Which binary, and with which flags.

use super::args::{BrowserArgs, Flavour};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where packages put the real binaries. Their wrapper scripts add flags of their own and are not used.
const CHROMIUM: &[&str] = &[
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/usr/lib/chromium-browser/chromium-browser",
    "/opt/chromium/chrome",
    "/opt/google/chrome/chrome",
];
const HEADLESS_SHELL: &[&str] = &[
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/lib64/chromium-browser/headless_shell",
    "/opt/chromium/headless_shell",
    "/opt/chrome-headless-shell/chrome-headless-shell",
    "/headless-shell/headless-shell",
];

/// Without these a session costs less and asks the network for nothing of its own.
const LEAN: &[&str] = &[
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-domain-reliability",
    // Its log would tell what pages write to their consoles.
    "--log-level=1",
    "--disable-client-side-phishing-detection",
    "--disable-search-engine-choice-screen",
    "--disable-gpu",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--no-service-autorun",
    "--disable-features=OptimizationHints,MediaRouter,Translate,WebUIOmniboxPopup,WebUIOmniboxAimPopup,DialMediaRouteProvider,AutofillServerCommunication,BackForwardCache,Prerender2,WebPayments",
];
/// Windows of the browser itself that no picture shows. Some of them take all input away from the page until they are answered,
/// which nobody can do: a page is not offered them, and falls back to what is in the page.
const UNSEEN: &[&str] = &[
    "--disable-blink-features=WebAuth,GetDisplayMedia,FedCm,WebIdentityDigitalCredentials,WebIdentityDigitalCredentialsCreation",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    // What a person or an agent does before a document's first frame is committed would be dropped in silence.
    "--allow-pre-commit-input",
];
/// Where a page may lead. Chromium asks whether to start another program for any other address, in a window that no picture shows
/// and that takes all input away. Our script in the page keeps it from going there; a redirect, a frame or a new tab gets past it,
/// and then shows Chromium's page that says why. About mail Chromium asks nobody.
const LEADS_TO: &[&str] =
    &["http://*", "https://*", "about:*", "blob:*", "data:*", "filesystem:*", "chrome-extension://*", "mailto:*", "news:*", "snews:*"];
/// A tab that nobody sees works on like one that somebody sees.
const AWAKE: &[&str] =
    &["--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"];

/// No binary was found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {flavour} was found; looked for {looked}. Install {install}, or name the binary with --chromium-path")]
pub(super) struct NotFound {
    flavour: &'static str,
    looked: String,
    install: &'static str,
}

/// The binary to start.
///
/// # Errors
/// When there is none: says what was looked for and what to install.
pub(super) fn locate(args: &BrowserArgs) -> Result<PathBuf, NotFound> {
    let (flavour, known, install) = match args.flavour {
        Flavour::Chromium => ("Chromium", CHROMIUM, "Debian's package chromium"),
        Flavour::HeadlessShell => ("HeadlessShell", HEADLESS_SHELL, "Debian's package chromium-headless-shell"),
    };
    let looked: Vec<&Path> = match &args.chromium_path {
        Some(path) => vec![path],
        None => known.iter().map(Path::new).collect(),
    };
    if let Some(found) = looked.iter().find(|path| path.is_file()) {
        return Ok(found.to_path_buf());
    }
    let looked = looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(NotFound { flavour, looked, install })
}

/// What Chromium finds in its profile.
#[must_use]
pub(super) fn preferences() -> Value {
    json!({ "policy": { "url_blocklist": ["*"], "url_allowlist": LEADS_TO } })
}

/// Chromium's arguments.
#[must_use]
pub(super) fn arguments(args: &BrowserArgs, profile: &Path, sandbox: bool) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    match args.flavour {
        Flavour::Chromium => all.push("--headless=new".into()),
        Flavour::HeadlessShell => all.push("--headless".into()),
    }
    all.push("--remote-debugging-pipe".into());
    all.extend(LEAN.iter().chain(UNSEEN).chain(AWAKE).map(Into::into));
    all.push(with("--user-data-dir=", profile.as_os_str().to_owned()));
    all.push(format!("--window-size={},{}", args.width, args.height).into());
    if !sandbox {
        all.push("--no-sandbox".into());
    }
    if let Some(locale) = &args.locale {
        all.push(format!("--lang={locale}").into());
        all.push(format!("--accept-lang={locale}").into());
    }
    if let Some(agent) = &args.user_agent {
        all.push(format!("--user-agent={agent}").into());
    }
    if let Some(proxy) = &args.proxy {
        all.push(format!("--proxy-server={proxy}").into());
    }
    all.push("about:blank".into());
    all
}

fn with(flag: &str, value: OsString) -> OsString {
    let mut whole = OsString::from(flag);
    whole.push(value);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BrowserArgs,
    }

    fn args(line: &[&str]) -> BrowserArgs {
        Line::parse_from([&["browser"], line].concat()).args
    }

    #[test]
    fn no_port_is_opened_and_the_sandbox_stays_on() {
        let all = arguments(&args(&[]), Path::new("/tmp/p"), true);
        assert!(all.contains(&"--remote-debugging-pipe".into()));
        assert!(all.contains(&"--user-data-dir=/tmp/p".into()));
        for bad in [
            "--no-sandbox",
            "--remote-debugging-port",
            "--remote-allow-origins",
            "--disable-site-isolation-trials",
            "--disable-web-security",
        ] {
            assert!(!all.iter().any(|arg| arg.to_string_lossy().starts_with(bad)), "{bad}");
        }
        assert!(arguments(&args(&[]), Path::new("/tmp/p"), false).contains(&"--no-sandbox".into()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = locate(&args(&["--chromium-path", "/nowhere/chrome", "--flavour", "HeadlessShell"])).unwrap_err().to_string();
        assert_eq!(
            error,
            "no HeadlessShell was found; looked for /nowhere/chrome. Install Debian's package chromium-headless-shell, or name the binary with --chromium-path"
        );
    }
}
