//! Who gets in, and what every reply carries.

use crate::client::{NAMESPACE, call, kubectl, open, open_http2, replica, send, sign_in, up, with_cookie};
use crate::support::{eventually, unique};
use http::StatusCode;
use http::header::SET_COOKIE;
use http_body_util::BodyExt as _;
use serde_json::json;
use std::time::{Duration, Instant};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once_at_any_replica() {
    let up = up().await;
    let (one, two) = (replica(up, 0), replica(up, 1));
    let made = call(&one, &up.text("operatorToken"), "POST", "/login-links", &json!({"next": "/history"})).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let url = made.json()["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&format!("http://{one}")).expect("the address that was asked").to_owned();
    let code = path.split(['=', '&']).nth(1).unwrap().to_owned();

    // Looking does not use it up: a chat that previews links looks too.
    for host in [&one, &two] {
        let page = send(host, "GET", &path, &[], "").await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.text.contains("operator") && !page.headers.contains_key(SET_COOKIE), "{}", page.text);
    }
    let press = async |host: &str, origin: &str| {
        send(host, "POST", "/login", &[("origin", origin), FORM], &format!("code={code}&next=%2Fhistory")).await
    };
    assert_eq!(press(&two, "https://evil.example").await.status, StatusCode::FORBIDDEN);
    let (a, b) = (format!("http://{one}"), format!("http://{two}"));
    let both = tokio::join!(press(&one, &a), press(&two, &b));
    let mut codes = [both.0.status, both.1.status];
    codes.sort();
    assert_eq!(codes, [StatusCode::SEE_OTHER, StatusCode::GONE], "exactly one of two at the same time");
    let won = if both.0.status == StatusCode::SEE_OTHER { both.0 } else { both.1 };
    assert_eq!(won.headers["location"], "/history");

    // The cookie is good at the other replica too.
    for host in [&one, &two] {
        let who = with_cookie(host, &won.cookie(), "GET", "/api/v1/whoami", "").await;
        assert_eq!(who.json()["username"], "operator", "{}", who.text);
    }
    let link = with_cookie(&one, &won.cookie(), "POST", "/api/v1/login-links", "{}").await;
    assert_eq!(link.status, StatusCode::FORBIDDEN, "a visit can't prolong itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_our_own_form_signs_in_and_the_cookie_says_nothing() {
    let up = up().await;
    let host = replica(up, 0);
    let origin = format!("http://{host}");
    let form = format!("token={}&next=//evil.example", up.text("operatorToken"));
    for (headers, want) in [
        (vec![("origin", origin.as_str())], StatusCode::SEE_OTHER),
        (vec![], StatusCode::FORBIDDEN),
        (vec![("origin", "null")], StatusCode::FORBIDDEN),
        (vec![("origin", "https://evil.example")], StatusCode::FORBIDDEN),
        (vec![("origin", origin.as_str()), ("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        (vec![("origin", "http://evil.example"), ("host", "evil.example")], StatusCode::FORBIDDEN),
    ] {
        let reply = send(&host, "POST", "/login", &[&headers[..], &[FORM]].concat(), &form).await;
        assert_eq!(reply.status, want, "{headers:?}");
        if want == StatusCode::SEE_OTHER {
            let set = reply.headers[SET_COOKIE].to_str().unwrap();
            assert!(set.starts_with("__Host-beckon=") && !set.contains("operator"), "{set}");
            for word in ["HttpOnly", "Secure", "SameSite=Strict", "Path=/"] {
                assert!(set.contains(word), "{word}: {set}");
            }
            assert_eq!(reply.headers["location"], "/attention", "no other site follows");
        }
    }
    let wrong = send(&host, "POST", "/login", &[("origin", &origin), FORM], "token=nonsense").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.text.contains("does not accept this token") && !wrong.text.contains("nonsense"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reply_leaves_a_page_nothing_to_be_abused_with() {
    let up = up().await;
    let host = replica(up, 1);
    for path in ["/login", "/attention", "/api/v1/whoami", "/events", "/nowhere"] {
        let reply = send(&host, "GET", path, &[], "").await;
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{path}: {policy}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(reply.headers["cache-control"], "no-store", "{path}");
        assert!(!reply.text.contains("<style") && !reply.text.contains(" style="), "{path} has styles that the policy refuses");
    }
    let foreign = send(&host, "GET", "/login", &[("host", "rebound.example")], "").await;
    assert_eq!((foreign.status, foreign.code().as_str()), (StatusCode::FORBIDDEN, "HOST_REFUSED"));
    let page = send(&host, "GET", "/login", &[], "").await;
    let asset = page.text.split('"').find(|part| part.starts_with("/assets/") && part.ends_with("base.css")).unwrap();
    let asset = send(&host, "GET", asset, &[], "").await;
    assert!(asset.headers["cache-control"].to_str().unwrap().contains("immutable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_over_http2_gets_in_too() {
    let up = up().await;
    let host = replica(up, 0);
    let origin = format!("http://{host}");
    let page = open_http2(&host, "GET", "/login", &[], "").await;
    assert_eq!((page.status(), page.version()), (StatusCode::OK, http::Version::HTTP_2));
    // What has effects compares the page's origin with the host.
    let form = format!("token={}", up.text("operatorToken"));
    for (origin, want) in [(origin.as_str(), StatusCode::SEE_OTHER), ("http://rebound.example", StatusCode::FORBIDDEN)] {
        let reply = open_http2(&host, "POST", "/login", &[("origin", origin), FORM], &form).await;
        assert_eq!(reply.status(), want, "{origin}");
    }
    let bearer = format!("Bearer {}", up.text("operatorToken"));
    assert_eq!(open_http2(&host, "GET", "/api/v1/whoami", &[("authorization", &bearer)], "").await.status(), StatusCode::OK);
    let foreign = open_http2(&host, "GET", "/login", &[("host", "rebound.example")], "").await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_the_visit_at_every_replica() {
    let up = up().await;
    let (one, two) = (replica(up, 0), replica(up, 1));
    let (cookie, other) = (sign_in(&one, &up.text("viewerToken")).await, sign_in(&one, &up.text("viewerToken")).await);
    let mut feed = open(&two, "GET", "/events", &[("cookie", &cookie)], "").await.into_body();
    let out = with_cookie(&one, &cookie, "POST", "/logout", "").await;
    assert_eq!((out.status, out.headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, "/login?out"));
    assert!(out.headers[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert!(send(&one, "GET", "/login?out", &[], "").await.text.contains("You are signed out."));
    // Somebody kept a copy.
    assert_eq!(with_cookie(&one, &cookie, "GET", "/api/v1/whoami", "").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(with_cookie(&one, &cookie, "GET", "/attention", "").await.status, StatusCode::SEE_OTHER, "to the door");
    eventually("the other replica refuses it too", || async {
        with_cookie(&two, &cookie, "GET", "/api/v1/whoami", "").await.status == StatusCode::UNAUTHORIZED
    })
    .await;
    let end = async { while let Some(Ok(_)) = feed.frame().await {} };
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("the feed of the visit ends with it");
    // Another visit of the same person goes on.
    for host in [&one, &two] {
        assert_eq!(with_cookie(host, &other, "GET", "/api/v1/whoami", "").await.status, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_tries_many_tokens_is_slowed_down_and_others_get_in() {
    let up = up().await;
    let host = replica(up, 1);
    let origin = format!("http://{host}");
    let began = Instant::now();
    let guess = async |n: usize| {
        let form = format!("token=guess-{n}-{}", unique("t"));
        send(&host, "POST", "/login", &[("origin", &origin), FORM], &form).await.status
    };
    let guesses = futures::future::join_all((0..16).map(guess));
    let token = up.text("operatorToken");
    let (guesses, _) = tokio::join!(guesses, sign_in(&host, &token));
    assert!(guesses.iter().all(|status| *status == StatusCode::UNAUTHORIZED), "{guesses:?}");
    // Four at a time, half a second each.
    assert!(began.elapsed() >= Duration::from_secs(2), "16 guesses took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_of_ours_leads_back() {
    let up = up().await;
    let host = replica(up, 0);
    let cookie = sign_in(&host, &up.text("viewerToken")).await;
    for (page, way) in [
        (send(&host, "GET", "/nowhere", &[], "").await, "/attention"),
        (with_cookie(&host, &cookie, "GET", "/attention/ns", "").await, "/attention"),
        (with_cookie(&host, &cookie, "GET", &format!("/attention/{NAMESPACE}/{}", unique("absent")), "").await, "/attention"),
    ] {
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{}", page.text);
        assert!(page.text.contains("<h1>") && page.text.contains(&format!("href=\"{way}\"")), "{}", page.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_see_nothing_is_not_told_that_there_is_nothing() {
    let up = up().await;
    let host = replica(up, 0);
    kubectl(up, "admin", &["create", "serviceaccount", "nobody"]);
    let token = kubectl(up, "admin", &["create", "token", "nobody", "--audience=beckon"]);
    let cookie = sign_in(&host, token.trim()).await;
    for path in ["/attention", "/history", "/sessions"] {
        let page = with_cookie(&host, &cookie, "GET", path, "").await;
        assert_eq!(page.status, StatusCode::OK);
        let told =
            page.text.contains("These are not yours to see") && page.text.contains("system:serviceaccount:default:nobody may not list");
        assert!(told && !page.text.contains("Nobody needs you"), "{path}: {}", page.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_signed_in_is_told_so() {
    let up = up().await;
    let host = replica(up, 0);
    let page = send(&host, "GET", "/attention/ns/a-1", &[], "").await;
    assert_eq!((page.status, page.headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, "/login?next=%2Fattention%2Fns%2Fa-1"));
    for (path, status) in [("/api/v1/attention", StatusCode::UNAUTHORIZED), ("/events", StatusCode::UNAUTHORIZED)] {
        assert_eq!(send(&host, "GET", path, &[], "").await.status, status, "{path}");
    }
    let cookie = sign_in(&host, &up.text("viewerToken")).await;
    let out = with_cookie(&host, &cookie, "POST", "/logout", "").await;
    assert!(out.headers[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    let forged = format!("{}AAAA", &cookie[..cookie.len() - 4]);
    assert_eq!(with_cookie(&host, &forged, "GET", "/api/v1/whoami", "").await.status, StatusCode::UNAUTHORIZED);
}
