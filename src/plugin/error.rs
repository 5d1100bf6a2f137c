//! How a command ends: an exit code that scripts can tell apart, and the API server's own words for people.

use kube::core::Status;
use std::process::ExitCode;
use thiserror::Error;

/// The exit codes of `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Settled = 5,
}

impl Exit {
    /// Of several: their common end, else `Failed`. Of none: `Done`.
    pub(super) fn of_all(exits: impl IntoIterator<Item = Self>) -> Self {
        let mut exits = exits.into_iter();
        let first = exits.next().unwrap_or(Self::Done);
        if exits.all(|exit| exit == first) { first } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What went wrong.
#[derive(Debug, Error)]
pub(super) enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("the kubeconfig can't be used: {0}")]
    Config(String),
    #[error("Error from server{}: {}", reason(.0), .0.message)]
    Api(Box<Status>),
    #[error("the API server can't be reached: {0}")]
    Unreachable(String),
    /// The server's words when it gave some, else ours.
    #[error("{0}")]
    Settled(String),
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Settled(_) => Exit::Settled,
            Self::Api(status) => match status.code {
                404 => Exit::NotFound,
                401 | 403 => Exit::Refused,
                _ => Exit::Failed,
            },
            Self::Config(_) | Self::Unreachable(_) | Self::Other(_) => Exit::Failed,
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error { Self::Api(status) } else { Self::Unreachable(causes(&error)) }
    }
}

fn reason(status: &Status) -> String {
    if status.reason.is_empty() { String::new() } else { format!(" ({})", status.reason) }
}

/// An error with what caused it, each once.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_several_is_their_common_one() {
        use Exit::{Done, Failed, NotFound, Refused, Settled};
        for (exits, want) in [
            (vec![], Done),
            (vec![Done, Done], Done),
            (vec![NotFound], NotFound),
            (vec![Settled, Settled], Settled),
            (vec![Done, Settled], Failed),
            (vec![Refused, NotFound], Failed),
        ] {
            assert_eq!(Exit::of_all(exits.clone()), want, "{exits:?}");
        }
    }

    #[test]
    fn the_api_servers_words_reach_the_person() {
        for (code, reason, message, want, exit) in [
            (404, "NotFound", "no \"x\"", "Error from server (NotFound): no \"x\"", Exit::NotFound),
            (403, "Forbidden", "needs the verb resolve", "Error from server (Forbidden): needs the verb resolve", Exit::Refused),
            (401, "Unauthorized", "Unauthorized", "Error from server (Unauthorized): Unauthorized", Exit::Refused),
            (422, "Invalid", "is immutable", "Error from server (Invalid): is immutable", Exit::Failed),
            (500, "", "broken", "Error from server: broken", Exit::Failed),
        ] {
            let error = Error::from(kube::Error::Api(Box::new(Status {
                code,
                reason: reason.into(),
                message: message.into(),
                ..Status::default()
            })));
            assert_eq!((error.to_string().as_str(), error.exit()), (want, exit));
        }
    }
}
