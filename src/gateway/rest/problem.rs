//! Errors as `application/problem+json`: a stable code for programs, a sentence for people.

use crate::gateway::auth::{AccessUnknown, AuthError};
use crate::gateway::dashboard::origin::Foreign;
use crate::gateway::decisions::DecisionError;
use crate::gateway::driver_client::DriverFailure;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

/// Why a call was refused or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// Stable, for programs.
    pub code: &'static str,
    /// For a person.
    pub detail: String,
    /// More members, such as `holder` and `since`.
    pub more: Option<Value>,
}

impl Problem {
    /// With a status, a code and a sentence.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: None }
    }

    /// 404.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", detail)
    }

    /// 403.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
    }

    /// 400.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID", detail)
    }

    /// 409.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 503.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let (Some(Value::Object(more)), Value::Object(all)) = (self.more, &mut body) {
            all.extend(more);
        }
        let mut reply =
            (self.status, [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))], body.to_string()).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            reply.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let (status, code) = match error {
            AuthError::Missing => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
            AuthError::Malformed => (StatusCode::UNAUTHORIZED, "TOKEN_MALFORMED"),
            AuthError::Refused | AuthError::OtherAudience { .. } => (StatusCode::UNAUTHORIZED, "TOKEN_REFUSED"),
            AuthError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<AccessUnknown> for Problem {
    fn from(error: AccessUnknown) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<Foreign> for Problem {
    fn from(error: Foreign) -> Self {
        let code = match error {
            Foreign::Host(_) => "HOST_REFUSED",
            Foreign::Origin(_) | Foreign::NoOrigin => "ORIGIN_REFUSED",
        };
        Self::new(StatusCode::FORBIDDEN, code, error.to_string())
    }
}

impl From<DecisionError> for Problem {
    fn from(error: DecisionError) -> Self {
        let detail = error.to_string();
        match error {
            DecisionError::NotFound { .. } => Self::not_found(detail),
            DecisionError::Forbidden(_) => Self::forbidden(detail),
            DecisionError::Settled(_) => Self::conflict("ALREADY_SETTLED", detail),
            DecisionError::Stale(_) => Self::conflict("STALE", detail),
            DecisionError::Invalid(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID", detail),
            DecisionError::Unavailable(_) => Self::unavailable(detail),
        }
    }
}

impl From<DriverFailure> for Problem {
    fn from(error: DriverFailure) -> Self {
        use crate::driver::DriverErrorCode as Code;
        let code = error.code();
        let detail = error.to_string();
        match error {
            DriverFailure::Refused(inner) => {
                let status = match inner.code {
                    Code::InvalidArgument => StatusCode::BAD_REQUEST,
                    Code::NotFound => StatusCode::NOT_FOUND,
                    Code::ControlHeld | Code::ObserveFirst | Code::StaleReference | Code::DialogOpen | Code::LeaseEnded => {
                        StatusCode::CONFLICT
                    }
                    Code::ActionFailed => StatusCode::UNPROCESSABLE_ENTITY,
                    Code::TabCrashed | Code::Unauthenticated => StatusCode::BAD_GATEWAY,
                    Code::BrowserGone => StatusCode::SERVICE_UNAVAILABLE,
                    Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let more = inner.control.map(|control| json!({"holder": control.holder, "since": control.since}));
                Self { more, ..Self::new(status, code, detail) }
            }
            DriverFailure::NotReady { .. } | DriverFailure::Unreachable { .. } => Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail),
        }
    }
}

impl From<StatusCode> for Problem {
    fn from(status: StatusCode) -> Self {
        Self::new(status, "ERROR", status.canonical_reason().unwrap_or("error"))
    }
}

impl From<JsonRejection> for Problem {
    fn from(error: JsonRejection) -> Self {
        Self::new(error.status(), "INVALID", error.body_text())
    }
}
