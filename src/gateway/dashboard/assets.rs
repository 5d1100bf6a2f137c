//! Styles and scripts, inside the binary. One hash of all of them is in every address, so that they are kept for ever and a
//! new version is another address.

use crate::domain::names::hex;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type, content.
const FILES: &[(&str, &str, &str)] = &[
    ("base.css", STYLE, include_str!("assets/base.css")),
    ("pages.css", STYLE, include_str!("assets/pages.css")),
    ("live.css", STYLE, include_str!("assets/live.css")),
    ("core.js", SCRIPT, include_str!("assets/core.js")),
    ("attention.js", SCRIPT, include_str!("assets/attention.js")),
    ("request.js", SCRIPT, include_str!("assets/request.js")),
    ("sessions.js", SCRIPT, include_str!("assets/sessions.js")),
    ("session.js", SCRIPT, include_str!("assets/session.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("asked.js", SCRIPT, include_str!("assets/asked.js")),
    ("input.js", SCRIPT, include_str!("assets/input.js")),
    ("plain.js", SCRIPT, include_str!("assets/plain.js")),
    ("keys.js", SCRIPT, include_str!("assets/keys.js")),
    ("help.js", SCRIPT, include_str!("assets/help.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut all = Sha256::new();
    for (name, _, content) in FILES {
        all.update(name);
        all.update(content);
    }
    hex(all.finalize().into_iter().take(8))
});

/// The address of a file.
pub(super) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// `GET /favicon.ico`, which browsers ask for by themselves.
pub(super) async fn icon() -> Response {
    serve(Path((VERSION.clone(), "icon.svg".to_owned()))).await
}

/// `GET /assets/{version}/{name}`.
pub(super) async fn serve(Path((version, name)): Path<(String, String)>) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(known, _, _)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // During a rollout a page of another version asks for its own files: it gets ours, but not to keep.
    let keep = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-store" };
    ([(CONTENT_TYPE, *kind), (CACHE_CONTROL, keep)], *content).into_response()
}
