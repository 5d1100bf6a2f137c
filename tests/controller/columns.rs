//! What `kubectl get` prints of both kinds, and by which fields it selects.

use crate::support::{ControlPlane, succeeded};
use crate::world::World;
use std::collections::BTreeMap;

/// The rows of `kubectl get`, each as column and cell. Cells begin below their column's name.
fn rows(world: &World, args: &[&str]) -> Vec<BTreeMap<String, String>> {
    let all = [&["get", "--namespace", &world.namespace], args].concat();
    let text = String::from_utf8(succeeded(ControlPlane::shared().kubectl("admin", &all))).unwrap();
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let head = lines.next().unwrap_or_default();
    let starts: Vec<usize> = head
        .match_indices(char::is_alphabetic)
        .map(|(at, _)| at)
        .filter(|at| at.checked_sub(1).is_none_or(|before| head[before..=before] == *" "))
        .collect();
    let cell = |line: &str, n: usize| {
        line.get(starts[n]..starts.get(n + 1).map_or(line.len(), |end| (*end).min(line.len()))).unwrap_or_default().trim().to_owned()
    };
    lines.map(|line| (0..starts.len()).map(|n| (cell(head, n), cell(line, n))).collect()).collect()
}

fn names(rows: &[BTreeMap<String, String>]) -> Vec<&str> {
    rows.iter().map(|row| row["NAME"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_are_printed_with_what_a_person_looks_for() {
    let world = World::new("columns").await;
    let running = world.start(&[]);
    world.ready_session("s").await;
    for name in ["first", "second", "done"] {
        world.request(name, Some("s"), |_| {}).await;
        world.opened(name).await;
    }
    world.resolve("done", "Done, continue.").await.unwrap();
    world.settled("done").await;
    world
        .session_when("s", "with both open requests", |session| {
            session.status.as_ref().is_some_and(|status| status.open_requests.len() == 2)
        })
        .await;

    let sessions = rows(&world, &["bsess"]);
    let session = &sessions[0];
    assert_eq!(session.keys().collect::<Vec<_>>(), ["AGE", "BROWSER", "CONTROL", "NAME", "OPEN", "OWNER", "PAGE", "PHASE"]);
    assert_eq!((session["PHASE"].as_str(), session["BROWSER"].as_str(), session["OWNER"].as_str()), ("Ready", "Chromium", "agent"));
    assert_eq!(session["OPEN"], r#"["first","second"]"#, "every open request");
    let wide = &rows(&world, &["bsess", "-o", "wide"])[0];
    assert!(wide["ENDS"].ends_with('Z') && wide.contains_key("IDLE-DEADLINE") && wide.contains_key("SANDBOX"), "{wide:?}");

    let requests = rows(&world, &["attn"]);
    assert_eq!(names(&requests), ["done", "first", "second"]);
    assert_eq!(requests[0].keys().collect::<Vec<_>>(), ["AGE", "BY", "DEADLINE", "MODE", "NAME", "PHASE", "REASON", "SESSION"]);
    let cells = |row: &BTreeMap<String, String>| ["SESSION", "MODE", "PHASE", "BY", "REASON"].map(|column| row[column].clone());
    assert_eq!(cells(&requests[0]), ["s", "Notify", "Resolved", "operator", "please"]);
    assert_eq!(cells(&requests[1]), ["s", "Notify", "Pending", "", "please"]);
    assert!(requests[1]["DEADLINE"].ends_with('Z'), "{:?}", requests[1]);
    let wide = &rows(&world, &["attn", "-o", "wide"])[0];
    assert_eq!((wide["REQUESTER"].as_str(), wide["MESSAGE"].as_str()), ("agent", "Done, continue."));

    let both =
        String::from_utf8(succeeded(ControlPlane::shared().kubectl("admin", &["get", "beckon", "-n", &world.namespace, "-o", "name"])));
    let both = both.unwrap();
    for name in ["attentionrequest.beckon.dev/first", "browsersession.beckon.dev/s"] {
        assert!(both.lines().any(|line| line == name), "{both}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_are_found_by_their_fields() {
    let world = World::new("fields").await;
    let running = world.start(&[]);
    for name in ["s", "t"] {
        world
            .session(name, |spec| spec.owner = Some(beckon::api::v1alpha1::Principal::named(if name == "s" { "agent" } else { "other" })))
            .await;
    }
    world.request("of-s", Some("s"), |_| {}).await;
    world.request("open", None, |_| {}).await;
    world.request("done", None, |_| {}).await;
    for name in ["of-s", "open", "done"] {
        world.opened(name).await;
    }
    world.resolve("done", "Done.").await.unwrap();
    world.settled("done").await;
    for (kind, selector, found) in [
        ("attn", "status.phase=Pending", &["of-s", "open"][..]),
        ("attn", "status.phase!=Pending", &["done"]),
        ("attn", "spec.sessionRef.name=s", &["of-s"]),
        ("attn", "spec.requester.username=nobody", &[]),
        ("bsess", "spec.owner.username=other", &["t"]),
        ("bsess", "status.phase=Closed", &[]),
    ] {
        assert_eq!(names(&rows(&world, &[kind, "--field-selector", selector])), found, "{kind} {selector}");
    }
    running.end().await;
}
