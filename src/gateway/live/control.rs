//! Taking over and handing back. The driver arbitrates; this decides who may ask it, and keeps the record in the session.

use super::keeper::{Basis, Held};
use crate::api::v1alpha1::{AttentionRequest, BrowserSession, Mode};
use crate::domain::session::foreign;
use crate::driver::{ControlGrant, ControlState, ReleaseControl, RenewControl, TakeControl};
use crate::gateway::MANAGER;
use crate::gateway::auth::Principal;
use crate::gateway::dashboard::{Site, model};
use crate::gateway::decisions::{self, Action, Answer, DecisionError};
use crate::gateway::driver_client::Driver;
use crate::gateway::is_name;
use crate::gateway::requests::hands;
use crate::gateway::rest::{Caller, Problem};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a decision waits for the driver to take the hands off; the watch does it a moment later in any case.
const AT_ONCE: Duration = Duration::from_secs(1);
const ASKING: Duration = Duration::from_secs(5);
/// The name of the tasks that write down who has the hands.
const RECORD: &str = "a record of who has the hands";
/// A fresh look at a request, before a grant is kept alive.
const LOOK: Duration = Duration::from_secs(1);

/// Refuses a session whose browser is gone, and says what became of it.
pub fn must_run(session: &BrowserSession) -> Result<(), Problem> {
    if model::session_ended(session) {
        let (what, meaning) = model::session_end(session);
        return Err(Problem::conflict("SESSION_ENDED", format!("{what}. {meaning}")));
    }
    Ok(())
}

/// Refuses who may not watch.
pub async fn must_view(site: &Site, who: &Principal, session: &BrowserSession) -> Result<(), Problem> {
    if may_view(site, who, session).await? {
        return Ok(());
    }
    Err(Problem::forbidden(format!("{} may not watch this browser: that takes the verb view on browsersessions", who.username)))
}

/// Whether they may watch.
pub async fn may_view(site: &Site, who: &Principal, session: &BrowserSession) -> Result<bool, Problem> {
    may_session(site, who, "view", session).await
}

/// Whether they may drive without a request.
pub async fn may_take_over(site: &Site, who: &Principal, session: &BrowserSession) -> Result<bool, Problem> {
    may_session(site, who, "takeover", session).await
}

async fn may_session(site: &Site, who: &Principal, verb: &'static str, session: &BrowserSession) -> Result<bool, Problem> {
    let (namespace, name) = (session.namespace().unwrap_or_default(), session.name_any());
    Ok(site.gateway.auth.may(who, verb, "browsersessions", &namespace, Some(&name)).await?)
}

/// Whether they may change the browser's size: who may drive it, or answers for its agents.
pub async fn may_change(site: &Site, who: &Principal, session: &BrowserSession) -> Result<bool, Problem> {
    let namespace = session.namespace().unwrap_or_default();
    Ok(may_take_over(site, who, session).await? || site.gateway.auth.may(who, "resolve", "attentionrequests", &namespace, None).await?)
}

/// Whether this person may answer this open request: the verb, the target, the four eyes.
pub async fn may_answer(site: &Site, who: &Principal, request: &AttentionRequest) -> Result<(), Problem> {
    let (namespace, name) = (request.namespace().unwrap_or_default(), request.name_any());
    let rights = decisions::rights(&site.gateway, who, request, &namespace, &name).await?;
    Ok(decisions::check(who, request, rights, &Action::Answer(Answer::default()))?)
}

/// Why this person may drive this session, if they may.
pub async fn entitled(site: &Site, who: &Principal, session: &BrowserSession, request: Option<&str>) -> Result<Basis, Problem> {
    let Some(name) = request else {
        if may_take_over(site, who, session).await? {
            return Ok(Basis::Verb);
        }
        return Err(Problem::forbidden(format!(
            "{} may not drive this browser without an open request: that takes the verb takeover on browsersessions",
            who.username
        )));
    };
    let namespace = session.namespace().unwrap_or_default();
    let Some(request) = look(site, &namespace, name).await? else {
        return Err(Problem::not_found(format!("there is no attention request {namespace}/{name}")));
    };
    let of_it = request.spec.session_ref.as_ref().is_some_and(|named| {
        named.name == session.name_any() && named.uid.as_ref().is_none_or(|uid| Some(uid) == session.metadata.uid.as_ref())
    });
    if !of_it || foreign(&request.spec, &session.spec) {
        return Err(Problem::conflict("OTHER_SESSION", format!("the request {name} is not about this session")));
    }
    if request.spec.mode == Mode::Notify {
        return Err(Problem::conflict("VIEW_ONLY", "this request is of mode notify: you can watch, but not drive"));
    }
    if let Some(outcome) = decisions::describe(&request) {
        return Err(DecisionError::Settled(outcome).into());
    }
    match may_answer(site, who, &request).await {
        Ok(()) => Ok(Basis::Request(name.to_owned())),
        Err(refused) if refused.status == http::StatusCode::FORBIDDEN => {
            if may_take_over(site, who, session).await? {
                Ok(Basis::Request(name.to_owned()))
            } else {
                Err(refused)
            }
        }
        Err(other) => Err(other),
    }
}

/// The request as the API server has it this moment; `None`: it is gone.
pub async fn look(site: &Site, namespace: &str, name: &str) -> Result<Option<AttentionRequest>, Problem> {
    if !is_name(name) {
        return Ok(None);
    }
    let api: Api<AttentionRequest> = Api::namespaced(site.gateway.client.clone(), namespace);
    match tokio::time::timeout(LOOK, api.get_opt(name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) | Err(_) => Err(Problem::unavailable("the API server did not answer: try again")),
    }
}

/// Refuses who could not drive whatever the request says, before they learn anything of it or of the session.
async fn must_matter(site: &Site, who: &Principal, session: &BrowserSession, request: &str) -> Result<(), Problem> {
    let namespace = session.namespace().unwrap_or_default();
    if site.gateway.auth.may(who, "resolve", "attentionrequests", &namespace, Some(request)).await?
        || may_take_over(site, who, session).await?
    {
        return Ok(());
    }
    Err(Problem::forbidden(format!(
        "{} may not drive this browser: that takes the verb resolve on attentionrequests, or takeover on browsersessions",
        who.username
    )))
}

/// Takes control for a person. Waits for the agent's action in progress.
pub async fn take(site: &Site, caller: &Caller, session: &Arc<BrowserSession>, request: Option<&str>) -> Result<ControlGrant, Problem> {
    match request {
        Some(request) => must_matter(site, &caller.who, session, request).await?,
        None => drop(entitled(site, &caller.who, session, None).await?),
    }
    must_run(session)?;
    let basis = entitled(site, &caller.who, session, request).await?;
    let driver = site.gateway.drivers.of(session).await?;
    let settings = &site.gateway.settings;
    let grant = driver
        .take(&TakeControl {
            holder: caller.who.username.clone(),
            request: request.map(str::to_owned),
            idle_release_seconds: settings.idle_release.as_secs(),
            reconnect_seconds: settings.reconnect.as_secs(),
            ceiling_seconds: settings.ceiling.as_secs(),
        })
        .await?;
    // The agent's action may have taken a while: what entitled then may be over now.
    if let Err(problem) = entitled(site, &caller.who, session, request).await {
        drop(driver.release(&ReleaseControl { lease: Some(grant.lease), request: None }).await);
        return Err(problem);
    }
    let held = Held { lease: grant.lease.clone(), who: Arc::clone(&caller.who), session: Arc::clone(session), basis };
    site.keeper.keep(site, held, driver.clone());
    site.gateway.tasks.spawn(RECORD, record(site.clone(), Arc::clone(session), driver));
    Ok(grant)
}

/// Makes a lease that its holder shows at another socket, or at another replica, live on.
pub async fn adopt(site: &Site, who: &Arc<Principal>, session: &Arc<BrowserSession>, lease: &str) -> Result<(), Problem> {
    if site.keeper.holds(lease, who) {
        return Ok(());
    }
    let driver = holder_only(site, who, session).await?;
    let request = driver.state().await?.control.request;
    let basis = entitled(site, who, session, request.as_deref()).await?;
    driver.renew(&RenewControl { lease: lease.to_owned(), extend: false }).await?;
    site.keeper.keep(site, Held { lease: lease.to_owned(), who: Arc::clone(who), session: Arc::clone(session), basis }, driver);
    Ok(())
}

/// The driver, if this person has the hands.
pub async fn holder_only(site: &Site, who: &Principal, session: &BrowserSession) -> Result<Driver, Problem> {
    let driver = site.gateway.drivers.of(session).await?;
    if driver.state().await?.control.holder.as_deref() == Some(who.username.as_str()) {
        return Ok(driver);
    }
    Err(Problem::conflict("LEASE_ENDED", "you are not driving this browser"))
}

/// Hands back what a person holds.
pub async fn release(site: &Site, who: &Principal, session: &Arc<BrowserSession>, lease: String) -> Result<ControlState, Problem> {
    site.keeper.forget(&lease);
    let driver = holder_only(site, who, session).await?;
    let state = driver.release(&ReleaseControl { lease: Some(lease), request: None }).await?;
    record_state(site, session, &state).await;
    Ok(state)
}

/// A request was settled: whoever drove for it drives no longer, on whichever replica they took over.
pub async fn end_for_request(site: &Site, request: &AttentionRequest) {
    let (namespace, name) = (request.namespace().unwrap_or_default(), request.name_any());
    site.keeper.forget_request(&namespace, &name);
    if let Some((session, state)) = hands::off(&site.gateway, request, AT_ONCE).await {
        record_later(site, session, state);
    }
}

/// Asks the driver who has the hands, and records it.
pub async fn record(site: Site, session: Arc<BrowserSession>, driver: Driver) {
    if let Ok(state) = driver.state().await {
        record_state(&site, &session, &state.control).await;
    }
}

/// Writes who has the hands into the session's status soon: the caller does not wait for it.
pub fn record_later(site: &Site, session: Arc<BrowserSession>, state: ControlState) {
    let (tasks, site) = (&site.gateway.tasks, site.clone());
    tasks.spawn(RECORD, async move { record_state(&site, &session, &state).await });
}

/// Writes who has the hands into the session's status, if that is new.
pub async fn record_state(site: &Site, session: &BrowserSession, state: &ControlState) {
    let namespace = session.namespace().unwrap_or_default();
    let current = site.gateway.hub.sessions.get(&namespace, &session.name_any());
    let recorded = current.as_ref().and_then(|session| session.status.as_ref()?.control.as_ref());
    let same = recorded.map_or((None, None), |c| (c.holder.as_deref(), c.request.as_deref()))
        == (state.holder.as_deref(), state.request.as_deref());
    // An event of an earlier change of hands may come late.
    let late = recorded.and_then(|c| c.epoch).is_some_and(|epoch| epoch > state.epoch);
    if same || late {
        return;
    }
    let control = json!({"holder": state.holder, "since": state.since, "epoch": state.epoch, "request": state.request});
    write_status(site, session, json!({"control": control})).await;
}

/// Writes fields of a session's status that are the gateway's.
pub async fn write_status(site: &Site, session: &BrowserSession, fields: Value) {
    let api: Api<BrowserSession> = Api::namespaced(site.gateway.client.clone(), &session.namespace().unwrap_or_default());
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let name = session.name_any();
    match tokio::time::timeout(ASKING, api.patch_status(&name, &params, &Patch::Merge(json!({"status": fields})))).await {
        Ok(Ok(stored)) => site.gateway.hub.sessions.offer(stored),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
        Ok(Err(kube::Error::Api(status))) => {
            tracing::warn!(session = %name, code = status.code, why = %status.message, "a session's status was not written");
        }
        Ok(Err(_)) | Err(_) => tracing::warn!(session = %name, "a session's status was not written: no answer"),
    }
}
