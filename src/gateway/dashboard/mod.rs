//! The dashboard: pages rendered here, small scripts without a build step, a live feed, and the door.

mod assets;
mod attention;
pub mod cookie;
mod events;
mod guard;
mod handlers;
mod help;
mod icons;
mod layout;
pub mod links;
mod live;
mod login;
pub mod model;
mod options;
pub mod origin;
mod request;
pub mod rights;
mod sessions;
mod signing;
mod site;
pub mod text;
mod visits;

pub use site::{Site, SiteState};

use super::live::keeper;
use super::rest;
use super::state::Shared;
use crate::runtime::clock;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often used tickets and old links are deleted.
const SWEEP: Duration = Duration::from_mins(2);

/// Every route of people and of programs that act for people: pages, `/api/v1`, `/live`, `/events`.
pub fn router(site: &Site) -> Router {
    let pages = Router::new()
        .route("/", get(handlers::attention))
        .route("/attention", get(handlers::attention))
        .route("/attention/{namespace}/{name}", get(handlers::request))
        .route("/sessions", get(handlers::sessions))
        .route("/sessions/{namespace}/{name}", get(handlers::session))
        .route("/history", get(handlers::history))
        .route("/help", get(handlers::help))
        .route("/login", get(signing::door).post(signing::sign_in))
        .route("/logout", axum::routing::post(signing::sign_out))
        .route("/events", get(events::feed))
        .route("/live/{namespace}/{session}", get(super::live::open))
        .nest("/api/v1", rest::router())
        .layer(from_fn_with_state(site.clone(), guard::renew));
    Router::new()
        .route("/assets/{version}/{name}", get(assets::serve))
        .route("/favicon.ico", get(assets::icon))
        .merge(pages)
        .fallback(handlers::nowhere)
        .layer(from_fn_with_state(site.clone(), guard::guard))
        .with_state(site.clone())
}

/// What the dashboard shares, made from what the gateway shares.
pub fn site(gateway: &Shared, metrics: &crate::runtime::metrics::Metrics) -> Site {
    SiteState::new(gateway, metrics)
}

/// Background work until the token is cancelled.
pub async fn run(site: Site, stop: CancellationToken) {
    tokio::join!(keeper::run_sweep(site.clone(), stop.clone()), site.visits.run(stop.clone()), sweep_marks(site.clone(), stop.clone()));
}

async fn sweep_marks(site: Site, stop: CancellationToken) {
    let mut tick = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let swept = tokio::select! {
            () = stop.cancelled() => return,
            swept = site.marks.sweep(clock::now()) => swept,
        };
        if let Err(error) = swept {
            tracing::warn!(%error, "used tickets and old links were not swept");
        }
    }
}
