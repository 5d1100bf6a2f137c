//! Between a viewer and a driver: two sockets, one task, nothing unbounded between them.

use super::control;
use super::keeper::Attached;
use super::outbox::{Outbox, Outgoing};
use super::validate::{self, Heard};
use crate::api::v1alpha1::{BrowserSession, SessionPhase};
use crate::driver::{FrameHeader, LiveCommand, LiveEvent};
use crate::gateway::dashboard::Site;
use crate::gateway::driver_client::LiveSocket;
use crate::gateway::rest::{Caller, Means};
use crate::runtime::clock;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::{SinkExt as _, StreamExt as _};
use kube::ResourceExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message as DriverMessage;

/// A ping goes out this often, so that no proxy takes the socket for idle.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A viewer that is silent for this long, pongs included, is gone.
const SILENT: Duration = Duration::from_secs(50);
/// How often the viewer's rights are looked at again.
const RIGHTS: Duration = Duration::from_secs(30);
/// A message that a viewer does not take for this long ends its view.
const STUCK: Duration = Duration::from_mins(1);
/// A driver that does not take a command for this long is lost.
const DRIVER: Duration = Duration::from_secs(5);
/// The largest frame: a JPEG of the largest viewport is far below it.
const LARGEST_FRAME: usize = 8 * 1024 * 1024;
/// Commands that nobody here understands end the view after this many.
const PATIENCE: u32 = 100;

/// Why a view ends. Codes from 4400 on tell the page not to come back by itself.
struct End {
    code: u16,
    why: &'static str,
}

const LOST: End = End { code: 1013, why: "the browser's driver did not answer" };
const STOPPING: End = End { code: 1012, why: "this gateway is stopping" };
const SIGNED_OUT: End = End { code: 4401, why: "You have been signed out." };
const FORBIDDEN: End = End { code: 4403, why: "You may no longer watch this browser." };
const CLOSED: End = End { code: 4404, why: "The session was closed. Its browser is gone." };
const CRASHED: End = End { code: 4404, why: "The browser crashed. Its open requests were rejected, and their agents were told why." };
const EXPIRED: End = End { code: 4404, why: "The session expired. Its browser is gone." };
const NONSENSE: End = End { code: 4400, why: "This page sends what the server does not understand: reload it." };
const GONE: End = End { code: 1001, why: "" };

/// Shows a session to a viewer until one of them ends.
pub(super) async fn run(site: Site, caller: Caller, session: Arc<BrowserSession>, upstream: LiveSocket, viewer: WebSocket) {
    site.metrics.viewers.inc();
    let outbox = Outbox::default();
    let (mut to_driver, mut from_driver) = upstream.split();
    let (mut to_viewer, mut from_viewer) = viewer.split();
    let began = Instant::now();
    let heard = AtomicU64::new(0);
    let mut ears = Ears { site: &site, caller: &caller, session: &session, outbox: &outbox, held: None, nonsense: 0 };

    let end = {
        let driver = async {
            while let Some(Ok(message)) = from_driver.next().await {
                match message {
                    DriverMessage::Binary(frame) if (FrameHeader::LEN..=LARGEST_FRAME).contains(&frame.len()) => outbox.frame(frame),
                    DriverMessage::Text(text) => {
                        if let Ok(event) = serde_json::from_str::<LiveEvent>(text.as_str()) {
                            if let LiveEvent::Control { control: state } = &event {
                                note(&site, &session, state);
                            }
                            outbox.event(event);
                        }
                    }
                    DriverMessage::Close(_) => break,
                    DriverMessage::Binary(_) | DriverMessage::Ping(_) | DriverMessage::Pong(_) | DriverMessage::Frame(_) => {}
                }
            }
            LOST
        };
        let show = async {
            let mut heartbeat = tokio::time::interval(HEARTBEAT);
            heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let message = tokio::select! {
                    next = outbox.next() => match next {
                        Outgoing::Event(text) => Message::Text(text),
                        Outgoing::Frame(frame) => Message::Binary(frame),
                    },
                    _ = heartbeat.tick() => {
                        let silent = began.elapsed().saturating_sub(Duration::from_millis(heard.load(Ordering::Relaxed)));
                        if silent > SILENT { return GONE }
                        Message::Ping(bytes::Bytes::new())
                    }
                };
                if !matches!(tokio::time::timeout(STUCK, to_viewer.send(message)).await, Ok(Ok(()))) {
                    return GONE;
                }
            }
        };
        let listen = async {
            while let Some(Ok(message)) = from_viewer.next().await {
                heard.store(began.elapsed().as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
                let command = match message {
                    Message::Text(text) => ears.hear(text.as_str()).await,
                    Message::Binary(_) => Ok(None),
                    Message::Close(_) => break,
                    Message::Ping(_) | Message::Pong(_) => continue,
                };
                let command = match command {
                    Ok(Some(command)) => command,
                    Ok(None) => continue,
                    Err(end) => return end,
                };
                let Ok(text) = serde_json::to_string(&command) else { continue };
                if !matches!(tokio::time::timeout(DRIVER, to_driver.send(DriverMessage::text(text))).await, Ok(Ok(()))) {
                    return LOST;
                }
            }
            GONE
        };
        tokio::select! {
            end = driver => end,
            end = show => end,
            end = listen => end,
            end = watch_rights(&site, &caller, &session) => end,
            () = site.gateway.stop.cancelled() => STOPPING,
        }
    };
    let goodbye = Message::Close(Some(CloseFrame { code: end.code, reason: end.why.into() }));
    drop(tokio::time::timeout(DRIVER, to_viewer.send(goodbye)).await);
    drop(tokio::time::timeout(DRIVER, to_driver.close()).await);
    site.metrics.viewers.dec();
}

/// What is heard from one viewer.
struct Ears<'a> {
    site: &'a Site,
    caller: &'a Caller,
    session: &'a Arc<BrowserSession>,
    outbox: &'a Outbox,
    held: Option<(String, Attached)>,
    nonsense: u32,
}

impl Ears<'_> {
    /// The command for the driver, if it may pass.
    async fn hear(&mut self, text: &str) -> Result<Option<LiveCommand>, End> {
        match validate::read(text) {
            Ok(Heard::Command(command)) => Ok(self.pass(command)),
            Ok(Heard::Hold { lease }) => {
                self.hold(lease).await;
                Ok(None)
            }
            Err(refusal) => {
                self.nonsense += 1;
                self.refuse("BAD_MESSAGE", &refusal.to_string());
                if self.nonsense > PATIENCE { Err(NONSENSE) } else { Ok(None) }
            }
        }
    }

    /// Input needs the lease, at every event, here and again at the driver.
    fn pass(&mut self, command: LiveCommand) -> Option<LiveCommand> {
        let Some(lease) = validate::lease(&command) else { return Some(command) };
        let Some((held, _)) = self.held.as_ref().filter(|(held, _)| held == lease) else {
            self.refuse("NO_LEASE", "You are watching: take over to act.");
            return None;
        };
        if !self.site.keeper.passes(self.site, held) {
            self.held = None;
            self.refuse("LEASE_ENDED", "You are no longer driving: the request was settled, or control was handed back.");
            return None;
        }
        self.site.gateway.activity.touch(self.session);
        Some(command)
    }

    async fn hold(&mut self, lease: String) {
        match control::adopt(self.site, &self.caller.who, self.session, &lease).await {
            Ok(()) => self.held = self.site.keeper.attach(&lease).map(|attached| (lease, attached)),
            Err(problem) => {
                self.held = None;
                self.refuse("LEASE_ENDED", &problem.detail);
            }
        }
    }

    fn refuse(&self, code: &'static str, message: &str) {
        self.site.metrics.refused(code);
        self.outbox.event(LiveEvent::Refused { code: code.to_owned(), message: message.to_owned() });
    }
}

/// Ends the view when the visit, the right or the session does.
async fn watch_rights(site: &Site, caller: &Caller, session: &BrowserSession) -> End {
    let mut changes = site.gateway.hub.session(&session.namespace().unwrap_or_default(), &session.name_any());
    let mut tick = tokio::time::interval(RIGHTS);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, and the right was just looked at.
    tick.tick().await;
    let signed_out = async {
        match &caller.means {
            Means::Cookie(visit) => site.visits.over(visit).await,
            Means::Token => std::future::pending().await,
        }
    };
    let mut signed_out = std::pin::pin!(signed_out);
    loop {
        tokio::select! {
            () = &mut signed_out => return SIGNED_OUT,
            _ = tick.tick() => {
                if let Means::Cookie(visit) = &caller.means
                    && clock::now() >= visit.hard_end()
                {
                    return SIGNED_OUT;
                }
                // An API server that does not answer takes no right away.
                if matches!(control::may_view(site, &caller.who, session).await, Ok(false)) {
                    return FORBIDDEN;
                }
            }
            changed = changes.changed() => {
                let now = changed.is_ok().then(|| changes.borrow_and_update().clone()).flatten();
                let Some(now) = now.filter(|now| now.metadata.uid == session.metadata.uid) else { return CLOSED };
                match now.status.as_ref().and_then(|s| s.phase).unwrap_or_default() {
                    SessionPhase::Closed => return CLOSED,
                    SessionPhase::Crashed => return CRASHED,
                    SessionPhase::Expired => return EXPIRED,
                    SessionPhase::Pending | SessionPhase::Ready => {}
                }
            }
        }
    }
}

/// Records a change of hands that this viewer was told of; nobody else may have.
fn note(site: &Site, session: &Arc<BrowserSession>, state: &crate::driver::ControlState) {
    control::record_later(site, Arc::clone(session), state.clone());
}
