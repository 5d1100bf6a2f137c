//! The few plain HTTP requests to processes on loopback. One connection each.

use crate::failure::{Context as _, Failure, Result};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a process on this machine may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer that is read.
const LARGEST: u64 = 1024 * 1024;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Such as 200.
    pub status: u16,
    /// As text.
    pub body: String,
}

/// `GET` from a port of 127.0.0.1, in this time.
pub fn get(port: u16, path: &str, patience: Duration) -> Result<Answer> {
    send(port, patience, &format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

/// `POST` JSON to a port of 127.0.0.1 as the bearer of a token.
pub fn post(port: u16, path: &str, token: &str, json: &str) -> Result<Answer> {
    let headers = format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json");
    send(port, PATIENCE, &format!("POST {path} HTTP/1.0\r\n{headers}\r\nContent-Length: {}\r\n\r\n{json}", json.len()))
}

fn send(port: u16, patience: Duration, request: &str) -> Result<Answer> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let what = format!("127.0.0.1:{port}");
    let mut stream = TcpStream::connect_timeout(&address, patience).context(&what)?;
    stream.set_read_timeout(Some(patience)).context(&what)?;
    stream.set_write_timeout(Some(patience)).context(&what)?;
    stream.write_all(request.as_bytes()).context(&what)?;
    let mut bytes = Vec::new();
    stream.take(LARGEST).read_to_end(&mut bytes).context(&what)?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| Failure::new(format!("{what} answers, but not HTTP")))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answers() {
        let answer = parse("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\nwatches: not read\n").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (503, "watches: not read\n"));
        for text in ["", "SSH-2.0\r\n\r\n", "HTTP/1.0 abc\r\n\r\n"] {
            assert!(parse(text).is_none(), "{text:?}");
        }
    }
}
