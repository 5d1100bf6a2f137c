//! Who calls: the bearer of a token, or a person with a cookie. A cookie comes along by itself, so with one every write has
//! to come from our own pages.

use super::problem::Problem;
use crate::gateway::auth::Principal;
use crate::gateway::dashboard::Site;
use crate::gateway::dashboard::cookie::Visit;
use crate::gateway::dashboard::origin;
use crate::runtime::clock;
use axum::extract::FromRequestParts;
use http::header::{AUTHORIZATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use std::sync::Arc;

/// A verified caller.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub who: Arc<Principal>,
    /// By what.
    pub means: Means,
}

/// What a caller showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// A bearer token.
    Token,
    /// The dashboard's cookie.
    Cookie(Box<Visit>),
}

impl Caller {
    /// What a ticket is bound to: this visit, or this principal.
    pub fn binding(&self) -> String {
        match &self.means {
            Means::Cookie(visit) => format!("visit {} {}", visit.id, self.who.username),
            Means::Token => format!("token {} {}", self.who.uid.as_deref().unwrap_or_default(), self.who.username),
        }
    }

    /// Verifies the caller of a request. `writes`: the request has effects, or opens a socket.
    pub async fn of(site: &Site, headers: &HeaderMap, writes: bool) -> Result<Self, Problem> {
        if headers.contains_key(AUTHORIZATION) {
            // A token never comes along by itself, but a page of another site has no business with it either.
            if headers.contains_key(ORIGIN) && origin::own(headers, &site.gateway.settings).is_err() {
                let named = headers.get(ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
                if !site.gateway.settings.allowed_origins.iter().any(|allowed| allowed == named) {
                    return Err(origin::Foreign::Origin(named.chars().take(100).collect()).into());
                }
            }
            let who = site.gateway.auth.caller(headers).await?;
            return Ok(Self { who, means: Means::Token });
        }
        let visit = site.visit(headers, clock::now()).ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "sign in, or send the header Authorization: Bearer <token>")
        })?;
        if writes {
            origin::own(headers, &site.gateway.settings)?;
        }
        Ok(Self { who: Arc::new(visit.who.clone()), means: Means::Cookie(Box::new(visit)) })
    }
}

impl FromRequestParts<Site> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let writes = !matches!(parts.method, Method::GET | Method::HEAD);
        Self::of(site, &parts.headers, writes).await
    }
}
