//! Helpers shared by several tests.
#![allow(dead_code, reason = "every test binary uses another part of it")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use longhaul::{TcpListener, TcpSocket, TcpStream};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Longer than any step takes on the slowest machine, so that a test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether sockets use longhaul's own system calls, and not `quinn-udp`, by whose name `LONGHAUL_UDP` selects it for tests.
pub fn system_sockets() -> bool {
    cfg!(target_os = "linux") && std::env::var_os("LONGHAUL_UDP").is_none_or(|name| name != "quinn")
}

/// As [`system_sockets`], for a test that is left out without them.
pub fn needs_system_sockets() -> bool {
    needs::system_sockets(system_sockets())
}

/// Returns both ends of a connection over loopback: client, server.
pub async fn pair() -> (TcpStream, TcpStream) {
    pair_with(TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap()).await
}

/// Returns both ends of a connection between the given sockets, like [`pair`].
pub async fn pair_with(client: TcpSocket, server: TcpSocket) -> (TcpStream, TcpStream) {
    server.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = server.listen(16).unwrap();
    connect(&listener, client).await
}

/// Connects `client` to `listener` and returns both ends.
pub async fn connect(listener: &TcpListener, client: TcpSocket) -> (TcpStream, TcpStream) {
    let to = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(client.connect(to), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// Connects `client` to a listener of `server` through a relay that drops every `nth` datagram to the server.
pub async fn pair_through(client: TcpSocket, server: TcpSocket, nth: usize) -> (TcpStream, TcpStream, Relay) {
    server.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = server.listen(16).unwrap();
    let relay = Relay::losing(listener.local_addr().unwrap(), nth).await;
    let (client, server) = tokio::join!(client.connect(relay.address), listener.accept());
    (client.unwrap(), server.unwrap().0, relay)
}

/// Returns the output of `future`, and fails if it hangs.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("the future hangs")
}

/// Polls `future` at most `times` times, then drops it. Returns its output if it was ready by then.
pub async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(|cx| {
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= times => Poll::Ready(None),
            Poll::Pending => {
                // Poll again in any case, even without a reason.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns bytes that depend on their position in the stream.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Datagrams to the server that a relay delays, or `None` if it passes them on at once.
type Held = Arc<Mutex<Option<Vec<Vec<u8>>>>>;

/// A UDP relay between one client and `server` that can be cut or delay datagrams to the server.
pub struct Relay {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
    back: Arc<UdpSocket>,
    held: Held,
    task: JoinHandle<()>,
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        Self::losing(server, usize::MAX).await
    }

    /// Creates a relay that drops every `nth` datagram to the server.
    pub async fn losing(server: SocketAddr, nth: usize) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        back.connect(server).await.unwrap();
        let held = Held::default();
        let (to_server, delayed) = (Arc::clone(&back), Arc::clone(&held));
        let address = front.local_addr().unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        let task = tokio::spawn(async move {
            let mut client = None;
            let mut passed = 0;
            let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    Ok((len, from)) = front.recv_from(&mut up) => {
                        client = Some(from);
                        passed += 1;
                        if is_cut.load(Ordering::Relaxed) || passed % nth == 0 {
                            continue;
                        }
                        if let Some(held) = delayed.lock().unwrap().as_mut() {
                            held.push(up[..len].to_vec());
                            continue;
                        }
                        let _ = to_server.send(&up[..len]).await;
                    }
                    Ok(len) = to_server.recv(&mut down) => {
                        if let Some(client) = client.filter(|_| !is_cut.load(Ordering::Relaxed)) {
                            let _ = front.send_to(&down[..len], client).await;
                        }
                    }
                }
            }
        });
        Self { address, cut, back, held, task }
    }

    /// Closes the sockets, like those of a killed program, so that the host answers with ICMP Port Unreachable.
    pub async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Delays datagrams to the server until [`release`](Self::release) is called.
    pub fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    /// Passes the delayed datagrams on, in their order, and delays no more.
    pub async fn release(&self) {
        let held = self.held.lock().unwrap().take();
        for datagram in held.into_iter().flatten() {
            self.back.send(&datagram).await.unwrap();
        }
    }

    /// Drops all further datagrams in both directions.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}
