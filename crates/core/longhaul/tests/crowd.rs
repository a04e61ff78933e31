//! A listener with 50,000 idle connections, and the next client to connect.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]
#![allow(clippy::disallowed_methods, reason = "it prints how long it took")]

#[path = "sockets/common.rs"]
mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use common::{PATIENCE, soon};
use longhaul::{TcpSocket, TcpStream};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// All connections come from one address, which has hardly more ports than this.
const CONNECTIONS: usize = 50_000;
/// Number of handshakes in parallel. Clients without state do not retransmit, so their datagrams must fit into the
/// server's buffer.
const PARALLEL: usize = 100;

/// A client without state: its connection remains when its socket is closed.
struct RawClient(UdpSocket);

impl RawClient {
    fn send(&self, header: &Header) {
        let mut datagram = [0; 64];
        let len = CheshireCodec::emit(header, &mut datagram).unwrap();
        self.0.send(&datagram[..len]).unwrap();
    }

    /// Sends a SYN from the next free port.
    fn send_syn(ports: &mut std::ops::Range<u16>, server: SocketAddr) -> Self {
        let client = Self(ports.find_map(|port| UdpSocket::bind((Ipv4Addr::new(127, 0, 2, 1), port)).ok()).unwrap());
        client.0.connect(server).unwrap();
        client.0.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut syn = Header { flags: Flags::SYN, seq: 99, window: 65_535, ..Header::default() };
        syn.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
        client.send(&syn);
        client
    }

    fn acknowledge(&self) {
        let mut datagram = [0; 100];
        let len = self.0.recv(&mut datagram).unwrap();
        let (answer, _) = CheshireCodec::parse(&datagram[..len]).unwrap();
        let mut ack = Header {
            flags: Flags::ACK,
            seq: 100,
            ack: answer.seq.wrapping_add(1),
            window: 65_535,
            ..Header::default()
        };
        ack.options.timestamps = answer.options.timestamps.map(|stamp| Timestamps { value: 2, echo: stamp.value });
        self.send(&ack);
    }
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The next client is connected and served like the first one; the time that this takes is printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_served_while_fifty_thousand_connections_are_idle() {
    let socket = TcpSocket::new_v4().unwrap();
    // Independent of the machine's memory.
    socket.set_max_connections(Some(CONNECTIONS + 10));
    socket.bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1024).unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
    let (begun, before) = (Instant::now(), resident());
    let (accepted_all, wait) = std::sync::mpsc::channel();
    let connecting = tokio::task::spawn_blocking(move || {
        let mut ports = 1024..u16::MAX;
        for _ in 0..CONNECTIONS / PARALLEL {
            let clients: Vec<_> = (0..PARALLEL).map(|_| RawClient::send_syn(&mut ports, server)).collect();
            clients.iter().for_each(RawClient::acknowledge);
            wait.recv().unwrap();
        }
    });
    let mut idle = Vec::with_capacity(CONNECTIONS);
    while idle.len() < CONNECTIONS {
        idle.push(soon(listener.accept()).await.unwrap().0);
        if idle.len().is_multiple_of(PARALLEL) {
            accepted_all.send(()).unwrap();
        }
    }
    connecting.await.unwrap();
    let each = resident().saturating_sub(before) / CONNECTIONS;
    eprintln!("{CONNECTIONS} connections in {:?}, {each} bytes of process memory each", begun.elapsed());

    let begun = Instant::now();
    let (client, accepted) = soon(async { tokio::join!(TcpStream::connect(server), listener.accept()) }).await;
    let (mut client, mut accepted) = (client.unwrap(), accepted.unwrap().0);
    eprintln!("the next client connected in {:?}", begun.elapsed());
    client.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    soon(accepted.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"hello");
    eprintln!("the next client was served in {:?}", begun.elapsed());
}
