//! What can go wrong in a pass, and what that means for the next one.

use crate::k8s::client::CallError;
use std::time::Duration;
use thiserror::Error;

/// Why a pass did not finish.
#[derive(Debug, Error)]
pub enum Error {
    /// A call failed.
    #[error("{action}: {source}")]
    Call {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: CallError,
    },
    /// The driver's certificate could not be made.
    #[error("the driver's certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// The kind of an error: a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Somebody else wrote first.
    Conflict,
    /// The API server said no.
    Refused,
    /// The API server did not answer, or failed.
    Unreachable,
    /// A fault of this process.
    Internal,
}

impl Category {
    /// As a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Internal => "internal",
        }
    }
}

impl Error {
    /// Its kind.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Call { source, .. } if source.is_conflict() => Category::Conflict,
            Self::Call { source, .. } => match source.status() {
                Some(status) if (400..500).contains(&status.code) && status.code != 429 => Category::Refused,
                Some(_) | None => Category::Unreachable,
            },
            Self::Certificate(_) => Category::Internal,
        }
    }

    /// How long to wait after this many failures in a row, without jitter.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let doubled = |first: u64, most: u64| Duration::from_millis((first << failures.min(10)).min(most));
        match self.category() {
            // What was written is on its way through the watch, which triggers a pass by itself.
            Category::Conflict => doubled(100, 2_000),
            Category::Unreachable | Category::Internal => doubled(500, 15_000),
            Category::Refused => doubled(1_000, 60_000),
        }
    }
}

/// Names what was tried.
pub(super) trait During<T> {
    /// `action` begins the error's text.
    fn during(self, action: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, CallError> {
    fn during(self, action: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Call { action, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refused(code: u16, reason: &str) -> Error {
        let status = Status::failure("no", reason).with_code(code);
        Error::Call { action: "status", source: CallError::Kube(kube::Error::Api(Box::new(status))) }
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        for (error, category, first, last) in [
            (refused(409, "Conflict"), Category::Conflict, 100, 2_000),
            (refused(403, "Forbidden"), Category::Refused, 1_000, 60_000),
            (refused(500, "InternalError"), Category::Unreachable, 500, 15_000),
            (refused(429, "TooManyRequests"), Category::Unreachable, 500, 15_000),
            (Error::Call { action: "get", source: CallError::Timeout }, Category::Unreachable, 500, 15_000),
        ] {
            assert_eq!(error.category(), category);
            assert_eq!(error.pause(0), Duration::from_millis(first));
            assert_eq!(error.pause(99), Duration::from_millis(last));
        }
    }
}
