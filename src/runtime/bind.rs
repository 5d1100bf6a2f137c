//! Where a server listens: `[::]` is every address of the machine, of both families.

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
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
        // A kernel built or started without IPv6. Where it is only turned off, such a socket is to be had, and takes IPv4.
        Err(error) if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn dual_stack(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    socket.set_reuseaddr(true)?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
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
