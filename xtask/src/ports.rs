//! Free ports of the loopback address.

use crate::failure::{Context as _, Failure, Result};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Ports that this process gave out already: the kernel may offer one again before its new owner has bound it.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port of 127.0.0.1 that nothing listens on and that this process has not given out before.
pub fn free() -> Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1")?;
        let port = listener.local_addr().context("the address of a listener")?.port();
        if given.insert(port) {
            return Ok(port);
        }
    }
}

/// An error that names the port if something listens there or it may not be used.
pub fn check(port: u16) -> Result<()> {
    TcpListener::bind(("127.0.0.1", port)).map(drop).map_err(|error| {
        let why = if error.kind() == std::io::ErrorKind::AddrInUse { "is taken".to_owned() } else { format!("can't be used: {error}") };
        Failure::new(format!("127.0.0.1:{port} {why}; choose another, or leave the flag out for a free one"))
    })
}

/// Whether something takes connections at this port of 127.0.0.1.
pub fn is_open(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_open_while_somebody_listens() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        assert!(is_open(listener.local_addr().unwrap().port()));
        // Nobody can listen there.
        assert!(!is_open(0));
    }
}
