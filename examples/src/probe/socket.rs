//! Probe packets out at precise times, answers in from a thread that stamps them.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::cc::estimate::active::Planned;
use longhaul::units::{Span, Time};
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};

use crate::report::Stopwatch;

/// A sleep may last longer by this much: the rest is spent awake.
const AWAKE: Span = Span::from_micros(200);
/// Bytes of answers that may wait in the kernel: a second of small packets.
const BUFFER: usize = 4 << 20;
/// Answers that may wait here; a flood of them blocks the thread, and the kernel drops the rest.
const WAITING: usize = 1 << 16;
/// The largest that one call receives.
const LARGEST: usize = 1 << 16;
/// What is between a UDP payload and its IP packet.
const UDP_HEADER: u32 = 8;

/// What arrived, and when.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// An answer.
    Answer(Answer, Time),
    /// The host says that nobody listens (ICMP).
    Refused,
    /// A TCP segment: longhaul is there.
    Segment,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Bytes of the IP packet.
    pub size: u32,
}

/// A UDP socket connected to the reflector, and the clock of the measurement.
#[derive(Debug)]
pub struct Socket {
    io: UdpSocket,
    clock: Stopwatch,
    nonce: u64,
    headers: u32,
    events: Receiver<Event>,
    next_train: u32,
    buffer: Vec<u8>,
    /// A send reported that an earlier packet was refused.
    refused: bool,
}

impl Socket {
    /// A socket for the reflector at `peer`.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(peer: SocketAddr) -> Result<Self> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let io = UdpSocket::bind(any).and_then(|io| io.connect(peer).map(|()| io));
        let io = io.with_context(|| format!("cannot send to {peer}"))?;
        configure(&io)?;
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).context("no random number")?;
        let clock = Stopwatch::start();
        let (sender, events) = mpsc::sync_channel(WAITING);
        let (receiver, nonce) = (io.try_clone()?, u64::from_ne_bytes(nonce));
        // It lives as long as the program: a blocking receive cannot be told to end.
        thread::Builder::new().name("answers".to_owned()).spawn(move || listen(&receiver, clock, nonce, &sender))?;
        let headers = UDP_HEADER + if peer.is_ipv4() { 20 } else { 40 };
        Ok(Self { io, clock, nonce, headers, events, next_train: 0, buffer: vec![0; LARGEST], refused: false })
    }

    /// The time since the socket was made.
    #[must_use]
    pub fn now(&self) -> Time {
        now(self.clock)
    }

    /// Bytes of the smallest IP packet that is answered.
    #[must_use]
    pub fn smallest(&self) -> u32 {
        self.headers + ANSWER_LEN as u32
    }

    /// Bytes of the UDP payload of an IP packet of `size` bytes.
    #[must_use]
    pub fn payload(&self, size: u32) -> u32 {
        size.saturating_sub(self.headers)
    }

    /// Sends packets at their times, counted from now, and gives each the size in `sizes`. The number that answers
    /// carry, and what left when.
    ///
    /// # Errors
    /// The system's, other than that a packet is too large or nobody listens: such packets are lost.
    pub fn send(&mut self, packets: &[Planned], sizes: &[u32]) -> io::Result<(u32, Vec<Sent>)> {
        let train = self.next_train;
        self.next_train = train.wrapping_add(1);
        let start = self.now();
        let mut left = Vec::with_capacity(packets.len());
        for ((index, planned), size) in (0..).zip(packets).zip(sizes) {
            let at = self.wait_until(start + planned.at);
            self.send_one(Probe { nonce: self.nonce, train, index, sent: at.as_nanos() }, *size)?;
            left.push(Sent { at, size: *size });
        }
        Ok((train, left))
    }

    fn send_one(&mut self, probe: Probe, size: u32) -> io::Result<()> {
        let payload = self.payload(size) as usize;
        let Some(datagram) = self.buffer.get_mut(..payload) else { return Ok(()) };
        if probe.emit(datagram).is_none() {
            return Ok(());
        }
        self.put(payload)
    }

    /// Sends a segment of no connection, which a longhaul endpoint answers with a reset (RFC 9293, section 3.10.7.1).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_stray_segment(&mut self) -> io::Result<()> {
        // Data offset 5, ACK; window, sequence and acknowledgment number zero.
        const STRAY: [u8; 12] = [0x50, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let Some(datagram) = self.buffer.get_mut(..STRAY.len()) else { return Ok(()) };
        datagram.copy_from_slice(&STRAY);
        self.put(STRAY.len())
    }

    fn put(&mut self, len: usize) -> io::Result<()> {
        match self.io.send(self.buffer.get(..len).unwrap_or_default()) {
            Ok(_) => Ok(()),
            Err(error) if is_a_loss(&error) => {
                self.refused |= error.kind() == ErrorKind::ConnectionRefused;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sleeps until shortly before `due`, and spends the rest awake; the time then.
    fn wait_until(&self, due: Time) -> Time {
        let left = due.since(self.now());
        if left > AWAKE {
            thread::sleep(Duration::from_nanos(left.as_nanos() - AWAKE.as_nanos()));
        }
        loop {
            let now = self.now();
            if now >= due {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// What arrives next, until `until`.
    ///
    /// # Errors
    /// If nothing can be received any more.
    pub fn receive(&mut self, until: Time) -> Result<Option<Event>> {
        if std::mem::take(&mut self.refused) {
            return Ok(Some(Event::Refused));
        }
        let left = until.since(self.now());
        match self.events.recv_timeout(Duration::from_nanos(left.as_nanos())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("answers can no longer be received"),
        }
    }
}

/// The kernel's buffers, and no fragments where the system lets them be forbidden: they would hide what the path drops.
fn configure(io: &UdpSocket) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        longhaul_sys::linux::UdpSocket::new(io.try_clone()?)?;
        io.set_nonblocking(false)?;
    }
    // With a smaller one, answers get lost if they come in bursts.
    let _ = socket2::SockRef::from(io).set_recv_buffer_size(BUFFER);
    Ok(())
}

/// Receives until nobody wants the events any more.
fn listen(io: &UdpSocket, clock: Stopwatch, nonce: u64, events: &SyncSender<Event>) {
    let mut buffer = vec![0; LARGEST];
    loop {
        let received = io.recv(&mut buffer);
        let at = now(clock);
        let datagrams = match received {
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                if events.send(Event::Refused).is_err() {
                    return;
                }
                continue;
            }
            Err(error) if is_a_loss(&error) || error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        // Receive offload may have merged answers, all of which have the same length.
        for datagram in datagrams.chunks(ANSWER_LEN) {
            if read(datagram, nonce, at).is_some_and(|event| events.send(event).is_err()) {
                return;
            }
        }
    }
}

/// What a datagram from the reflector says; nothing if it is an answer to somebody else's probe.
fn read(datagram: &[u8], nonce: u64, at: Time) -> Option<Event> {
    if let Some(answer) = Answer::parse(datagram) {
        return (answer.probe.nonce == nonce).then_some(Event::Answer(answer, at));
    }
    // A segment begins with its data offset, 5 to 15, in four bits.
    datagram.first().is_some_and(|first| first >> 4 >= 5).then_some(Event::Segment)
}

/// Errors that mean the loss of one packet, now or before.
fn is_a_loss(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    {
        use longhaul_sys::linux::ErrorClass;
        !matches!(ErrorClass::of(error), ErrorClass::Fatal | ErrorClass::WouldBlock)
    }
    #[cfg(not(target_os = "linux"))]
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::HostUnreachable)
}

fn now(clock: Stopwatch) -> Time {
    Time::from_nanos(u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
