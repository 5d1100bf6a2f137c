//! The watches of a controller, whether it leads or not: stores, index, and what each change triggers.

use super::browser_session::build::{EVICTION_MARKS, SESSION, session_of};
use super::context::{Context, Shared, Stores};
use super::index::{key, unsettled};
use super::metrics::KindLabel;
use super::queue::Lane;
use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Phase};
use crate::domain::session;
use crate::k8s::processes;
use crate::k8s::watch::{self, Change, Unreadable, prune_metadata};
use crate::runtime::admin::Readiness;
use crate::runtime::supervision::Parts;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::{Api, Client, Resource, ResourceExt as _};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The writing ends of the stores.
pub(super) struct Writers {
    requests: Writer<AttentionRequest>,
    sessions: Writer<BrowserSession>,
    pods: Writer<Pod>,
    activity: Writer<Lease>,
}

/// Empty stores.
pub(super) fn stores() -> (Stores, Writers) {
    let (requests, to_requests) = reflector::store();
    let (sessions, to_sessions) = reflector::store();
    let (pods, to_pods) = reflector::store();
    let (activity, to_activity) = reflector::store();
    (
        Stores { requests, sessions, pods, activity },
        Writers { requests: to_requests, sessions: to_sessions, pods: to_pods, activity: to_activity },
    )
}

/// What is read of a request: what was asked is for people, and big. Annotations are anybody's, up to 256 KiB.
fn prune_request(request: &mut AttentionRequest) {
    request.metadata.annotations = None;
    let settled = request.status.as_ref().and_then(|status| status.phase).is_some_and(|phase| phase != Phase::Pending);
    let spec = &mut request.spec;
    spec.reason.clear();
    (spec.options, spec.details, spec.suggested_action, spec.ask) = (None, None, None, None);
    if settled {
        (spec.resolution, spec.completion, spec.cancel, spec.requester) = (None, None, None, None);
        request.metadata.managed_fields = None;
        if let Some(status) = &mut request.status {
            (status.message, status.evidence) = (None, None);
            status.attachments.clear();
            status.waiting_at.clear();
            status.conditions.retain(|condition| condition.type_ == "Settled");
        }
        return;
    }
    // The stamps of the decision's write are what is read of the managed fields.
    let decides = |fields: &serde_json::Value| {
        let spec = fields.get("f:spec");
        ["f:resolution", "f:completion", "f:cancel"].iter().any(|field| spec.is_some_and(|spec| spec.get(field).is_some()))
    };
    if let Some(managed) = &mut request.metadata.managed_fields {
        managed.retain(|entry| entry.fields_v1.as_ref().is_some_and(|fields| decides(&fields.0)));
    }
}

/// What is read of a session.
fn prune_session(session: &mut BrowserSession) {
    prune_metadata(session);
    session.metadata.annotations = None;
}

/// What is read of a pod: not what it was made of, and of its annotations only ours.
fn prune_pod(pod: &mut Pod) {
    prune_metadata(pod);
    pod.spec = None;
    pod.annotations_mut().retain(|key, _| EVICTION_MARKS.iter().any(|(mark, _)| mark == key));
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<K>>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Starts every watch, each as a part of the process.
pub(super) fn start(context: &Shared, writers: Writers, readiness: &Readiness, stop: &CancellationToken, parts: &mut Parts) {
    let client = &context.client.0;
    let only = context.settings.watch_namespace.as_deref();
    let sessions_label = watch::config().labels(SESSION);
    let cloned = || (context.clone(), readiness.clone(), stop.clone());

    readiness.wait_for("requests", "not read yet");
    let (c, ready, token) = cloned();
    let api = scoped::<AttentionRequest>(client, only);
    parts.start("the watch of the requests", async move {
        let tell = |change| requests(&c, &ready, change);
        watch::run(api, watch::config(), writers.requests, prune_request, tell, token).await;
        Ok(())
    });

    readiness.wait_for("sessions", "not read yet");
    let (c, ready, token) = cloned();
    let api = scoped::<BrowserSession>(client, only);
    parts.start("the watch of the sessions", async move {
        let tell = |change| sessions(&c, &ready, change);
        watch::run(api, watch::config(), writers.sessions, prune_session, tell, token).await;
        Ok(())
    });

    readiness.wait_for("pods", "not read yet");
    let (c, ready, token) = cloned();
    let api = scoped::<Pod>(client, only);
    let config = sessions_label.clone();
    parts.start("the watch of the pods", async move {
        let tell = |change| pods(&c, &ready, change);
        watch::run(api, config, writers.pods, prune_pod, tell, token).await;
        Ok(())
    });

    readiness.wait_for("activity", "not read yet");
    let (c, ready, token) = cloned();
    let api = scoped::<Lease>(client, only);
    parts.start("the watch of the sessions' activity", async move {
        let tell = |change| activity(&c, &ready, change);
        watch::run(api, sessions_label, writers.activity, prune_metadata, tell, token).await;
        Ok(())
    });

    readiness.wait_for("gateways", "not read yet");
    let (c, ready, token) = cloned();
    let api = scoped::<Lease>(client, Some(&context.settings.namespace));
    let (store, writer) = reflector::store();
    parts.start("the watch of the gateways", async move {
        let tell = |change| gateways(&c, &store, &ready, change);
        let config = watch::config().labels(processes::SELECTOR);
        watch::run(api, config, writer, prune_metadata, tell, token).await;
        Ok(())
    });

    let (c, _, token) = cloned();
    parts.start("the watch of the policies", async move {
        c.canaries.watch_policies(token).await;
        Ok(())
    });
}

/// What is common to all: the first reading, objects that can't be read, failures.
fn noted<K>(context: &Context, readiness: &Readiness, what: &'static str, kind: &'static str, change: &Change<K>) {
    match change {
        Change::Applied(_) | Change::Deleted(_) => {}
        Change::Reset => readiness.ready(what),
        Change::Unreadable(Unreadable { namespace, name, why }) => {
            context.metrics.unreadable.get_or_create(&KindLabel { kind }).inc();
            tracing::error!(kind, namespace, name, why, "an object can't be read and is left out");
        }
        Change::Failed(error) => tracing::warn!(kind, error, "a watch failed and is tried again"),
    }
}

fn requests(context: &Context, readiness: &Readiness, change: Change<AttentionRequest>) {
    let session = |request: &AttentionRequest| {
        request.spec.session_ref.as_ref().map(|session| (request.namespace().unwrap_or_default(), session.name.clone()))
    };
    match &change {
        Change::Applied(request) => {
            context.index.applied(request);
            look_at_request(context, request);
            if let Some(session) = session(request) {
                context.triggers.session(session);
            }
        }
        Change::Deleted(request) => {
            context.index.deleted(request);
            let uid = request.uid().unwrap_or_default();
            context.backoff.reset(&uid);
            context.superseded.remove(&uid);
            if let Some(session) = session(request) {
                context.triggers.session(session);
            }
        }
        Change::Reset => {
            let all = context.stores.requests.state();
            context.index.reset(all.iter().map(Arc::as_ref));
            everything(context);
        }
        Change::Unreadable(_) | Change::Failed(_) => {}
    }
    context.metrics.open.set(i64::try_from(context.index.len()).unwrap_or(i64::MAX));
    noted(context, readiness, "requests", "AttentionRequest", &change);
}

fn sessions(context: &Context, readiness: &Readiness, change: Change<BrowserSession>) {
    match &change {
        Change::Applied(session) => {
            look_at_session(context, session);
            requests_of(context, session);
        }
        Change::Deleted(session) => {
            let uid = session.uid().unwrap_or_default();
            context.backoff.reset(&uid);
            context.superseded.remove(&uid);
            context.asked_drivers.reset(&uid);
            requests_of(context, session);
        }
        Change::Reset => {
            unsettled_requests(context);
            every_session(context);
        }
        Change::Unreadable(_) | Change::Failed(_) => {}
    }
    noted(context, readiness, "sessions", "BrowserSession", &change);
}

fn requests_of(context: &Context, session: &BrowserSession) {
    let namespace = session.namespace().unwrap_or_default();
    for name in context.index.of_session(&key(session)) {
        context.triggers.request((namespace.clone(), name));
    }
}

fn pods(context: &Context, readiness: &Readiness, change: Change<Pod>) {
    match &change {
        Change::Applied(pod) | Change::Deleted(pod) => {
            if let Some(session) = session_of(pod) {
                context.triggers.session((pod.namespace().unwrap_or_default(), session.to_owned()));
            }
        }
        Change::Reset => every_session(context),
        Change::Unreadable(_) | Change::Failed(_) => {}
    }
    noted(context, readiness, "pods", "Pod", &change);
}

fn activity(context: &Context, readiness: &Readiness, change: Change<Lease>) {
    match &change {
        Change::Applied(lease) | Change::Deleted(lease) => {
            if let Some(session) = session_of(lease) {
                context.triggers.session((lease.namespace().unwrap_or_default(), session.to_owned()));
            }
        }
        Change::Reset => every_session(context),
        Change::Unreadable(_) | Change::Failed(_) => {}
    }
    noted(context, readiness, "activity", "Lease", &change);
}

fn gateways(context: &Context, store: &Store<Lease>, readiness: &Readiness, change: Change<Lease>) {
    context.processes.told(&change, store, context.now());
    match &change {
        Change::Deleted(lease) => super::requests_of_gateway(context, &lease.name_any()),
        Change::Reset => unsettled_requests(context),
        Change::Applied(_) | Change::Unreadable(_) | Change::Failed(_) => {}
    }
    super::tell_gateways(context);
    noted(context, readiness, "gateways", "Lease", &change);
}

/// Looks at everything: whatever happened while a watch was away, or while nobody led. What people wait for comes first.
pub(super) fn everything(context: &Context) {
    unsettled_requests(context);
    every_session(context);
    for request in context.stores.requests.state() {
        look_at_request(context, &request);
    }
}

fn unsettled_requests(context: &Context) {
    for request in context.index.all() {
        context.triggers.request(request);
    }
}

fn every_session(context: &Context) {
    for session in context.stores.sessions.state() {
        look_at_session(context, &session);
    }
}

fn look_at_request(context: &Context, request: &AttentionRequest) {
    let lane = if unsettled(request).is_some() { Lane::Living } else { Lane::History };
    context.triggers.requests.trigger(key(request), lane);
}

fn look_at_session(context: &Context, session: &BrowserSession) {
    let cleaned = session.status.as_ref().is_some_and(|status| session::ended(status.phase) && status.pod.is_none());
    context.triggers.sessions.trigger(key(session), if cleaned { Lane::History } else { Lane::Living });
}
