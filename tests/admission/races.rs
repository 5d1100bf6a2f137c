//! Two answers, a completion, a cancel and the controller's Timeout at once: one of them stands, whatever the order.

use crate::world::{Reply, World, agent, controller, fine, gateway, operator, other_operator, plain};
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// More with `BECKON_RACES=10000`.
fn rounds() -> usize {
    std::env::var("BECKON_RACES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

/// The one outcome that an object tells, after the controller has recorded a stored decision.
fn outcome(stored: &Value) -> Vec<String> {
    let spec = &stored["spec"];
    let mut told: Vec<String> = Vec::new();
    if let Some(by) = spec["resolution"]["by"]["username"].as_str() {
        told.push(format!("{} by {by}", spec["resolution"]["outcome"].as_str().unwrap()));
    }
    told.extend(spec["completion"]["reason"].as_str().map(str::to_owned));
    told.extend(spec["cancel"]["by"]["username"].as_str().map(|_| "Cancelled".to_owned()));
    told.extend((stored["status"]["phase"] == "Timeout").then(|| "Timeout".to_owned()));
    told
}

#[tokio::test]
async fn exactly_one_outcome_stands() {
    let w = World::stamped().await;
    let told: Vec<String> = stream::iter(0..rounds()).map(|_| race(&w)).buffer_unordered(4).collect().await;
    let winners = told.into_iter().fold(BTreeMap::<String, usize>::new(), |mut counts, winner| {
        *counts.entry(winner).or_default() += 1;
        counts
    });
    eprintln!("winners of {} races: {winners:?}", rounds());
}

/// One race; who won it.
async fn race(w: &World) -> String {
    let name = w.open(plain()).await;
    let (olga, otto, crawler, gate, control) = (operator(), other_operator(), agent(), gateway(), controller());
    // None says which version it has seen, so that only the rules decide.
    let answer = |message: &str| json!({"resolution": {"outcome": "Resolved", "message": message}});
    let completion = json!({"completion": {"reason": "HandoverEnded", "by": {"username": crawler.name}}});
    let writes: [Reply; 5] = tokio::join!(
        w.write(&olga, &name, answer("one")),
        w.write(&otto, &name, answer("two")),
        w.write(&crawler, &name, json!({"cancel": {}})),
        w.write(&gate, &name, completion),
        w.status(&control, &name, json!({"phase": "Timeout"})),
    )
    .into();
    let stored = w.get(&name).await;
    let told = outcome(&stored);
    assert_eq!(told.len(), 1, "{told:?}: {stored}");
    let won = writes.iter().filter(|write| write.is_ok()).count();
    assert_eq!(won, 1, "{won} were told that they won, {told:?} stands");
    for lost in writes.into_iter().filter_map(Result::err) {
        // 409 would reach a person as noise; the server tries again by itself.
        assert!(lost.code == 422, "{lost:?}");
    }
    // The controller that comes late records what stands, and can't record anything else.
    if stored["status"]["phase"] == "Pending" {
        let right = if told[0] == "Cancelled" { "Cancelled" } else { "Resolved" };
        assert!(w.status(&control, &name, json!({"phase": "Timeout"})).await.is_err_and(|refusal| refusal.code == 422));
        fine(w.status(&control, &name, json!({"phase": right})).await);
    }
    told.concat()
}
