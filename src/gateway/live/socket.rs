//! Opens a live view: who, for which page, with a ticket that nobody used before.

use super::marks::Mark;
use super::relay;
use super::ticket::{LIFE, Ticket, TicketError};
use crate::driver::MAX_COMMAND_BYTES;
use crate::gateway::dashboard::{Site, origin, rights};
use crate::gateway::live::control;
use crate::gateway::rest::{Caller, Means, Problem};
use crate::runtime::clock;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use kube::ResourceExt as _;
use serde::Deserialize;
use std::sync::Arc;

/// The address's query.
#[derive(Deserialize)]
pub struct Asked {
    #[serde(default)]
    ticket: String,
}

/// `GET /live/{namespace}/{session}?ticket=…`, a WebSocket.
pub async fn open(
    State(site): State<Site>,
    Path((namespace, name)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let caller = Caller::of(&site, &headers, true).await?;
    let session = rights::session(&site, &namespace, &name)?;
    control::must_view(&site, &caller.who, &session).await?;
    control::must_run(&session)?;
    let origin = match caller.means {
        Means::Cookie(_) => origin::own(&headers, &site.gateway.settings)?,
        Means::Token => "",
    };
    let id = check(&site, &asked.ticket, &caller, &session.uid().unwrap_or_default(), origin)?;
    let place = Arc::clone(&site.viewers)
        .try_acquire_owned()
        .map_err(|_| Problem::unavailable("this gateway shows as many live views as it can: try again later"))?;
    let driver = site.gateway.drivers.of(&session).await?;
    let upstream = driver.live().await?;
    use_up(&site, &id).await?;
    let tasks = site.gateway.tasks.clone();
    Ok(upgrade.max_message_size(MAX_COMMAND_BYTES).max_frame_size(MAX_COMMAND_BYTES).on_upgrade(move |socket| {
        tasks.own("a live view", async move {
            relay::run(site, caller, session, upstream, socket).await;
            drop(place);
        })
    }))
}

fn refused(error: TicketError) -> Problem {
    let status = if error == TicketError::Unknown { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::FORBIDDEN };
    Problem::new(status, "TICKET_REFUSED", error.to_string())
}

fn check(site: &Site, ticket: &str, caller: &Caller, session: &str, origin: &str) -> Result<String, Problem> {
    Ticket::check(ticket, &site.ticket_key, &caller.binding(), session, origin, clock::now()).map_err(refused)
}

/// Last of all: a ticket that opened nothing can be shown again.
async fn use_up(site: &Site, id: &str) -> Result<(), Problem> {
    let now = clock::now();
    match site.marks.set(Mark::Ticket, id, now.saturating_add(LIFE).unwrap_or(now), None).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(refused(TicketError::Used)),
        Err(error) => {
            tracing::warn!(%error, "a ticket could not be checked");
            Err(refused(TicketError::Unknown))
        }
    }
}
