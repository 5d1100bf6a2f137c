//! The only place that reads the clock. Rules take `now` as a parameter.

use k8s_openapi::jiff::Timestamp;

/// Now.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
