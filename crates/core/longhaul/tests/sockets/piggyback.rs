//! ACKs that travel with what the application writes next.

use crate::common::soon;
use longhaul::TcpSocket;
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// A peer of which each segment is written here.
struct Peer {
    socket: UdpSocket,
    received: Vec<u8>,
}

impl Peer {
    async fn new() -> Self {
        Self { socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(), received: vec![0; 1500] }
    }

    /// Receives a segment: its header and the length of its payload.
    async fn receive(&mut self) -> (Header, usize) {
        let (len, from) = soon(self.socket.recv_from(&mut self.received)).await.unwrap();
        self.socket.connect(from).await.unwrap();
        let (header, offset) = CheshireCodec::parse(&self.received[..len]).unwrap();
        (header, len - offset)
    }

    async fn send(&self, flags: Flags, seq: u32, ack: u32) {
        let header = Header { flags, seq, ack, window: 60_000, ..Header::default() };
        let mut datagram = [0; 64];
        let len = CheshireCodec::emit(&header, &mut datagram).unwrap();
        self.socket.send(&datagram[..len]).await.unwrap();
    }

    /// Answers the SYN, after which RCV.NXT of the other end is 501; returns SND.NXT of the other end.
    async fn accept(&mut self) -> u32 {
        let (syn, _) = self.receive().await;
        assert_eq!(syn.flags.without_ecn(), Flags::SYN);
        self.send(Flags::SYN | Flags::ACK, 500, syn.seq.wrapping_add(1)).await;
        syn.seq.wrapping_add(1)
    }
}

trait WithoutEcn {
    fn without_ecn(self) -> Self;
}

impl WithoutEcn for Flags {
    /// Returns the flags that are not for ECN.
    fn without_ecn(self) -> Self {
        [Self::SYN, Self::ACK, Self::FIN, Self::RST]
            .into_iter()
            .filter(|flag| self.contains(*flag))
            .fold(Self::NONE, |all, flag| all | flag)
    }
}

#[tokio::test]
async fn the_first_write_carries_the_ack_of_the_handshake() {
    let mut peer = Peer::new().await;
    let to = peer.socket.local_addr().unwrap();
    let client = tokio::spawn(async move {
        let mut stream = TcpSocket::new_v4().unwrap().connect(to).await.unwrap();
        stream.write_all(b"request").await.unwrap();
        stream
    });
    let next = peer.accept().await;
    let (first, payload) = peer.receive().await;
    assert_eq!((first.flags.without_ecn(), first.seq, first.ack, payload), (Flags::ACK, next, 501, 7));
    drop(soon(client).await.unwrap());
    let (fin, payload) = peer.receive().await;
    assert_eq!((fin.flags.without_ecn(), payload), (Flags::ACK | Flags::FIN, 0));
}

/// A runtime with one thread stands still once the future of `block_on` has returned.
#[test]
fn a_connection_is_acknowledged_before_block_on_returns() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut peer = server.block_on(Peer::new());
    let to = peer.socket.local_addr().unwrap();
    let accepting = server.spawn(async move { (peer.accept().await, peer) });
    let stream = runtime.block_on(async { soon(TcpSocket::new_v4().unwrap().connect(to)).await.unwrap() });
    let (next, mut peer) = server.block_on(accepting).unwrap();
    let (ack, payload) = server.block_on(peer.receive());
    assert_eq!((ack.flags.without_ecn(), ack.seq, ack.ack, payload), (Flags::ACK, next, 501, 0));
    drop((stream, runtime));
}

#[tokio::test]
async fn a_client_that_writes_nothing_acknowledges_the_handshake() {
    let mut peer = Peer::new().await;
    let to = peer.socket.local_addr().unwrap();
    let client = tokio::spawn(async move { TcpSocket::new_v4().unwrap().connect(to).await.unwrap() });
    let next = peer.accept().await;
    let (ack, payload) = peer.receive().await;
    assert_eq!((ack.flags.without_ecn(), ack.seq, ack.ack, payload), (Flags::ACK, next, 501, 0));
    drop(soon(client).await.unwrap());
}

#[tokio::test]
async fn a_fin_in_answer_to_a_fin_carries_its_ack() {
    let mut peer = Peer::new().await;
    let to = peer.socket.local_addr().unwrap();
    let client = tokio::spawn(async move {
        let mut stream = TcpSocket::new_v4().unwrap().connect(to).await.unwrap();
        assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0);
    });
    let next = peer.accept().await;
    peer.receive().await;
    peer.send(Flags::ACK | Flags::FIN, 501, next).await;
    let (fin, _) = peer.receive().await;
    assert_eq!((fin.flags.without_ecn(), fin.seq, fin.ack), (Flags::ACK | Flags::FIN, next, 502));
    soon(client).await.unwrap();
}

#[tokio::test]
async fn a_fin_is_acknowledged_although_the_stream_stays_open() {
    let mut peer = Peer::new().await;
    let to = peer.socket.local_addr().unwrap();
    let client = tokio::spawn(async move {
        let mut stream = TcpSocket::new_v4().unwrap().connect(to).await.unwrap();
        assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0);
        stream
    });
    let next = peer.accept().await;
    peer.receive().await;
    peer.send(Flags::ACK | Flags::FIN, 501, next).await;
    let (ack, payload) = peer.receive().await;
    assert_eq!((ack.flags.without_ecn(), ack.seq, ack.ack, payload), (Flags::ACK, next, 502, 0));
    // The other direction is not affected.
    let mut stream = soon(client).await.unwrap();
    stream.write_all(b"late").await.unwrap();
    let (data, payload) = peer.receive().await;
    assert_eq!((data.seq, payload), (next, 4));
}
