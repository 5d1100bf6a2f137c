//! The one error of this crate: a sentence for the person at the terminal.

use std::fmt;

/// What went wrong and, where there is something to do, what to do.
#[derive(Debug)]
pub struct Failure(String);

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// With this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Says what was being done when an error came.
pub trait Context<T> {
    /// Puts `what: ` before the error.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.ok_or_else(|| Failure(what.to_string()))
    }
}
