//! The one table that classes every tool and every CDP method as looking or touching. What is not in it touches.

/// Whether something only looks at the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It looks: allowed at any time.
    Read,
    /// It may change the page: refused while a person drives.
    Change,
}

use Class::{Change, Read};

/// Every page tool.
pub const TOOLS: &[(&str, Class)] = &[
    ("click", Change),
    ("handle_dialog", Change),
    ("navigate", Change),
    ("press_key", Change),
    ("screenshot", Read),
    ("snapshot", Read),
    ("type", Change),
    ("wait_for", Read),
];

/// Every CDP method that the driver sends.
pub const METHODS: &[(&str, Class)] = &[("Accessibility.getFullAXTree", Read)];

/// The class of a tool; an unknown one changes.
#[must_use]
pub fn tool(name: &str) -> Class {
    class(TOOLS, name)
}

/// The class of a CDP method; an unknown one changes.
#[must_use]
pub fn method(name: &str) -> Class {
    class(METHODS, name)
}

fn class(table: &[(&str, Class)], name: &str) -> Class {
    table.iter().find(|(known, _)| *known == name).map_or(Change, |(_, class)| *class)
}
