//! What a client of the older revisions missed while its stream was cut: it comes back with the id of the last event it saw,
//! and reads on, also when the call ended meanwhile.

use crate::runtime::tasks::Tasks;
use futures::StreamExt as _;
use rand::RngExt as _;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream, ServerSseMessage};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a stream is kept after its end.
const KEPT: Duration = Duration::from_mins(10);
/// A stream without an end is kept for this long after its last event: longer than any call waits.
const UNENDED: Duration = Duration::from_hours(24);
/// How often what is too old is looked for.
const TIDY: Duration = Duration::from_mins(1);
/// The most events of one stream; the oldest ones, which are progress, go first.
const EVENTS: usize = 64;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Streams.
    pub streams: usize,
    /// Bytes of all events together.
    pub bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { streams: 4096, bytes: 16 << 20 }
    }
}

struct Log {
    /// The number of the first event that is kept.
    first: usize,
    events: VecDeque<(ServerSseMessage, usize)>,
    bytes: usize,
    last_at: Instant,
    ended: bool,
    grown: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Self { first: 0, events: VecDeque::new(), bytes: 0, last_at: Instant::now(), ended: false, grown: watch::Sender::new(0) }
    }
}

impl Log {
    fn after(&self) -> usize {
        self.first + self.events.len()
    }
}

#[derive(Default)]
struct Inner {
    logs: HashMap<String, Log>,
    /// The library's stream ids, and ours.
    names: HashMap<String, String>,
    bytes: usize,
    tidied: Option<Instant>,
}

impl Inner {
    /// Drops what is too old, and then the oldest until there is room, those first whose call has ended.
    fn tidy(&mut self, room: Room) {
        let now = Instant::now();
        let full = self.logs.len() >= room.streams || self.bytes > room.bytes;
        if !full && self.tidied.is_some_and(|at| now.duration_since(at) < TIDY) {
            return;
        }
        self.tidied = Some(now);
        self.logs.retain(|_, log| now.duration_since(log.last_at) < if log.ended { KEPT } else { UNENDED });
        if full {
            let mut oldest: Vec<(bool, Instant, String)> =
                self.logs.iter().map(|(name, log)| (!log.ended, log.last_at, name.clone())).collect();
            oldest.sort();
            let mut bytes: usize = self.logs.values().map(|log| log.bytes).sum();
            for (_, _, name) in oldest {
                // Some more than is needed, so that this is not done for every event.
                if self.logs.len() < room.streams - room.streams / 8 && bytes <= room.bytes - room.bytes / 8 {
                    break;
                }
                bytes -= self.logs.remove(&name).map_or(0, |log| log.bytes);
            }
        }
        self.bytes = self.logs.values().map(|log| log.bytes).sum();
        let logs = &self.logs;
        self.names.retain(|_, name| logs.contains_key(name));
    }
}

/// A bounded store in memory. Ids can't be guessed: they name a stream by a random part of their own.
#[derive(Clone, Default)]
pub(super) struct Events {
    inner: Arc<Mutex<Inner>>,
    room: Room,
    tasks: Tasks,
}

/// The id of an event that is not kept.
#[derive(Debug, thiserror::Error)]
#[error("this event is not kept any more")]
struct Gone;

impl Events {
    /// Keeps nothing yet. Streams that are read again run among `tasks`.
    pub(super) fn new(tasks: Tasks) -> Self {
        Self { tasks, ..Self::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, stream: &str, event: &ServerSseMessage) -> String {
        let size = size(event);
        let mut inner = self.lock();
        inner.tidy(self.room);
        let name = inner.names.entry(stream.to_owned()).or_insert_with(|| format!("{:032x}", rand::rng().random::<u128>())).clone();
        let log = inner.logs.entry(name.clone()).or_default();
        let number = log.after();
        let id = format!("{name}-{number}");
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        log.ended = matches!(event.message.as_deref(), Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)));
        log.events.push_back((event, size));
        log.bytes += size;
        let dropped = if log.events.len() > EVENTS { log.events.pop_front().map(|(_, size)| size) } else { None };
        log.bytes -= dropped.unwrap_or_default();
        log.first += usize::from(dropped.is_some());
        log.last_at = Instant::now();
        log.grown.send_replace(number + 1);
        inner.bytes = inner.bytes + size - dropped.unwrap_or_default();
        id
    }

    /// The events from `next` on, and whether no more will come.
    fn from(&self, name: &str, next: usize) -> Option<(Vec<ServerSseMessage>, usize, bool)> {
        let inner = self.lock();
        let log = inner.logs.get(name)?;
        let skip = next.saturating_sub(log.first);
        Some((log.events.iter().skip(skip).map(|(event, _)| event.clone()).collect(), log.after(), log.ended))
    }

    fn grown(&self, name: &str) -> Option<watch::Receiver<usize>> {
        self.lock().logs.get(name).map(|log| log.grown.subscribe())
    }

    /// Everything after the event, and then what comes, to the end of the call.
    fn replay(&self, last: &str) -> Option<EventStream> {
        let (name, number) = last.rsplit_once('-')?;
        let next = number.parse::<usize>().ok()?.checked_add(1)?;
        let grown = self.grown(name)?;
        let state = (self.clone(), name.to_owned(), next, grown, false);
        let batches = futures::stream::unfold(state, |(store, name, next, mut grown, ended)| async move {
            if ended {
                return None;
            }
            loop {
                let (events, after, ended) = store.from(&name, next)?;
                if !events.is_empty() || ended {
                    return Some((futures::stream::iter(events), (store, name, after, grown, ended)));
                }
                grown.changed().await.ok()?;
            }
        });
        Some(Box::pin(sync_stream(batches.flatten().boxed(), &self.tasks)))
    }
}

/// What an event takes, in bytes: a picture's megabytes, mostly.
fn size(event: &ServerSseMessage) -> usize {
    #[derive(Default)]
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count::default();
    if let Some(message) = event.message.as_deref() {
        // Counting can't fail.
        drop(serde_json::to_writer(&mut count, message));
    }
    count.0 + 256
}

/// The library wants streams that can be shared between threads; this one hands its events through a bounded channel.
fn sync_stream(
    mut inner: futures::stream::BoxStream<'static, ServerSseMessage>,
    tasks: &Tasks,
) -> impl futures::Stream<Item = ServerSseMessage> + Send + Sync + use<> {
    let (to, from) = tokio::sync::mpsc::channel(8);
    // Ends with the stream, or when the reader is gone.
    tasks.spawn("a stream that is read again", async move {
        loop {
            let event = tokio::select! {
                () = to.closed() => return,
                event = inner.next() => event,
            };
            let Some(event) = event else { return };
            if to.send(event).await.is_err() {
                return;
            }
        }
    });
    futures::stream::unfold(from, |mut from| async move { from.recv().await.map(|event| (event, from)) })
}

#[async_trait::async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        Ok(self.store(stream_id, event))
    }

    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        self.replay(last_event_id).ok_or_else(|| Box::new(Gone).into())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test starts ends with it")]
mod tests {
    use super::*;
    use rmcp::model::{ErrorData, JsonRpcError, RequestId};

    fn progress() -> ServerSseMessage {
        ServerSseMessage::retry(Duration::from_secs(1))
    }

    fn end() -> ServerSseMessage {
        let error = JsonRpcError::new(Some(RequestId::Number(1)), ErrorData::internal_error("x", None));
        ServerSseMessage::from_message(ServerJsonRpcMessage::Error(error))
    }

    async fn ids(stream: EventStream) -> Vec<String> {
        stream.filter_map(|event| async move { event.event_id }).collect().await
    }

    #[tokio::test]
    async fn who_comes_back_reads_what_was_missed_and_then_the_end() {
        let store = Events::default();
        let first = store.store("s", &progress());
        let second = store.store("s", &progress());
        let replayed = tokio::spawn(ids(store.replay(&first).unwrap()));
        let third = store.store("s", &end());
        assert_eq!(replayed.await.unwrap(), [second, third.clone()]);
        assert_eq!(ids(store.replay(&first).unwrap()).await.len(), 2, "also when it ended while away");
        assert_eq!(ids(store.replay(&third).unwrap()).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn streams_are_apart_and_bounded() {
        let store = Events::default();
        let mine = store.store("mine", &progress());
        let theirs = store.store("theirs", &end());
        assert_ne!(mine.rsplit_once('-').unwrap().0, theirs.rsplit_once('-').unwrap().0);
        for _ in 0..EVENTS * 2 {
            store.store("mine", &progress());
        }
        let last = store.store("mine", &end());
        let replayed = ids(store.replay(&mine).unwrap()).await;
        assert_eq!((replayed.len(), replayed.last()), (EVENTS, Some(&last)));
        assert!(store.replay("nonsense").is_none() && store.replay("0123-1").is_none() && store.replay("").is_none());
    }

    fn big() -> ServerSseMessage {
        let error = JsonRpcError::new(Some(RequestId::Number(1)), ErrorData::internal_error("x".repeat(10_000), None));
        ServerSseMessage::from_message(ServerJsonRpcMessage::Error(error))
    }

    #[tokio::test]
    async fn big_answers_go_before_what_still_waits() {
        let store = Events { room: Room { streams: 1000, bytes: 100_000 }, ..Events::default() };
        let waiting = store.store("waiting", &progress());
        for n in 0..500 {
            store.store(&format!("picture {n}"), &big());
            assert!(store.lock().bytes <= 115_000, "{}", store.lock().bytes);
        }
        let newest = store.store("newest", &big());
        assert!(store.replay(&waiting).is_some() && store.replay(&newest).is_some());
        let inner = store.lock();
        assert!(inner.logs.len() < 12 && inner.names.len() == inner.logs.len(), "{} logs", inner.logs.len());
        assert_eq!(inner.bytes, inner.logs.values().map(|log| log.bytes).sum::<usize>());
    }

    #[test]
    fn streams_without_an_end_are_bounded_too() {
        let store = Events { room: Room { streams: 100, bytes: 1 << 20 }, ..Events::default() };
        for n in 0..1000 {
            store.store(&format!("s{n}"), &progress());
        }
        let inner = store.lock();
        assert!(inner.logs.len() <= 101 && inner.names.len() == inner.logs.len(), "{} logs", inner.logs.len());
    }

    #[tokio::test]
    async fn what_is_old_goes_by_itself() {
        let store = Events::default();
        let age = |stream: &str, by: Duration| {
            let mut inner = store.lock();
            let name = inner.names[stream].clone();
            inner.logs.get_mut(&name).unwrap().last_at = Instant::now().checked_sub(by).unwrap();
            inner.tidied = None;
        };
        store.store("ended", &end());
        let waiting = store.store("waiting", &progress());
        age("ended", KEPT);
        age("waiting", KEPT);
        store.store("new", &progress());
        assert!(store.replay(&waiting).is_some());
        assert_eq!(store.lock().logs.len(), 2);
        age("waiting", UNENDED);
        store.store("new", &progress());
        assert_eq!(store.lock().logs.len(), 1);
    }
}
