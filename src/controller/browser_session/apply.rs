//! The only place that makes, marks and removes what a session holds.

use super::build::{self, pod, secret};
use super::observe::Observed;
use crate::api::v1alpha1::{BrowserSession, BrowserSessionStatus};
use crate::controller::context::Context;
use crate::controller::error::{During as _, Error};
use crate::domain::session::bounded;
use crate::k8s::apply;
use crate::k8s::client::{CallError, call};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Resource, ResourceExt as _};
use serde_json::json;

/// Makes the Secret, then the pod. What keeps it from that, for a person.
pub(super) async fn create(session: &BrowserSession, context: &Context) -> Result<Option<String>, Error> {
    let namespace = session.namespace().unwrap_or_default();
    let secrets = context.api::<Secret>(&namespace);
    let wanted = secret::build(session)?;
    match refused(apply::create(&secrets, &wanted).await).during("the secret of a session")? {
        Made::Yes => {}
        Made::Refused(why) => return Ok(Some(why)),
        Made::Exists => {
            let name = build::secret_name(session);
            let known = call(secrets.get_opt(&name)).await.during("the secret of a session")?;
            if let Some(known) = known.filter(|known| !owned(known, session)) {
                return Ok(Some(stale(&known, session, context).await?));
            }
        }
    }
    let pods = context.api::<Pod>(&namespace);
    let wanted = pod::build(session, &context.settings.pods);
    match refused(apply::create(&pods, &wanted).await).during("the pod of a session")? {
        // A pod of this name that the watch has not told yet: the next pass judges it.
        Made::Yes | Made::Exists => Ok(None),
        Made::Refused(why) => Ok(Some(why)),
    }
}

enum Made {
    Yes,
    Exists,
    Refused(String),
}

/// A quota, an admission policy or an impossible field is told to people and tried again.
fn refused(result: Result<bool, CallError>) -> Result<Made, CallError> {
    match result {
        Ok(true) => Ok(Made::Yes),
        Ok(false) => Ok(Made::Exists),
        Err(error) => match error.status() {
            Some(status) if matches!(status.code, 400 | 403 | 422) => Ok(Made::Refused(bounded(&status.message))),
            Some(_) | None => Err(error),
        },
    }
}

fn owned<K: Resource>(object: &K, session: &BrowserSession) -> bool {
    object.owner_references().iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == session.uid().as_ref())
}

/// A Secret of an earlier session of this name is removed; anybody else's is left alone.
async fn stale(secret: &Secret, session: &BrowserSession, context: &Context) -> Result<String, Error> {
    let kind = BrowserSession::kind(&());
    let earlier = secret.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.kind == kind);
    if earlier {
        let api = context.api::<Secret>(&session.namespace().unwrap_or_default());
        apply::delete(&api, &secret.name_any(), secret.uid(), None).await.during("the secret of an earlier session")?;
        return Ok("The secret of an earlier session of this name is being removed.".into());
    }
    Ok("A secret of this name belongs to something else.".into())
}

/// Keeps evictions away exactly while a request is open or a person holds control.
pub(super) async fn marks(observed: &Observed, status: &BrowserSessionStatus, context: &Context) -> Result<(), Error> {
    let Some(pod) = &observed.pod else { return Ok(()) };
    let wanted = status.idle.as_ref().is_some_and(|idle| idle.remaining_seconds.is_some());
    let marked = build::EVICTION_MARKS.iter().all(|(key, value)| pod.annotations().get(*key).is_some_and(|v| v == value));
    let label = pod.labels().contains_key(build::PROTECTED);
    let some = label || build::EVICTION_MARKS.iter().any(|(key, _)| pod.annotations().contains_key(*key));
    if wanted == (marked && label) && (wanted || !some) {
        return Ok(());
    }
    let annotations = build::EVICTION_MARKS.iter().map(|(key, value)| ((*key).to_owned(), if wanted { json!(value) } else { json!(null) }));
    let labels = json!({ build::PROTECTED: if wanted { json!("true") } else { json!(null) } });
    let api = context.api::<Pod>(&pod.namespace().unwrap_or_default());
    match apply::mark(&api, pod.as_ref(), annotations.collect(), labels).await {
        // It is gone: the next pass sees that.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        result => result.during("the marks of a pod"),
    }
}

/// Removes the Secret, then the pod: while the pod is there, this is done again.
pub(super) async fn remove(session: &BrowserSession, observed: &Observed, context: &Context) -> Result<(), Error> {
    let namespace = session.namespace().unwrap_or_default();
    let secrets = context.api::<Secret>(&namespace);
    let secret = call(secrets.get_opt(&build::secret_name(session))).await.during("the secret of a session")?;
    if let Some(secret) = secret.filter(|secret| owned(secret, session)) {
        apply::delete(&secrets, &secret.name_any(), secret.uid(), None).await.during("the secret of a session")?;
    }
    if let Some(pod) = observed.pod.as_ref().filter(|pod| owned(pod.as_ref(), session) && pod.metadata.deletion_timestamp.is_none()) {
        let api = context.api::<Pod>(&namespace);
        apply::delete(&api, &pod.name_any(), pod.uid(), None).await.during("the pod of a session")?;
    }
    Ok(())
}
