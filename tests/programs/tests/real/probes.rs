//! Low-priority probes on real sockets: a relay between both ends checks the TOS byte or traffic class of each packet.
#![expect(clippy::disallowed_methods, reason = "the relay delays what passes in real time")]

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longhaul::{Config, TcpListener, TcpProbes, TcpStream};
use longhaul_sys::linux::{self, RecvBatch};
use longhaul_sys::pool::RecvPool;
use longhaul_wire::{CheshireCodec, Codec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// One-way delay of the relay, chosen so that probes sent every 64th of the RTT are well separated.
const DELAY: Duration = Duration::from_millis(20);

/// Data packets from the client that passed the relay: TOS byte, and whether the sequence number had passed before.
#[derive(Default)]
struct Passed {
    seen: HashSet<u32>,
    data: Vec<(u8, bool)>,
}

impl Passed {
    fn note(&mut self, tos: u8, datagram: &[u8]) {
        let Ok((header, offset)) = CheshireCodec::parse(datagram) else { return };
        if datagram.len() > offset {
            let again = !self.seen.insert(header.seq);
            self.data.push((tos, again));
        }
    }
}

/// Relay between the client and `server` that delays packets.
struct Relay {
    /// Socket that clients send to, and its duplicate that reads the kernel's control messages.
    front: (UdpSocket, linux::UdpSocket),
    back: UdpSocket,
    server: SocketAddr,
}

impl Relay {
    fn new(server: SocketAddr) -> Self {
        let any = || UdpSocket::bind((server.ip(), 0)).unwrap();
        let (front, back) = (any(), any());
        back.set_nonblocking(true).unwrap();
        let ears = linux::UdpSocket::new(front.try_clone().unwrap()).unwrap();
        assert!(ears.features().tos, "the kernel tells of TOS");
        Self { front: (front, ears), back, server }
    }

    fn run(&self, over: &AtomicBool) -> Passed {
        let (mut passed, mut client, mut late) = (Passed::default(), None, VecDeque::new());
        let mut batch = RecvBatch::new(&RecvPool::new(64, 64), 16);
        let mut buffer = [0; 1 << 16];
        while !over.load(Ordering::Relaxed) {
            while self.front.1.recv(&mut batch).is_ok() {
                for message in batch.messages() {
                    client = Some(message.meta.addr);
                    for datagram in message.datagrams() {
                        passed.note(message.meta.tos.unwrap(), datagram);
                        late.push_back((Instant::now() + DELAY, true, datagram.to_vec()));
                    }
                }
            }
            while let Ok((len, _)) = self.back.recv_from(&mut buffer) {
                late.push_back((Instant::now() + DELAY, false, buffer[..len].to_vec()));
            }
            while late.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                let (_, there, datagram) = late.pop_front().unwrap();
                let _ = match (there, client) {
                    (true, _) => self.back.send_to(&datagram, self.server),
                    (false, Some(client)) => self.front.0.send_to(&datagram, client),
                    (false, None) => Ok(0),
                };
            }
            thread::sleep(Duration::from_micros(100));
        }
        passed
    }
}

/// Transfers one million bytes with `congestion` over loopback.
fn transfer(ip: IpAddr, congestion: &str) -> (TcpProbes, Passed) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((ip, 0))).unwrap();
    let relay = Relay::new(listener.local_addr().unwrap());
    let to = relay.front.0.local_addr().unwrap();
    runtime.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).await.unwrap() > 0 {}
    });
    let mut config = Config::default();
    longhaul_zoo::register().unwrap();
    config.congestion(congestion.parse().unwrap());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let relay = scope.spawn(|| relay.run(&over));
        let probes = runtime.block_on(async {
            let mut stream = TcpStream::connect_with(to, &config).await.unwrap();
            stream.write_all(&vec![7; 1_000_000]).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
            stream.info().unwrap().experiments().probes.unwrap()
        });
        over.store(true, Ordering::Relaxed);
        (probes, relay.join().unwrap())
    })
}

/// Probes carry the requested DSCP, by default 1 (RFC 8622), and no ECN, whatever data packets carry. Each probe is a
/// copy of data sent before, and all probes are counted.
#[test]
fn probes_bear_their_codepoint_on_the_wire() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        for (congestion, dscp) in [("tcp-peach-plus", 1), ("sudden-start(dscp=8)+new-reno", 8)] {
            let (told, passed) = transfer(ip, congestion);
            let (low, data): (Vec<_>, Vec<_>) = passed.data.iter().partition(|(tos, _)| *tos >> 2 == dscp);
            println!("{ip} {congestion}: {told:?}, {} of low priority, {} others", low.len(), data.len());
            assert!(low.len() >= 16 && low.len() as u64 == told.sent, "{told:?} {}", low.len());
            assert!(low.iter().all(|(tos, again)| *tos == dscp << 2 && *again));
            assert!(data.iter().all(|(tos, _)| *tos >> 2 == 0) && data.iter().any(|(tos, _)| tos & 3 == 2));
            assert_eq!(told.refused, 0);
        }
    }
}
