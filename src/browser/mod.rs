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

use crate::domain::time_zone;
use crate::runtime::shutdown;
use crate::runtime::supervision::{Ended, Parts};
use crate::runtime::tasks::Tasks;
use chooser::Uploads;
use control::Control;
use driver::{Driver, MOST_WAITING};
use launch::{Home, LaunchError, Launched};
use live::Live;
use process::Reaper;
use serde_json::json;
use server::{Credentials, Server};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Chromium died.
pub const EXIT_DIED: u8 = 70;
/// Chromium did not start.
pub const EXIT_NOT_STARTED: u8 = 71;
/// A part of the driver itself failed.
pub const EXIT_BROKEN: u8 = 72;
/// The flags, the Secret or the installed browser do not fit.
pub const EXIT_SETUP: u8 = 78;

/// How long calls in progress may take to be answered at the end, whatever the end is.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Where the kubelet looks for the last words of a container.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Runs until it is told to stop (0), Chromium has died (70) or a part of the driver has failed (72); see the other codes.
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
    if let Some(zone) = args.timezone.as_deref().filter(|zone| !time_zone::is_known(zone)) {
        return Err(setup(format!("--timezone {zone:?}: no such time zone; give an IANA name such as Europe/Paris, spelt as there")));
    }
    let credentials = Credentials::read(&args.driver_dir).map_err(setup)?;
    let address = args.address().map_err(setup)?;
    let server = Server::bind(address, credentials).await.map_err(setup)?;
    let address = server.address().map_err(setup)?;
    let home = Home::make().map_err(setup)?;
    // Three ends, one after the other: of what serves, of what speaks with Chromium, and of what reaps it. None comes with the order
    // to stop itself: a part that ends before the order is looked at would seem to have failed.
    let (end, over, reaped) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    let mut reaping = Parts::default();
    let reaper = Reaper::start(&mut reaping, reaped.clone()).map_err(setup)?;
    let Launched { process, cdp, tabs, sandbox, product, parts: mut connection } = tokio::select! {
        launched = launch::launch(&args, &reaper, &home, &over) => launched.map_err(|error| match error {
            LaunchError::Setup(_) => setup(error),
            LaunchError::Sandbox(_) | LaunchError::Start(_) => fail(EXIT_NOT_STARTED, error),
        })?,
        ended = reaping.ended() => return Err(broken(&ended)),
        () = stop.cancelled() => {
            process::kill_tree().await;
            return Ok(());
        }
    };
    let mut parts = Parts::default();
    let control = Control::new(tabs.clone());
    let live = Live::new();
    let hands = hands::start(control.clone(), tabs.clone(), live.clone(), &mut parts, end.clone());
    let driver = Arc::new(Driver {
        cdp,
        tabs,
        control,
        live,
        hands,
        turn: Arc::default(),
        waiting: Semaphore::new(MOST_WAITING),
        tasks: Tasks::default(),
        sandbox,
        product,
        uploads: Uploads::new(home.path()),
    });
    if let Some(tab) = driver.tabs.active_tab().filter(|_| first.as_str() != "about:blank") {
        drop(tab.session.fire("Page.navigate", &json!({ "url": first.as_str() })));
    }
    tracing::info!(product = driver.product, sandbox = driver.sandbox.tier, pid = process.pid(), %address, "serving the driver API");
    let (control, ended) = (driver.control.clone(), end.clone());
    parts.start("the arbiter's clock", async move {
        control.run(ended).await;
        Ok(())
    });
    let cast = live::cast(driver.live.clone(), driver.tabs.clone(), end.clone());
    parts.start("the screencast", async move {
        cast.await;
        Ok(())
    });
    let serving = server.run(driver.clone(), end.clone());
    parts.start("the driver API", async move { serving.await.map_err(|error| error.to_string()) });

    // Said at once: to end what Chromium left takes a moment. What dies after the order to stop dies of it.
    let died = |how: String| fail(EXIT_DIED, format!("Chromium died: {how}"));
    let result = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        how = process.ended() => Err(died(launch::told(how))),
        // The pipe closes a moment before the process is reaped.
        () = driver.cdp.closed() => Err(died(launch::ended(&process).await)),
        ended = parts.ended() => Err(broken(&ended)),
        ended = connection.ended() => Err(broken(&ended)),
        ended = reaping.ended() => Err(broken(&ended)),
    };
    end.cancel();
    let served = parts.finish_within(LAST_WORDS);
    if result.is_ok() {
        told(served.await);
        driver.cdp.close();
        process.stop().await;
    } else {
        // Who waits for Chromium's answer is told that it is gone, before the connection goes as well.
        driver.cdp.close();
        told(tokio::join!(process.stop(), served).1);
    }
    driver.tasks.finish(LAST_WORDS).await;
    over.cancel();
    told(connection.finish_within(LAST_WORDS).await);
    reaped.cancel();
    told(reaping.finish_within(LAST_WORDS).await);
    drop(home);
    result
}

/// A part of the driver itself ended, which none may.
fn broken(ended: &Ended) -> u8 {
    fail(EXIT_BROKEN, format!("a part of the driver failed, {}: {}", ended.name, ended.why))
}

fn told(failed: Vec<Ended>) {
    for Ended { name, why } in failed {
        tracing::warn!(part = name, %why, "a part of the driver failed at its end");
    }
}
