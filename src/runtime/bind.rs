//! Where a server listens: `[::]` is every address of the machine, of both families.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens at the address. `[::]` takes connections of IPv4 too, whatever the machine's default is, and is `0.0.0.0` where there is no IPv6.
///
/// # Errors
/// When the address is taken, or not this machine's.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind(address).await;
    }
    match dual_stack(address) {
        Err(error) if no_ipv6(&error) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await,
        bound => bound,
    }
}

fn dual_stack(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    socket.set_reuseaddr(true)?;
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Ipv6V6Only, &false)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A kernel built or started without IPv6 knows no such socket, or has no such address.
fn no_ipv6(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL | Errno::EPROTONOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn every_address_is_one_of_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn one_address_is_that_one() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let taken = listener.local_addr().unwrap();
        assert_eq!(taken.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(bind(taken).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, taken.port()));
        assert_eq!(bind(every).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
