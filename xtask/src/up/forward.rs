//! One address for both gateways, as a Service is: each connection goes to the next one that is ready.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The most connections at once: waiting calls of many agents, and some people.
const CONNECTIONS: usize = 4096;

/// The ports of the gateways that are ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready(Arc<Mutex<Vec<u16>>>);

impl Ready {
    /// From now on these.
    pub(super) fn set(&self, ports: Vec<u16>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    fn get(&self) -> Vec<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves until the runtime ends.
pub(super) async fn serve(listener: TcpListener, ready: Ready) {
    let next = Arc::new(AtomicUsize::new(0));
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, mostly: others may end meanwhile.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (ready, next) = (ready.clone(), Arc::clone(&next));
        #[expect(clippy::disallowed_methods, reason = "owned by the runtime, which `up` drops at its end")]
        tokio::spawn(async move {
            forward(client, &ready, &next).await;
            drop(slot);
        });
    }
}

async fn forward(mut client: TcpStream, ready: &Ready, next: &AtomicUsize) {
    let ports = ready.get();
    let first = next.fetch_add(1, Ordering::Relaxed);
    for offset in 0..ports.len() {
        let Some(port) = ports.get((first + offset) % ports.len()) else { return };
        // One that has just been killed is still in the list for a moment.
        let Ok(mut gateway) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], *port))).await else { continue };
        // Frames and keystrokes are small and must not wait for more.
        let _ = client.set_nodelay(true);
        let _ = gateway.set_nodelay(true);
        // Either side may close at any time.
        let _ = copy_bidirectional(&mut client, &mut gateway).await;
        return;
    }
}
