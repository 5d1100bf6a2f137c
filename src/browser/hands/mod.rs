//! The one way for a person's input into the page. Each event is checked against the lease; none is waited for.
//!
//! Where many moves come, one is under way and the newest waits; before anything else it goes out, so that a click behind 300
//! moves arrives at once. When the gate closes, or the holder's connection ends, everything held is let go.
//!
//! What comes while a drop is under way waits for its end: until then the page hears nothing of the mouse.

mod answers;
mod dragging;

use super::cdp::{CdpError, Reply, Session};
use super::control::Control;
use super::drag::{Begun, Data};
use super::input::{self, Action, Held, Send};
use super::live::Live;
use super::paste;
use super::tab::Tab;
use super::tabs::Tabs;
use crate::driver::{InputEvent, LiveEvent, Way};
use crate::runtime::supervision::Parts;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait for the hands.
const QUEUE: usize = 256;
/// A page that is busy for longer gets the next one all the same: during a drag a move is answered late or never.
const UNDER_WAY: Duration = Duration::from_millis(50);
/// How long a page may take for what came before a paste.
const BEFORE_PASTE: Duration = Duration::from_secs(2);
/// Bytes of the value of a picker.
const LONGEST_PICK: usize = 256;

/// What a viewer asks the hands to do.
pub struct Ask {
    /// The lease that it quotes.
    pub lease: String,
    /// What.
    pub deed: Deed,
    /// Where a refusal goes; a full queue loses it.
    pub back: mpsc::Sender<LiveEvent>,
}

/// What the hands can do.
pub enum Deed {
    /// Input for the shown page.
    Input(Vec<InputEvent>),
    /// An answer to that dialog.
    Dialog(u32, bool, Option<String>),
    /// Files for what asks for them.
    Files(u32, Vec<PathBuf>),
    /// What a browser has buttons for.
    Go(Way),
    /// An answer to the open picker.
    Pick(u32, Option<String>),
    /// Another tab.
    Tab(String),
    /// The viewer of that lease has gone.
    Gone,
}

/// Something that is waited for beside the rest.
pub(super) type UnderWay = Pin<Box<dyn Future<Output = ()> + std::marker::Send>>;

/// The hands of this session.
pub(super) struct Hands {
    control: Arc<Control>,
    tabs: Arc<Tabs>,
    live: Arc<Live>,
    lease: String,
    held: Held,
    /// The tab that holds what is held.
    tab: Option<Arc<Tab>>,
    moving: Option<UnderWay>,
    next_move: Option<Send>,
    wheeling: Option<UnderWay>,
    next_wheel: Option<(Value, f64, f64)>,
    /// What is dragged now.
    drag: Option<Data>,
    /// Where the left button went up last, and with which keys: a drag that begins now is dropped there.
    let_up: Option<((f64, f64), u8)>,
    /// The newest event that is not a move.
    last: Option<Reply>,
    /// What has to end before anything else is done.
    first: Option<UnderWay>,
    /// What is left of the message that was begun, and whose it is.
    rest: VecDeque<InputEvent>,
    whose: Option<(String, mpsc::Sender<LiveEvent>)>,
}

/// Starts the hands, until `end`.
pub(super) fn start(
    control: Arc<Control>,
    tabs: Arc<Tabs>,
    live: Arc<Live>,
    parts: &mut Parts,
    end: CancellationToken,
) -> mpsc::Sender<Ask> {
    let (asks, queue) = mpsc::channel(QUEUE);
    // Taken once; a second pair of hands would get none.
    let drags = tabs.take_drags().unwrap_or_else(|| mpsc::channel(1).1);
    let hands = Hands {
        control,
        tabs,
        live,
        lease: String::new(),
        held: Held::default(),
        tab: None,
        moving: None,
        next_move: None,
        wheeling: None,
        next_wheel: None,
        drag: None,
        let_up: None,
        last: None,
        first: None,
        rest: VecDeque::new(),
        whose: None,
    };
    parts.start("the hands", async move {
        hands.run(queue, drags, end).await;
        Ok(())
    });
    asks
}

impl Hands {
    async fn run(mut self, mut queue: mpsc::Receiver<Ask>, mut drags: mpsc::Receiver<Begun>, stop: CancellationToken) {
        let mut gate = self.control.gate.subscribe();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = gate.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if !*gate.borrow_and_update() {
                        self.let_go();
                    }
                }
                () = done(&mut self.moving) => {
                    self.moving = None;
                    self.go_on();
                }
                () = done(&mut self.wheeling) => {
                    self.wheeling = None;
                    self.go_on();
                }
                // Its drop would take the place of what has to end first.
                Some(begun) = drags.recv(), if self.first.is_none() => self.begun(begun),
                () = done(&mut self.first), if self.first.is_some() => {
                    self.first = None;
                    self.work();
                }
                ask = queue.recv(), if self.first.is_none() => match ask {
                    Some(ask) => self.take(ask),
                    None => return,
                },
            }
        }
    }

    fn take(&mut self, ask: Ask) {
        let refuse = |code: &str, message: &str| {
            drop(ask.back.try_send(LiveEvent::Refused { code: code.to_owned(), message: message.to_owned() }));
        };
        match &ask.deed {
            Deed::Gone if ask.lease == self.lease => return self.let_go(),
            Deed::Gone => return,
            Deed::Input(events) if events.len() > input::MOST_EVENTS => return refuse("BAD_MESSAGE", "events: must be at most 64"),
            Deed::Input(events) => {
                if let Some(what) = events.iter().find_map(|event| input::check(event).err()) {
                    return refuse("BAD_MESSAGE", what);
                }
            }
            Deed::Pick(_, Some(value)) if value.len() > LONGEST_PICK => return refuse("BAD_MESSAGE", "value: is too long"),
            Deed::Dialog(..) | Deed::Files(..) | Deed::Go(_) | Deed::Pick(..) | Deed::Tab(_) => {}
        }
        if ask.lease.is_empty() {
            return refuse("NO_LEASE", "Take control first.");
        }
        match ask.deed {
            Deed::Input(events) => {
                self.rest = events.into();
                self.whose = Some((ask.lease, ask.back));
                self.work();
            }
            _ if self.control.admit_input(&ask.lease).is_err() => refuse("LEASE_ENDED", "Control has ended; nothing reached the page."),
            Deed::Dialog(id, accept, text) => {
                self.live.acted();
                if !self.answer(id, accept, text) {
                    refuse("BAD_MESSAGE", "id: that dialog is closed");
                }
            }
            Deed::Files(id, files) => {
                self.live.acted();
                self.files(id, files, ask.back);
            }
            Deed::Go(way) => {
                self.let_go();
                self.live.acted();
                self.go(way, &ask.lease, ask.back);
            }
            Deed::Pick(id, value) => {
                self.live.acted();
                self.pick(id, value, ask.back);
            }
            Deed::Tab(id) => {
                self.let_go();
                if !self.tabs.activate(&id) {
                    refuse("BAD_MESSAGE", "id: there is no such tab");
                }
            }
            Deed::Gone => {}
        }
    }

    /// Does what a message asked for, up to an event whose end has to be waited for.
    fn work(&mut self) {
        let Some((lease, back)) = self.whose.clone() else { return };
        while self.first.is_none() {
            let Some(event) = self.rest.pop_front() else { break };
            if self.control.admit_input(&lease).is_err() {
                self.rest.clear();
                drop(back.try_send(refused("LEASE_ENDED", "Control has ended; nothing reached the page.")));
                return;
            }
            self.new_hands(&lease);
            self.event(event);
        }
        self.live.acted();
    }

    /// Whether who holds this lease may still act: for what is done a while after it was asked for.
    fn may(&self, lease: &str) -> impl Fn() -> bool + std::marker::Send + Sync + use<> {
        let (control, lease) = (self.control.clone(), lease.to_owned());
        move || control.admit_input(&lease).is_ok()
    }

    /// Another lease, or another tab, starts with nothing held.
    fn new_hands(&mut self, lease: &str) {
        let active = self.tabs.active_tab();
        let same_tab = match (&self.tab, &active) {
            (Some(held), Some(active)) => held.id == active.id,
            (None, None) => true,
            _ => false,
        };
        if self.lease != lease || !same_tab {
            self.let_go();
            lease.clone_into(&mut self.lease);
            self.tab = active;
        }
    }

    fn event(&mut self, event: InputEvent) {
        let Some(tab) = self.tab.clone() else { return };
        let event = &event;
        let action = self.held.translate(event);
        // Nothing reaches a page whose dialog is open or whose renderer crashed; it would only pile up.
        if tab.dialog.borrow().is_some() || tab.facts().crashed {
            if !self.held.left() {
                self.cancel_drag();
            }
            return;
        }
        if let InputEvent::Paste { text } = event {
            self.flush(&tab.session);
            let (tab, frames, text) = (tab.clone(), self.tabs.frames_of(&tab), text.clone());
            // Where it goes is where the click before it led.
            let (before, may) = (self.last.take(), self.may(&self.lease));
            self.first = Some(Box::pin(async move {
                if let Some(before) = before {
                    drop(before.within::<Value>(BEFORE_PASTE).await);
                }
                paste::paste(&tab, &frames, text, may).await;
            }));
            return;
        }
        if self.drag.is_some() {
            if self.drag_on(&tab, event) {
                return;
            }
        } else if let InputEvent::Down { button, .. } | InputEvent::Up { button, .. } = event
            && button == "left"
        {
            let up = if let InputEvent::Up { modifiers, .. } = event { Some(*modifiers) } else { None };
            self.let_up = up.map(|modifiers| (self.held.at(), input::command(modifiers)));
        }
        match action {
            Action::Move(send) if self.moving.is_some() => self.next_move = Some(send),
            Action::Move(send) => self.moving = under_way(&tab.session, &send),
            Action::Wheel { at, delta_x, delta_y } => {
                let (x, y) = self.next_wheel.take().map_or((0.0, 0.0), |(_, x, y)| (x, y));
                self.next_wheel = Some((at, x + delta_x, y + delta_y));
                self.go_on();
            }
            Action::All(sends) => {
                self.flush(&tab.session);
                if let Some((last, sends)) = sends.split_last() {
                    fire(&tab.session, sends);
                    self.last = tab.session.begin(last.method, &last.params).inspect_err(lost).ok();
                }
            }
        }
    }

    /// What waited goes out, if it may still.
    fn go_on(&mut self) {
        let Some(tab) = self.tab.clone() else { return };
        if (self.next_move.is_some() || self.next_wheel.is_some()) && self.control.admit_input(&self.lease).is_err() {
            self.let_go();
            return;
        }
        if self.moving.is_none() {
            self.moving = self.next_move.take().and_then(|send| under_way(&tab.session, &send));
        }
        if self.wheeling.is_none() {
            self.wheeling = self.next_wheel.take().and_then(|wheel| under_way(&tab.session, &turned(wheel)));
        }
    }

    /// What waited goes out before what comes now.
    fn flush(&mut self, session: &Session) {
        if let Some(send) = self.next_move.take() {
            self.moving = under_way(session, &send);
        }
        if let Some(wheel) = self.next_wheel.take() {
            self.wheeling = under_way(session, &turned(wheel));
        }
    }

    fn let_go(&mut self) {
        self.cancel_drag();
        self.let_up = None;
        self.next_move = None;
        self.next_wheel = None;
        self.lease.clear();
        let sends = self.held.release_all();
        if let Some(tab) = self.tab.take() {
            fire(&tab.session, &sends);
        }
    }
}

fn refused(code: &str, message: &str) -> LiveEvent {
    LiveEvent::Refused { code: code.to_owned(), message: message.to_owned() }
}

/// Until it is done; for ever when there is nothing.
pub(super) async fn done(under_way: &mut Option<UnderWay>) {
    match under_way {
        Some(reply) => reply.await,
        None => std::future::pending().await,
    }
}

fn turned((at, x, y): (Value, f64, f64)) -> Send {
    let mut params = at;
    if let Some(params) = params.as_object_mut() {
        params.insert("deltaX".to_owned(), x.into());
        params.insert("deltaY".to_owned(), y.into());
    }
    Send { method: "Input.dispatchMouseEvent", params }
}

fn under_way(session: &Session, send: &Send) -> Option<UnderWay> {
    let reply = session.begin(send.method, &send.params).map_err(|error| lost(&error)).ok()?;
    Some(Box::pin(async move { drop(reply.within::<Value>(UNDER_WAY).await) }))
}

fn fire(session: &Session, sends: &[Send]) {
    for send in sends {
        if let Err(error) = session.fire(send.method, &send.params) {
            lost(&error);
        }
    }
}

fn lost(error: &CdpError) {
    tracing::debug!(%error, "an event of a person did not reach the page");
}
