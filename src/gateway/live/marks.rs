//! What can be used once, across all replicas: a Lease in Beckon's own namespace. Creating one marks a ticket as used, since
//! only one create of a name succeeds; a login link is a Lease with its owner sealed inside, and using it is one write that
//! quotes the resource version, which only one can win. The end of an MCP session is such a mark too: it happens once. Old ones
//! are swept.

use crate::gateway::MANAGER;
use crate::k8s::watch::{self, Step};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::DeserializeGuard;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ROLE: &str = "beckon.dev/role";
const EXPIRES: &str = "beckon.dev/expires";
const SEALED: &str = "beckon.dev/sealed";
const USED: &str = "beckon.dev/used";
const ASKING: Duration = Duration::from_secs(5);
/// A mark is kept for this long beyond its end, so that a clock that is behind can't use it again.
const SLACK: SignedDuration = SignedDuration::from_mins(2);
/// How many marks a sweep reads at a time.
const PAGE: u32 = 500;

/// What a mark is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A ticket that was used.
    Ticket,
    /// A one-time login link.
    Link,
    /// An MCP session that its client has ended.
    EndedSession,
    /// A visit that was signed out of.
    Visit,
}

impl Mark {
    const ALL: [Self; 4] = [Self::Ticket, Self::Link, Self::EndedSession, Self::Visit];

    const fn role(self) -> &'static str {
        match self {
            Self::Ticket => "used-ticket",
            Self::Link => "login-link",
            Self::EndedSession => "ended-session",
            Self::Visit => "ended-visit",
        }
    }

    /// The name of the Lease of one mark.
    pub fn name(self, id: &str) -> String {
        format!("beckon-{}-{id}", self.role())
    }

    /// The id that a mark of this kind was made for.
    pub fn id(self, lease: &Lease) -> Option<&str> {
        lease.metadata.name.as_deref()?.strip_prefix("beckon-")?.strip_prefix(self.role())?.strip_prefix('-')
    }

    /// The labels of all marks of this kind.
    pub fn selector(self) -> String {
        format!("{ROLE}={}", self.role())
    }
}

/// The API server did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer: {0}")]
pub struct MarkError(String);

/// The marks of the installation.
#[derive(Clone)]
pub struct Marks {
    api: Api<Lease>,
    namespace: String,
}

impl Marks {
    /// In Beckon's own namespace.
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), namespace: namespace.to_owned() }
    }

    /// Makes a mark; `false`: there was one.
    pub async fn set(&self, mark: Mark, id: &str, expires: Timestamp, sealed: Option<&str>) -> Result<bool, MarkError> {
        let mut annotations = BTreeMap::from([(EXPIRES.to_owned(), expires.as_second().to_string())]);
        annotations.extend(sealed.map(|sealed| (SEALED.to_owned(), sealed.to_owned())));
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(mark.name(id)),
                labels: Some(BTreeMap::from([(ROLE.to_owned(), mark.role().to_owned())])),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        match bounded(self.api.create(&PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }, &lease)).await {
            Ok(_) => Ok(true),
            Err(Failure::Api(409)) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Tells the marks of a kind, and every change of them, until it is stopped.
    pub async fn follow(&self, mark: Mark, tell: impl FnMut(Step<Lease>), stop: CancellationToken) {
        let api = Api::<DeserializeGuard<Lease>>::namespaced(self.api.clone().into_client(), &self.namespace);
        watch::follow(api, watch::config().labels(&mark.selector()), watch::prune_metadata, tell, stop).await;
    }

    /// Whether there is such a mark, over or not.
    pub async fn exists(&self, mark: Mark, id: &str) -> Result<bool, MarkError> {
        Ok(bounded(self.api.get_opt(&mark.name(id))).await?.is_some())
    }

    /// What was sealed into a mark that is there, not over and not used.
    pub async fn peek(&self, mark: Mark, id: &str, now: Timestamp) -> Result<Option<String>, MarkError> {
        Ok(self.usable(mark, id, now).await?.map(|(_, sealed)| sealed))
    }

    /// Uses a mark up. `None`: it is not there, over, or somebody was faster.
    pub async fn take(&self, mark: Mark, id: &str, now: Timestamp) -> Result<Option<String>, MarkError> {
        let Some((version, sealed)) = self.usable(mark, id, now).await? else { return Ok(None) };
        let used = json!({"metadata": {"resourceVersion": version, "annotations": {USED: "true", SEALED: null}}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match bounded(self.api.patch(&mark.name(id), &params, &Patch::Merge(used))).await {
            Ok(_) => Ok(Some(sealed)),
            Err(Failure::Api(404 | 409)) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn usable(&self, mark: Mark, id: &str, now: Timestamp) -> Result<Option<(String, String)>, MarkError> {
        let Some(lease) = bounded(self.api.get_opt(&mark.name(id))).await? else { return Ok(None) };
        let annotations = lease.annotations();
        let over = expires(&lease).is_none_or(|end| now >= end) || annotations.contains_key(USED);
        Ok(lease.resource_version().zip(annotations.get(SEALED).cloned()).filter(|_| !over))
    }

    /// Deletes marks that are over, of all there are.
    pub async fn sweep(&self, now: Timestamp) -> Result<usize, MarkError> {
        let mut swept = 0;
        for mark in Mark::ALL {
            let mut params = ListParams::default().labels(&mark.selector()).limit(PAGE);
            loop {
                let page = match bounded(self.api.list(&params)).await {
                    Ok(page) => page,
                    // So much was swept that the list has expired meanwhile; the next sweep finds less before it.
                    Err(Failure::Api(410)) if params.continue_token.is_some() => break,
                    Err(failure) => return Err(failure.into()),
                };
                for lease in &page.items {
                    swept += usize::from(self.delete_if_over(lease, now).await?);
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(swept)
    }

    async fn delete_if_over(&self, lease: &Lease, now: Timestamp) -> Result<bool, MarkError> {
        let over = expires(lease).and_then(|end| end.saturating_add(SLACK).ok()).is_none_or(|end| now >= end);
        if !over {
            return Ok(false);
        }
        match bounded(self.api.delete(&lease.name_any(), &DeleteParams::default())).await {
            Ok(_) => Ok(true),
            // Another replica sweeps too.
            Err(Failure::Api(404)) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn expires(lease: &Lease) -> Option<Timestamp> {
    Timestamp::from_second(lease.annotations().get(EXPIRES)?.parse().ok()?).ok()
}

enum Failure {
    Api(u16),
    Other(String),
}

impl From<Failure> for MarkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Api(code) => Self(format!("it answered {code}")),
            Failure::Other(why) => Self(why),
        }
    }
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(ASKING, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Api(status.code)),
        Ok(Err(_)) => Err(Failure::Other("the connection failed".to_owned())),
        Err(_) => Err(Failure::Other("no reply in time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::sync::{Arc, Mutex};

    fn mark(name: &str, expires: i64) -> serde_json::Value {
        json!({"metadata": {"name": name, "annotations": {EXPIRES: expires.to_string()}}})
    }

    /// Two pages of one kind, nothing of the others; what was deleted.
    fn server(deleted: Arc<Mutex<Vec<String>>>) -> Marks {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let deleted = Arc::clone(&deleted);
            async move {
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                let answer = if request.method() == http::Method::DELETE {
                    deleted.lock().unwrap().push(path.rsplit('/').next().unwrap_or_default().to_owned());
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
                } else {
                    let (items, next) = match (query.contains("ended-session"), query.contains("continue=second")) {
                        (true, false) => (vec![mark("fresh-1", 2_000_000_000), mark("old-1", 1)], "second"),
                        (true, true) => (vec![mark("old-2", 2), mark("fresh-2", 2_000_000_000)], ""),
                        (false, _) => (Vec::new(), ""),
                    };
                    json!({"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {"continue": next}, "items": items})
                };
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Marks::new(kube::Client::new(service, "ns"), "ns")
    }

    #[tokio::test]
    async fn a_sweep_looks_at_every_page() {
        let deleted = Arc::<Mutex<Vec<String>>>::default();
        let swept = server(Arc::clone(&deleted)).sweep(Timestamp::from_second(1_800_000_000).unwrap()).await;
        assert_eq!((swept, &*deleted.lock().unwrap()), (Ok(2), &vec!["old-1".to_owned(), "old-2".to_owned()]));
    }
}
