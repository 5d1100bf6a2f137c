//! A client that says exactly what a test wants on the wire, and the one `up` that all tests share.

use crate::support::{Up, poll_until, unique};
use beckon::api::v1alpha1::AttentionRequest;
use bytes::Bytes;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::Duration;

pub const AT_MOST: Duration = Duration::from_mins(1);
/// The namespace of all objects of these tests.
pub const NAMESPACE: &str = "default";

/// The product, started by the first test that asks.
pub async fn up() -> &'static Up {
    static UP: OnceLock<Up> = OnceLock::new();
    tokio::task::spawn_blocking(|| UP.get_or_init(|| Up::start(&[]))).await.unwrap()
}

/// The address of one gateway itself, as `127.0.0.1:port`.
pub fn replica(up: &Up, n: usize) -> String {
    let url = up.json()["dashboardURLs"][n].as_str().unwrap().to_owned();
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// A reply that was read to its end.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    /// The cookie that it sets, as a browser sends it back.
    pub fn cookie(&self) -> String {
        self.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends a request and returns its reply when the head is there.
pub async fn open(host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> http::Response<Incoming> {
    request(false, host, method, path, headers, body).await
}

/// The same over HTTP/2, which is spoken without asking; there the address names the host, and no header does.
pub async fn open_http2(host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> http::Response<Incoming> {
    request(true, host, method, path, headers, body).await
}

async fn request(http2: bool, host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> http::Response<Incoming> {
    let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).http2_only(http2).build_http();
    let mut request = Request::builder().method(method).uri(format!("http://{host}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    tokio::time::timeout(AT_MOST, http.request(request)).await.expect("headers in time").expect("a reply")
}

/// Sends a request and reads the reply.
pub async fn send(host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let (head, body) = open(host, method, path, headers, body).await.into_parts();
    let bytes = tokio::time::timeout(AT_MOST, body.collect()).await.expect("a body in time").unwrap().to_bytes();
    Reply { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Calls the JSON API as the bearer of a user's token: `operatorToken`.
pub async fn call(host: &str, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    send(host, method, &format!("/api/v1{path}"), &headers, &if method == "GET" { String::new() } else { body.to_string() }).await
}

/// Signs in by a token, as the form does. Returns the cookie.
pub async fn sign_in(host: &str, token: &str) -> String {
    let origin = format!("http://{host}");
    let form = format!("token={token}&next=%2Fattention");
    let reply = send(host, "POST", "/login", &[("origin", &origin), ("content-type", "application/x-www-form-urlencoded")], &form).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    reply.cookie()
}

/// A page or call with a cookie, as a page of the same origin asks for it.
pub async fn with_cookie(host: &str, cookie: &str, method: &str, path: &str, body: &str) -> Reply {
    let origin = format!("http://{host}");
    let headers = [(COOKIE.as_str(), cookie), ("origin", &origin), ("sec-fetch-site", "same-origin"), ("content-type", "application/json")];
    send(host, method, path, &headers, body).await
}

/// An agent's request, made with kubectl and taken in by the controller. Returns its name.
pub async fn ask(up: &Up, reason: &str, more: Value) -> String {
    let name = unique("ask");
    let mut spec = json!({"reason": reason, "mode": "Notify"});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let object = json!({"apiVersion": "beckon.dev/v1alpha1", "kind": "AttentionRequest", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
    create(up, &object);
    poll_until(Duration::from_secs(30), "an open request", || async {
        (kubectl(up, "admin", &["get", "attn", &name, "-o", "jsonpath={.status.phase}"]) == "Pending").then_some(())
    })
    .await;
    name
}

/// Creates an object as the user `agent`.
pub fn create(up: &Up, object: &Value) {
    let file = std::env::temp_dir().join(unique("object")).with_extension("json");
    std::fs::write(&file, object.to_string()).unwrap();
    kubectl(up, "agent", &["create", "-f", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
}

/// Runs kubectl as a user, which has to succeed.
pub fn kubectl(up: &Up, user: &str, args: &[&str]) -> String {
    let done = up.kubectl(user, &[&["-n", NAMESPACE], args].concat());
    assert!(done.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The requests, as this user.
pub async fn api(up: &Up, context: &str) -> kube::Api<AttentionRequest> {
    let options = kube::config::KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
    let config = kube::config::Kubeconfig::read_from(up.text("kubeconfig")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    kube::Api::namespaced(kube::Client::try_from(config).unwrap(), NAMESPACE)
}
