//! Relay between the sockets of a client and a server.
#![expect(clippy::disallowed_methods, reason = "tests of real time")]

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use longhaul_link::spec::{LinkOptions, Path};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Options, Running};
use longhaul_sys::linux::{RecvBatch, Transmit, UdpSocket};
use longhaul_sys::pool::RecvPool;

/// Builds a link from options.
pub(crate) fn link(options: &str) -> Path {
    let words: Vec<_> = options.split_whitespace().collect();
    let mut link = LinkOptions::new();
    assert_eq!(link.read(&words).unwrap(), words.len(), "{options}");
    link.build(|file| Err(format!("{file}: no files here"))).unwrap()
}

/// Binds a socket to a loopback address.
pub(crate) fn socket(addr: &str) -> UdpSocket {
    let socket = UdpSocket::new(std::net::UdpSocket::bind((addr, 0)).unwrap()).unwrap();
    socket.set_recv_buffer(8 << 20).unwrap();
    socket.set_send_buffer(8 << 20).unwrap();
    socket
}

/// Starts a relay to a server.
pub(crate) fn relay(options: &str, to: SocketAddr) -> Running {
    let listen = SocketAddr::new(to.ip(), 0);
    Running::start(&Options::new(listen, to), &link(options), Logs::default()).unwrap()
}

/// Sends datagrams of `len` bytes that begin with their numbers in one call, so that they share one arrival time.
pub(crate) fn burst(socket: &UdpSocket, to: SocketAddr, tos: u8, len: usize, numbers: std::ops::Range<u32>) {
    let numbers: Vec<_> = numbers.collect();
    for numbers in numbers.chunks(60000 / len) {
        let mut bytes = vec![0; len * numbers.len()];
        for (datagram, number) in bytes.chunks_mut(len).zip(numbers) {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
        }
        let slices = [IoSlice::new(&bytes)];
        let segment_size = Some(u16::try_from(len).unwrap());
        socket.send(&Transmit { destination: Some(to), tos, src_ip: None, segment_size, slices: &slices }).unwrap();
    }
}

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) number: u32,
    pub(crate) len: usize,
    pub(crate) from: SocketAddr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) at: Instant,
}

/// Receives until there are `count` datagrams, or until none has arrived for 2 s.
pub(crate) fn receive(socket: &UdpSocket, count: usize) -> Vec<Arrival> {
    receive_for(socket, count, Duration::from_secs(2))
}

/// Receives until there are `count` datagrams, or until none has arrived for `patience`.
pub(crate) fn receive_for(socket: &UdpSocket, count: usize, patience: Duration) -> Vec<Arrival> {
    let mut batch = RecvBatch::new(&RecvPool::new(32, 0), 32);
    let mut arrivals = Vec::new();
    let mut last = Instant::now();
    while arrivals.len() < count && last.elapsed() < patience {
        match socket.recv(&mut batch) {
            Ok(_) => last = Instant::now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        for message in batch.messages() {
            let meta = message.meta;
            let arrival = |datagram: &[u8]| Arrival {
                number: datagram.first_chunk().map_or(u32::MAX, |number| u32::from_be_bytes(*number)),
                len: datagram.len(),
                from: meta.addr,
                tos: meta.tos.unwrap(),
                ttl: meta.ttl.unwrap(),
                at: last,
            };
            if meta.len == 0 {
                arrivals.push(arrival(&[]));
            }
            arrivals.extend(message.datagrams().map(arrival));
        }
    }
    arrivals
}

pub(crate) fn numbers(arrivals: &[Arrival]) -> Vec<u32> {
    arrivals.iter().map(|arrival| arrival.number).collect()
}
