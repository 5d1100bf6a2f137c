//! What changes with every key or every script is told now and then. Pure: `now` is passed in.

use std::time::Duration;
use tokio::time::Instant;

/// When something was told last, and whether there is news since.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    told: Option<Instant>,
    waits: bool,
}

impl Pace {
    /// Told at once, and then once in this time at most.
    #[must_use]
    pub(super) fn new(every: Duration) -> Self {
        Self { every, told: None, waits: false }
    }

    /// There is news, or time has passed: whether it is told now.
    pub(super) fn news(&mut self, now: Instant) -> bool {
        let due = self.told.is_none_or(|told| now >= told + self.every);
        if due {
            self.tell(now);
        } else {
            self.waits = true;
        }
        due
    }

    /// It is told now, however soon.
    pub(super) fn tell(&mut self, now: Instant) {
        self.told = Some(now);
        self.waits = false;
    }

    /// When the news that waits is due.
    #[must_use]
    pub(super) fn due(&self) -> Option<Instant> {
        self.told.filter(|_| self.waits).map(|told| told + self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_last_in_the_end() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut pace = Pace::new(Duration::from_millis(100));
        assert_eq!(pace.due(), None);
        assert!(pace.news(at(0)));
        assert_eq!(pace.due(), None, "nothing waits");
        assert!(!pace.news(at(1)));
        assert!(!pace.news(at(99)));
        assert_eq!(pace.due(), Some(at(100)));
        assert!(pace.news(at(100)));
        assert_eq!(pace.due(), None);
        assert!(!pace.news(at(150)));
        pace.tell(at(160));
        assert_eq!(pace.due(), None);
        assert!(!pace.news(at(201)));
        assert_eq!(pace.due(), Some(at(260)));
    }
}
