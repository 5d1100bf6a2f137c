//! The live view's socket and control, with a real Chromium behind it.

use crate::client::{NAMESPACE, ask, call, create, kubectl, replica, up};
use crate::support::{Up, eventually, poll_until, unique};
use beckon::driver::FrameHeader;
use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;
const SOON: Duration = Duration::from_secs(30);

/// A running session of the user `agent`. Returns its name.
async fn session(up: &Up) -> String {
    let name = unique("live");
    let spec = json!({"browser": "HeadlessShell", "startURL": "about:blank"});
    create(
        up,
        &json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "BrowserSession", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}),
    );
    poll_until(Duration::from_mins(2), "a running session", || async {
        (kubectl(up, "admin", &["get", "bsess", &name, "-o", "jsonpath={.status.phase}"]) == "Ready").then_some(())
    })
    .await;
    name
}

async fn takeover(up: &Up, session: &str) -> String {
    ask(up, "Please help.", json!({"mode": "Takeover", "sessionRef": {"name": session}})).await
}

async fn ticket(host: &str, token: &str, session: &str) -> String {
    let reply = call(host, token, "POST", &format!("/sessions/{NAMESPACE}/{session}/live-ticket"), &json!({})).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()["ticket"].as_str().unwrap().to_owned()
}

/// Opens the view, or says with which status it was refused.
async fn view(host: &str, token: &str, session: &str, ticket: &str, more: &[(&'static str, &str)]) -> Result<Socket, StatusCode> {
    let mut request = format!("ws://{host}/live/{NAMESPACE}/{session}?ticket={ticket}").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    for (name, value) in more {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match tokio::time::timeout(SOON, tokio_tungstenite::connect_async(request)).await.expect("an answer in time") {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(reply)) => Err(reply.status()),
        Err(other) => panic!("{other}"),
    }
}

async fn say(socket: &mut Socket, command: &Value) {
    socket.send(Message::text(command.to_string())).await.unwrap();
}

/// The next event of a kind.
async fn hear(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let message = tokio::time::timeout(SOON, socket.next()).await.unwrap_or_else(|_| panic!("no {kind}")).unwrap().unwrap();
        if let Message::Text(text) = message {
            let event: Value = serde_json::from_str(&text).unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }
}

async fn frame(socket: &mut Socket) {
    loop {
        let message = tokio::time::timeout(SOON, socket.next()).await.expect("a frame").unwrap().unwrap();
        if let Message::Binary(bytes) = message {
            assert!(bytes.starts_with(b"BF01") && bytes[FrameHeader::LEN..].starts_with(&[0xff, 0xd8]), "a JPEG behind a head");
            return;
        }
    }
}

fn key(lease: &str) -> Value {
    json!({"type": "input", "lease": lease, "events": [
        {"kind": "key_down", "key": "a", "code": "KeyA", "location": 0, "modifiers": 0, "repeat": false, "alt_graph": false},
        {"kind": "key_up", "key": "a", "code": "KeyA", "location": 0, "modifiers": 0},
    ]})
}

fn holder(up: &Up, session: &str) -> String {
    kubectl(up, "admin", &["get", "bsess", session, "-o", "jsonpath={.status.control.holder}"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_opens_with_one_ticket_of_its_own_person_and_page() {
    let up = up().await;
    let (one, two) = (replica(up, 0), replica(up, 1));
    let (operator, other) = (up.text("operatorToken"), up.text("operator2Token"));
    let session = session(up).await;
    let refused = call(&one, &up.text("viewerToken"), "POST", &format!("/sessions/{NAMESPACE}/{session}/live-ticket"), &json!({})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "the verb view");
    let ticket = ticket(&one, &operator, &session).await;
    assert_eq!(view(&one, &other, &session, &ticket, &[]).await.err(), Some(StatusCode::FORBIDDEN), "another person");
    assert_eq!(view(&one, &operator, &session, &ticket, &[("origin", "https://evil.example")]).await.err(), Some(StatusCode::FORBIDDEN));
    assert_eq!(view(&one, &operator, &session, &ticket, &[("host", "evil.example")]).await.err(), Some(StatusCode::FORBIDDEN));
    assert_eq!(view(&one, &operator, &session, "", &[]).await.err(), Some(StatusCode::FORBIDDEN), "no ticket");
    assert_eq!(view(&one, "nonsense", &session, &ticket, &[]).await.err(), Some(StatusCode::UNAUTHORIZED));
    let mut socket = view(&two, &operator, &session, &ticket, &[]).await.expect("the other replica takes it");
    frame(&mut socket).await;
    for host in [&one, &two] {
        assert_eq!(view(host, &operator, &session, &ticket, &[]).await.err(), Some(StatusCode::FORBIDDEN), "used");
    }
    kubectl(up, "operator", &["patch", "bsess", &session, "--type=merge", "-p", r#"{"spec":{"close":{"reason":"done"}}}"#]);
    let end = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(Some(close)) = message {
                return Some(u16::from(close.code));
            }
        }
        None
    };
    assert_eq!(tokio::time::timeout(SOON, end).await.expect("the view ends with its session"), Some(4404));
}

#[tokio::test(flavor = "multi_thread")]
async fn input_needs_the_lease_at_every_event() {
    let up = up().await;
    let (one, two) = (replica(up, 0), replica(up, 1));
    let (operator, other) = (up.text("operatorToken"), up.text("operator2Token"));
    let session = session(up).await;
    let request = takeover(up, &session).await;
    let take = format!("/sessions/{NAMESPACE}/{session}/control/take");
    let mut mine = view(&one, &operator, &session, &ticket(&one, &operator, &session).await, &[]).await.unwrap();
    let mut theirs = view(&two, &other, &session, &ticket(&two, &other, &session).await, &[]).await.unwrap();

    say(&mut mine, &key("guessed")).await;
    assert_eq!(hear(&mut mine, "refused").await["code"], "NO_LEASE");
    say(&mut mine, &json!({"type": "evaluate", "script": "1"})).await;
    assert_eq!(hear(&mut mine, "refused").await["code"], "BAD_MESSAGE");

    // Taken at one replica, shown at the socket of the other.
    let grant = call(&two, &operator, "POST", &take, &json!({"request": request})).await;
    assert_eq!(grant.status, StatusCode::OK, "{}", grant.text);
    let lease = grant.json()["lease"].as_str().unwrap().to_owned();
    say(&mut mine, &json!({"type": "hold", "lease": lease})).await;
    say(&mut mine, &key(&lease)).await;
    eventually("who drives is recorded", || async { holder(up, &session) == "operator" }).await;
    let held = call(&one, &other, "POST", &take, &json!({"request": request})).await;
    assert_eq!((held.status, held.code().as_str()), (StatusCode::CONFLICT, "CONTROL_HELD"));
    assert_eq!(held.json()["holder"], "operator");
    say(&mut theirs, &key(&lease)).await;
    assert_eq!(hear(&mut theirs, "refused").await["code"], "NO_LEASE", "a lease is its holder's, at a socket that holds it");
    say(&mut theirs, &json!({"type": "hold", "lease": lease})).await;
    assert_eq!(hear(&mut theirs, "refused").await["code"], "LEASE_ENDED");

    // Longer than a grant lives without renewal.
    tokio::time::timeout(Duration::from_millis(2500), hear(&mut mine, "refused")).await.expect_err("nothing of this was refused");
    say(&mut mine, &key(&lease)).await;
    kubectl(up, "operator-2", &["patch", "attn", &request, "--type=merge", "-p", r#"{"spec":{"resolution":{"outcome":"Resolved"}}}"#]);
    poll_until(Duration::from_secs(3), "input is refused after a resolve by kubectl", || async {
        let state =
            call(&one, &operator, "POST", &format!("/sessions/{NAMESPACE}/{session}/control/extend"), &json!({"lease": lease})).await;
        (state.code() == "LEASE_ENDED").then_some(())
    })
    .await;
    say(&mut mine, &key(&lease)).await;
    let code = hear(&mut mine, "refused").await["code"].clone();
    assert!(code == "LEASE_ENDED" || code == "NO_LEASE", "{code}");
    let settled = call(&one, &operator, "POST", &take, &json!({"request": request})).await;
    assert_eq!((settled.status, settled.code().as_str()), (StatusCode::CONFLICT, "ALREADY_SETTLED"));
    eventually("the hand-back is recorded", || async { holder(up, &session).is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notify_request_never_lets_anybody_drive() {
    let up = up().await;
    let host = replica(up, 0);
    let session = session(up).await;
    let request = ask(up, "Look.", json!({"sessionRef": {"name": session}})).await;
    let path = format!("/sessions/{NAMESPACE}/{session}/control/take");
    let refused = call(&host, &up.text("operatorToken"), "POST", &path, &json!({"request": request})).await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::CONFLICT, "VIEW_ONLY"));
    // Who may not drive at all learns nothing of what is here: not the mode, and not whether there is such a request.
    for body in [json!({}), json!({"request": request}), json!({"request": "absent"})] {
        let viewer = call(&host, &up.text("viewerToken"), "POST", &path, &body).await;
        assert_eq!((viewer.status, viewer.code().as_str()), (StatusCode::FORBIDDEN, "FORBIDDEN"), "{body}: {}", viewer.text);
    }
    let path = format!("/sessions/{NAMESPACE}/{session}/resize");
    let resized = call(&host, &up.text("operatorToken"), "POST", &path, &json!({"width": 900, "height": 700})).await;
    assert_eq!(resized.json(), json!({"width": 900, "height": 700}));
    for (body, token) in [(json!({"width": 20000, "height": 700}), "operatorToken"), (json!({"width": 900, "height": 700}), "viewerToken")]
    {
        assert!(call(&host, &up.text(token), "POST", &path, &body).await.status.is_client_error(), "{body}");
    }
}
