//! Helpers shared by several tests.
#![allow(dead_code, reason = "every test binary uses another part of it")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use longhaul::{TcpListener, TcpSocket, TcpStream};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Longer than any step takes on the slowest machine, so that a test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether sockets use longhaul's own system calls, and not `quinn-udp`, by whose name `LONGHAUL_UDP` selects it.
pub fn system_sockets() -> bool {
    cfg!(target_os = "linux") && std::env::var_os("LONGHAUL_UDP").is_none_or(|name| name != "quinn")
}

/// As [`system_sockets`], with a message for the test that is skipped.
pub fn needs_system_sockets() -> bool {
    let has = system_sockets();
    if !has {
        println!("skipped: quinn-udp does not provide what this test needs");
    }
    has
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

/// A UDP relay between one client and `server` that can be cut.
pub struct Relay {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        Self::losing(server, usize::MAX).await
    }

    /// Creates a relay that drops every `nth` datagram to the server.
    pub async fn losing(server: SocketAddr, nth: usize) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        back.connect(server).await.unwrap();
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
                        if !is_cut.load(Ordering::Relaxed) && passed % nth != 0 {
                            let _ = back.send(&up[..len]).await;
                        }
                    }
                    Ok(len) = back.recv(&mut down) => {
                        if let Some(client) = client.filter(|_| !is_cut.load(Ordering::Relaxed)) {
                            let _ = front.send_to(&down[..len], client).await;
                        }
                    }
                }
            }
        });
        Self { address, cut, task }
    }

    /// Closes the sockets, like those of a killed program, so that the host answers with ICMP Port Unreachable.
    pub async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Drops all further datagrams in both directions.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}
