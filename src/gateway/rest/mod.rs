//! The JSON API under `/api/v1`: what the dashboard does, for programs too.

mod account;
mod attention;
mod caller;
mod problem;
mod sessions;

pub use attention::fetch;
pub use caller::{Caller, Means};
pub use problem::Problem;
pub use sessions::may_close;

use super::dashboard::Site;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use http::{Method, StatusCode};

/// The largest body: a message of 4000 characters, or 256 requests at once.
const LARGEST: usize = 64 * 1024;

/// Every route, below `/api/v1`.
pub fn router() -> Router<Site> {
    Router::new()
        .route("/whoami", get(account::whoami))
        .route("/login-links", post(account::login_link))
        .route("/attention", get(attention::list))
        .route("/attention/bulk", post(attention::bulk))
        .route("/attention/{namespace}/{name}", get(attention::one))
        .route("/attention/{namespace}/{name}/resolve", post(attention::resolve))
        .route("/attention/{namespace}/{name}/reject", post(attention::reject))
        .route("/attention/{namespace}/{name}/claim", post(attention::claim))
        .route("/attention/{namespace}/{name}/extend", post(attention::extend))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{namespace}/{name}", get(sessions::one))
        .route("/sessions/{namespace}/{name}/close", post(sessions::close))
        .route("/sessions/{namespace}/{name}/resize", post(sessions::resize))
        .route("/sessions/{namespace}/{name}/live-ticket", post(sessions::live_ticket))
        .route("/sessions/{namespace}/{name}/control/take", post(sessions::take))
        .route("/sessions/{namespace}/{name}/control/extend", post(sessions::extend))
        .route("/sessions/{namespace}/{name}/control/release", post(sessions::release))
        .fallback(|| async { Problem::not_found("there is no such call") })
        .method_not_allowed_fallback(|method: Method| async move {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                format!("this call does not take {method}; the header Allow says what it takes"),
            )
        })
        .layer(DefaultBodyLimit::max(LARGEST))
}
