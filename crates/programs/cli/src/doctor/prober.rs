//! UDP socket that exchanges probes with a reflector.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::report::Stopwatch;

const UDP_HEADER: usize = 8;
/// Largest IP packet that is sent, in bytes.
const LARGEST: usize = 9000;
/// Receive buffer in bytes: receive offload merges answers up to this size.
const RECEIVED: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Reflected {
    pub(super) answer: Answer,
    /// Send time of the probe. Like `heard`, the arrival time of the answer, it counts from the creation of the socket.
    pub(super) sent: Duration,
    pub(super) heard: Duration,
}

impl Reflected {
    pub(super) fn rtt(&self) -> Duration {
        self.heard.saturating_sub(self.sent)
    }
}

/// Socket connected to a reflector. Datagrams are never fragmented on Linux.
pub(super) struct Prober {
    io: UdpSocket,
    clock: Stopwatch,
    nonce: u64,
    headers: usize,
    train: u32,
    out: Vec<u8>,
    received: Vec<u8>,
    /// Answers from the last receive call, which may have merged several datagrams.
    waiting: Vec<Reflected>,
}

impl Prober {
    pub(super) fn connect(peer: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let io = std::net::UdpSocket::bind((any, 0))?;
        io.connect(peer)?;
        io.set_nonblocking(true)?;
        // This socket has the same options as `io`: no fragmentation, and no reaction to ICMP.
        #[cfg(target_os = "linux")]
        longhaul_sys::linux::UdpSocket::new(io.try_clone()?)?;
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(|error| io::Error::other(format!("no random number: {error}")))?;
        Ok(Self {
            io: UdpSocket::from_std(io)?,
            clock: Stopwatch::start(),
            nonce: u64::from_ne_bytes(nonce),
            headers: UDP_HEADER + if peer.is_ipv4() { 20 } else { 40 },
            train: 0,
            out: vec![0; LARGEST],
            received: vec![0; RECEIVED],
            waiting: Vec::new(),
        })
    }

    pub(super) fn headers(&self) -> usize {
        self.headers
    }

    /// Size of the smallest IP packet that is answered, in bytes.
    pub(super) fn smallest(&self) -> usize {
        self.headers + ANSWER_LEN
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Starts a train of packets, after which answers to earlier trains are ignored.
    pub(super) fn start_train(&mut self) {
        self.train = self.train.wrapping_add(1);
        self.waiting.clear();
    }

    pub(super) fn set_tos(&self, tos: u8) -> io::Result<()> {
        let socket = SockRef::from(&self.io);
        match self.io.local_addr()? {
            SocketAddr::V4(_) => socket.set_tos_v4(tos.into()),
            SocketAddr::V6(_) => socket.set_tclass_v6(tos.into()),
        }
    }

    /// Sends packet `index` of the train, with `size` bytes including the IP header. Returns whether it was sent: a
    /// packet may be too large for the interface, or the system may report that an earlier packet was refused.
    pub(super) async fn send(&mut self, index: u32, size: usize) -> io::Result<bool> {
        let probe = Probe { nonce: self.nonce, train: self.train, index, sent: nanos(self.clock.elapsed()) };
        let Some(datagram) = self.out.get_mut(..size.saturating_sub(self.headers)) else { return Ok(false) };
        if probe.emit(datagram).is_none() {
            return Ok(false);
        }
        match self.io.send(datagram).await {
            Ok(_) => Ok(true),
            Err(error) if is_of_the_path(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the next answer to this train, or `None` if none arrives before `until`.
    pub(super) async fn receive(&mut self, until: Duration) -> io::Result<Option<Reflected>> {
        loop {
            if let Some(reflected) = self.waiting.pop() {
                return Ok(Some(reflected));
            }
            let left = until.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let Ok(received) = timeout(left, self.io.recv(&mut self.received)).await else { return Ok(None) };
            let heard = self.clock.elapsed();
            let len = match received {
                Ok(len) => len,
                Err(error) if is_of_the_path(&error) => continue,
                Err(error) => return Err(error),
            };
            for datagram in self.received.get(..len).unwrap_or_default().chunks(ANSWER_LEN).rev() {
                let Some(answer) = Answer::parse(datagram) else { continue };
                let Probe { nonce, train, sent, .. } = answer.probe;
                if (nonce, train) == (self.nonce, self.train) {
                    self.waiting.push(Reflected { answer, sent: Duration::from_nanos(sent), heard });
                }
            }
        }
    }

    /// Sends a packet up to `tries` times until one is answered within `patience`.
    pub(super) async fn exchange(
        &mut self,
        size: usize,
        tries: u32,
        patience: Duration,
    ) -> io::Result<Option<Reflected>> {
        self.start_train();
        for index in 0..tries {
            if !self.send(index, size).await? {
                // The interface may accept the size again once routes have changed.
                tokio::time::sleep(patience / tries.max(1)).await;
                continue;
            }
            let until = self.now() + patience;
            if let Some(reflected) = self.receive(until).await? {
                return Ok(Some(reflected));
            }
        }
        Ok(None)
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether the path or the interface caused an error, rather than the socket.
fn is_of_the_path(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
    {
        return true;
    }
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::WouldBlock
    )
}
