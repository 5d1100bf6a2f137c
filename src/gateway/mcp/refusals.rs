//! The library's refusals as a client can use them: a JSON-RPC error that says what was wrong and what to do, with the status
//! that the protocol wants.

use super::message::{Envelope, NoMessage};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

/// The longest text of a refusal, in bytes.
const LONGEST: usize = 4096;
/// How the library begins when a message is JSON but none of the protocol's.
const UNREAD: &str = "fail to deserialize request body";

const NO_SESSION: &str = "the MCP session of the header Mcp-Session-Id is not known here, or has ended: send initialize again";

/// The layer next to the library.
pub(super) async fn explain(request: Request, next: Next) -> Response {
    let envelope = request.extensions().get::<Envelope>().cloned().unwrap_or_default();
    explained(next.run(request).await, &envelope).await
}

/// A response as it is, but for refusals in plain text.
pub(super) async fn explained(response: Response, envelope: &Envelope) -> Response {
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json || !(response.status().is_client_error() || response.status().is_server_error()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if text.starts_with(UNREAD) {
        // 415 is for other media types.
        parts.status = StatusCode::BAD_REQUEST;
    }
    let code = if parts.status.is_server_error() { -32603 } else { -32600 };
    let body = error(code, &sentence(parts.status, &text), envelope.id.as_deref()).to_string();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(body))
}

/// A body that is no message.
pub(super) fn no_message(why: &NoMessage, id: Option<&str>) -> Response {
    (StatusCode::BAD_REQUEST, axum::Json(error(why.code(), &why.to_string(), id))).into_response()
}

/// No session of the caller.
pub(super) fn session_unknown() -> Response {
    refuse(StatusCode::NOT_FOUND, -32600, NO_SESSION)
}

/// A refusal without a message that it could be the answer to.
pub(super) fn refuse(status: StatusCode, code: i32, message: &str) -> Response {
    (status, axum::Json(error(code, message, None))).into_response()
}

fn error(code: i32, message: &str, id: Option<&str>) -> Value {
    // Only what can be the id of a request is sent back as one.
    let id = id.and_then(|id| serde_json::from_str::<Value>(id).ok());
    let id = id.filter(|id| id.is_string() || id.is_number()).unwrap_or_default();
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// What was wrong and what to do.
fn sentence(status: StatusCode, text: &str) -> String {
    match status {
        StatusCode::NOT_FOUND if text.contains("Session") => NO_SESSION.to_owned(),
        StatusCode::BAD_REQUEST if text.contains("Session ID is required") => {
            "the header Mcp-Session-Id is missing: send initialize first and give the id of its reply with every message, or use the \
             revision 2026-07-28, which has no sessions"
                .to_owned()
        }
        StatusCode::METHOD_NOT_ALLOWED => "this HTTP method is not served here: POST a message".to_owned(),
        StatusCode::BAD_REQUEST if text.starts_with(UNREAD) => {
            "the message could not be read: params must fit the method, numbers must fit 64 bits, and text must be Unicode".to_owned()
        }
        StatusCode::NOT_ACCEPTABLE if text.contains("both") => {
            "the header Accept must name both application/json and text/event-stream".to_owned()
        }
        StatusCode::NOT_ACCEPTABLE => "the header Accept must name text/event-stream".to_owned(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "the header Content-Type must be application/json".to_owned(),
        _ if text.is_empty() => status.canonical_reason().unwrap_or("refused").to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(status: u16, text: &'static str, id: Option<&str>) -> (StatusCode, Value) {
        let response = Response::builder().status(status).header("allow", "POST").body(Body::from(text)).unwrap();
        let envelope = Envelope { id: id.map(str::to_owned), ..Envelope::default() };
        let told = explained(response, &envelope).await;
        assert_eq!(told.headers()["allow"], "POST");
        (told.status(), serde_json::from_slice(&to_bytes(told.into_body(), 10_000).await.unwrap()).unwrap())
    }

    #[tokio::test]
    async fn plain_refusals_become_errors_of_the_protocol() {
        for (status, text, want, code, part) in [
            (404, "Not Found: Session not found", 404, -32600, "send initialize again"),
            (400, "Bad Request: Session ID is required", 400, -32600, "Mcp-Session-Id is missing"),
            (406, "Not Acceptable: Client must accept both a and b", 406, -32600, "the header Accept must name both"),
            (406, "Not Acceptable: Client must accept a", 406, -32600, "the header Accept must name text/event-stream"),
            (415, "Unsupported Media Type: Content-Type must be application/json", 415, -32600, "the header Content-Type"),
            (415, "fail to deserialize request body data did not match", 400, -32600, "params must fit"),
            (405, "Method Not Allowed", 405, -32600, "POST a message"),
            (500, "Encounter an error when get session: x", 500, -32603, "get session"),
            (400, "", 400, -32600, "Bad Request"),
        ] {
            let (told_status, body) = told(status, text, Some("\"i\"")).await;
            assert_eq!((told_status.as_u16(), &body["error"]["code"], &body["id"]), (want, &json!(code), &json!("i")), "{text}");
            assert!(body["error"]["message"].as_str().unwrap().contains(part), "{body}");
        }
        for id in [None, Some("null"), Some("{\"a\":1}"), Some("\"\\ud800\"")] {
            assert_eq!(told(404, "x", id).await.1["id"], Value::Null, "{id:?}");
        }
    }

    #[tokio::test]
    async fn everything_else_stays() {
        for (status, kind) in [(200, "text/event-stream"), (202, ""), (400, "application/json")] {
            let response = Response::builder().status(status).header(CONTENT_TYPE, kind).body(Body::from("{\"x\":1}")).unwrap();
            let same = explained(response, &Envelope::default()).await;
            assert_eq!(same.status().as_u16(), status);
            assert_eq!(&to_bytes(same.into_body(), 100).await.unwrap()[..], b"{\"x\":1}");
        }
    }
}
