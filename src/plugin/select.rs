//! Which requests: by name, by label, or every open one; filtered and in order.

use super::connect::Cluster;
use super::error::Error;
use super::request::Request;
use crate::api::v1alpha1::Phase;
use kube::api::ListParams;
use std::cmp::Ordering;

const PAGE: u32 = 500;

/// What to list.
#[derive(Clone, Debug, Default)]
pub(super) struct Query<'a> {
    pub all_namespaces: bool,
    pub selector: Option<&'a str>,
    /// Absent: the open ones, whether the controller has seen them yet or not. Empty: all.
    pub phases: Option<&'a [Phase]>,
}

impl Query<'_> {
    /// Leaves history on the server: every settled phase that is not wanted. One that has no phase yet passes.
    fn field_selector(&self) -> Option<String> {
        let wanted = self.phases.unwrap_or(&[Phase::Pending]);
        let unwanted = Phase::ALL.iter().filter(|phase| **phase != Phase::Pending && !wanted.contains(phase));
        let terms: Vec<String> = unwanted.map(|phase| format!("status.phase!={}", phase.as_str())).collect();
        (!wanted.is_empty() && !terms.is_empty()).then(|| terms.join(","))
    }

    fn wants(&self, request: &Request) -> bool {
        match self.phases {
            None => request.is_open(),
            Some([]) => true,
            Some(phases) => request.phase().is_some_and(|phase| phases.contains(&phase)),
        }
    }

    /// Asks the server, page by page.
    pub(super) async fn run(&self, cluster: &Cluster) -> Result<Vec<Request>, Error> {
        let fields = self.field_selector();
        let found = match self.pages(cluster, fields.as_deref()).await {
            // Selectable fields are served from 1.32 on; before, everything is read and filtered here.
            Err(Error::Api(status)) if fields.is_some() && status.code == 400 => self.pages(cluster, None).await,
            found => found,
        };
        let mut found = found?;
        found.retain(|request| self.wants(request));
        found.sort_by(in_order);
        Ok(found)
    }

    async fn pages(&self, cluster: &Cluster, fields: Option<&str>) -> Result<Vec<Request>, Error> {
        let api = cluster.requests((!self.all_namespaces).then_some(cluster.namespace.as_str()));
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = self.selector.map(str::to_owned);
        params.field_selector = fields.map(str::to_owned);
        let mut found = Vec::new();
        loop {
            let page = api.list(&params).await?;
            let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            for object in page.items {
                found.push(Request::try_from(object)?);
            }
            let Some(next) = next else { return Ok(found) };
            params.continue_token = Some(next);
        }
    }
}

/// Open ones first, the oldest deadline first of all; then the settled ones, the newest first.
fn in_order(a: &Request, b: &Request) -> Ordering {
    let deadline = |request: &Request| (request.deadline().is_none(), request.deadline());
    let name = |request: &Request| (request.namespace(), request.name());
    match (a.is_open(), b.is_open()) {
        (true, true) => deadline(a).cmp(&deadline(b)),
        (false, false) => b.settled_at().cmp(&a.settled_at()),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
    .then_with(|| name(a).cmp(&name(b)))
}

/// A name as people type or paste it: bare, or as `-o name` prints it.
pub(super) fn bare_name(text: &str) -> Result<&str, Error> {
    let name = match text.split_once('/') {
        None => text,
        Some((
            "attn" | "attentionrequest" | "attentionrequests" | "attentionrequest.beckon.dev" | "attentionrequests.beckon.dev",
            name,
        )) => name,
        Some((kind, _)) => return Err(Error::Usage(format!("{kind} is not an attention request: give a name, or attn/NAME"))),
    };
    let valid = !name.is_empty()
        && name.len() <= 253
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if valid { Ok(name) } else { Err(Error::Usage(format!("{text:?} is not the name of a request"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::list::tests::request;

    #[test]
    fn history_stays_on_the_server() {
        use Phase::{Pending, Timeout};
        for (phases, want) in [
            (None, Some("status.phase!=Resolved,status.phase!=Rejected,status.phase!=Timeout,status.phase!=Cancelled")),
            (Some([].as_slice()), None),
            (Some([Timeout].as_slice()), Some("status.phase!=Resolved,status.phase!=Rejected,status.phase!=Cancelled")),
            (Some([Pending, Timeout].as_slice()), Some("status.phase!=Resolved,status.phase!=Rejected,status.phase!=Cancelled")),
        ] {
            let query = Query { phases, ..Query::default() };
            assert_eq!(query.field_selector().as_deref(), want, "{phases:?}");
        }
    }

    #[test]
    fn a_stored_decision_is_no_longer_open() {
        let decided = request("a", serde_json::json!({"resolution": {"outcome": "Rejected"}}), serde_json::json!({"phase": "Pending"}));
        let fresh = request("b", serde_json::json!({}), serde_json::json!({}));
        assert!(!Query::default().wants(&decided) && Query::default().wants(&fresh));
        assert!(Query { phases: Some(&[Phase::Rejected]), ..Query::default() }.wants(&decided));
        assert!(!Query { phases: Some(&[Phase::Pending]), ..Query::default() }.wants(&fresh));
    }

    #[test]
    fn the_oldest_deadline_comes_first_and_history_last() {
        let open =
            |name, deadline: &str| request(name, serde_json::json!({}), serde_json::json!({"phase": "Pending", "deadline": deadline}));
        let settled = |name, at: &str| request(name, serde_json::json!({}), serde_json::json!({"phase": "Timeout", "settledAt": at}));
        let mut requests = [
            settled("old", "2026-01-01T00:00:00Z"),
            settled("new", "2026-01-02T00:00:00Z"),
            request("unseen", serde_json::json!({}), serde_json::json!({})),
            open("later", "2026-01-03T02:00:00Z"),
            open("soon", "2026-01-03T01:00:00Z"),
        ];
        requests.sort_by(in_order);
        assert_eq!(requests.iter().map(Request::name).collect::<Vec<_>>(), ["soon", "later", "unseen", "new", "old"]);
    }

    #[test]
    fn names_are_taken_as_people_paste_them() {
        for (text, want) in [
            ("a-1", Some("a-1")),
            ("attn/a-1", Some("a-1")),
            ("attentionrequest.beckon.dev/a-1", Some("a-1")),
            ("pod/a-1", None),
            ("", None),
            ("A", None),
            ("a/../b", None),
            ("attn/", None),
            ("-m", None),
        ] {
            assert_eq!(bare_name(text).ok(), want, "{text}");
        }
    }
}
