//! The hands during a drag.

use super::super::drag::{self, Begun};
use super::super::input::{self, Send};
use super::super::tab::Tab;
use super::{Hands, fire, lost};
use crate::driver::InputEvent;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long a drop is waited for.
const DROP_LIMIT: Duration = Duration::from_secs(1);

impl Hands {
    /// Chromium gave a drag into our hands.
    pub(super) fn begun(&mut self, begun: Begun) {
        let Begun { tab, data } = begun;
        let ours = self.tab.as_ref().is_some_and(|held| held.id == tab.id) && self.control.admit_input(&self.lease).is_ok();
        if !ours || tab.facts().crashed {
            return drag::cancel(&tab.session, self.held.at());
        }
        if self.held.left() {
            self.next_move = Some(data.over(self.held.at(), 0));
            self.drag = Some(data);
            self.go_on();
        } else if let Some((at, modifiers)) = self.let_up {
            self.drag = Some(data);
            self.drop_at(&tab, at, modifiers);
        } else {
            drag::cancel(&tab.session, self.held.at());
        }
    }

    /// An event during a drag; `true` when there is nothing more to do with it.
    pub(super) fn drag_on(&mut self, tab: &Arc<Tab>, event: &InputEvent) -> bool {
        match event {
            InputEvent::Move { modifiers, .. } => {
                self.next_move = self.drag.as_ref().map(|data| data.over(self.held.at(), input::command(*modifiers)));
                self.go_on();
            }
            InputEvent::Up { button, modifiers, .. } if button == "left" => self.drop_at(tab, self.held.at(), input::command(*modifiers)),
            InputEvent::KeyDown { key, .. } if key == "Escape" => self.cancel_drag(),
            InputEvent::ReleaseAll => {
                self.cancel_drag();
                return false;
            }
            InputEvent::Down { .. } | InputEvent::Up { .. } | InputEvent::Wheel { .. } | InputEvent::Touch { .. } => {}
            InputEvent::KeyDown { .. }
            | InputEvent::KeyUp { .. }
            | InputEvent::Text { .. }
            | InputEvent::Paste { .. }
            | InputEvent::Compose { .. } => return false,
        }
        true
    }

    fn drop_at(&mut self, tab: &Arc<Tab>, at: (f64, f64), modifiers: u8) {
        self.next_move = None;
        self.let_up = None;
        let Some(data) = self.drag.take() else { return };
        fire(&tab.session, &[data.over(at, modifiers)]);
        let Send { method, params } = data.dropped(at, modifiers);
        let Ok(reply) = tab.session.begin(method, &params).inspect_err(lost) else { return };
        let mut dialog = tab.dialog.subscribe();
        self.first = Some(Box::pin(async move {
            tokio::select! {
                _ = reply.within::<Value>(DROP_LIMIT) => {}
                // The page asks something about the drop, which a person has to answer first.
                _ = dialog.wait_for(Option::is_some) => {}
            }
        }));
    }

    pub(super) fn cancel_drag(&mut self) {
        if self.drag.take().is_some() {
            self.next_move = None;
            if let Some(tab) = &self.tab {
                drag::cancel(&tab.session, self.held.at());
            }
        }
    }
}
