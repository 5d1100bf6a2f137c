//! Who am I, and a link that signs me in elsewhere.

use super::{Caller, Means, Problem};
use crate::gateway::dashboard::{Site, links, origin};
use crate::runtime::clock;
use crate::runtime::json::Object;
use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// `GET /whoami`.
pub(super) async fn whoami(caller: Caller) -> Json<Value> {
    let until = match &caller.means {
        Means::Cookie(visit) => Some(visit.hard_end()),
        Means::Token => None,
    };
    Json(json!({"username": caller.who.username, "uid": caller.who.uid, "groups": caller.who.groups, "signed_in_until": until}))
}

/// Where the link leads.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Asked {
    next: Option<String>,
}

impl Asked {
    fn query(&self) -> String {
        let next = self.next.as_deref().map(|next| url::form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>());
        next.map(|next| format!("&next={next}")).unwrap_or_default()
    }
}

/// `POST /login-links`: a link that signs the caller in once, within 10 minutes.
pub(super) async fn login_link(
    State(site): State<Site>,
    caller: Caller,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    // A cookie can't make a link: a visit would otherwise outlive its hard end.
    if caller.means != Means::Token {
        return Err(Problem::forbidden("a link is made with a bearer token, not with a cookie"));
    }
    let Object(asked): Object<Asked> = if body.is_empty() {
        Object::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Problem::invalid(format!("the body: {error}")))?
    };
    let base = origin::base(&headers, &site.gateway.settings)?;
    let made = links::make(&site, &caller.who, clock::now()).await.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok((StatusCode::CREATED, Json(json!({"url": format!("{base}/login?code={}{}", made.code, asked.query()), "expires_at": made.expires}))))
}
