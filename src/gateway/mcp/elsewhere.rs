//! A cancellation that arrived here although the call runs at another replica.

use super::cancel::Meant;
use crate::api::v1alpha1::AttentionRequest;
use crate::gateway::auth::Principal;
use crate::gateway::requests::others::others_wait;
use crate::gateway::requests::store;
use crate::gateway::state::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// How long a call that is cancelled may take to be known here: its client hears of it before the mirror does.
const KNOWN: Duration = Duration::from_secs(5);

/// Withdraws the request that the named call waits on, unless another call waits on it too, or the client only ran out of time:
/// then the call alone is taken out. Its stream may stay open, so that the replica that runs it would not notice.
pub(super) async fn cancel(gateway: &Shared, who: &Principal, call: &str, meant: Meant) {
    // A call that has ended, or waits on no request, never becomes known.
    let Ok(Some(request)) = tokio::time::timeout(KNOWN, waited_on(gateway, who, call)).await else { return };
    let (Some(namespace), Some(name)) = (request.metadata.namespace.clone(), request.metadata.name.clone()) else { return };
    let key = (namespace, name);
    if meant == Meant::Timeout || others_wait(gateway, &key, call, &request).await {
        gateway.attachments.take_out(&key, call).await;
    } else if let Err(failure) = store::cancel(gateway, who, &key, "The client cancelled the call.").await {
        tracing::warn!(code = failure.code, request = %key.1, "a cancellation could not be stored");
    }
}

/// The open request that a call waits on, as soon as the mirror tells of it; `None`: the mirror has ended.
async fn waited_on(gateway: &Shared, who: &Principal, call: &str) -> Option<Arc<AttentionRequest>> {
    let fits = |request: &Arc<AttentionRequest>| {
        let attachments = request.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
        who.is(request.spec.requester.as_ref()) && store::is_open(request) && attachments.iter().any(|a| a.call == call)
    };
    let requests = &gateway.hub.requests;
    let mut changes = requests.subscribe();
    let mut found = requests.all().into_iter().find(fits);
    while found.is_none() {
        found = match changes.recv().await {
            Ok((namespace, name)) => requests.get(&namespace, &name).filter(fits),
            Err(RecvError::Lagged(_)) => requests.all().into_iter().find(fits),
            Err(RecvError::Closed) => return None,
        };
    }
    found
}
