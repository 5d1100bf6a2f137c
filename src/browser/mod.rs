//! `beckon browser`: the entry point of a session's pod: one Chromium, its only CDP connection, the arbiter of control.

mod args;
mod cdp;
mod chooser;
mod command_line;
mod control;
mod drag;
mod driver;
mod error;
mod hands;
mod input;
mod keys;
mod launch;
mod leave;
mod live;
mod notice;
mod paste;
mod picker;
mod process;
mod sandbox;
mod server;
mod snapshot;
mod tab;
mod tabs;
mod tools;

pub use args::{BrowserArgs, Flavour, SandboxTier};

use crate::runtime::shutdown;
use chooser::Uploads;
use control::Control;
use driver::{Driver, MOST_WAITING};
use launch::{Home, LaunchError, Launched};
use live::Live;
use process::Reaper;
use serde_json::json;
use server::{Credentials, Server};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Chromium died.
pub const EXIT_DIED: u8 = 70;
/// Chromium did not start.
pub const EXIT_NOT_STARTED: u8 = 71;
/// The flags, the Secret or the installed browser do not fit.
pub const EXIT_SETUP: u8 = 78;

/// How long calls in progress may take to be answered when Chromium has died.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Where the kubelet looks for the last words of a container.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Runs until it is told to stop (0) or Chromium has died (70); see the other codes.
pub async fn run(args: BrowserArgs) -> ExitCode {
    match serve(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => ExitCode::from(code),
    }
}

/// Says why it ends, in the log and where the kubelet looks, and gives the code.
fn fail(code: u8, message: impl std::fmt::Display) -> u8 {
    let message = message.to_string();
    tracing::error!(code, "{message}");
    // Outside a pod there is no such file.
    drop(OpenOptions::new().write(true).open(TERMINATION_LOG).and_then(|mut log| log.write_all(message.as_bytes())));
    code
}

fn setup(message: impl std::fmt::Display) -> u8 {
    fail(EXIT_SETUP, message)
}

async fn serve(args: BrowserArgs) -> Result<(), u8> {
    let stop = shutdown::on_signal().map_err(setup)?;
    let first = tools::allowed_address(&args.start_url).map_err(|error| setup(format!("--start-url: {error}")))?;
    let credentials = Credentials::read(&args.driver_dir).map_err(setup)?;
    let address = args.address().map_err(setup)?;
    let server = Server::bind(address, credentials).await.map_err(setup)?;
    let address = server.address().map_err(setup)?;
    let reaper = Reaper::start().map_err(setup)?;
    let home = Home::make().map_err(setup)?;
    let Launched { process, cdp, tabs, sandbox, product } = tokio::select! {
        launched = launch::launch(&args, &reaper, &home) => launched.map_err(|error| match error {
            LaunchError::Setup(_) => setup(error),
            LaunchError::Sandbox(_) | LaunchError::Start(_) => fail(EXIT_NOT_STARTED, error),
        })?,
        () = stop.cancelled() => {
            process::kill_tree().await;
            return Ok(());
        }
    };
    let control = Control::new(tabs.clone());
    let live = Live::new();
    let hands = hands::start(control.clone(), tabs.clone(), live.clone(), stop.clone());
    let driver = Arc::new(Driver {
        cdp,
        tabs,
        control,
        live,
        hands,
        turn: Arc::default(),
        waiting: Semaphore::new(MOST_WAITING),
        sandbox,
        product,
        uploads: Uploads::new(home.path()),
    });
    if let Some(tab) = driver.tabs.active_tab().filter(|_| first.as_str() != "about:blank") {
        drop(tab.session.fire("Page.navigate", &json!({ "url": first.as_str() })));
    }
    tracing::info!(product = driver.product, sandbox = driver.sandbox.tier, pid = process.pid(), %address, "serving the driver API");
    let tasks = [
        tokio::spawn(driver.control.clone().run(stop.clone())),
        tokio::spawn(live::cast(driver.live.clone(), driver.tabs.clone(), stop.clone())),
    ];
    let end = stop.child_token();
    let mut serving = tokio::spawn(server.run(driver.clone(), end.clone()));
    // Said at once: to end what Chromium left takes a moment. What dies after the order to stop dies of it.
    let died = |end: String| if stop.is_cancelled() { Ok(()) } else { Err(fail(EXIT_DIED, format!("Chromium died: {end}"))) };
    let result = tokio::select! {
        served = &mut serving => served.map_err(io::Error::other).flatten().map_err(setup),
        end = process.ended() => died(launch::told(end)),
        // The pipe closes a moment before the process is reaped.
        () = driver.cdp.closed() => died(launch::ended(&process).await),
    };
    for task in tasks {
        task.abort();
    }
    end.cancel();
    // Who waits for Chromium's answer is told that it is gone, before the connection goes as well.
    let served = async {
        if !serving.is_finished() {
            drop(timeout(LAST_WORDS, serving).await);
        }
    };
    tokio::join!(process.stop(), served);
    drop(home);
    result
}
