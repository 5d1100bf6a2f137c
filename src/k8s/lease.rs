//! Leadership by a Lease: every write carries the version that was read, and a leader that can't renew stops itself before
//! another can begin.

use super::apply::Manager;
use crate::runtime::tasks;
use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Who wants to lead what.
#[derive(Clone)]
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    duration: Duration,
    now: fn() -> Timestamp,
}

/// Leadership. It ends when [`Self::lost`] is cancelled, at the latest two thirds of the Lease's duration after the last
/// renewal that succeeded.
pub struct Leadership {
    candidate: Candidate,
    term: Option<Timestamp>,
    lost: CancellationToken,
    /// Ends with this. Without a release the Lease runs out by itself.
    renewing: AbortOnDropHandle<()>,
}

/// A Lease that was taken.
struct Taken {
    lease: Lease,
    /// When that was sent.
    sent: Instant,
}

/// A Lease as it was read, and when its holder was last seen to renew it. Clocks of other machines do not count.
struct Seen {
    version: Option<String>,
    at: Instant,
}

impl Candidate {
    /// A candidate for the Lease `name`. `identity` must be unique to this process; `duration` is at least a second.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: String, duration: Duration, now: fn() -> Timestamp) -> Self {
        let duration = duration.max(Duration::from_secs(1));
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), identity, duration, now }
    }

    /// Waits until it leads; `None` when it is stopped first.
    pub async fn lead(&self, stop: &CancellationToken) -> Option<Leadership> {
        let mut seen: Option<Seen> = None;
        loop {
            let attempt = async {
                match timeout(self.duration / 2, self.attempt(&mut seen)).await {
                    Ok(Ok(taken)) => taken,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the lease of the leader could not be read or taken");
                        None
                    }
                    Err(_) => {
                        tracing::warn!("the lease of the leader could not be read or taken in time");
                        None
                    }
                }
            };
            let taken = tokio::select! { () = stop.cancelled() => return None, taken = attempt => taken };
            if let Some(taken) = taken {
                return Some(self.clone().keep(taken));
            }
            tokio::select! { () = stop.cancelled() => return None, () = sleep(self.retry()) => {} }
        }
    }

    fn retry(&self) -> Duration {
        self.duration / 6
    }

    /// Takes the Lease when it is free: absent, released, or not renewed for its duration.
    async fn attempt(&self, seen: &mut Option<Seen>) -> kube::Result<Option<Taken>> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let fresh =
                Lease { metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }, spec: Some(self.held(None)) };
            let sent = Instant::now();
            return match self.api.create(&params(), &fresh).await {
                Ok(lease) => Ok(Some(Taken { lease, sent })),
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
                Err(error) => Err(error),
            };
        };
        let version = lease.metadata.resource_version.clone();
        if seen.as_ref().is_none_or(|seen| seen.version != version) {
            *seen = Some(Seen { version, at: Instant::now() });
        }
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let duration = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default());
        let expired = seen.as_ref().is_some_and(|seen| seen.at.elapsed() > duration.max(self.duration));
        if !(holder.is_empty() || holder == self.identity || expired) {
            return Ok(None);
        }
        let sent = Instant::now();
        let taken = self.replace(Lease { spec: Some(self.held(Some(&spec))), ..lease }).await?;
        Ok(taken.map(|lease| Taken { lease, sent }))
    }

    fn held(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime((self.now)());
        let ours = before.is_some_and(|spec| spec.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: before.filter(|_| ours).and_then(|spec| spec.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if ours || before.is_none() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    /// `None` when somebody else wrote first.
    async fn replace(&self, lease: Lease) -> kube::Result<Option<Lease>> {
        match self.api.replace(&self.name, &params(), &lease).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn keep(self, taken: Taken) -> Leadership {
        let lost = CancellationToken::new();
        let term = taken.lease.spec.as_ref().and_then(|spec| spec.acquire_time.as_ref()).map(|time| time.0);
        let renewing = tasks::held("the renewal of the leader's lease", self.clone().renew(taken.lease, taken.sent, lost.clone()));
        Leadership { candidate: self, term, lost, renewing }
    }

    /// Renews every quarter of the duration. A try that gets no reply is joined by another one and not given up: on a slow API
    /// server the first one may still succeed, and one that hangs is not the last. What counts is when a renewal was sent, not
    /// when its reply came.
    async fn renew(self, mut lease: Lease, mut since: Instant, lost: CancellationToken) {
        // Whatever happens to this task, the work ends with it.
        let _fence = lost.clone().drop_guard();
        let pause = self.duration / 4;
        let mut tries = FuturesUnordered::new();
        let mut due = since + pause;
        loop {
            let fence = since + self.duration * 2 / 3;
            tokio::select! {
                biased;
                () = sleep_until(fence) => {
                    tracing::error!("the lease of the leader could not be renewed in time: all work stops");
                    return;
                }
                Some((sent, result)) = tries.next() => match result {
                    Ok(Some(renewed)) => {
                        (lease, since) = (renewed, since.max(sent));
                        tries.clear();
                        due = since + pause;
                    }
                    // Somebody wrote: an earlier try, or another candidate.
                    Ok(None) => match timeout_at(fence, self.api.get_opt(&self.name)).await {
                        Ok(Ok(Some(current))) if self.is_holder(&current) => {
                            lease = current;
                            tries.clear();
                            due = Instant::now();
                        }
                        Ok(Err(error)) => {
                            tracing::warn!(%error, "the lease of the leader could not be read");
                            due = due.min(Instant::now() + self.retry() / 4);
                        }
                        Ok(Ok(_)) | Err(_) => {
                            tracing::error!("somebody else leads: all work stops");
                            return;
                        }
                    },
                    Err(error) => {
                        tracing::warn!(%error, "the lease of the leader could not be renewed");
                        due = due.min(Instant::now() + self.retry() / 4);
                    }
                },
                () = sleep_until(due) => {
                    tries.push(self.renewal(lease.clone()));
                    due = Instant::now() + pause;
                }
            }
        }
    }

    async fn renewal(&self, lease: Lease) -> (Instant, kube::Result<Option<Lease>>) {
        let sent = Instant::now();
        let spec = self.held(lease.spec.as_ref());
        (sent, self.replace(Lease { spec: Some(spec), ..lease }).await)
    }

    fn is_holder(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_deref() == Some(&self.identity))
    }
}

impl Leadership {
    /// When this candidate took over. Two leaderships of one candidate with nobody else's in between are one term.
    #[must_use]
    pub const fn term(&self) -> Option<Timestamp> {
        self.term
    }

    /// Cancelled when it no longer leads.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Gives the Lease back, so that the next one need not wait. Call it after all work has ended.
    pub async fn release(self) {
        let was_lost = self.lost.is_cancelled();
        self.renewing.abort();
        if was_lost {
            return;
        }
        let candidate = &self.candidate;
        let give_back = async {
            let Some(mut lease) = candidate.api.get_opt(&candidate.name).await? else { return Ok::<(), kube::Error>(()) };
            if candidate.is_holder(&lease) {
                if let Some(spec) = &mut lease.spec {
                    spec.holder_identity = None;
                }
                candidate.replace(lease).await?;
            }
            Ok(())
        };
        match timeout(candidate.duration, give_back).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the lease of the leader could not be given back"),
            Err(_) => tracing::warn!("the lease of the leader could not be given back in time"),
        }
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(Manager::Controller.as_str().into()), ..PostParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;
    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A free Lease on a server whose reply to each write after the first takes as long as `late` says of its number.
    fn server(writes: Arc<AtomicU32>, late: fn(u32) -> Duration) -> Client {
        let answer = move |request: Request<Body>| {
            let writes = writes.clone();
            async move {
                let read = request.method() == Method::GET;
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                if read {
                    let free = br#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","resourceVersion":"1"}}"#;
                    return Response::builder().body(Body::from(free.to_vec()));
                }
                tokio::time::sleep(late(writes.fetch_add(1, Ordering::SeqCst))).await;
                Response::builder().body(Body::from(body.to_vec()))
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    /// Long enough that a busy machine's pauses are not what ends it.
    const LEASE: Duration = Duration::from_secs(3);

    async fn leads_for(at_least: Duration, late: fn(u32) -> Duration) -> bool {
        let client = server(Arc::default(), late);
        let candidate = Candidate::new(client, "default", "l", "me".into(), LEASE, clock::now);
        let leadership = candidate.lead(&CancellationToken::new()).await.expect("it leads");
        timeout(at_least, leadership.lost().cancelled()).await.is_err()
    }

    #[tokio::test]
    async fn one_renewal_that_hangs_ends_no_leadership() {
        let hangs = |n| if n == 1 { Duration::MAX } else { Duration::ZERO };
        assert!(leads_for(LEASE * 2, hangs).await);
    }

    #[tokio::test]
    async fn a_slow_server_ends_no_leadership() {
        let slow = |n| if n == 0 { Duration::ZERO } else { LEASE / 10 * 3 };
        assert!(leads_for(LEASE * 2, slow).await, "a reply takes longer than the pause between tries");
    }

    #[tokio::test]
    async fn a_silent_server_ends_it_in_time() {
        let silent = |n| if n == 0 { Duration::ZERO } else { Duration::MAX };
        assert!(!leads_for(LEASE / 100 * 95, silent).await, "before another one can lead");
    }
}
