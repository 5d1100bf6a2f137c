//! What a watched page may cost. Pure: `now` is passed in.
//!
//! A page that moves all the time costs Chromium one to two cores, whatever is delivered and however slowly frames are
//! acknowledged. So the cast runs on while somebody acts and while the page is mostly still, when it costs nothing; when frames
//! keep coming without anybody acting it becomes a row of single shots.

use std::time::Duration;
use tokio::time::Instant;

/// After an action the page is shown as fast as it comes for this long.
const ACTING: Duration = Duration::from_secs(3);
/// Frames that keep coming for this long are an animation.
const MOVING: Duration = Duration::from_secs(3);
/// A pause that is longer ends a movement.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two single shots; with the shot itself that makes about 5 a second.
const BETWEEN: Duration = Duration::from_millis(150);
/// As many shots with the same picture: the page is still again.
const STILL: u8 = 6;
/// An action that shows nothing for this long: the cast is looked after.
const SILENT: Duration = Duration::from_secs(3);

/// What to do with the cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Stay,
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Stop and start it: it shows nothing.
    Restart,
    /// Take a picture in another way: it still shows nothing.
    Capture,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    Shots,
}

/// Decides for one cast.
#[derive(Debug)]
pub(super) struct Governor {
    mode: Mode,
    casting: bool,
    last_frame: Option<Instant>,
    moving_since: Option<Instant>,
    last_action: Option<Instant>,
    next_shot: Option<Instant>,
    same: u8,
    /// The first action, start or restart that no frame has followed.
    unanswered: Option<Instant>,
    restarted: bool,
}

impl Governor {
    /// A cast that starts now.
    #[must_use]
    pub(super) fn new(now: Instant) -> Self {
        Self {
            mode: Mode::Running,
            casting: true,
            last_frame: None,
            moving_since: None,
            last_action: None,
            next_shot: None,
            same: 0,
            unanswered: Some(now),
            restarted: false,
        }
    }

    /// Whether single shots are taken.
    #[must_use]
    pub(super) fn shots(&self) -> bool {
        self.mode == Mode::Shots
    }

    /// A frame came; `same` when it is the picture of the one before.
    pub(super) fn frame(&mut self, now: Instant, same: bool) -> Step {
        self.unanswered = None;
        self.restarted = false;
        let before = self.last_frame.replace(now);
        if !self.casting {
            return Step::Stay;
        }
        match self.mode {
            Mode::Shots => {
                self.same = if same { self.same.saturating_add(1) } else { 0 };
                if self.same >= STILL {
                    self.mode = Mode::Running;
                    self.moving_since = None;
                    return Step::Stay;
                }
                self.rest(now)
            }
            Mode::Running => {
                match before.filter(|before| now.duration_since(*before) <= PAUSE) {
                    Some(before) => drop(self.moving_since.get_or_insert(before)),
                    None => self.moving_since = None,
                }
                let moving = self.moving_since.is_some_and(|since| now.duration_since(since) > MOVING);
                let acting = self.last_action.is_some_and(|at| now.duration_since(at) <= ACTING);
                if moving && !acting {
                    self.mode = Mode::Shots;
                    self.same = 0;
                    return self.rest(now);
                }
                Step::Stay
            }
        }
    }

    /// Somebody acts.
    pub(super) fn action(&mut self, now: Instant) -> Step {
        self.last_action = Some(now);
        self.moving_since = None;
        self.unanswered.get_or_insert(now);
        self.mode = Mode::Running;
        self.next_shot = None;
        if self.casting {
            return Step::Stay;
        }
        self.casting = true;
        Step::Start
    }

    /// When [`Governor::tick`] has something to do.
    #[must_use]
    pub(super) fn due(&self) -> Option<Instant> {
        [self.next_shot, self.unanswered.map(|since| since + SILENT)].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) -> Step {
        if self.next_shot.is_some_and(|at| now >= at) {
            self.next_shot = None;
            self.casting = true;
            self.unanswered.get_or_insert(now);
            return Step::Start;
        }
        if self.unanswered.is_some_and(|since| now >= since + SILENT) {
            self.unanswered = Some(now);
            return if std::mem::replace(&mut self.restarted, true) { Step::Capture } else { Step::Restart };
        }
        Step::Stay
    }

    fn rest(&mut self, now: Instant) -> Step {
        self.casting = false;
        self.next_shot = Some(now + BETWEEN);
        Step::Stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_still_page_stays_on_the_cast() {
        let start = Instant::now();
        let mut governor = Governor::new(start);
        for second in 0..60 {
            assert_eq!(governor.frame(start + ms(second * 1000), false), Step::Stay);
        }
    }

    #[test]
    fn an_animation_nobody_touches_becomes_shots() {
        let start = Instant::now();
        let mut governor = Governor::new(start);
        let stopped = (0..300).find(|i| governor.frame(start + ms(i * 20), false) == Step::Stop).unwrap();
        assert!((150..=152).contains(&stopped), "after 3 s, not {stopped} frames");
        let mut now = start + ms(stopped * 20);
        for _ in 0..20 {
            now = governor.due().unwrap();
            assert_eq!(governor.tick(now), Step::Start);
            now += ms(40);
            assert_eq!(governor.frame(now, false), Step::Stop);
        }
        assert_eq!(governor.action(now), Step::Start, "who acts sees everything at once");
        for i in 0..100 {
            assert_eq!(governor.frame(now + ms(i * 20), false), Step::Stay);
        }
    }

    #[test]
    fn an_animation_that_ends_goes_back_to_the_cast() {
        let start = Instant::now();
        let mut governor = Governor::new(start);
        let mut now = start;
        while governor.frame(now, false) != Step::Stop {
            now += ms(20);
        }
        let mut shots = 0;
        loop {
            now = governor.due().unwrap();
            assert_eq!(governor.tick(now), Step::Start);
            shots += 1;
            if governor.frame(now, true) == Step::Stay {
                break;
            }
        }
        assert_eq!(shots, 6);
        assert_eq!(governor.due(), None, "and costs nothing");
    }

    #[test]
    fn a_cast_that_shows_nothing_after_an_action_is_restarted_then_replaced() {
        let start = Instant::now();
        let mut governor = Governor::new(start);
        assert_eq!(governor.frame(start, false), Step::Stay);
        assert_eq!(governor.due(), None);
        let at = start + ms(10_000);
        assert_eq!(governor.action(at), Step::Stay);
        assert_eq!(governor.action(at + ms(500)), Step::Stay);
        assert_eq!(governor.due(), Some(at + ms(3000)), "from the first action on");
        assert_eq!(governor.tick(at + ms(2999)), Step::Stay);
        assert_eq!(governor.tick(at + ms(3000)), Step::Restart);
        assert_eq!(governor.tick(at + ms(6000)), Step::Capture);
        assert_eq!(governor.frame(at + ms(6100), false), Step::Stay);
        assert_eq!(governor.due(), None);
    }
}
