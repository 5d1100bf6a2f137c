//! The one place that takes requests in. What was admitted and is not yet seen in the watch is remembered; near a cap, and
//! before anything is refused, the API server is asked anew.

use super::index::{Index, unsettled};
use crate::api::v1alpha1::{AttentionRequest, Phase};
use crate::domain::caps::{Admission, Candidate, Caps, admit};
use crate::k8s::client::{CallError, list_by_field};
use kube::Api;
use std::collections::HashMap;
use tokio::sync::Mutex;

/// So many below the total cap the API server is asked.
const NEAR_TOTAL: usize = 8;

/// What was admitted lately.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<HashMap<String, Candidate>>);

impl Ledger {
    /// Forgets what another leader admitted: it is in the watch by now.
    pub async fn reset(&self) {
        self.0.lock().await.clear();
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
        // One at a time, from the look to the note: two at once could both take the last place.
        let mut lately = self.0.lock().await;
        let known = index.candidates();
        lately.retain(|uid, _| known.iter().any(|candidate| candidate.uid == *uid && !candidate.accepted));
        let mut admission = admit(&with(known, &wanted, &lately), &wanted.uid, caps);
        if admission != Admission::Admitted || near(&index.candidates(), &wanted, caps) {
            let open = list_by_field(api, "status.phase", Phase::Pending.as_str()).await?;
            let accepted = open.iter().filter_map(unsettled).filter(|entry| !entry.decided).map(|entry| entry.candidate);
            let waiting = index.candidates().into_iter().filter(|candidate| !candidate.accepted);
            let mut fresh: HashMap<String, Candidate> = waiting.map(|candidate| (candidate.uid.clone(), candidate)).collect();
            fresh.extend(accepted.map(|candidate| (candidate.uid.clone(), candidate)));
            admission = admit(&with(fresh.into_values().collect(), &wanted, &lately), &wanted.uid, caps);
        }
        if admission == Admission::Admitted {
            lately.insert(wanted.uid.clone(), Candidate { accepted: true, ..wanted });
        }
        Ok(admission)
    }
}

fn with(mut candidates: Vec<Candidate>, wanted: &Candidate, lately: &HashMap<String, Candidate>) -> Vec<Candidate> {
    if !candidates.iter().any(|candidate| candidate.uid == wanted.uid) {
        candidates.push(wanted.clone());
    }
    for candidate in &mut candidates {
        candidate.accepted |= lately.contains_key(&candidate.uid);
    }
    candidates
}

fn near(candidates: &[Candidate], wanted: &Candidate, caps: Caps) -> bool {
    let of_session = candidates.iter().filter(|candidate| candidate.session.is_some() && candidate.session == wanted.session).count();
    let (per_session, total) = (caps.per_session as usize, caps.total as usize);
    candidates.len() + NEAR_TOTAL >= total || of_session >= per_session
}
