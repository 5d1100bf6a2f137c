//! The protocol's own conformance suite, in both eras, through all of our layers. It wants tools, prompts and resources of its
//! own for much of what it checks; what Beckon does not offer is left out by name, and everything else must pass.

use crate::world::World;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
/// Where the machine's own is older than the suite wants.
const NODE: &str = "node@22.23.3";
const NODE_AT_LEAST: u32 = 22;

/// What the suite checks with features or tools that Beckon does not have, by the beginning of the scenario's name.
const NOT_OFFERED: &[&str] = &[
    "completion-",
    "elicitation-",
    "http-custom-header-server-validation",
    "input-required-result-",
    "json-schema-2020-12",
    "logging-",
    "prompts-",
    "resources-",
    "sep-2164-resource-not-found",
    "tools-call-",
];
/// The same within a scenario, by the beginning of the check's name.
const NOT_OFFERED_WITHIN: &[&str] = &[
    "sep-2549-prompts-",
    "sep-2549-resources-",
    // Their tools are missing: test_missing_capability, test_streaming_elicitation, test_logging_tool, test_reconnection.
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    "server-sse-disconnect-resume",
];

#[tokio::test]
async fn what_beckon_offers_is_what_the_protocol_says() {
    let Some((node, suite)) = tokio::task::spawn_blocking(suite).await.unwrap() else {
        eprintln!("note: there is no npm here, so that the protocol's own conformance suite is left out");
        return;
    };
    let world = World::start(1, &[]).await;
    let address = with_token(format!("127.0.0.1:{}", world.port(0)), world.plane.token("agent")).await;
    for (version, at_least) in [("2025-11-25", 17), ("2026-07-28", 47)] {
        let results = tempfile::tempdir().unwrap();
        let mut command = tokio::process::Command::new(&node);
        command.arg(&suite).args(["server", "--suite", "all", "--timeout", "120000", "--spec-version", version]);
        command.args(["--url", &format!("http://{address}/mcp"), "-o"]).arg(results.path());
        // It fails for what is not offered; the results say more.
        let done = command.stdin(Stdio::null()).output().await.unwrap();
        let (passed, failed) = read(results.path());
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(failed.is_empty(), "{version}: {failed:#?}");
        assert!(passed >= at_least, "{version}: only {passed} checks passed: {said}");
    }
}

/// How many checks passed, and those that failed although they are about what Beckon offers.
fn read(results: &Path) -> (usize, Vec<String>) {
    let (mut passed, mut failed) = (0, Vec::new());
    for entry in std::fs::read_dir(results).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().strip_prefix("server-").unwrap().to_owned();
        let checks: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("checks.json")).unwrap()).unwrap();
        let offered = !NOT_OFFERED.iter().any(|begin| name.starts_with(begin));
        for check in checks.iter().filter(|_| offered) {
            let id = check["id"].as_str().unwrap();
            match check["status"].as_str().unwrap() {
                "SUCCESS" => passed += 1,
                "FAILURE" if !NOT_OFFERED_WITHIN.iter().any(|begin| id.starts_with(begin)) => {
                    failed.push(format!("{name}: {id}: {}", check["errorMessage"]));
                }
                _ => {}
            }
        }
    }
    (passed, failed)
}

/// Node and the suite's program, installed once and kept in the user's cache directory. `None`: there is no npm.
fn suite() -> Option<(PathBuf, PathBuf)> {
    let npm = Command::new("npm").arg("--version").stdin(Stdio::null()).output().ok().filter(|done| done.status.success());
    npm?;
    let own = Command::new("node").arg("--version").output().ok().map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let major = own.as_deref().and_then(|version| version.trim().strip_prefix('v')?.split('.').next()?.parse::<u32>().ok());
    let modern = major.is_some_and(|major| major >= NODE_AT_LEAST);
    let name = SUITE.rsplit('@').next().unwrap();
    let dir = xtask::files::cache_dir().expect("a cache directory").join("mcp-conformance").join(name);
    let (complete, needed) = (dir.join("complete"), if modern { vec![SUITE] } else { vec![SUITE, NODE] });
    if std::fs::read_to_string(&complete).unwrap_or_default() != needed.join(" ") {
        eprintln!("installing the protocol's conformance suite into {} ...", dir.display());
        std::fs::create_dir_all(&dir).expect("a directory in the cache");
        std::fs::write(dir.join("package.json"), r#"{"private": true}"#).expect("a file in the cache");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent"]).args(&needed).current_dir(&dir).stdin(Stdio::null());
        assert!(npm.status().expect("npm").success(), "npm install {}", needed.join(" "));
        std::fs::write(&complete, needed.join(" ")).expect("a file in the cache");
    }
    let bin = dir.join("node_modules/.bin");
    Some((if modern { "node".into() } else { bin.join("node") }, bin.join("conformance")))
}

/// An address that adds the token, since the suite can't.
async fn with_token(gateway: String, token: String) -> String {
    type To = (Client<HttpConnector, Body>, String, String);
    async fn forward(State((http, gateway, token)): State<To>, mut request: Request) -> Response {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        *request.uri_mut() = format!("http://{gateway}{path}").parse().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        match http.request(request).await {
            Ok(response) => response.map(Body::new),
            Err(error) => Response::builder().status(502).body(Body::from(error.to_string())).unwrap(),
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
    let router = axum::Router::new().fallback(forward).with_state((http, gateway, token));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
