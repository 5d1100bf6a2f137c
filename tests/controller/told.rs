//! What a watch tells of each request: its deadline, and every outcome that it ever had.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, clippy::missing_panics_doc)]

use crate::world::{World, request_phase, settled_reason};
use beckon::api::v1alpha1::{AttentionRequest, Phase};
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Phase, reason, and who answered.
pub type Outcome = (Phase, String, Option<String>);

/// What was told of one request.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub deadline: Option<Timestamp>,
    pub outcomes: Vec<Outcome>,
}

/// What was told of each. Whoever waits for one is not woken by another.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<HashMap<String, watch::Sender<Life>>>>);

impl Told {
    /// Watches the requests of a world until the task is aborted.
    pub fn watch(world: &World) -> (Self, JoinHandle<()>) {
        let (told, api) = (Self::default(), world.requests());
        let listening = {
            let told = told.clone();
            tokio::spawn(async move {
                let stream = watcher::watcher(api, watcher::Config::default()).default_backoff().touched_objects();
                // A watch that fails is begun anew by itself.
                stream
                    .filter_map(|event| std::future::ready(event.ok()))
                    .for_each(|request| {
                        told.note(&request);
                        std::future::ready(())
                    })
                    .await;
            })
        };
        (told, listening)
    }

    fn of(&self, name: &str) -> watch::Sender<Life> {
        self.0.lock().unwrap().entry(name.to_owned()).or_insert_with(|| watch::channel(Life::default()).0).clone()
    }

    fn note(&self, request: &AttentionRequest) {
        let Some(status) = &request.status else { return };
        let settled = request_phase(request).filter(|phase| *phase != Phase::Pending);
        let outcome = settled.map(|phase| (phase, settled_reason(status), status.resolved_by.clone()));
        self.of(&request.name_any()).send_modify(|life| {
            life.deadline = life.deadline.or(status.deadline.as_ref().map(|time| time.0));
            life.outcomes.extend(outcome.filter(|outcome| !life.outcomes.contains(outcome)));
        });
    }

    /// Waits for what is told of a request.
    pub async fn until<T>(&self, name: &str, what: &str, ask: impl Fn(&Life) -> Option<T>) -> T {
        let mut changed = self.of(name).subscribe();
        let wait = async { ask(&changed.wait_for(|life| ask(life).is_some()).await.unwrap()).unwrap() };
        tokio::time::timeout(Duration::from_mins(2), wait).await.unwrap_or_else(|_| panic!("{name} is {what}: not within two minutes"))
    }

    /// Waits until a request is open, and returns its deadline.
    pub async fn open(&self, name: &str) -> Timestamp {
        self.until(name, "open", |life| life.deadline).await
    }

    /// Waits until a request is settled, and returns how.
    pub async fn settled(&self, name: &str) -> Outcome {
        self.until(name, "settled", |life| life.outcomes.first().cloned()).await
    }

    /// Every outcome of each request that is settled.
    pub fn outcomes(&self) -> HashMap<String, Vec<Outcome>> {
        let all = self.0.lock().unwrap();
        all.iter().map(|(name, life)| (name.clone(), life.borrow().outcomes.clone())).filter(|(_, outcomes)| !outcomes.is_empty()).collect()
    }
}
