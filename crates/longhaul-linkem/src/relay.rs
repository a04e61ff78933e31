//! A UDP relay: clients talk to it as if it were the server, and share the link on the way. It may stand for several
//! servers, or several ports of one, whose traffic shares the link as well.

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

/// The first listener's token, which the others' follow; clients have their numbers, which stay below.
const LISTENERS: u64 = 1 << 62;

/// Receive calls in a row, lest a flood keep what is due waiting.
const CALLS: usize = 4;

/// Receive buffers that packets on the link may hold on to (256 MB); beyond that, they are copied.
const KEPT: usize = 4096;

/// Bytes of each socket's buffers: what comes in at 1 Gb/s while the emulator is not running for 60 ms.
const SOCKET_BUFFER: usize = 8 << 20;

/// UDP's header and the IP header around it.
const HEADERS: [u32; 2] = [8 + 20, 8 + 40];

/// A port of the relay and the server's for which it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Where clients send to.
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub to: SocketAddr,
}

/// What a relay is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients send to, and where what they send there goes.
    pub pairs: Vec<Pair>,
    /// The most clients at a time, each of which has a socket.
    pub clients: usize,
    /// A client is forgotten after so long without a datagram in either direction.
    pub idle: Duration,
}

impl Options {
    /// One pair, with the usual bounds: 500 clients, so that the usual limit of 1024 descriptors is far, and 5 minutes, which
    /// RFC 4787 (REQ-5) recommends to address translators.
    #[must_use]
    pub fn new(listen: SocketAddr, to: SocketAddr) -> Self {
        Self { pairs: vec![Pair { listen, to }], clients: 500, idle: Duration::from_secs(300) }
    }

    /// With one more pair, whose traffic shares the link with that of the others.
    #[must_use]
    pub fn and(mut self, listen: SocketAddr, to: SocketAddr) -> Self {
        self.pairs.push(Pair { listen, to });
        self
    }
}

/// What the relay saw beside the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients there were.
    pub clients: u64,
    /// Datagrams that came while there were too many clients, or no socket could be had.
    pub refused: u64,
    /// Datagrams that a full receive buffer lost before the emulator saw them.
    pub missed: u64,
    /// Datagrams that had passed the link, and that the system did not take.
    pub unsent: u64,
}

/// A socket that clients send to.
#[derive(Debug)]
struct Listener {
    socket: UdpSocket,
    /// Where what comes to it goes.
    to: SocketAddr,
    /// Its count of lost datagrams.
    drops: u32,
    /// The TTL that it sends with; 0 if that is unknown.
    ttl: u8,
}

/// The relay's sockets.
#[derive(Debug)]
pub struct Relay {
    listeners: Vec<Listener>,
    clients: Clients,
    batch: RecvBatch,
    clock: ClockMap,
    outbox: Outbox,
    counts: Counts,
}

impl Relay {
    /// Binds the listeners.
    ///
    /// # Errors
    /// The system's, with the address.
    pub fn bind(options: &Options) -> Result<Self> {
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

    /// Where clients send to, in the order of the pairs.
    ///
    /// # Errors
    /// None that bound sockets are known to give.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
    }

    /// What it saw beside the link.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { clients: self.clients.ever(), unsent: self.outbox.unsent(), ..self.counts }
    }
}

/// The number of the listener with this token; `None` if it is a client's.
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

/// Makes a socket ready for a relay.
fn prepare(socket: std::net::UdpSocket) -> io::Result<UdpSocket> {
    let socket = UdpSocket::new(socket)?;
    // Less than that is what some systems allow.
    socket.set_send_buffer(SOCKET_BUFFER)?;
    socket.set_recv_buffer(SOCKET_BUFFER)?;
    Ok(socket)
}

/// Whether something was received.
fn received(result: io::Result<usize>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) => match ErrorClass::of(&error) {
            ErrorClass::Fatal => Err(error),
            // Nobody listens there, say, at present.
            _ => Ok(false),
        },
    }
}

/// When a message came: by the kernel's stamp, if that can be believed.
fn stamp(clock: &mut ClockMap, meta: &Meta, now: u64, engine: &Engine<Frame>) -> Time {
    engine.time(meta.timestamp.and_then(|stamp| clock.map(stamp)).unwrap_or(now))
}

/// Counts what a socket had lost before this message.
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

/// Offers the datagrams of a message one by one, as packets.
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
        // An empty datagram is one too.
        if bytes.is_empty() {
            return;
        }
    }
}

/// Runs a relay until it is interrupted, and prints a summary.
///
/// # Errors
/// What is wrong or missing.
pub fn run(options: &Options, path: &Path, logs: Logs) -> Result<ExitCode> {
    let running = Running::start(options, path, logs)?;
    // Whoever has closed the output wants to know no more, but the link is wanted.
    running.local_addrs().iter().for_each(|addr| drop(writeln!(io::stdout(), "listening on {addr}")));
    let _ = io::stdout().write_all(ways(path, "from clients to the server", "from the server to clients").as_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
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

/// A relay on a thread of its own.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    addrs: Vec<SocketAddr>,
    driver: Driver<Frame, Relay>,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// What is wrong or missing.
    pub fn start(options: &Options, path: &Path, logs: Logs) -> Result<Self> {
        let relay = Relay::bind(options)?;
        let addrs = relay.local_addrs()?;
        let addr = *addrs.first().context("a relay needs an address to listen on")?;
        let driver = Driver::start(Engine::new(path, true, logs)?, relay).context("starting the link")?;
        Ok(Self { addr, addrs, driver })
    }

    /// Where clients of the first pair send to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where clients send to, in the order of the pairs.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Stops it; the link, and what was seen beside it.
    ///
    /// # Errors
    /// Those for which it had stopped before, or the log could not be written.
    pub fn stop(self) -> Result<(Engine<Frame>, Counts)> {
        let (engine, relay) = self.driver.stop().context("the relay")?;
        Ok((engine, relay.counts()))
    }
}
