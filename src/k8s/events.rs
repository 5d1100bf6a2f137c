//! Events for people who `kubectl describe`: best effort, one recorder, never in the way of the work.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many events may wait to be posted; more are dropped.
const WAITING: usize = 512;

/// A fact about an object.
#[derive(Clone, Debug)]
pub struct Fact {
    /// The object.
    pub about: ObjectReference,
    /// Whether somebody should look.
    pub warning: bool,
    /// One word for the kind of fact.
    pub reason: &'static str,
    /// What led to it.
    pub action: &'static str,
    /// A short, stable sentence. Never an agent's or a person's words.
    pub note: String,
}

/// Posts events in the background.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<Fact>);

impl Events {
    /// The handle, and the posting until it is stopped, which the caller runs. `instance` names this process.
    pub fn new(client: Client, instance: String, stop: CancellationToken) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, mut facts) = mpsc::channel::<Fact>(WAITING);
        let recorder = Recorder::new(client, Reporter { controller: "beckon-controller".into(), instance: Some(instance) });
        let posting = async move {
            loop {
                let fact = tokio::select! { () = stop.cancelled() => return, fact = facts.recv() => fact };
                let Some(fact) = fact else { return };
                let event = Event {
                    type_: if fact.warning { EventType::Warning } else { EventType::Normal },
                    reason: fact.reason.to_owned(),
                    note: Some(fact.note.chars().take(900).collect()),
                    action: fact.action.to_owned(),
                    secondary: None,
                };
                match tokio::time::timeout(Duration::from_secs(5), recorder.publish(&event, &fact.about)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, reason = fact.reason, "an event could not be posted"),
                    Err(_) => tracing::debug!(reason = fact.reason, "an event could not be posted in time"),
                }
            }
        };
        (Self(sender), posting)
    }

    /// Posts it soon, or drops it when too many wait.
    pub fn post(&self, fact: Fact) {
        if self.0.try_send(fact).is_err() {
            tracing::debug!("an event was dropped");
        }
    }
}
