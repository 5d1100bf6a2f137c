//! Signing in and out.

use super::cookie::Visit;
use super::handlers::Visitor;
use super::login::Told;
use super::{Site, links, login, origin};
use crate::gateway::auth::{AuthError, Principal};
use crate::gateway::rest::Problem;
use crate::runtime::clock;
use axum::Form;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use std::time::Duration;

/// How long somebody waits at the door while others are checked.
const TURN: Duration = Duration::from_secs(10);
/// How long a wrong token keeps its place.
const WRONG: Duration = Duration::from_millis(500);

/// What the address of the door carries.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    code: Option<String>,
    next: Option<String>,
    out: Option<String>,
}

/// What the door's form sends. Never printed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    code: Option<String>,
    token: Option<String>,
    next: Option<String>,
}

/// `GET /login`.
pub(super) async fn door(State(site): State<Site>, Query(asked): Query<Asked>, visitor: Option<Visitor>) -> Response {
    let next = safe(asked.next.as_deref());
    let Some(code) = asked.code else {
        return match visitor {
            Some(_) => Redirect::to(&next).into_response(),
            None if asked.out.is_some() => login::form(&next, Some(Told::Well("You are signed out."))).into_response(),
            None => login::form(&next, None).into_response(),
        };
    };
    match links::peek(&site, &code, clock::now()).await {
        Ok(Some(who)) => login::link(&code, &next, &who.username).into_response(),
        Ok(None) => (StatusCode::GONE, login::used(USED)).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, login::used(UNKNOWN)).into_response(),
    }
}

const USED: &str = "It was used before, or it is older than 10 minutes.";
const UNKNOWN: &str = "It could not be checked, because the API server did not answer. Try again in a moment.";

/// `POST /login`, from our own form alone.
pub(super) async fn sign_in(State(site): State<Site>, headers: HeaderMap, Form(shown): Form<Shown>) -> Response {
    let next = safe(shown.next.as_deref());
    if let Err(foreign) = origin::own(&headers, &site.gateway.settings) {
        return (StatusCode::FORBIDDEN, login::form(&next, Some(Told::Ill(&foreign.to_string())))).into_response();
    }
    if let Some(code) = shown.code {
        return match links::take(&site, &code, clock::now()).await {
            Ok(Some(who)) => enter(&site, who, &next),
            Ok(None) => (StatusCode::GONE, login::used(USED)).into_response(),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, login::used(UNKNOWN)).into_response(),
        };
    }
    // Tokens can't be guessed; but who tries would keep the API server busy with checks, so few are checked at a time.
    let Ok(Ok(turn)) = tokio::time::timeout(TURN, site.door.acquire()).await else {
        let sentence = Told::Ill("Too many people are signing in at this moment. Try again in a few seconds, or use a one-time link.");
        return (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "5")], login::form(&next, Some(sentence))).into_response();
    };
    match site.gateway.auth.authenticate(shown.token.unwrap_or_default().trim()).await {
        Ok(who) => enter(&site, (*who).clone(), &next),
        Err(error) => {
            // A wrong one keeps its turn for a while.
            tokio::time::sleep(WRONG).await;
            drop(turn);
            site.gateway.metrics.auth_failed(&error);
            let (status, sentence) = match error {
                AuthError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "The API server did not answer. Try again in a moment."),
                AuthError::Missing | AuthError::Malformed => (StatusCode::BAD_REQUEST, "This is not a token: it must be one word."),
                AuthError::Refused | AuthError::OtherAudience { .. } => (
                    StatusCode::UNAUTHORIZED,
                    "The API server does not accept this token. It may have expired, or be for another audience.",
                ),
            };
            (status, login::form(&next, Some(Told::Ill(sentence)))).into_response()
        }
    }
}

fn enter(site: &Site, who: Principal, next: &str) -> Response {
    tracing::info!(user = %who.username, "signed in");
    match Visit::begin(who, clock::now()).store(&site.cookie_key) {
        Ok(jar) => (jar, Redirect::to(next)).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, login::form(next, Some(Told::Ill(&error.to_string())))).into_response(),
    }
}

/// `POST /logout`, from our own pages alone.
pub(super) async fn sign_out(State(site): State<Site>, headers: HeaderMap) -> Response {
    if let Err(foreign) = origin::own(&headers, &site.gateway.settings) {
        return Problem::from(foreign).into_response();
    }
    if let Some(visit) = site.visit(&headers, clock::now()) {
        site.visits.end(&visit).await;
        tracing::info!(user = %visit.who.username, "signed out");
    }
    ([(SET_COOKIE, HeaderValue::from_static(Visit::FORGET))], Redirect::to("/login?out")).into_response()
}

/// Where to go after signing in: a path of ours, never another site.
fn safe(next: Option<&str>) -> String {
    next.filter(|path| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path.len() <= 1024
            && !path.contains('\\')
            && path.bytes().all(|byte| byte.is_ascii_graphic())
    })
    .unwrap_or("/attention")
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn only_paths_of_ours_follow_signing_in() {
        for (next, want) in [
            (None, "/attention"),
            (Some("/history"), "/history"),
            (Some("/attention/ns/a-1"), "/attention/ns/a-1"),
            (Some("https://evil.example"), "/attention"),
            (Some("//evil.example"), "/attention"),
            (Some("/\\evil.example"), "/attention"),
            (Some("/a\r\nset-cookie: x"), "/attention"),
            (Some("/a\u{b}b"), "/attention"),
            (Some("/\t/evil.example"), "/attention"),
            (Some("javascript:alert(1)"), "/attention"),
            (Some(""), "/attention"),
        ] {
            assert_eq!(safe(next), want, "{next:?}");
        }
    }
}
