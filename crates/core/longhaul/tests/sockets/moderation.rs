//! Pauses in reading a socket on which data streams in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::common::{needs_system_sockets, pattern, soon};

/// Length of a transfer that takes more than ten round trips at 11 Mb/s.
const LEN: usize = 8 << 20;
/// A 64th of the round-trip time is 4 ms, in which four datagrams arrive at 11 Mb/s.
const DELAY: Duration = Duration::from_millis(128);

/// Relays between one client and `server`, with [`DELAY`] in each direction. Returns its address for the client.
#[allow(clippy::disallowed_methods, reason = "the relay has a clock of its own")]
async fn delaying_relay(server: SocketAddr) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    back.connect(server).await.unwrap();
    let address = front.local_addr().unwrap();
    let (to_client, mut from_server) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (to_server, mut from_client) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (peer, mut client) = tokio::sync::watch::channel(None);
    let due = || Instant::now() + DELAY;
    let (socket, other) = (Arc::clone(&front), Arc::clone(&back));
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                Ok((len, from)) = socket.recv_from(&mut up) => {
                    peer.send_replace(Some(from));
                    to_server.send((due(), up[..len].to_vec())).unwrap();
                }
                Ok(len) = other.recv(&mut down) => to_client.send((due(), down[..len].to_vec())).unwrap(),
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, datagram)) = from_client.recv().await {
            tokio::time::sleep_until(at).await;
            let _ = back.send(&datagram).await;
        }
    });
    tokio::spawn(async move {
        while let Some((at, datagram)) = from_server.recv().await {
            tokio::time::sleep_until(at).await;
            let client = client.wait_for(Option::is_some).await.unwrap().unwrap();
            let _ = front.send_to(&datagram, client).await;
        }
    });
    address
}

/// Transfers [`LEN`] bytes. Returns the pauses of the sender's and the receiver's socket.
async fn pauses_of_transfer(from: &mut TcpStream, to: &mut TcpStream) -> [u64; 2] {
    let pauses = |stream: &TcpStream| stream.info().unwrap().socket.read_pauses;
    let before = [pauses(from), pauses(to)];
    let data = pattern(LEN);
    let mut received = vec![0; LEN];
    let (sent, read) = tokio::join!(from.write_all(&data), to.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    assert!(received == data);
    [pauses(from) - before[0], pauses(to) - before[1]]
}

/// Returns the pauses of both sockets during a transfer over the relay or directly, to the server or from it.
async fn pauses(relayed: bool, to_server: bool) -> [u64; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let address = if relayed { delaying_relay(address).await } else { address };
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (mut client, mut server) = (client.unwrap(), accepted.unwrap().0);
    let (from, to) = if to_server { (&mut client, &mut server) } else { (&mut server, &mut client) };
    soon(pauses_of_transfer(from, to)).await
}

/// The receiver of data pauses, whichever end that is, and not on a path where a 64th of the round-trip time is short.
#[tokio::test]
async fn the_receiver_of_a_stream_reads_several_datagrams_at_once() {
    if !needs_system_sockets() {
        return;
    }
    for relayed in [true, false] {
        let (up, down) = tokio::join!(pauses(relayed, true), pauses(relayed, false));
        assert_eq!([up[0], down[0]], [0, 0], "the sender receives ACKs only");
        assert_eq!([up[1] > 0, down[1] > 0], [relayed; 2], "{up:?} {down:?}");
    }
}
