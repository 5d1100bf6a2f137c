//! Seeing and answering requests.

use crate::client::{NAMESPACE, api, ask, call, kubectl, open, replica, send, sign_in, up, with_cookie};
use crate::support::poll_until;
use beckon::api::v1alpha1::{AttentionRequest, Phase};
use futures::StreamExt as _;
use http::StatusCode;
use http_body_util::BodyExt as _;
use kube::runtime::WatchStreamExt as _;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_wins_and_the_second_is_told_whose_it_was() {
    let up = up().await;
    let (one, two) = (replica(up, 0), replica(up, 1));
    let name = ask(up, "Which colour?", json!({})).await;
    let path = |act: &str| format!("/attention/{NAMESPACE}/{name}/{act}");
    let refused = call(&one, &up.text("viewerToken"), "POST", &path("resolve"), &json!({"message": "x"})).await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::FORBIDDEN, "FORBIDDEN"), "{}", refused.text);
    let won = call(&one, &up.text("operatorToken"), "POST", &path("resolve"), &json!({"message": "Blue."})).await;
    assert_eq!(won.status, StatusCode::OK, "{}", won.text);
    let won = won.json();
    assert_eq!((&won["outcome"], &won["message"], &won["resolved_by"]), (&json!("Resolved"), &json!("Blue."), &json!("operator")));
    for (act, message) in [("reject", "No."), ("resolve", "Blue.")] {
        let lost = call(&two, &up.text("operator2Token"), "POST", &path(act), &json!({"message": message})).await;
        assert_eq!((lost.status, lost.code().as_str()), (StatusCode::CONFLICT, "ALREADY_SETTLED"), "{}", lost.text);
        assert!(lost.json()["detail"].as_str().unwrap().contains("by operator"), "{}", lost.text);
    }
    let stored: Value = serde_json::from_str(&kubectl(up, "admin", &["get", "attn", &name, "-o", "jsonpath={.spec.resolution}"])).unwrap();
    assert_eq!((&stored["message"], &stored["via"], &stored["by"]["username"]), (&json!("Blue."), &json!("API"), &json!("operator")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_fit_decides_nothing() {
    let up = up().await;
    let (host, token) = (replica(up, 0), up.text("operatorToken"));
    let name = ask(up, "Blue or green?", json!({})).await;
    let path = |act: &str| format!("/attention/{NAMESPACE}/{name}/{act}");
    let named = json!([NAMESPACE, name]);
    for (to, body, says) in [
        (path("resolve"), json!([]), "expected a JSON object"),
        (path("resolve"), json!(null), "expected a JSON object"),
        (path("reject"), json!(["hello"]), "expected a JSON object"),
        (path("reject"), json!("hello"), "expected a JSON object"),
        (path("resolve"), json!({"massage": "Blue."}), "unknown field `massage`"),
        (path("resolve"), json!({"message": 1}), "invalid type: integer"),
        (path("resolve"), json!({"expected": [1]}), "expected a JSON object"),
        (path("resolve"), json!({"expected": {"evidence": "sha256:1"}}), "unknown field `evidence`"),
        (path("extend"), json!([60]), "expected a JSON object"),
        ("/attention/bulk".to_owned(), json!(["resolve", null, [named]]), "expected a JSON object"),
        ("/attention/bulk".to_owned(), json!({"outcome": "resolve", "requests": [named]}), "expected a JSON object"),
        ("/login-links".to_owned(), json!(["/"]), "expected a JSON object"),
        (format!("/sessions/{NAMESPACE}/absent/close"), json!(["why"]), "expected a JSON object"),
        (format!("/sessions/{NAMESPACE}/absent/resize"), json!([800, 600]), "expected a JSON object"),
        (format!("/sessions/{NAMESPACE}/absent/resize"), json!({"width": 800, "height": 600, "depth": 1}), "unknown field `depth`"),
        (format!("/sessions/{NAMESPACE}/absent/control/take"), json!([]), "expected a JSON object"),
        (format!("/sessions/{NAMESPACE}/absent/control/release"), json!(["lease"]), "expected a JSON object"),
    ] {
        let reply = call(&host, &token, "POST", &to, &body).await;
        assert_eq!((reply.status.is_client_error(), reply.code().as_str()), (true, "INVALID"), "{to} {body}: {}", reply.text);
        assert!(reply.json()["detail"].as_str().unwrap().contains(says), "{to} {body}: {}", reply.text);
    }
    let spec = kubectl(up, "admin", &["get", "attn", &name, "-o", "jsonpath={.spec.resolution}{.spec.claim}{.spec.extend}"]);
    assert_eq!(spec, "", "nothing was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_which_ones_there_are() {
    let up = up().await;
    let (host, token) = (replica(up, 0), up.text("operatorToken"));
    for (method, path, allowed) in [("DELETE", "/attention", "GET,HEAD"), ("PUT", "/attention/bulk", "POST")] {
        let reply = call(&host, &token, method, path, &json!({})).await;
        assert_eq!((reply.status, reply.code().as_str()), (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"), "{}", reply.text);
        assert_eq!(reply.headers["allow"], allowed);
        assert!(reply.json()["detail"].as_str().unwrap().contains(method), "{}", reply.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_answers_nothing() {
    let up = up().await;
    let host = replica(up, 0);
    let cookie = sign_in(&host, &up.text("operatorToken")).await;
    let name = ask(up, "Delete everything?", json!({})).await;
    let path = format!("/api/v1/attention/{NAMESPACE}/{name}/resolve");
    let own = format!("http://{host}");
    for more in [
        vec![],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("origin", "http://localhost:1")],
        vec![("origin", own.as_str()), ("sec-fetch-site", "cross-site")],
    ] {
        let headers = [&[("cookie", cookie.as_str()), ("content-type", "application/json")], &more[..]].concat();
        let reply = send(&host, "POST", &path, &headers, "{}").await;
        assert_eq!((reply.status, reply.code().as_str()), (StatusCode::FORBIDDEN, "ORIGIN_REFUSED"), "{more:?}: {}", reply.text);
    }
    assert_eq!(kubectl(up, "admin", &["get", "attn", &name, "-o", "jsonpath={.spec.resolution}"]), "", "nothing was stored");
    let done = with_cookie(&host, &cookie, "POST", &path, r#"{"message":"mine"}"#).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert_eq!(kubectl(up, "admin", &["get", "attn", &name, "-o", "jsonpath={.spec.resolution.via}"]), "Dashboard");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_decided_one_by_one() {
    let up = up().await;
    let host = replica(up, 0);
    let token = up.text("operatorToken");
    let (a, b) = (ask(up, "First?", json!({})).await, ask(up, "Second?", json!({})).await);
    call(&host, &token, "POST", &format!("/attention/{NAMESPACE}/{a}/resolve"), &json!({})).await;
    let named: Vec<Value> = [&a, &b, &"absent".to_owned()].iter().map(|name| json!({"namespace": NAMESPACE, "name": name})).collect();
    let reply = call(&host, &token, "POST", "/attention/bulk", &json!({"outcome": "reject", "message": "Stop.", "requests": named})).await;
    let codes: Vec<Value> = reply.json()["results"].as_array().unwrap().iter().map(|r| json!([r["ok"], r["code"]])).collect();
    assert_eq!(codes, [json!([false, "ALREADY_SETTLED"]), json!([true, null]), json!([false, "NOT_FOUND"])], "{}", reply.text);
    assert_eq!(kubectl(up, "admin", &["get", "attn", &b, "-o", "jsonpath={.spec.resolution.message}"]), "Stop.");
    for (body, field) in
        [(json!({"outcome": "reject", "requests": []}), "requests"), (json!({"outcome": "maybe", "requests": named}), "outcome")]
    {
        let wrong = call(&host, &token, "POST", "/attention/bulk", &body).await;
        assert!(wrong.status.is_client_error() && wrong.text.contains(field), "{}", wrong.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_of_the_other_replica_tells_within_a_second() {
    let up = up().await;
    let host = replica(up, 1);
    let cookie = sign_in(&host, &up.text("viewerToken")).await;
    let (mut feed, mut told) = synced(&host, &cookie).await;
    let reason = format!("<b>Look</b> {}", crate::support::unique("r"));
    // Both clocks run while the request is made: what asks for it is slow, and blocks.
    let opened = tokio::spawn(opened(api(up, "admin").await, reason.clone()));
    let announced = format!(r#""title":"{reason}""#);
    let shown = tokio::spawn(async move {
        let at = read_until(&mut feed, &mut told, &announced).await;
        (at, feed, told)
    });
    let name = ask(up, &reason, json!({})).await;
    let (opened, (shown, mut feed, mut told)) = (opened.await.unwrap(), shown.await.unwrap());
    let late = shown.saturating_duration_since(opened);
    assert!(late < Duration::from_secs(1), "told {late:?} after it was open");
    let host = replica(up, 0);
    call(&host, &up.text("operatorToken"), "POST", &format!("/attention/{NAMESPACE}/{name}/reject"), &json!({})).await;
    read_until(&mut feed, &mut told, "Rejected").await;
    let data = told.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?.trim()).ok());
    let rows: Vec<String> = data.filter_map(|data| data["html"].as_str().map(str::to_owned)).collect();
    assert!(rows.iter().any(|row| row.contains("&lt;b&gt;Look")), "{rows:?}");
    assert!(rows.iter().all(|row| !row.contains("<b>Look")), "the agent's markup is text: {rows:?}");
}

/// A feed of the Attention page that has told everything there is, and what that was.
pub async fn synced(host: &str, cookie: &str) -> (hyper::body::Incoming, String) {
    let mut feed = open(host, "GET", "/events?view=attention", &[("cookie", cookie)], "").await.into_body();
    let mut told = String::new();
    read_until(&mut feed, &mut told, "event: synced").await;
    (feed, told)
}

/// Reads a feed until it has told this, and says when that was.
pub async fn read_until(feed: &mut hyper::body::Incoming, told: &mut String, what: &str) -> Instant {
    while !told.contains(what) {
        let frame =
            tokio::time::timeout(Duration::from_secs(30), feed.frame()).await.unwrap_or_else(|_| panic!("no {what}")).unwrap().unwrap();
        told.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    Instant::now()
}

/// When the API server tells that the request with this reason waits for a person.
async fn opened(api: kube::Api<AttentionRequest>, reason: String) -> Instant {
    let mut changes = std::pin::pin!(kube::runtime::watcher(api, kube::runtime::watcher::Config::default()).applied_objects());
    loop {
        let change = tokio::time::timeout(Duration::from_secs(30), changes.next()).await.expect("an open request in time").unwrap();
        let request = change.unwrap();
        if request.spec.reason == reason && request.status.as_ref().and_then(|status| status.phase) == Some(Phase::Pending) {
            return Instant::now();
        }
    }
}

/// The events of a feed until it has told everything, as name and data.
async fn everything(host: &str, cookie: &str) -> Vec<(String, Value)> {
    let (_, told) = synced(host, cookie).await;
    let event = |block: &str| {
        let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
        Some((line("event:")?, serde_json::from_str(&line("data:")?).ok()?))
    };
    told.split("\n\n").filter_map(event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_cut_off_learns_how_its_requests_ended() {
    let up = up().await;
    let host = replica(up, 0);
    let cookie = sign_in(&host, &up.text("operatorToken")).await;
    let name = ask(up, "While you were away.", json!({})).await;
    let key = format!("{NAMESPACE}/{name}");
    let of_it =
        async || everything(&host, &cookie).await.into_iter().find(|(event, data)| event == "attention" && data["key"] == key.as_str());
    poll_until(Duration::from_secs(30), "an open one is told", || async { of_it().await.filter(|(_, data)| data["open"] == true) }).await;
    kubectl(up, "operator-2", &["patch", "attn", &name, "--type=merge", "-p", r#"{"spec":{"resolution":{"outcome":"Resolved"}}}"#]);
    poll_until(Duration::from_secs(30), "a settled one is told to who comes back", || async {
        let (_, data) = of_it().await?;
        let html = data["html"].as_str().unwrap().to_owned();
        (data["open"] == false && html.contains("Resolved") && html.contains("operator-2")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_request_is_announced_on_every_page_once() {
    let up = up().await;
    let host = replica(up, 0);
    let cookie = sign_in(&host, &up.text("viewerToken")).await;
    let old = ask(up, "Asked before.", json!({})).await;
    let mut feed = open(&host, "GET", "/events?view=count", &[("cookie", &cookie)], "").await.into_body();
    let mut told = String::new();
    let mut read_until = async |what: &str| {
        while !told.contains(what) {
            let frame =
                tokio::time::timeout(Duration::from_secs(30), feed.frame()).await.unwrap_or_else(|_| panic!("no {what}")).unwrap().unwrap();
            told.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        told.clone()
    };
    read_until("event: synced").await;
    let name = ask(up, "Asked now.\nMore.", json!({})).await;
    let last = ask(up, "Asked last.", json!({})).await;
    let told = read_until(&format!("{NAMESPACE}/{last}")).await;
    assert_eq!(told.matches(&format!("{NAMESPACE}/{name}")).count(), 1, "{told}");
    assert!(told.contains("event: asked") && told.contains("\"Asked now.\"") && !told.contains(&old), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_words_are_text_and_its_options_are_as_it_sent_them() {
    let up = up().await;
    let host = replica(up, 0);
    let cookie = sign_in(&host, &up.text("operatorToken")).await;
    let options = r#"{"b": 1.0, "a": 1e400, "esc": "\u0041", "m": "</pre><script>x</script>"}"#;
    let reason = "<script>alert(1)</script><button>Resolve</button> \u{202e}evil";
    let name = ask(up, reason, json!({"options": options})).await;
    let page = with_cookie(&host, &cookie, "GET", &format!("/attention/{NAMESPACE}/{name}"), "").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.text.contains("<script>") && page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;&lt;button&gt;"), "{}", page.text);
    assert!(page.text.contains("data-name=\"U+202E\""), "what misleads is named");
    let shown = page.text.split("id=\"options\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap();
    let text = shown.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(text, options, "token for token");
    let listed = call(&host, &up.text("operatorToken"), "GET", &format!("/attention/{NAMESPACE}/{name}"), &Value::Null).await;
    assert_eq!(listed.json()["options"], options);
}
