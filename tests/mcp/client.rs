//! A client that says exactly what a test wants on the wire.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const AT_MOST: Duration = Duration::from_mins(1);
pub const MODERN: &str = "2026-07-28";

/// A client of one gateway.
#[derive(Clone)]
pub struct Mcp {
    pub http: Client<HttpConnector, Full<Bytes>>,
    pub port: u16,
    pub token: String,
    /// A session of the older revisions; absent: the newer one.
    pub session: Option<String>,
    pub next: Arc<AtomicU32>,
}

impl Mcp {
    /// A client of the newer revision.
    pub fn modern(port: u16, token: &str) -> Self {
        let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { http, port, token: token.to_owned(), session: None, next: Arc::new(AtomicU32::new(1)) }
    }

    /// A client of the revision of 2025-06-18, with its session.
    pub async fn legacy(port: u16, token: &str) -> Self {
        let mut client = Self::modern(port, token);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let response = client.post(body.to_string(), &[]).await;
        assert_eq!(response.status(), StatusCode::OK);
        client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        assert_eq!(Events::of(response).answer().await["result"]["serverInfo"]["name"], "beckon");
        let ready = client.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(), &[]).await;
        assert_eq!(ready.status(), StatusCode::ACCEPTED);
        client
    }

    /// The same client, which now talks to another replica.
    pub fn at(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// Sends one message.
    pub async fn post(&self, body: String, more: &[(&str, &str)]) -> Response<Incoming> {
        self.send("POST", body, more).await
    }

    /// Sends an HTTP request as this client.
    pub async fn send(&self, method: &str, body: impl Into<Bytes>, more: &[(&str, &str)]) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("http://127.0.0.1:{}/mcp", self.port));
        let headers = request.headers_mut().unwrap();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
        if !self.token.is_empty() {
            headers.insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        }
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
            headers.insert("mcp-protocol-version", "2025-06-18".parse().unwrap());
        }
        for (name, value) in more {
            let name = name.parse::<http::HeaderName>().unwrap();
            // An empty value leaves the header out.
            match *value {
                "" => drop(headers.remove(&name)),
                value => drop(headers.insert(name, value.parse().unwrap())),
            }
        }
        let sent = self.http.request(request.body(Full::new(body.into())).unwrap());
        tokio::time::timeout(AT_MOST, sent).await.expect("headers in time").expect("a response")
    }

    /// Starts a tool call; `arguments` is JSON text, sent as it is.
    pub async fn start(&self, tool: &str, arguments: &str, progress: Option<&str>) -> (u32, Events) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut meta = json!({});
        if let Some(token) = progress {
            // A call that its client gave up goes on for a moment, and no two running calls may have one token.
            meta["progressToken"] = json!(format!("{token}-{id}"));
        }
        let mut headers = Vec::new();
        if self.session.is_none() {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        }
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{meta},"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let response = self.post(body, &headers).await;
        assert_eq!(response.status(), StatusCode::OK, "{tool}");
        (id, Events::of(response))
    }

    /// Calls a tool and waits for its result.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Value {
        let (_, events) = self.start(tool, &arguments.to_string(), None).await;
        events.answer().await["result"].clone()
    }

    /// Calls a tool that succeeds; its structured result.
    pub async fn structured(&self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], json!(true), "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that fails; its code and message.
    pub async fn failure(&self, tool: &str, arguments: &Value) -> (String, String) {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], json!(true), "{tool} {arguments}: {result}");
        let told = &result["structuredContent"];
        (told["code"].as_str().expect("a code").to_owned(), told["message"].as_str().expect("a message").to_owned())
    }

    /// Sends a body as it is, as a call of the newer revision; the status and the JSON of the reply.
    pub async fn raw(&self, body: impl Into<Bytes>, more: &[(&str, &str)]) -> (StatusCode, Value) {
        let response = self.send("POST", body, more).await;
        let status = response.status();
        let stream = response.headers().get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if stream {
            return (status, Events::of(response).answer().await);
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a `notifications/cancelled`.
    pub async fn cancel(&self, id: u32, reason: &str) {
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": reason}});
        assert_eq!(self.post(body.to_string(), &[]).await.status(), StatusCode::ACCEPTED);
    }

    /// Comes back to a stream that was cut.
    pub async fn resume(&self, last_event: &str) -> Events {
        let response = self.send("GET", String::new(), &[("accept", "text/event-stream"), ("last-event-id", last_event)]).await;
        assert_eq!(response.status(), StatusCode::OK);
        Events::of(response)
    }
}

/// The events of a response. Dropping it closes the connection.
pub struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    stream: bool,
    /// The newest event id.
    pub last_id: Option<String>,
}

impl Events {
    pub fn of(response: Response<Incoming>) -> Self {
        let stream = response.headers()["content-type"].as_bytes().starts_with(b"text/event-stream");
        Self { body: response.into_body(), buffer: Vec::new(), stream, last_id: None }
    }

    /// The next message; `None` at the end. Comments and events without a message are skipped.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(AT_MOST, self.message()).await.expect("a message in time")
    }

    async fn message(&mut self) -> Option<Value> {
        loop {
            if self.stream
                && let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n")
            {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                for line in event.lines() {
                    if let Some(id) = line.strip_prefix("id:") {
                        self.last_id = Some(id.trim().to_owned());
                    }
                }
                let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
                let data = data.join("\n");
                if !data.is_empty() {
                    return Some(serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}")));
                }
                continue;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None if self.stream || self.buffer.is_empty() => return None,
                Some(Err(_)) | None => return serde_json::from_slice(&std::mem::take(&mut self.buffer)).ok(),
            }
        }
    }

    /// The next progress message.
    pub async fn progress(&mut self) -> Value {
        let message = self.next().await.expect("progress");
        assert_eq!(message["method"], "notifications/progress", "{message}");
        message["params"].clone()
    }

    /// The answer, after whatever comes before it.
    pub async fn answer(mut self) -> Value {
        let answer = async {
            loop {
                let message = self.next().await.expect("an answer before the end of the stream");
                if message.get("result").is_some() || message.get("error").is_some() {
                    return message;
                }
            }
        };
        tokio::time::timeout(2 * AT_MOST, answer).await.expect("an answer in time, not progress for ever")
    }

    /// The structured result of a call that succeeds.
    pub async fn structured(self) -> Value {
        let answer = self.answer().await;
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}
