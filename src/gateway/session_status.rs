//! What the gateway tells of a session at a glance: the page that is shown.

use super::state::Shared;
use crate::api::v1alpha1::{BrowserSession, PageSummary};
use crate::driver::PageInfo;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use std::time::Duration;

const ASKING: Duration = Duration::from_secs(5);

/// Writes the page when it differs from what is stored. The calling tool does not wait for it.
pub(super) fn page(gateway: &Shared, session: &BrowserSession, page: &PageInfo) {
    let cut = |text: &str| Some(text.chars().take(512).collect::<String>()).filter(|text| !text.is_empty());
    let summary = PageSummary { origin: cut(&page.origin), title: cut(&page.title) };
    let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
    let stored = gateway.hub.sessions.get(&namespace, &name).and_then(|session| session.status.as_ref()?.page.clone());
    if stored.as_ref() == Some(&summary) {
        return;
    }
    let api: Api<BrowserSession> = Api::namespaced(gateway.client.clone(), &namespace);
    gateway.tasks.spawn("a page of a session", async move {
        // A merge patch: the other fields that gateways write are not this one's to know.
        let patch = json!({"status": {"page": {"origin": summary.origin, "title": summary.title}}});
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        match tokio::time::timeout(ASKING, api.patch_status(&name, &params, &Patch::Merge(&patch))).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(error = %super::brief(&error), session = %name, "the page of a session could not be written"),
            Err(_) => tracing::debug!(session = %name, "the page of a session could not be written in time"),
        }
    });
}
