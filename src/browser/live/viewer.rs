//! One viewer's connection: events and the newest frame out, bounded commands in.

use super::super::chooser::{Chooser, Upload};
use super::super::driver::Driver;
use super::super::hands::{Ask, Deed};
use super::super::picker::Picker;
use super::super::tab::{Pointer, Tab};
use super::pace::Pace;
use super::{Live, Looker, Shown, until};
use crate::driver::{ControlState, LiveCommand, LiveEvent};
use crate::runtime::json::Object;
use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Refusals that wait for the socket.
const BACK_QUEUE: usize = 16;
/// Commands that wait for the viewer's own loop.
const TOLD_QUEUE: usize = 64;
/// Frames on their way to a viewer that says what it has drawn.
const AHEAD: usize = 2;
/// A viewer that draws nothing gets the next frame after this long all the same.
const DRAW_LIMIT: Duration = Duration::from_secs(1);
/// How often a silent viewer is asked whether it is there, and how long it may be silent.
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);
/// A socket that takes nothing for this long is given up.
const SEND_LIMIT: Duration = Duration::from_secs(20);

/// How often a page may tell a new title or address.
const PAGES: Duration = Duration::from_millis(100);
/// How often it is told that the idle time begins again.
const CONTROLS: Duration = Duration::from_secs(1);

/// What the reader tells the writer.
enum Told {
    Drawn(u32),
    Visible(bool),
}

/// Serves a viewer until it goes or the driver stops.
pub(crate) async fn view(socket: WebSocket, driver: Arc<Driver>, stop: CancellationToken) {
    let (sink, stream) = socket.split();
    let (back, backs) = mpsc::channel(BACK_QUEUE);
    let (tell, told) = mpsc::channel(TOLD_QUEUE);
    let writer = Writer::new(sink, driver.clone());
    let mut quoted = Quoted { asks: driver.hands.clone(), back, lease: None };
    tokio::select! {
        () = stop.cancelled() => {}
        () = read(stream, &driver, &mut quoted, tell) => {}
        () = writer.run(backs, told) => {}
    }
    quoted.gone().await;
}

/// The lease that a viewer quotes: what it holds is let go when the viewer ends, however it ends.
struct Quoted {
    asks: mpsc::Sender<Ask>,
    back: mpsc::Sender<LiveEvent>,
    lease: Option<String>,
}

impl Quoted {
    fn ask(&mut self) -> Option<Ask> {
        self.lease.take().map(|lease| Ask { lease, deed: Deed::Gone, back: self.back.clone() })
    }

    /// Said behind what came before, for which the hands may be busy.
    async fn gone(&mut self) {
        if let Some(ask) = self.ask() {
            // Hands that are no more hold nothing.
            drop(self.asks.send(ask).await);
        }
    }
}

impl Drop for Quoted {
    fn drop(&mut self) {
        // Only after a panic is there still something to say.
        if let Some(ask) = self.ask() {
            drop(self.asks.try_send(ask));
        }
    }
}

async fn read(mut stream: SplitStream<WebSocket>, driver: &Driver, quoted: &mut Quoted, tell: mpsc::Sender<Told>) {
    let back = quoted.back.clone();
    let mut upload = Upload::default();
    let refuse = |code: &str, message: &str| {
        drop(back.try_send(LiveEvent::Refused { code: code.to_owned(), message: message.to_owned() }));
    };
    while let Ok(Some(Ok(message))) = timeout(SILENCE, stream.next()).await {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return,
            Message::Binary(_) => {
                refuse("BAD_MESSAGE", "commands are text");
                continue;
            }
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let Ok(Object(command)) = serde_json::from_str::<Object<LiveCommand>>(&text) else {
            refuse("BAD_MESSAGE", "the message is not one of the live view's");
            continue;
        };
        let (lease, deed) = match command {
            LiveCommand::Input { lease, events } => (lease, Deed::Input(events)),
            LiveCommand::Dialog { lease, id, accept, text } => (lease, Deed::Dialog(id, accept, text)),
            LiveCommand::File { lease, id, name, data, last } => {
                if let Err((code, why)) = piece(driver, &mut upload, &lease, (id, &name, &data, last)).await {
                    refuse(code, why);
                }
                continue;
            }
            LiveCommand::Choose { lease, id, accept } => {
                let files = upload.take(id);
                (lease, Deed::Files(id, if accept { files } else { Vec::new() }))
            }
            LiveCommand::Go { lease, to } => (lease, Deed::Go(to)),
            LiveCommand::Pick { lease, id, value } => (lease, Deed::Pick(id, value)),
            LiveCommand::Tab { lease, id } => (lease, Deed::Tab(id)),
            LiveCommand::Drawn { sequence } => {
                if tell.send(Told::Drawn(sequence)).await.is_err() {
                    return;
                }
                continue;
            }
            LiveCommand::Visible { visible } => {
                if tell.send(Told::Visible(visible)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        if quoted.lease.as_ref() != Some(&lease) {
            quoted.gone().await;
            quoted.lease = Some(lease.clone());
        }
        if driver.hands.try_send(Ask { lease, deed, back: back.clone() }).is_err() {
            refuse("TOO_FAST", "The input comes too fast; some of it was lost.");
        }
    }
}

/// A piece of a file goes to the disk at once: the socket waits for it, so that nothing piles up.
async fn piece(
    driver: &Driver,
    upload: &mut Upload,
    lease: &str,
    (id, name, data, last): (u32, &str, &str, bool),
) -> Result<(), (&'static str, &'static str)> {
    driver.control.admit_input(lease).map_err(|_| ("LEASE_ENDED", "Control has ended; nothing reached the page."))?;
    let asks = driver.tabs.active_tab().is_some_and(|tab| tab.chooser.borrow().as_ref().is_some_and(|chooser| chooser.info.id == id));
    if !asks {
        return Err(("BAD_MESSAGE", "id: the page does not ask for files any more"));
    }
    upload.piece(&driver.uploads, id, name, data, last).await.map_err(|why| ("BAD_MESSAGE", why))
}

struct Writer {
    sink: SplitSink<WebSocket, Message>,
    driver: Arc<Driver>,
    looker: Option<Looker>,
    /// Frames that were sent and not drawn yet; only kept for a viewer that says what it draws.
    ahead: VecDeque<u32>,
    draws: bool,
    last_sent: Instant,
    pages: Pace,
    controls: Pace,
    /// What was told last of who has the hands.
    told: Option<ControlState>,
}

/// What of the shown tab is watched.
struct Watched {
    dialog: watch::Receiver<Option<crate::driver::DialogInfo>>,
    chooser: watch::Receiver<Option<Chooser>>,
    picker: watch::Receiver<Option<Picker>>,
    pointer: watch::Receiver<Pointer>,
}

impl Watched {
    fn of(tab: &Tab) -> Self {
        let (mut dialog, mut pointer) = (tab.dialog.subscribe(), tab.pointer.subscribe());
        let (mut chooser, mut picker) = (tab.chooser.subscribe(), tab.picker.subscribe());
        dialog.mark_changed();
        chooser.mark_changed();
        picker.mark_changed();
        pointer.mark_changed();
        Self { dialog, chooser, picker, pointer }
    }
}

impl Writer {
    fn new(sink: SplitSink<WebSocket, Message>, driver: Arc<Driver>) -> Self {
        let looker = Some(Looker::new(&driver.live));
        let (pages, controls) = (Pace::new(PAGES), Pace::new(CONTROLS));
        Self { sink, driver, looker, ahead: VecDeque::new(), draws: false, last_sent: Instant::now(), pages, controls, told: None }
    }

    async fn run(mut self, mut backs: mpsc::Receiver<LiveEvent>, mut told: mpsc::Receiver<Told>) {
        let driver = self.driver.clone();
        let live: &Live = &driver.live;
        let mut control = driver.control.state.subscribe();
        let mut version = driver.tabs.version.subscribe();
        let mut active = driver.tabs.active.subscribe();
        let mut no_picture = live.no_picture.subscribe();
        let mut shown = live.shown.subscribe();
        let mut notices = driver.tabs.notices.subscribe();
        control.mark_changed();
        version.mark_changed();
        active.mark_changed();
        no_picture.mark_changed();
        shown.mark_changed();
        let mut watched: Option<Watched> = None;
        let mut ping = interval(PING);
        loop {
            let ready = self.looker.is_some() && self.room();
            let (dialog, chooser, picker, pointer) = match &mut watched {
                Some(Watched { dialog, chooser, picker, pointer }) => (Some(dialog), Some(chooser), Some(picker), Some(pointer)),
                None => (None, None, None, None),
            };
            let sent = tokio::select! {
                biased;
                back = backs.recv() => match back {
                    Some(event) => self.tell(&event).await,
                    None => return,
                },
                _ = control.changed() => {
                    control.borrow_and_update();
                    self.control().await
                }
                () = until(self.controls.due()) => self.control().await,
                _ = active.changed() => {
                    watched = active.borrow_and_update().as_deref().map(Watched::of);
                    version.mark_changed();
                    true
                }
                dialog = newest(dialog) => self.tell(&LiveEvent::Dialog { dialog }).await,
                chooser = newest(chooser) => self.tell(&LiveEvent::Chooser { chooser: chooser.map(|chooser| chooser.info) }).await,
                picker = newest(picker) => self.tell(&LiveEvent::Picker { picker: picker.map(|picker| picker.info) }).await,
                _ = version.changed() => {
                    version.borrow_and_update();
                    self.page().await
                }
                () = until(self.pages.due()) => self.page().await,
                told = told.recv() => match told {
                    Some(Told::Drawn(sequence)) => {
                        self.draws = true;
                        self.ahead.retain(|sent| *sent > sequence);
                        true
                    }
                    Some(Told::Visible(true)) if self.looker.is_none() => {
                        self.looker = Some(Looker::new(&driver.live));
                        self.ahead.clear();
                        shown.mark_changed();
                        true
                    }
                    Some(Told::Visible(true)) => true,
                    Some(Told::Visible(false)) => {
                        self.looker = None;
                        true
                    }
                    None => return,
                },
                Ok(notice) = notices.recv() => {
                    self.tell(&LiveEvent::Notice { code: notice.code.to_owned(), message: notice.message }).await
                }
                _ = no_picture.changed() => {
                    let why = *no_picture.borrow_and_update();
                    match why {
                        Some(why) => self.tell(&LiveEvent::NoPicture { why: why.to_owned() }).await,
                        None => true,
                    }
                }
                pointer = newest(pointer) => {
                    self.tell(&LiveEvent::Pointer { cursor: pointer.cursor, editable: pointer.editable }).await
                }
                _ = shown.changed(), if ready => {
                    let frame = shown.borrow_and_update().clone();
                    match frame {
                        Some(frame) => self.frame(frame).await,
                        None => true,
                    }
                }
                () = sleep_until(self.last_sent + DRAW_LIMIT), if self.looker.is_some() && !ready => {
                    self.ahead.clear();
                    true
                }
                _ = ping.tick() => self.send(Message::Ping(Bytes::new())).await,
            };
            if !sent {
                return;
            }
        }
    }

    /// Tells who has the hands when that changes; that the idle time begins again, as it does with every key, now and then.
    async fn control(&mut self) -> bool {
        let control = self.driver.control.state.borrow().clone();
        let now = Instant::now();
        let same = self.told.as_ref().is_some_and(|told| *told == ControlState { idle_until: told.idle_until, ..control.clone() });
        if same && !self.controls.news(now) {
            return true;
        }
        self.controls.tell(now);
        self.told = Some(control.clone());
        self.tell(&LiveEvent::Control { control }).await
    }

    /// Tells the page and the tabs.
    async fn page(&mut self) -> bool {
        if !self.pages.news(Instant::now()) {
            return true;
        }
        let tabs = &self.driver.tabs;
        let page = tabs.active_tab().map(|tab| tab.page()).unwrap_or_default();
        let event = LiveEvent::Page { page, tabs: tabs.list() };
        self.tell(&event).await
    }

    fn room(&self) -> bool {
        !self.draws || self.ahead.len() < AHEAD
    }

    async fn frame(&mut self, frame: Shown) -> bool {
        if self.draws {
            self.ahead.push_back(frame.sequence);
        }
        self.last_sent = Instant::now();
        let sent = self.send(Message::Binary(frame.message)).await;
        self.driver.live.took(frame.sequence);
        sent
    }

    async fn tell(&mut self, event: &LiveEvent) -> bool {
        match serde_json::to_string(event) {
            Ok(text) => self.send(Message::Text(text.into())).await,
            Err(_) => true,
        }
    }

    async fn send(&mut self, message: Message) -> bool {
        matches!(timeout(SEND_LIMIT, self.sink.send(message)).await, Ok(Ok(())))
    }
}

/// The next value of what may not be watched now.
async fn newest<T: Clone>(watched: Option<&mut watch::Receiver<T>>) -> T {
    match watched {
        Some(watched) => match watched.changed().await {
            Ok(()) => watched.borrow_and_update().clone(),
            // Its tab was closed; another becomes active.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
