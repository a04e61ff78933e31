//! UDP relay: clients send to it as if it were the server, and share the link. It may represent several servers or
//! several ports of one server; all of them share the link.

mod clients;
mod frame;
mod outbox;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_link::spec::{Direction, Path};
use longhaul_link::{Ecn, Packet};
use longhaul_sys::clock::ClockMap;
use longhaul_sys::linux::{ErrorClass, MAX_RECV_BATCH, Meta, Poll, RecvBatch, UdpSocket, clock_pair};
use longhaul_sys::pool::RecvPool;
use longhaul_units::Time;
use tokio::signal::unix::{SignalKind, signal};

use crate::drive::{Driver, Port};
use crate::engine::{DIRECTIONS, Engine};
use crate::log::Logs;
use crate::summary::{summary, ways};
use clients::Clients;
pub use frame::Frame;
use outbox::{Outbox, Outgoing};

/// Token of the first listener, followed by those of the others. Client numbers are also used as tokens, and are
/// smaller.
const LISTENERS: u64 = 1 << 62;

/// Maximum number of consecutive receive calls, so that a flood does not delay packets that are due.
const CALLS: usize = 4;

/// Maximum number of receive buffers referenced by packets on the link (256 MB); beyond it, packets are copied.
const KEPT: usize = 4096;

/// Size of each socket buffer in bytes: it holds the packets of 60 ms at 1 Gb/s while the emulator is not running.
const SOCKET_BUFFER: usize = 8 << 20;

/// Bytes of the UDP header and the IPv4 or IPv6 header.
const HEADERS: [u32; 2] = [8 + 20, 8 + 40];

/// A port of the relay and the server port that it represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Address to which clients send.
    pub listen: SocketAddr,
    /// Address of the server.
    pub to: SocketAddr,
}

/// Configuration of a relay.
#[derive(Clone, Debug)]
pub struct Options {
    /// The listening addresses with their servers.
    pub pairs: Vec<Pair>,
    /// Maximum number of concurrent clients; each takes one socket.
    pub clients: usize,
    /// Time without traffic in either direction after which a client is forgotten.
    pub idle: Duration,
}

impl Options {
    /// Creates a configuration with one pair and default limits: 500 clients, well below the usual limit of 1024
    /// descriptors, and 5 minutes, the value that RFC 4787 (REQ-5) recommends for NATs.
    pub fn new(listen: SocketAddr, to: SocketAddr) -> Self {
        Self { pairs: vec![Pair { listen, to }], clients: 500, idle: Duration::from_secs(300) }
    }

    /// Adds a pair, whose traffic shares the link with that of the others.
    #[must_use]
    pub fn and(mut self, listen: SocketAddr, to: SocketAddr) -> Self {
        self.pairs.push(Pair { listen, to });
        self
    }
}

/// Counters of the relay in addition to those of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients seen.
    pub clients: u64,
    /// Datagrams refused because there were too many clients, or because no socket could be created.
    pub refused: u64,
    /// Datagrams dropped by a full receive buffer before the emulator read them.
    pub missed: u64,
    /// Number of datagrams that passed the link and were then not accepted by the operating system.
    pub unsent: u64,
}

#[derive(Debug)]
struct Listener {
    socket: UdpSocket,
    to: SocketAddr,
    drops: u32,
    /// TTL currently set on the socket; 0 if unknown.
    ttl: u8,
}

#[derive(Debug)]
pub(crate) struct Relay {
    listeners: Vec<Listener>,
    clients: Clients,
    batch: RecvBatch,
    clock: ClockMap,
    outbox: Outbox,
    counts: Counts,
}

impl Relay {
    fn bind(options: &Options) -> Result<Self> {
        let bind = |&Pair { listen, to }: &Pair| {
            let socket = std::net::UdpSocket::bind(listen).and_then(prepare);
            let socket = socket.with_context(|| format!("cannot listen on {listen}; name a free port of this host"))?;
            Ok(Listener { socket, to, drops: 0, ttl: 0 })
        };
        let pool = RecvPool::new(2 * MAX_RECV_BATCH, KEPT);
        Ok(Self {
            listeners: options.pairs.iter().map(bind).collect::<Result<_>>()?,
            clients: Clients::new(options.clients, options.idle),
            batch: RecvBatch::new(&pool, MAX_RECV_BATCH),
            clock: ClockMap::new(clock_pair()),
            outbox: Outbox::default(),
            counts: Counts::default(),
        })
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
    }

    fn counts(&self) -> Counts {
        Counts { clients: self.clients.ever(), unsent: self.outbox.unsent, ..self.counts }
    }
}

fn listener_of(token: u64) -> Option<usize> {
    token.checked_sub(LISTENERS).and_then(|index| usize::try_from(index).ok())
}

impl Port<Frame> for Relay {
    fn watch(&mut self, poll: &Poll) -> io::Result<()> {
        self.listeners.iter().zip(LISTENERS..).try_for_each(|(listener, token)| poll.add(&listener.socket, token))
    }

    fn receive(&mut self, token: u64, poll: &Poll, engine: &mut Engine<Frame>) -> io::Result<bool> {
        let Self { listeners, clients, batch, clock, counts, .. } = self;
        let index = listener_of(token);
        for _ in 0..CALLS {
            let socket = match index {
                Some(index) => listeners.get(index).map(|listener| &listener.socket),
                None => clients.get_mut(token).map(|client| &client.socket),
            };
            let Some(socket) = socket else { return Ok(false) };
            if !received(socket.recv(batch))? {
                return Ok(false);
            }
            let pair = clock_pair();
            clock.begin_batch(pair);
            for mut message in batch.messages() {
                let meta = *message.meta;
                let at = stamp(clock, &meta, pair.monotonic, engine);
                let from = match index {
                    Some(index) => listeners.get_mut(index).and_then(|listener| {
                        missed(&meta, &mut listener.drops, counts);
                        let number = clients.admit((index, listener.to), &meta, at, poll)?;
                        Some((Direction::Up, number, meta.addr))
                    }),
                    None => clients.get_mut(token).map(|client| {
                        missed(&meta, &mut client.drops, counts);
                        client.heard = client.heard.max(at);
                        (Direction::Down, token, client.addr)
                    }),
                };
                let Some((direction, client, addr)) = from else {
                    counts.refused += datagrams(&meta);
                    continue;
                };
                offer(engine, direction, at, client, headers(addr), &meta, message.take());
            }
        }
        Ok(true)
    }

    fn release(&mut self, now: Time, engine: &mut Engine<Frame>) -> io::Result<()> {
        for direction in DIRECTIONS {
            while let Some((due, packet)) = engine.poll(direction, now) {
                let number = packet.payload.client;
                if self.outbox.is_full() || !self.outbox.is_for(direction, number) {
                    self.outbox.flush(&mut self.listeners, &mut self.clients, engine);
                }
                let tos = packet.dscp << 2 | packet.ecn.bits();
                let outgoing = Outgoing { due, tos, ttl: packet.ttl, bytes: packet.payload.bytes() };
                self.outbox.push(direction, number, outgoing);
            }
            self.outbox.flush(&mut self.listeners, &mut self.clients, engine);
        }
        Ok(())
    }

    fn tend(&mut self, now: Time) {
        self.clients.expire(now);
    }
}

fn prepare(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
    let socket = UdpSocket::new(socket)?;
    // The system may limit the buffers to a smaller size.
    socket.set_send_buffer(SOCKET_BUFFER)?;
    socket.set_recv_buffer(SOCKET_BUFFER)?;
    Ok(socket)
}

fn received(result: io::Result<usize>) -> io::Result<bool> {
    match result {
        Err(error) if ErrorClass::of(&error) == ErrorClass::Fatal => Err(error),
        // Other errors concern single datagrams, for example if no process listens on the server's port.
        result => Ok(result.is_ok()),
    }
}

/// Returns the arrival time of a message: the kernel's timestamp if it is plausible, otherwise `now`.
fn stamp(clock: &mut ClockMap, meta: &Meta, now: u64, engine: &Engine<Frame>) -> Time {
    engine.time(meta.timestamp.and_then(|stamp| clock.map(stamp)).unwrap_or(now))
}

/// Counts the datagrams that a socket had dropped before this message.
fn missed(meta: &Meta, before: &mut u32, counts: &mut Counts) {
    if let Some(drops) = meta.drops {
        counts.missed += u64::from(drops.wrapping_sub(*before));
        *before = drops;
    }
}

fn datagrams(meta: &Meta) -> u64 {
    meta.len.div_ceil(meta.stride.max(1)).max(1) as u64
}

fn headers(client: SocketAddr) -> u32 {
    let [v4, v6] = HEADERS;
    if client.is_ipv4() { v4 } else { v6 }
}

/// Offers each datagram of a message as a separate packet.
fn offer(
    engine: &mut Engine<Frame>,
    direction: Direction,
    at: Time,
    client: u64,
    headers: u32,
    meta: &Meta,
    mut bytes: bytes::Bytes,
) {
    let tos = meta.tos.unwrap_or(0);
    loop {
        let datagram = bytes.split_to(bytes.len().min(meta.stride.max(1)));
        let size = u32::try_from(datagram.len()).unwrap_or(u32::MAX).saturating_add(headers);
        let packet = Packet::new(size, Frame::new(client, datagram)).flow(client as u32).dscp(tos >> 2);
        let ttl = meta.ttl.unwrap_or(packet.ttl);
        engine.offer(direction, at, Packet { ttl, ..packet }.ecn(Ecn::from_bits(tos)));
        // A message without data is one empty datagram.
        if bytes.is_empty() {
            return;
        }
    }
}

/// Runs a relay until it is interrupted, and prints a summary.
pub fn run(options: &Options, path: &Path, logs: Logs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    // This is done before the first packet is forwarded, so that no signal ends the process without a summary or is
    // lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(guard);
    let running = Running::start(options, path, logs)?;
    // Ignore a closed output: the relay is still wanted.
    running.local_addrs().iter().for_each(|addr| drop(writeln!(io::stdout(), "listening on {addr}")));
    let _ = io::stdout().write_all(ways(path, "from clients to the server", "from the server to clients").as_bytes());
    runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            failed = running.driver.failed() => failed,
        }
    })?;
    let (engine, counts) = running.stop()?;
    let _ = io::stdout().write_all(summary(&engine, &counts).as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// A relay running on its own thread.
#[derive(Debug)]
pub struct Running {
    addrs: Vec<SocketAddr>,
    driver: Driver<Frame, Relay>,
}

impl Running {
    /// Starts the relay.
    pub fn start(options: &Options, path: &Path, logs: Logs) -> Result<Self> {
        let relay = Relay::bind(options)?;
        let addrs = relay.local_addrs();
        addrs.first().context("a relay needs an address to listen on")?;
        let driver = Driver::start(Engine::new(path, true, logs)?, relay).context("starting the link")?;
        Ok(Self { addrs, driver })
    }

    /// Returns the address to which clients of the first pair send.
    pub fn local_addr(&self) -> SocketAddr {
        self.addrs[0]
    }

    /// Returns the addresses to which clients send, in the order of the pairs.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Stops the relay, and returns the link and the relay's counters.
    ///
    /// # Errors
    /// Returns the error because of which it had already stopped, or an error in writing a log.
    pub fn stop(self) -> Result<(Engine<Frame>, Counts)> {
        let (engine, relay) = self.driver.stop().context("the relay")?;
        Ok((engine, relay.counts()))
    }
}
