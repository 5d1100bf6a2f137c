//! The two parts that read and write Chromium's debugging pipe: JSON, each message ended by a NUL.

use super::wire::Incoming;
use super::{Cdp, CdpError, Sink};
use crate::runtime::supervision::{End, Parts};
use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// No message of Chromium's is larger than this, in bytes; a full-page picture comes near.
const LARGEST: usize = 256 << 20;
/// How what a page writes to its console begins. Nobody asked for it: it comes with what we listen to.
const CONSOLE: &[u8] = br#"{"method":"Runtime.consoleAPICalled","#;
/// What the read buffer shrinks back to, in bytes.
const ROOM: usize = 256 << 10;

/// Starts both.
pub(super) fn start(
    (read, write): (OwnedFd, OwnedFd),
    queue: mpsc::Receiver<Vec<u8>>,
    cdp: &Cdp,
    sink: Arc<dyn Sink>,
    parts: &mut Parts,
    over: &CancellationToken,
) -> std::io::Result<()> {
    let (read, write) = (Receiver::from_owned_fd(read)?, Sender::from_owned_fd(write)?);
    parts.start("the writer of Chromium's pipe", until(over.clone(), write_all(write, queue, cdp.clone())));
    let cdp = cdp.clone();
    let reading = async move {
        if let Err(error) = read_all(read, &cdp, &*sink).await {
            tracing::warn!(%error, "Chromium's debugging pipe failed");
        }
        cdp.close();
    };
    parts.start("the reader of Chromium's pipe", until(over.clone(), reading));
    Ok(())
}

/// A pipe that closes is the end of Chromium, which is told as such, and no failure of ours.
async fn until(over: CancellationToken, work: impl Future<Output = ()>) -> End {
    tokio::select! {
        () = over.cancelled() => return Ok(()),
        () = work => {}
    }
    over.cancelled().await;
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
        while let Some(end) = buffer.get(seen..).and_then(length) {
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

/// The bytes of the message that is complete. Searched as a string's end is, which is many times faster than byte by byte.
fn length(bytes: &[u8]) -> Option<usize> {
    CStr::from_bytes_until_nul(bytes).ok().map(CStr::count_bytes)
}

/// One odd message never ends the connection.
fn take(bytes: &[u8], cdp: &Cdp, sink: &dyn Sink) {
    // A page can write to its console faster than anybody can read it.
    if bytes.starts_with(CONSOLE) {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::cdp::{Event, Frame};
    use futures::FutureExt as _;
    use serde_json::{Value, json};
    use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe};

    struct Fragile;

    impl Sink for Fragile {
        fn event(&self, _: &Cdp, event: &Event<'_>) {
            assert_ne!(event.method, "Odd.event", "this is the panic of this test");
        }

        fn frame(&self, _: &Cdp, _: &str, _: Frame) {}
    }

    /// The connection, and Chromium's ends of its pipe.
    fn connected(parts: &mut Parts, over: &CancellationToken) -> (Cdp, PipeReader, PipeWriter) {
        let ((read, replies), (commands, write)) = (pipe().unwrap(), pipe().unwrap());
        let cdp = Cdp::start(read.into(), write.into(), Arc::new(Fragile), parts, over).unwrap();
        (cdp, commands, replies)
    }

    #[tokio::test]
    async fn a_pipe_that_closes_is_the_end_of_chromium_and_of_no_part() {
        let (mut parts, over) = (Parts::default(), CancellationToken::new());
        let (cdp, commands, replies) = connected(&mut parts, &over);
        drop((commands, replies));
        cdp.closed().await;
        assert_eq!(cdp.call::<Value>("A.b", json!({})).await, Err(CdpError::Closed));
        assert_eq!(parts.ended().now_or_never(), None);
        over.cancel();
        assert_eq!(parts.finish().await, []);
    }

    #[tokio::test]
    async fn a_tab_between_two_documents_is_asked_again() {
        let (mut parts, over) = (Parts::default(), CancellationToken::new());
        let (cdp, commands, mut replies) = connected(&mut parts, &over);
        let chromium = std::thread::spawn(move || {
            let answers = [
                r#""error":{"code":-32000,"message":"Not attached to an active page"}"#,
                r#""result":{"there":true}"#,
                r#""error":{"code":-32000,"message":"No such entry"}"#,
            ];
            let mut commands = BufReader::new(commands);
            for answer in answers {
                let mut command = Vec::new();
                commands.read_until(0, &mut command).unwrap();
                let command: Value = serde_json::from_slice(&command[..command.len() - 1]).unwrap();
                write!(replies, "{{\"id\":{},\"sessionId\":\"S\",{answer}}}\0", command["id"]).unwrap();
            }
        });
        let session = cdp.session("S");
        assert_eq!(session.call::<Value>("Page.enable", json!({})).await, Ok(json!({ "there": true })));
        let refused = CdpError::Refused { method: "Page.navigateToHistoryEntry", message: "No such entry".to_owned() };
        assert_eq!(session.call::<Value>("Page.navigateToHistoryEntry", json!({})).await, Err(refused));
        chromium.join().unwrap();
    }

    #[tokio::test]
    async fn a_panic_over_what_chromium_says_is_the_end_of_the_part() {
        let (mut parts, over) = (Parts::default(), CancellationToken::new());
        let (_cdp, _commands, mut replies) = connected(&mut parts, &over);
        replies.write_all(b"no JSON\0{\"method\":\"Even.event\"}\0{\"method\":\"Odd.event\"}\0").unwrap();
        let ended = parts.ended().await;
        assert_eq!((ended.name, ended.why.as_str()), ("the reader of Chromium's pipe", "it panicked"));
    }
}
