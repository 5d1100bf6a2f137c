//! What failing tests said, to be told again at the end, where whoever reads a long log looks first.

use std::collections::BTreeMap;

/// Lines kept of each test: what it expected and what it got stand first.
const LINES: usize = 16;
/// What the first line of a panic has in it.
const PANIC: &str = " panicked at ";

/// The words of failing tests, each under its name.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    of: BTreeMap<String, Vec<String>>,
    speaking: Option<String>,
}

impl LastWords {
    /// Reads a line of `cargo test`, which tells what a failing test said below `---- its::name stdout ----`.
    pub(super) fn hear(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.speaking = Some(name.to_owned());
        } else if line == "failures:" || line == "stack backtrace:" || line.starts_with("test ") {
            self.speaking = None;
        } else if let Some(name) = &self.speaking {
            let lines = self.of.entry(name.clone()).or_default();
            // What it printed on its way there matters less.
            if line.contains(PANIC) && !lines.iter().any(|line| line.contains(PANIC)) {
                lines.clear();
            }
            if !line.trim().is_empty() && lines.len() < LINES {
                lines.push(format!("\n      {line}"));
            }
        }
    }

    /// What this test said, each line on one of its own and indented; empty when nothing is known.
    pub(super) fn of(&self, name: &str) -> String {
        self.of.get(name).map(|lines| lines.concat()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::LastWords;

    #[test]
    fn what_is_told_below_a_name_is_its() {
        let mut words = LastWords::default();
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' panicked at x.rs:1:2:\n  left: 1\nstack backtrace:\n   0: begin\n\n---- b stdout ----\nno\n\nfailures:\n    a\n    b\n";
        output.lines().for_each(|line| words.hear(line));
        assert_eq!(words.of("a"), "\n      thread 'a' panicked at x.rs:1:2:\n        left: 1");
        assert_eq!(words.of("b"), "\n      no");
        assert_eq!(words.of("c"), "");
    }

    #[test]
    fn a_panic_is_told_rather_than_what_was_printed_before_it() {
        let mut words = LastWords::default();
        words.hear("---- a stdout ----");
        (0..1_000).for_each(|n| words.hear(&format!("line {n}")));
        words.hear("thread 'a' panicked at x.rs:1:2:");
        words.hear("thread 'drop' panicked at y.rs:1:2:");
        assert_eq!(words.of("a").lines().count(), 3);
    }

    #[test]
    fn who_says_much_is_cut_short() {
        let mut words = LastWords::default();
        words.hear("---- a stdout ----");
        (0..1_000).for_each(|n| words.hear(&format!("line {n}")));
        assert_eq!(words.of("a").lines().count(), super::LINES + 1);
    }
}
