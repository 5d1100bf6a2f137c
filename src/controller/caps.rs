//! The one place that takes requests in. What was admitted and is not yet seen in the watch is remembered; near a cap, and
//! before anything is refused, the API server is asked anew.

use super::index::{Index, unsettled};
use crate::api::v1alpha1::{AttentionRequest, Phase};
use crate::domain::caps::{Admission, Candidate, Caps, admit};
use crate::k8s::client::{CallError, list_by_field};
use crate::k8s::watch;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// So many below the total cap the API server is asked.
const NEAR_TOTAL: usize = 8;
/// A watch is at most so far behind: within that time it is opened anew, or told to be dead.
const WATCH_LAG: Duration = Duration::from_secs(watch::DEAD_SECONDS);

/// What was admitted lately: by this leader, or by the one before it.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Admitted>);

#[derive(Debug, Default)]
struct Admitted {
    term: Option<Timestamp>,
    /// Whether the API server was asked what the leaders before have admitted.
    asked: bool,
    /// The answer that those who wait for their turn may share.
    shared: Option<Asked>,
    lately: HashMap<String, Entry>,
}

/// What the API server knew.
#[derive(Debug)]
struct Asked {
    /// When it was asked.
    at: Instant,
    /// What was open then, and what was admitted since.
    open: Vec<Candidate>,
}

#[derive(Clone, Debug)]
struct Entry {
    candidate: Candidate,
    /// Until then it counts although the watch does not know it.
    unseen_until: Instant,
}

impl Ledger {
    /// Begins a term. What another leader admitted may not be in the watch yet.
    pub async fn lead(&self, term: Option<Timestamp>) {
        let mut admitted = self.0.lock().await;
        if term.is_none() || admitted.term != term {
            *admitted = Admitted { term, ..Admitted::default() };
        }
    }

    /// Decides about a request that was not taken in yet.
    ///
    /// # Errors
    /// When the API server has to be asked and does not answer.
    pub async fn decide(
        &self,
        index: &Index,
        api: &Api<AttentionRequest>,
        request: &AttentionRequest,
        caps: Caps,
    ) -> Result<Admission, CallError> {
        let Some(wanted) = unsettled(request).map(|entry| entry.candidate) else { return Ok(Admission::TotalFull) };
        let began = Instant::now();
        // One at a time, from the look to the note: two at once could both take the last place.
        let mut admitted = self.0.lock().await;
        let Admitted { asked, shared, lately, .. } = &mut *admitted;
        if !*asked {
            let unseen_until = Instant::now() + WATCH_LAG;
            let open = &shared.insert(ask(api).await?).open;
            lately.extend(open.iter().cloned().map(|candidate| (candidate.uid.clone(), Entry { candidate, unseen_until })));
            *asked = true;
        }
        // An answer that was asked for after this request had come is fresh enough for it: in a flood each of hundreds would ask
        // for hundreds.
        if shared.as_ref().is_some_and(|shared| shared.at < began) {
            *shared = None;
        }
        let known = index.candidates();
        forget(lately, &known, Instant::now());
        let seen = with(known, &wanted, lately);
        let mut admission = admit(&seen, &wanted.uid, caps);
        if admission != Admission::Admitted || near(&seen, &wanted, caps) {
            // Looked at before it is asked: what the watch tells to be open meanwhile may be missing in the answer.
            let waiting = index.candidates().into_iter().filter(|candidate| !candidate.accepted);
            let asks = shared.is_none();
            if asks {
                *shared = Some(ask(api).await?);
            }
            let accepted = shared.iter().flat_map(|shared| &shared.open).cloned();
            let fresh: HashMap<String, Candidate> = waiting.chain(accepted).map(|candidate| (candidate.uid.clone(), candidate)).collect();
            if let Some(shared) = shared.as_mut().filter(|_| asks) {
                // What the API server does not know as open was settled meanwhile.
                lately.retain(|uid, _| fresh.contains_key(uid));
                // What is about to be written is open by the time that the watch tells it.
                shared.open.extend(lately.values().map(|entry| entry.candidate.clone()));
            }
            admission = admit(&with(fresh.into_values().collect(), &wanted, lately), &wanted.uid, caps);
        }
        if admission == Admission::Admitted {
            let candidate = Candidate { accepted: true, ..wanted };
            if let Some(shared) = shared {
                shared.open.push(candidate.clone());
            }
            lately.insert(candidate.uid.clone(), Entry { candidate, unseen_until: Instant::now() });
        }
        Ok(admission)
    }
}

/// The requests that are open, by the API server's own word.
async fn ask(api: &Api<AttentionRequest>) -> Result<Asked, CallError> {
    let at = Instant::now();
    let open = |request: &AttentionRequest| {
        let entry = unsettled(request).filter(|entry| !entry.decided)?;
        Some(entry.candidate).filter(|candidate| candidate.accepted)
    };
    Ok(Asked { at, open: list_by_field(api, "status.phase", Phase::Pending.as_str(), open).await? })
}

/// Forgets what the watch knows by now, and what it knew and knows no more.
fn forget(lately: &mut HashMap<String, Entry>, known: &[Candidate], now: Instant) {
    let known: HashMap<&str, bool> = known.iter().map(|candidate| (candidate.uid.as_str(), candidate.accepted)).collect();
    lately.retain(|uid, entry| known.get(uid.as_str()).map_or(entry.unseen_until > now, |accepted| !accepted));
}

fn with(mut candidates: Vec<Candidate>, wanted: &Candidate, lately: &HashMap<String, Entry>) -> Vec<Candidate> {
    for candidate in &mut candidates {
        candidate.accepted |= lately.contains_key(&candidate.uid);
    }
    let known: HashSet<String> = candidates.iter().map(|candidate| candidate.uid.clone()).collect();
    candidates.extend(lately.values().map(|entry| &entry.candidate).filter(|candidate| !known.contains(&candidate.uid)).cloned());
    if !candidates.iter().any(|candidate| candidate.uid == wanted.uid) {
        candidates.push(wanted.clone());
    }
    candidates
}

fn near(candidates: &[Candidate], wanted: &Candidate, caps: Caps) -> bool {
    let of_session = candidates.iter().filter(|candidate| candidate.session.is_some() && candidate.session == wanted.session).count();
    let (per_session, total) = (caps.per_session as usize, caps.total as usize);
    candidates.len() + NEAR_TOTAL >= total || of_session >= per_session
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(uid: &str, accepted: bool) -> Candidate {
        Candidate { uid: uid.into(), created: Timestamp::UNIX_EPOCH, session: None, requester: None, accepted }
    }

    fn entry(uid: &str, unseen_until: Instant) -> (String, Entry) {
        (uid.into(), Entry { candidate: candidate(uid, true), unseen_until })
    }

    #[test]
    fn what_the_leader_before_admitted_counts_though_the_watch_is_behind() {
        let now = Instant::now();
        let mut lately = HashMap::from([entry("a", now + WATCH_LAG), entry("b", now + WATCH_LAG)]);
        let caps = Caps { per_session: 8, total: 2 };
        // The watch has only heard of `b`, and not that it is open.
        let known = vec![candidate("b", false), candidate("c", false)];
        forget(&mut lately, &known, now);
        let seen = with(known.clone(), &candidate("c", false), &lately);
        assert_eq!(admit(&seen, "c", caps), Admission::TotalFull);
        // It never hears of `a`, which was settled meanwhile.
        forget(&mut lately, &known, now + WATCH_LAG);
        assert_eq!(admit(&with(known, &candidate("c", false), &lately), "c", caps), Admission::Admitted);
    }

    #[test]
    fn what_was_admitted_counts_until_the_watch_tells_it() {
        let now = Instant::now();
        let mut lately = HashMap::from([entry("a", now)]);
        forget(&mut lately, &[candidate("a", false)], now);
        assert!(lately.contains_key("a"));
        forget(&mut lately, &[candidate("a", true)], now);
        assert!(lately.is_empty(), "the watch knows it");
        lately.extend([entry("b", now)]);
        forget(&mut lately, &[], now);
        assert!(lately.is_empty(), "it was settled before the watch told that it was open");
    }

    #[tokio::test]
    async fn a_leader_that_goes_on_forgets_nothing() {
        let ledger = Ledger::default();
        let term = Some(Timestamp::UNIX_EPOCH);
        ledger.lead(term).await;
        ledger.0.lock().await.lately.extend([entry("a", Instant::now())]);
        ledger.lead(term).await;
        assert_eq!(ledger.0.lock().await.lately.len(), 1);
        ledger.lead(Some(Timestamp::MAX)).await;
        assert!(ledger.0.lock().await.lately.is_empty());
    }
}
