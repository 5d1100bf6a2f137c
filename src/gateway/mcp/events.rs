//! What a client of the older revisions missed while its stream was cut: it comes back with the id of the last event it saw,
//! and reads on, also when the call ended meanwhile.

use futures::StreamExt as _;
use rand::RngExt as _;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream, ServerSseMessage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a stream is kept after its last event.
const KEPT: Duration = Duration::from_mins(10);
/// The most events of one stream; the oldest ones, which are progress, go first.
const EVENTS: usize = 64;
/// The most streams.
const STREAMS: usize = 4096;

struct Log {
    /// The number of the first event that is kept.
    first: usize,
    events: Vec<ServerSseMessage>,
    last_at: Instant,
    ended: bool,
    grown: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Self { first: 0, events: Vec::new(), last_at: Instant::now(), ended: false, grown: watch::Sender::new(0) }
    }
}

type Logs = Arc<Mutex<HashMap<String, Log>>>;

/// A bounded store in memory. Ids can't be guessed: they name a stream by a random part of their own.
#[derive(Clone, Default)]
pub struct Events {
    logs: Logs,
    /// The library's stream ids, and ours.
    names: Arc<Mutex<HashMap<String, String>>>,
}

/// The id of an event that is not kept.
#[derive(Debug, thiserror::Error)]
#[error("this event is not kept any more")]
struct Gone;

impl Events {
    fn name(&self, stream: &str) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(stream.to_owned()).or_insert_with(|| format!("{:032x}", rand::rng().random::<u128>())).clone()
    }

    fn store(&self, stream: &str, event: &ServerSseMessage) -> String {
        let name = self.name(stream);
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= STREAMS || logs.values().any(|log| log.last_at.elapsed() > KEPT * 2) {
            logs.retain(|_, log| log.last_at.elapsed() < KEPT || !log.ended);
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.retain(|_, name| logs.contains_key(name));
            names.insert(stream.to_owned(), name.clone());
        }
        let log = logs.entry(name.clone()).or_default();
        let number = log.first + log.events.len();
        let id = format!("{name}-{number}");
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        log.ended = matches!(event.message.as_deref(), Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)));
        log.events.push(event);
        if log.events.len() > EVENTS {
            log.events.remove(0);
            log.first += 1;
        }
        log.last_at = Instant::now();
        log.grown.send_replace(number + 1);
        id
    }

    /// The events from `next` on, and whether no more will come.
    fn from(&self, name: &str, next: usize) -> Option<(Vec<ServerSseMessage>, usize, bool)> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.get(name)?;
        let skip = next.saturating_sub(log.first);
        Some((log.events.iter().skip(skip).cloned().collect(), log.first + log.events.len(), log.ended))
    }

    fn grown(&self, name: &str) -> Option<watch::Receiver<usize>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|log| log.grown.subscribe())
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
        Some(Box::pin(sync_stream(batches.flatten().boxed())))
    }
}

/// The library wants streams that can be shared between threads; this one hands its events through a bounded channel.
fn sync_stream(
    mut inner: futures::stream::BoxStream<'static, ServerSseMessage>,
) -> impl futures::Stream<Item = ServerSseMessage> + Send + Sync {
    let (to, from) = tokio::sync::mpsc::channel(8);
    // Ends with the stream, or when the reader is gone.
    tokio::spawn(async move {
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
}
