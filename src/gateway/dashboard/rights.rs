//! Which objects a person may see: all of a namespace, or none.

use super::Site;
use crate::api::v1alpha1::{AttentionRequest, BrowserSession};
use crate::gateway::auth::{AccessUnknown, Principal};
use crate::gateway::rest::Problem;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a feed believes an answer.
const BELIEVED: Duration = Duration::from_secs(30);

/// Refuses while this process has not read what there is: an empty list would be a lie.
pub fn ready(site: &Site) -> Result<(), Problem> {
    let hub = &site.gateway.hub;
    if hub.requests.is_complete() && hub.sessions.is_complete() {
        return Ok(());
    }
    Err(Problem::unavailable("this server has only just started, and has not read what there is: try again in a moment"))
}

/// A session by its name.
pub fn session(site: &Site, namespace: &str, name: &str) -> Result<Arc<BrowserSession>, Problem> {
    if let Some(session) = site.gateway.hub.sessions.get(namespace, name) {
        return Ok(session);
    }
    ready(site)?;
    Err(Problem::not_found(format!("there is no session {namespace}/{name}")))
}

/// The requests that a person may list.
pub async fn visible_requests(site: &Site, who: &Arc<Principal>) -> Result<Vec<Arc<AttentionRequest>>, Problem> {
    ready(site)?;
    Ok(Seer::new(site, who).requests(site.gateway.hub.requests.all()).await?)
}

/// The sessions that a person may list.
pub async fn visible_sessions(site: &Site, who: &Arc<Principal>) -> Result<Vec<Arc<BrowserSession>>, Problem> {
    ready(site)?;
    Ok(Seer::new(site, who).sessions(site.gateway.hub.sessions.all()).await?)
}

/// Whether a person who is shown nothing of a kind may see it at all, where this installation keeps it: an empty list would
/// tell them that there is nothing.
pub async fn blind(site: &Site, who: &Principal, resource: &'static str) -> Result<bool, AccessUnknown> {
    Ok(!site.gateway.auth.may(who, "list", resource, &site.gateway.settings.namespace, None).await?)
}

/// Remembers what a person may see for a short while.
pub struct Seer {
    site: Site,
    who: Arc<Principal>,
    known: HashMap<(&'static str, &'static str, String), (bool, Instant)>,
}

impl Seer {
    /// Knows nothing yet.
    pub fn new(site: &Site, who: &Arc<Principal>) -> Self {
        Self { site: Arc::clone(site), who: Arc::clone(who), known: HashMap::new() }
    }

    /// Whose rights these are.
    pub fn who(&self) -> &Principal {
        &self.who
    }

    /// Whether they may list this kind in this namespace.
    pub async fn may_list(&mut self, resource: &'static str, namespace: &str) -> Result<bool, AccessUnknown> {
        self.may("list", resource, namespace).await
    }

    /// Whether they may do this to every object of this kind in this namespace.
    pub async fn may(&mut self, verb: &'static str, resource: &'static str, namespace: &str) -> Result<bool, AccessUnknown> {
        let key = (verb, resource, namespace.to_owned());
        if let Some((may, _)) = self.known.get(&key).filter(|(_, at)| at.elapsed() < BELIEVED) {
            return Ok(*may);
        }
        let may = self.site.gateway.auth.may(&self.who, verb, resource, namespace, None).await?;
        self.known.insert(key, (may, Instant::now()));
        Ok(may)
    }

    /// Those of these requests that they may list.
    pub async fn requests(&mut self, all: Vec<Arc<AttentionRequest>>) -> Result<Vec<Arc<AttentionRequest>>, AccessUnknown> {
        let mut seen = Vec::with_capacity(all.len());
        for object in all {
            if self.may_list("attentionrequests", &object.namespace().unwrap_or_default()).await? {
                seen.push(object);
            }
        }
        Ok(seen)
    }

    /// Those of these sessions that they may list.
    pub async fn sessions(&mut self, all: Vec<Arc<BrowserSession>>) -> Result<Vec<Arc<BrowserSession>>, AccessUnknown> {
        let mut seen = Vec::with_capacity(all.len());
        for object in all {
            if self.may_list("browsersessions", &object.namespace().unwrap_or_default()).await? {
                seen.push(object);
            }
        }
        Ok(seen)
    }
}
