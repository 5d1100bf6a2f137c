//! One-time login links: a code that only its maker knows, and a mark with its maker sealed inside.

use super::Site;
use super::cookie::Visit;
use crate::domain::names::hex;
use crate::gateway::auth::Principal;
use crate::gateway::live::{Mark, MarkError};
use http::HeaderMap;
use http::header::{COOKIE, SET_COOKIE};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

/// How long a link can be used.
pub const LIFE: SignedDuration = SignedDuration::from_mins(10);
const LENGTH: usize = 32;
const SEALED: &str = "__Host-beckon";

/// A new link.
pub struct Made {
    /// The code for its address.
    pub code: String,
    /// When it ends.
    pub expires: Timestamp,
}

/// Why there is no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The API server did not store it.
    #[error(transparent)]
    Mark(#[from] MarkError),
    /// The person does not fit into a cookie.
    #[error(transparent)]
    TooLarge(#[from] super::cookie::TooLarge),
}

/// Makes a link for a person.
pub async fn make(site: &Site, who: &Principal, now: Timestamp) -> Result<Made, LinkError> {
    let code = crate::gateway::process_lease::random_name(LENGTH);
    let expires = now.saturating_add(LIFE).unwrap_or(now);
    let sealed = seal(site, who, now)?;
    site.marks.set(Mark::Link, &id(&code), expires, Some(&sealed)).await?;
    Ok(Made { code, expires })
}

/// Whose link it is, without using it up. `None`: it is not there, over, or used.
pub async fn peek(site: &Site, code: &str, now: Timestamp) -> Result<Option<Principal>, MarkError> {
    let sealed = if well_formed(code) { site.marks.peek(Mark::Link, &id(code), now).await? } else { None };
    Ok(sealed.and_then(|sealed| open(site, &sealed, now)))
}

/// Uses a link up. `None`: it is not there, over, or somebody was faster.
pub async fn take(site: &Site, code: &str, now: Timestamp) -> Result<Option<Principal>, MarkError> {
    let sealed = if well_formed(code) { site.marks.take(Mark::Link, &id(code), now).await? } else { None };
    Ok(sealed.and_then(|sealed| open(site, &sealed, now)))
}

/// Links are found by the hash of their code, so that who reads the marks can't use them.
fn id(code: &str) -> String {
    hex(Sha256::digest(code.as_bytes()).into_iter().take(16))
}

fn well_formed(code: &str) -> bool {
    code.len() == LENGTH && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn seal(site: &Site, who: &Principal, now: Timestamp) -> Result<String, super::cookie::TooLarge> {
    use axum::response::IntoResponse as _;
    let reply = Visit::begin(who.clone(), now).store(&site.link_key)?.into_response();
    let set = reply.headers().get(SET_COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(set.split(';').next().and_then(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned()).unwrap_or_default())
}

fn open(site: &Site, sealed: &str, now: Timestamp) -> Option<Principal> {
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, format!("{SEALED}={sealed}").parse().ok()?);
    Visit::read(&headers, &site.link_key, now).map(|visit| visit.who)
}
