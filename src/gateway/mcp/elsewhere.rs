//! A cancellation that arrived here although the call runs at another replica.

use super::cancel::Meant;
use crate::gateway::auth::Principal;
use crate::gateway::requests::others::others_wait;
use crate::gateway::requests::store;
use crate::gateway::state::Shared;

/// Withdraws the request that the named call waits on, unless another call waits on it too, or the client only ran out of time:
/// then the call alone is taken out. Its stream may stay open, so that the replica that runs it would not notice.
pub(super) async fn cancel(gateway: &Shared, who: &Principal, call: &str, meant: Meant) {
    let waited_on = gateway.hub.requests.all().into_iter().find(|request| {
        let attachments = request.status.as_ref().map(|status| status.attachments.as_slice()).unwrap_or_default();
        who.is(request.spec.requester.as_ref()) && store::is_open(request) && attachments.iter().any(|a| a.call == call)
    });
    let Some(request) = waited_on else { return };
    let (Some(namespace), Some(name)) = (request.metadata.namespace.clone(), request.metadata.name.clone()) else { return };
    let key = (namespace, name);
    if meant == Meant::Timeout || others_wait(gateway, &key, call, &request).await {
        gateway.attachments.take_out(&key, call).await;
    } else if let Err(failure) = store::cancel(gateway, who, &key, "The client cancelled the call.").await {
        tracing::warn!(code = failure.code, request = %key.1, "a cancellation could not be stored");
    }
}
