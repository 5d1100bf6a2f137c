//! What a person sees while something takes long.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// One plain line on standard error.
pub fn say(text: impl AsRef<str>) {
    // Nobody may be reading; that is no reason to stop.
    drop(writeln!(std::io::stderr(), "{}", text.as_ref()));
}

/// One plain line on standard output.
pub fn print(text: impl AsRef<str>) {
    drop(writeln!(std::io::stdout(), "{}", text.as_ref()));
}

/// A step that takes a while: says its name at once, then how far it is, then how long it took.
#[derive(Debug)]
pub struct Step {
    name: String,
    started: Instant,
    told: Instant,
    every: Duration,
    terminal: bool,
}

impl Step {
    /// Starts the step and says so.
    pub fn start(name: impl Into<String>) -> Self {
        let name = name.into();
        say(format!("{name} ..."));
        let terminal = std::io::stderr().is_terminal();
        let every = if terminal { Duration::from_millis(500) } else { Duration::from_secs(15) };
        Self { name, started: Instant::now(), told: Instant::now(), every, terminal }
    }

    /// Says how far it is, not too often: in place on a terminal, a line now and then elsewhere.
    pub fn at(&mut self, how_far: impl FnOnce() -> String) {
        if self.told.elapsed() < self.every {
            return;
        }
        self.told = Instant::now();
        let line = format!("  {} ({})", how_far(), elapsed(self.started.elapsed()));
        let mut out = std::io::stderr();
        drop(if self.terminal { write!(out, "\r\x1b[K{line}").and_then(|()| out.flush()) } else { writeln!(out, "{line}") });
    }

    /// Says that it is done.
    pub fn done(self) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        say(format!("{clear}{}: done in {}", self.name, elapsed(self.started.elapsed())));
    }
}

/// `4.2 s` or `3 min 12 s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{:.1} s", time.as_secs_f64()) } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}
