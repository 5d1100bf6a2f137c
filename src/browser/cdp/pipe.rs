//! The two tasks that read and write Chromium's debugging pipe: JSON, each message ended by a NUL.

use super::wire::Incoming;
use super::{Cdp, CdpError, Sink};
use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

/// No message of Chromium's is larger than this, in bytes; a full-page picture comes near.
const LARGEST: usize = 256 << 20;
/// What the read buffer shrinks back to, in bytes.
const ROOM: usize = 256 << 10;

/// Starts both tasks; they end with the pipe.
pub(super) fn spawn(read: OwnedFd, write: OwnedFd, queue: mpsc::Receiver<Vec<u8>>, cdp: Cdp, sink: Arc<dyn Sink>) -> std::io::Result<()> {
    let (read, write) = (Receiver::from_owned_fd(read)?, Sender::from_owned_fd(write)?);
    tokio::spawn(write_all(write, queue, cdp.clone()));
    tokio::spawn(async move {
        if let Err(error) = read_all(read, &cdp, &*sink).await {
            tracing::warn!(%error, "Chromium's debugging pipe failed");
        }
        cdp.close();
    });
    Ok(())
}

async fn write_all(mut pipe: Sender, mut queue: mpsc::Receiver<Vec<u8>>, cdp: Cdp) {
    loop {
        let message = tokio::select! {
            message = queue.recv() => message,
            () = cdp.closed() => None,
        };
        let Some(message) = message else { return };
        if pipe.write_all(&message).await.is_err() {
            cdp.close();
            return;
        }
    }
}

async fn read_all(mut pipe: Receiver, cdp: &Cdp, sink: &dyn Sink) -> std::io::Result<()> {
    let mut buffer = BytesMut::with_capacity(ROOM);
    let mut seen = 0;
    loop {
        while let Some(end) = buffer.get(seen..).and_then(|new| new.iter().position(|byte| *byte == 0)) {
            let message = buffer.split_to(seen + end + 1);
            seen = 0;
            take(message.get(..message.len() - 1).unwrap_or_default(), cdp, sink);
        }
        seen = buffer.len();
        if seen > LARGEST {
            return Err(std::io::Error::other("a message was too large"));
        }
        buffer.reserve(ROOM);
        if pipe.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detached {
    session_id: String,
}

/// One odd message never ends the connection.
fn take(bytes: &[u8], cdp: &Cdp, sink: &dyn Sink) {
    let Ok(message) = serde_json::from_slice::<Incoming<'_>>(bytes) else {
        tracing::debug!(bytes = bytes.len(), "a message of Chromium's was not understood");
        return;
    };
    if let Some(id) = message.id {
        cdp.answer(id, |method| match (&message.error, message.result) {
            (Some(error), _) => Err(CdpError::Refused { method, message: error.message.clone() }),
            (None, Some(result)) => Ok(result.to_owned()),
            (None, None) => RawValue::from_string("{}".to_owned()).map_err(|_| CdpError::Reply(method)),
        });
        return;
    }
    if message.method.as_deref() == Some("Page.screencastFrame") {
        if let (Some(session), Some(frame)) = (message.session.as_deref(), message.frame()) {
            sink.frame(cdp, session, frame);
        }
        return;
    }
    let Some(event) = message.event() else { return };
    // The sink first: who is told that a call failed finds the tab as it now is.
    sink.event(cdp, &event);
    match (event.method, event.session) {
        ("Inspector.targetCrashed", Some(session)) => cdp.crashed(session),
        ("Inspector.targetReloadedAfterCrash", Some(session)) => cdp.revived(session),
        ("Target.detachedFromTarget", _) => {
            if let Some(detached) = event.params::<Detached>() {
                cdp.detached(&detached.session_id);
            }
        }
        _ => {}
    }
}
