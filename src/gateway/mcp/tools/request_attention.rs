//! `request_attention`: asks a person and blocks.

use super::{Definition, Effect, Reply, attention_texts, outcome_properties};
use crate::api::v1alpha1::Mode;
use crate::gateway::mcp::call::{Call, Failure};
use crate::gateway::mcp::schema::{self, Args, integer, object, printable, string};
use crate::gateway::mcp::waiting;
use crate::gateway::requests::{evidence, store};
use crate::gateway::sessions;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// The longest options, in bytes.
const OPTIONS_BYTES: usize = 32 * 1024;
/// The API's own bound, above every cap.
const LONGEST_WAIT: i64 = 31_536_000;

pub(super) const TOOL: Definition = Definition {
    name: "request_attention",
    title: "Request attention",
    description: attention_texts::request_attention,
    input,
    output: outcome_properties,
    effect: Effect::Changes,
    idempotent: true,
    open_world: true,
    needs_http: true,
    run: |call, args| Box::pin(run(call, args)),
};

fn input() -> Value {
    let reason = printable("What you need; shown to the operator as plain text.", 1, 2000);
    let key = printable(
        "Your own key for this request: the same key and the same arguments are the same request, also after a lost connection.",
        1,
        256,
    );
    let session = schema::with(schema::session_id(), "description", json!("The session that it is about. Required in mode takeover."));
    object(
        &[
            ("session_id", session),
            ("reason", reason),
            (
                "mode",
                json!({"type": "string", "enum": ["takeover", "notify"], "description": "takeover (default): the operator may drive the browser. notify: view only. Both block."}),
            ),
            (
                "options",
                json!({"description": "Any JSON, at most 32768 bytes; shown as it is to the operator, for example choices to pick from."}),
            ),
            (
                "max_wait_seconds",
                json!({"type": "integer", "minimum": 0, "description": "How long to wait. 0 or absent: the server's cap. Positive: at least the server's floor, never above the cap."}),
            ),
            ("idempotency_key", key),
        ],
        &["reason"],
    )
}

async fn run(call: &Call, args: Args) -> Result<Reply, Failure> {
    let gateway = &call.gateway;
    let ask = read(&args)?;
    let session_id = string(&args, "session_id");
    let session = match session_id {
        Some(id) => Some(sessions::find_open(gateway, &call.who, id).await?),
        None if ask.mode == Mode::Takeover => {
            return Err(Failure::argument(
                "session_id is missing: mode takeover needs the session whose browser is handed over (mode notify does not)",
            ));
        }
        None => None,
    };
    if session.as_ref().is_some_and(|session| session.spec.human == Some(false)) {
        return Err(Failure::new("ATTENTION_DISABLED", "this session was made without people (spec.human is false): go on without asking"));
    }
    may_ask(call).await?;
    let (request, made) = store::ask(gateway, &call.who, session.as_deref(), &ask).await?;
    if let Some(session) = &session {
        gateway.activity.touch(session);
        if made {
            evidence::capture(gateway, session, &request);
        }
    }
    let key = (gateway.settings.namespace.clone(), request.name_any());
    Ok(waiting::wait(call, &key).await?.into())
}

fn read(args: &Args) -> Result<store::Ask, Failure> {
    // The raw text, lifted out of the body before anything parsed it.
    let options = string(args, "options").map(str::to_owned).filter(|text| text != "null");
    if let Some(length) = options.as_ref().map(String::len).filter(|length| *length > OPTIONS_BYTES) {
        return Err(Failure::argument(format!("options may have at most {OPTIONS_BYTES} bytes, not {length}: shorten it")));
    }
    let reason = string(args, "reason").unwrap_or_default().to_owned();
    if reason.trim().is_empty() {
        return Err(Failure::argument("reason may not be blank: say what you need"));
    }
    Ok(store::Ask {
        reason,
        mode: if string(args, "mode") == Some("notify") { Mode::Notify } else { Mode::Takeover },
        options,
        max_wait_seconds: integer(args, "max_wait_seconds").map(|wait| wait.min(LONGEST_WAIT)),
        key: string(args, "idempotency_key").map(str::to_owned),
    })
}

/// The gateway writes in its own name, so it asks for the caller's right first.
async fn may_ask(call: &Call) -> Result<(), Failure> {
    let namespace = &call.gateway.settings.namespace;
    match call.gateway.auth.may(&call.who, "create", "attentionrequests", namespace, None).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(
            "FORBIDDEN",
            format!(
                "{} may not create attention requests in {namespace} (RBAC verb create on attentionrequests.beckon.dev)",
                call.who.username
            ),
        )),
        Err(error) => Err(Failure::new("UNAVAILABLE", error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(value: Value) -> Args {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn bad_input_names_the_field() {
        for (given, want) in [
            (json!({}), "reason is missing"),
            (json!({"reason": "r", "mode": "drive"}), "mode must be one of takeover, notify"),
            (json!({"reason": "r", "max_wait_seconds": -1}), "max_wait_seconds must be at least 0"),
            (json!({"reason": "r", "max_wait_seconds": 0.5}), "max_wait_seconds must be a whole number"),
            (json!({"reason": "x".repeat(2001)}), "reason may have at most 2000 characters"),
            (json!({"reason": "a\u{0}b"}), "reason may not contain control characters"),
            (json!({"reason": "r", "idempotency_key": ""}), "idempotency_key may not be empty"),
            (json!({"reason": "r", "idempotency_key": "k".repeat(257)}), "idempotency_key may have at most 256"),
            (json!({"reason": "r", "session": "s"}), "\"session\" is no argument"),
        ] {
            let error = schema::check(&input(), &args(given)).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        assert!(schema::check(&input(), &args(json!({"reason": "r", "max_wait_seconds": 1e18, "options": "{}"}))).is_ok());
    }

    #[test]
    fn options_are_bounded_in_bytes_and_waits_are_clamped() {
        let over = read(&args(json!({"reason": "r", "options": "é".repeat(16_385)}))).unwrap_err();
        assert!(over.message.starts_with("options may have at most 32768 bytes, not 32770"), "{}", over.message);
        let ask = read(&args(json!({"reason": "r", "options": "x".repeat(32_768), "max_wait_seconds": 1e30}))).unwrap();
        assert_eq!((ask.max_wait_seconds, ask.mode), (Some(LONGEST_WAIT), Mode::Takeover));
        assert_eq!(read(&args(json!({"reason": "r", "options": "null"}))).unwrap().options, None);
        assert!(read(&args(json!({"reason": " \n"}))).is_err());
    }
}
