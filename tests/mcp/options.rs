//! The agent's options come out token for token, whatever they are, wherever they are read.

use crate::support::succeeded;
use crate::world::{World, attached};
use kube::ResourceExt as _;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// JSON texts as no library would write them.
const ODD: &[&str] = &[
    r#"{"b":1.0,"a":1e400,"b":[ -0.0 , 10000000000000000000000000001],"é":"\u0041\/\ud83d\ude00"}"#,
    "{ \"spaced\" :\t[ ]\r\n}",
    r#""just a text""#,
    r#""{\"looks\":\"like JSON\"}""#,
    "false",
    "0",
    "-0",
    "[]",
    "{}",
    "\"\"",
    r#""\ud800 half a pair, \u0000 and \u001b[31m""#,
    r#"{"":{"":[[[[null]]]]},"__proto__":1,"constructor":2}"#,
    r#"{"beckon.dev/unreadable":"as our own mark"}"#,
    r#"["<script>alert(1)</script>","a\u2028b\u202ec"]"#,
];

fn odd_json() -> impl Strategy<Value = String> {
    let number = proptest::string::string_regex("-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?").unwrap();
    let text = proptest::string::string_regex(r#"([ !#-\[\]-~é値]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,12}"#).unwrap();
    let text = text.prop_map(|text| format!("\"{text}\"")).boxed();
    prop_oneof![number, text.clone()].prop_recursive(4, 40, 5, move |inner| {
        let member =
            (prop_oneof![text.clone(), Just("\"k\"".to_owned())], inner.clone()).prop_map(|(key, value)| format!("{key} :{value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(|all| format!("[{}]", all.join(" , "))),
            proptest::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(",\n"))),
        ]
    })
}

#[tokio::test]
async fn they_are_the_same_in_the_object_in_kubectl_and_in_the_api() {
    let world = World::start(2, &[]).await;
    let mut runner = TestRunner::default();
    let made = (0..12).map(|_| odd_json().new_tree(&mut runner).unwrap().current());
    let all: Vec<String> = ODD.iter().map(|text| (*text).to_owned()).chain(made).collect();
    for (n, options) in all.iter().enumerate() {
        let agent = if n % 2 == 0 { world.modern("agent") } else { world.legacy("agent").await };
        let reason = format!("options {n}");
        let arguments = format!(r#"{{"mode":"notify","reason":"{reason}","options":{options}}}"#);
        let (_, mut events) = agent.start("request_attention", &arguments, Some("p")).await;
        let name = events.progress().await["message"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
        let request = world.until(&name, "attached", attached).await;
        assert_eq!(request.spec.options.as_deref(), Some(options.as_str()), "the object");

        let shown = world.plane.kubectl("operator", &["get", "attn", &name, "-n", &world.namespace, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&succeeded(shown)).unwrap();
        assert_eq!(shown["spec"]["options"], json!(options), "kubectl");

        let path = format!("attention/{}/{name}", world.namespace);
        let (status, shown) = world.rest("operator", "GET", &path, &json!(null)).await;
        assert_eq!((status.as_u16(), &shown["options"]), (200, &json!(options)), "the API");

        // Asked again through the other replica it is the same request.
        let (_, mut again) = agent.at(world.port(1)).start("request_attention", &arguments, Some("p")).await;
        again.progress().await;
        let (status, _) = world.rest("operator", "POST", &format!("{path}/resolve"), &json!({"message": "picked"})).await;
        assert_eq!(status.as_u16(), 200);
        for events in [events, again] {
            let result = events.structured().await;
            assert_eq!((&result["request_id"], &result["message"]), (&json!(name), &json!("picked")));
        }
    }
    assert_eq!(world.requests().await.len(), all.len());
    assert!(world.requests().await.iter().all(|request| request.name_any().starts_with("a-")));
}

#[tokio::test]
async fn no_options_are_none_and_the_largest_are_taken() {
    let world = World::start(1, &["--holdWithoutProgress", "1s"]).await;
    let agent = world.modern("agent");
    let largest = format!("\"{}\"", "x".repeat(32_766));
    for (given, want) in [("null", None), (largest.as_str(), Some(largest.as_str()))] {
        let arguments = format!(r#"{{"mode":"notify","reason":"{}","options":{given}}}"#, given.len());
        let (_, events) = agent.start("request_attention", &arguments, None).await;
        let name = events.structured().await["request_id"].as_str().unwrap().to_owned();
        assert_eq!(world.request(&name).await.spec.options.as_deref(), want);
    }
}
