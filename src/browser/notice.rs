//! What the browser did or refused beside the page, told to everybody who watches and to the agent that caused it.

/// A notice. Not kept: who comes later missed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// A stable word.
    pub code: &'static str,
    /// For a person.
    pub message: String,
}

/// The longest name that is told, in characters.
const LONGEST_NAME: usize = 100;

impl Notice {
    /// A download was refused.
    #[must_use]
    pub fn download(name: &str) -> Self {
        let name = shown(name);
        Self { code: "DOWNLOAD_REFUSED", message: format!("The page offered a download ({name}); this session keeps none.") }
    }

    /// A tab was not opened.
    #[must_use]
    pub fn tab(most: usize) -> Self {
        Self { code: "TAB_REFUSED", message: format!("The page wanted another tab; {most} are open already, which is the most.") }
    }

    /// Another program was not started.
    #[must_use]
    pub fn program(scheme: &str) -> Self {
        let scheme = shown(scheme);
        Self { code: "PROGRAM_REFUSED", message: format!("The page wanted to start another program ({scheme}); this session has none.") }
    }
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}
