//! What holds for every reply: our hosts only, and headers that leave a page of ours nothing to be abused with.

use super::Site;
use super::origin;
use crate::gateway::origin::host_named;
use crate::gateway::rest::Problem;
use crate::runtime::clock;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, HOST, HeaderName, SET_COOKIE};

/// No inline script or style, nothing from elsewhere, no frame around it, forms only to ourselves, and markup only through the
/// one function of the scripts that takes what this server rendered.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types beckon";
const ALWAYS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // With no-referrer browsers send `Origin: null` with a form, and the sign-in checks the origin.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), payment=()"),
];

/// Refuses foreign hosts, and sets the headers.
pub(super) async fn guard(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    // Over HTTP/2 the address alone names the host. Everything behind this looks at the header.
    if let Some(host) = host_named(request.uri(), request.headers()) {
        request.headers_mut().insert(HOST, host);
    }
    let mut reply = match origin::host(request.headers(), &site.gateway.settings) {
        Ok(_) => next.run(request).await,
        Err(foreign) => Problem::from(foreign).into_response(),
    };
    let headers = reply.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    reply
}

/// Moves the idle end of a visit: somebody is there.
pub(super) async fn renew(State(site): State<Site>, request: Request, next: Next) -> Response {
    let now = clock::now();
    // A feed is opened by itself, again and again: it is no sign of a person.
    let alone = request.uri().path() == "/events";
    let touched = if alone { None } else { site.visit(request.headers(), now).and_then(|visit| visit.touched(now)) };
    let mut reply = next.run(request).await;
    if let Some(visit) = touched
        && !reply.headers().contains_key(SET_COOKIE)
        && let Ok(jar) = visit.store(&site.cookie_key)
    {
        let stored = jar.into_response();
        if let Some(value) = stored.headers().get(SET_COOKIE) {
            reply.headers_mut().insert(SET_COOKIE, value.clone());
        }
    }
    reply
}
