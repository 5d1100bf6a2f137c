//! Text that an agent or a page wrote: always text, never markup, and honest about characters that mislead.

use maud::{Markup, html};

/// The longest first line that a list shows, in characters.
const FIRST_LINE: usize = 160;

/// The text as it is. A character that is invisible or reorders its neighbours stays in it, isolated and labelled with its
/// name, so that a person sees it and a copy is exact.
pub fn plain(text: &str) -> Markup {
    html! {
        @for part in parts(text) {
            @match part {
                Part::Run(run) => (run),
                Part::Odd(odd) => span.odd data-name=(format!("U+{:04X}", u32::from(odd))) { (odd) },
            }
        }
    }
}

/// The first line that says something, cut to a length that a list can show.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(FIRST_LINE) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Run(&'a str),
    Odd(char),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let after = text.get(at + c.len_utf8()..).and_then(|rest| rest.chars().next());
        if is_odd(c, before, after) {
            parts.extend(text.get(from..at).filter(|run| !run.is_empty()).map(Part::Run));
            parts.push(Part::Odd(c));
            from = at + c.len_utf8();
        }
        before = Some(c);
    }
    parts.extend(text.get(from..).filter(|run| !run.is_empty()).map(Part::Run));
    parts
}

/// Whether a character is invisible, or moves its neighbours. Joiners are part of many scripts and of emoji: they are odd
/// only beside plain letters.
fn is_odd(c: char, before: Option<char>, after: Option<char>) -> bool {
    let plain = |c: Option<char>| c.is_none_or(|c| c.is_ascii());
    match c {
        '\n' | '\t' => false,
        '\r' => after != Some('\n'),
        '\u{200c}' | '\u{200d}' => plain(before) || plain(after),
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        let html = plain("<script>alert(1)</script><img src=x onerror=\"x\"> & 'quotes'").into_string();
        assert!(!html.contains('<') && html.contains("&lt;script&gt;") && html.contains("&amp;"), "{html}");
    }

    #[test]
    fn characters_that_mislead_are_named_and_kept() {
        assert_eq!(plain("a\u{202e}b").into_string(), "a<span class=\"odd\" data-name=\"U+202E\">\u{202e}</span>b");
        for odd in ['\u{200b}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{7}', '\u{1b}', '\u{ad}'] {
            assert_eq!(parts(&format!("x{odd}y")), [Part::Run("x"), Part::Odd(odd), Part::Run("y")], "{odd:?}");
        }
    }

    #[test]
    fn ordinary_scripts_and_emoji_are_left_alone() {
        for text in ["line\n\ttab", "mañana", "日本語", "עברית", "می\u{200c}خواهم", "👩\u{200d}💻", "a\r\nb", "❤\u{fe0f}"]
        {
            assert_eq!(parts(text), [Part::Run(text)], "{text:?}");
        }
    }

    #[test]
    fn a_list_shows_the_first_line_that_says_something() {
        assert_eq!(first_line("\n  \n  Please solve it. \nmore"), "Please solve it.");
        assert_eq!(first_line(""), "");
        let long = first_line(&"é".repeat(300));
        assert_eq!((long.chars().count(), long.ends_with('…')), (161, true));
    }
}
