//! Agents' text on a person's terminal: whatever could move the cursor, hide or reorder text is made visible.

use std::fmt::Write as _;
use unicode_width::UnicodeWidthChar as _;

/// Whether a character shows as itself.
fn plain(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

fn push(to: &mut String, c: char) {
    if plain(c) {
        to.push(c);
    } else {
        // Writing to a String can't fail.
        let _ = write!(to, "<U+{:04X}>", u32::from(c));
    }
}

/// On one line: ends of lines become `↵`, tabs blanks.
pub(super) fn on_one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.trim().replace("\r\n", "\n").chars() {
        match c {
            '\n' => shown.push('↵'),
            '\t' => shown.push(' '),
            c => push(&mut shown, c),
        }
    }
    shown
}

/// On as many lines as it has, each behind `indent`.
pub(super) fn on_lines(text: &str, indent: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.replace("\r\n", "\n").split('\n') {
        shown.push_str(indent);
        for c in line.chars() {
            match c {
                '\t' => shown.push_str("    "),
                c => push(&mut shown, c),
            }
        }
        shown.push('\n');
    }
    shown
}

/// Columns that a shown text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text in at most `width` columns, with `…` where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut shown = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = rest;
        shown.push(c);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_could_deceive_is_made_visible() {
        for (text, want) in [
            ("Please solve it.", "Please solve it."),
            (" two\r\nlines\tand a tab ", "two↵lines and a tab"),
            ("\u{1b}[2J\u{1b}]0;owned\u{7}", "<U+001B>[2J<U+001B>]0;owned<U+0007>"),
            ("abc\u{202e}cba", "abc<U+202E>cba"),
            ("zero\u{200b}width\u{feff}", "zero<U+200B>width<U+FEFF>"),
            ("tag\u{e0041}", "tag<U+E0041>"),
            ("c1 \u{9b}31m", "c1 <U+009B>31m"),
            ("línea 日本 🙂", "línea 日本 🙂"),
        ] {
            assert_eq!(on_one_line(text), want);
        }
        assert_eq!(on_lines("a\nb\u{1b}\n", "  "), "  a\n  b<U+001B>\n  \n");
    }

    #[test]
    fn cutting_counts_columns() {
        for (text, width, want) in
            [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("日本語", 5, "日本…"), ("日本語", 4, "日…"), ("ab", 1, "…")]
        {
            assert_eq!(cut(text, width), want);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_moves_the_cursor_gets_through(text in ".*", width in 1_usize..40) {
            let line = on_one_line(&text);
            prop_assert!(line.chars().all(plain), "{line:?}");
            prop_assert!(columns(&cut(&line, width)) <= width);
            prop_assert!(on_lines(&text, "").chars().all(|c| plain(c) || c == '\n'));
        }
    }
}
