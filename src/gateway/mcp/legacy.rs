//! MCP sessions of the protocol's older revisions, without a memory that a restart could lose.
//!
//! The session's id is a signed token: when it was made, for whom, and in which protocol version. So any replica can take a
//! session up that another one started, and nobody can use another's.

use super::busy::Busy;
use super::ended::Ended;
use crate::gateway::auth::Principal;
use crate::gateway::keys::Keys;
use crate::runtime::clock;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::Stream;
use hmac::{Hmac, KeyInit as _, Mac as _};
use k8s_openapi::jiff::Timestamp;
use rand::RngExt as _;
use rmcp::model::{ClientJsonRpcMessage, Implementation, InitializeRequestParams, ProtocolVersion, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError, LocalSessionWorker};
use rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, ServerSseMessage, SessionId, SessionManager, SessionState, SessionStore, SessionStoreError,
};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a session can be taken up by another replica, in seconds.
const GOOD_FOR: i64 = 7 * 24 * 3600;
/// A session without a call for this long is let go; its next call takes it up again.
const IDLE: Duration = Duration::from_mins(30);
/// The most sessions that are kept at a time. The one that was not used for the longest time is let go first.
const MOST: usize = 4096;
const VERSIONS: [ProtocolVersion; 4] =
    [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25];

tokio::task_local! {
    /// Who sends the HTTP request that is being served, and the version that its `initialize` names.
    pub static CALLER: (Arc<Principal>, Option<String>);
}

/// Makes and reads session ids.
#[derive(Clone)]
pub(super) struct Ids(Arc<[u8; 64]>);

impl Ids {
    /// From the installation's keys, which all replicas share.
    pub(super) fn new(keys: &Keys) -> Self {
        Self(Arc::new(keys.cookie))
    }

    /// A new id.
    pub(super) fn mint(&self, who: &Principal, version: Option<&str>, now: Timestamp) -> String {
        let version = VERSIONS.iter().position(|v| Some(v.as_str()) == version).unwrap_or(VERSIONS.len() - 1);
        let mut body = vec![u8::try_from(version).unwrap_or_default()];
        body.extend(now.as_second().to_be_bytes());
        body.extend(owner(who));
        let mut random = [0_u8; 12];
        rand::rng().fill(&mut random);
        body.extend(random);
        let tag = self.tag(&body);
        body.extend(tag);
        URL_SAFE_NO_PAD.encode(body)
    }

    /// The protocol version of an id that is ours, of this principal, and not too old.
    pub(super) fn read(&self, id: &str, who: &Principal, now: Timestamp) -> Option<ProtocolVersion> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (body, tag) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
        let (version, rest) = body.split_first()?;
        let (made, rest) = rest.split_first_chunk::<8>()?;
        let (owned, _random) = rest.split_first_chunk::<8>()?;
        let good = subtle::ConstantTimeEq::ct_eq(self.tag(body).as_slice(), tag);
        let age = now.as_second().checked_sub(i64::from_be_bytes(*made))?;
        let fits = bool::from(good) && *owned == owner(who) && (-60..GOOD_FOR).contains(&age);
        fits.then(|| VERSIONS.get(usize::from(*version)).cloned()).flatten()
    }

    fn tag(&self, body: &[u8]) -> [u8; 16] {
        let mut mac = <Hmac<Sha256>>::new(&(*self.0).into());
        mac.update(b"beckon mcp session 1");
        mac.update(body);
        let full = mac.finalize().into_bytes();
        let mut tag = [0; 16];
        tag.iter_mut().zip(full).for_each(|(to, from)| *to = from);
        tag
    }
}

fn owner(who: &Principal) -> [u8; 8] {
    let mut hash = Sha256::new();
    hash.update((who.username.len() as u64).to_be_bytes());
    hash.update(who.username.as_bytes());
    hash.update(who.uid.as_deref().unwrap_or_default().as_bytes());
    let full = hash.finalize();
    let mut short = [0; 8];
    short.iter_mut().zip(full).for_each(|(to, from)| *to = from);
    short
}

/// The library's own manager, with our ids.
pub(super) struct Manager {
    inner: LocalSessionManager,
    ids: Ids,
    used: Mutex<HashMap<SessionId, Instant>>,
    ended: Ended,
    busy: Busy,
}

impl Manager {
    /// `events` keeps what a client missed while its stream was cut.
    pub(super) fn new(ids: Ids, events: Arc<dyn EventStore>, ended: Ended, busy: Busy) -> Self {
        let mut inner = LocalSessionManager::default().with_event_store(events);
        // The library's own idle limit ends sessions with a call in flight.
        inner.session_config.keep_alive = None;
        Self { inner, ids, used: Mutex::default(), ended, busy }
    }

    fn touch(&self, id: &SessionId) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(id), Instant::now());
    }

    /// Lets sessions go that were not used for long. A call that waits has its own stream, and uses its session by being read.
    pub(super) async fn reap(&self) {
        self.let_go(|id, at| at.elapsed() > IDLE && !self.busy.any(id)).await;
    }

    /// Learns of sessions that end elsewhere, and lets them go, until the token is cancelled.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let told = tokio::sync::Notify::new();
        let letting_go = async {
            loop {
                told.notified().await;
                self.let_go(|id, _| self.ended.contains(id)).await;
            }
        };
        tokio::select! {
            () = self.ended.watch(|| told.notify_one(), stop) => {}
            () = letting_go => {}
        }
    }

    /// Makes room for one more.
    async fn make_room(&self) {
        let oldest = {
            let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if used.len() < MOST {
                return;
            }
            used.iter().filter(|(id, _)| !self.busy.any(id)).min_by_key(|(_, at)| **at).map(|(id, _)| Arc::clone(id))
        };
        if let Some(oldest) = oldest {
            self.let_go(|id, _| *id == oldest).await;
        }
    }

    async fn let_go(&self, which: impl Fn(&SessionId, &Instant) -> bool) {
        let gone: Vec<SessionId> = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let gone: Vec<SessionId> = used.iter().filter(|(id, at)| which(id, at)).map(|(id, _)| Arc::clone(id)).collect();
            for id in &gone {
                used.remove(id);
            }
            gone
        };
        for id in gone {
            drop(self.inner.close_session(&id).await);
        }
    }

    /// Whether it is a session of the caller, of whichever replica.
    pub(super) fn is_mine(&self, id: &str) -> bool {
        CALLER.try_with(|(who, _)| self.ids.read(id, who, clock::now()).is_some()).unwrap_or(false)
    }

    /// Whether its client has ended it, as far as is known here.
    pub(super) fn has_ended(&self, id: &str) -> bool {
        self.ended.contains(id)
    }

    /// The client ended it: no replica takes it up again.
    pub(super) async fn end(&self, id: &str) {
        self.ended.add(id).await;
    }
}

/// What can go wrong with a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManagerError {
    /// In the library.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
    /// A session was asked for outside of a request.
    #[error("a session was asked for by nobody")]
    Nobody,
    /// Two sessions got the same id.
    #[error("a session of this id is there already")]
    Twice,
}

impl SessionManager for Manager {
    type Error = ManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let id =
            CALLER.try_with(|(who, version)| self.ids.mint(who, version.as_deref(), clock::now())).map_err(|_| ManagerError::Nobody)?;
        let id: SessionId = id.into();
        self.make_room().await;
        let RestoreOutcome::Restored(transport) = self.inner.restore_session(Arc::clone(&id)).await? else {
            return Err(ManagerError::Twice);
        };
        self.touch(&id);
        Ok((id, transport))
    }

    async fn initialize_session(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let there = self.inner.has_session(id).await?;
        // A session that is there may still be another's.
        let good = there && self.is_mine(id) && !self.ended.contains(id);
        if good {
            self.touch(id);
        }
        Ok(good)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        self.make_room().await;
        self.touch(&id);
        Ok(self.inner.restore_session(id).await?)
    }

    // None: the newer revision has no resuming, and a cut stream of it must end its call.
    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        None
    }
}

/// Takes up what another replica started: the id itself says all that is needed.
pub(super) struct Store(pub Arc<Manager>);

#[async_trait::async_trait]
impl SessionStore for Store {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let version = CALLER.try_with(|(who, _)| self.0.ids.read(id, who, clock::now())).ok().flatten();
        let Some(version) = version else { return Ok(None) };
        if self.0.ended.is_ended(id).await {
            return Ok(None);
        }
        let mut params = InitializeRequestParams::default();
        params.protocol_version = version;
        params.client_info = Implementation::new("taken-up", "0");
        Ok(Some(SessionState::new(params)))
    }

    async fn store(&self, _id: &str, _state: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    // The layer in front knows whose DELETE it is.
    async fn delete(&self, _id: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_id_is_good_for_its_owner_on_every_replica() {
        let keys = Keys::random();
        let (here, there, elsewhere) = (Ids::new(&keys), Ids::new(&keys), Ids::new(&Keys::random()));
        let ann = Principal { username: "ann".into(), uid: Some("1".into()), ..Principal::default() };
        let bob = Principal { username: "bob".into(), uid: Some("1".into()), ..Principal::default() };
        let id = here.mint(&ann, Some("2025-06-18"), at(1000));
        assert!(id.bytes().all(|b| b.is_ascii_graphic()));
        assert_eq!(there.read(&id, &ann, at(2000)), Some(ProtocolVersion::V_2025_06_18));
        assert_eq!(there.read(&id, &bob, at(2000)), None);
        assert_eq!(elsewhere.read(&id, &ann, at(2000)), None);
        assert_eq!(there.read(&id, &ann, at(1000 + GOOD_FOR)), None);
        assert_eq!(there.read(&id, &ann, at(0)), None);
        let mut forged: Vec<char> = id.chars().collect();
        forged[3] = if forged[3] == 'A' { 'B' } else { 'A' };
        assert_eq!(there.read(&forged.into_iter().collect::<String>(), &ann, at(2000)), None);
        for bad in ["", "x", "not base64 !", "AAAA"] {
            assert_eq!(there.read(bad, &ann, at(2000)), None, "{bad}");
        }
        assert_ne!(id, here.mint(&ann, Some("2025-06-18"), at(1000)));
    }
}
