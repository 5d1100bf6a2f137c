//! Why the driver did not do something.

use super::cdp::CdpError;
use crate::domain::control::Refusal;
use crate::driver::{ControlState, DriverError, DriverErrorCode};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// A [`DriverError`] on its way to the caller. Its message holds no page text and nothing typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    /// The stable code.
    pub code: DriverErrorCode,
    /// What happened and what to do.
    pub message: String,
    /// Who holds control, for CONTROL_HELD.
    pub control: Option<Box<ControlState>>,
}

impl Refused {
    /// With a message.
    #[must_use]
    pub(super) fn new(code: DriverErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), control: None }
    }

    /// An argument is wrong.
    #[must_use]
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new(DriverErrorCode::InvalidArgument, message)
    }

    /// The page did not do it.
    #[must_use]
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(DriverErrorCode::ActionFailed, message)
    }
}

impl From<CdpError> for Refused {
    fn from(error: CdpError) -> Self {
        let code = match &error {
            CdpError::Closed => DriverErrorCode::BrowserGone,
            CdpError::Crashed => {
                return Self::new(DriverErrorCode::TabCrashed, "The tab crashed or was closed; navigate to revive it.");
            }
            CdpError::Timeout(_) => DriverErrorCode::ActionFailed,
            CdpError::Busy | CdpError::Refused { .. } | CdpError::Reply(_) => DriverErrorCode::Internal,
        };
        Self::new(code, format!("{error}."))
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Held(control) => {
                let holder = control.holder.clone().unwrap_or_default();
                let since = control.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
                let verb = if control.pending { "is taking control" } else { "holds control" };
                let message = format!("{holder} {verb}{since}; wait until they hand back. Looking at the page is allowed.");
                Self { code: DriverErrorCode::ControlHeld, message, control: Some(control) }
            }
            Refusal::ObserveFirst => Self::new(
                DriverErrorCode::ObserveFirst,
                "A person may have changed the page: look at it first (snapshot or screenshot). Earlier references are gone.",
            ),
            Refusal::LeaseEnded => {
                Self::new(DriverErrorCode::LeaseEnded, "The lease of control has ended or is another's; take control again.")
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        use DriverErrorCode as Code;
        let status = match self.code {
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::ControlHeld | Code::ObserveFirst | Code::StaleReference | Code::DialogOpen | Code::LeaseEnded => StatusCode::CONFLICT,
            Code::ActionFailed => StatusCode::UNPROCESSABLE_ENTITY,
            Code::TabCrashed => StatusCode::BAD_GATEWAY,
            Code::BrowserGone => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(DriverError { code: self.code, message: self.message, control: self.control.map(|control| *control) }))
            .into_response()
    }
}
