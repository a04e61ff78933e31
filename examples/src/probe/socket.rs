//! Probe packets out at precise times, answers in from a thread of their own.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::units::{Span, Time};
use longhaul_probe::Planned;
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};

use super::answers::{Clock, Ear, Io};

/// A sleep may last longer by this much: the rest is spent awake.
const AWAKE: Span = Span::from_micros(200);
/// Bytes of answers that may wait in the kernel: a second of small packets.
const BUFFER: usize = 4 << 20;
/// Answers that may wait here; a flood of them blocks the thread, and the kernel drops the rest.
const WAITING: usize = 1 << 16;
/// The largest UDP payload.
const LARGEST: usize = 1 << 16;
/// What is between a UDP payload and its IP packet.
const UDP_HEADER: u32 = 8;
/// A send that only told of earlier packets is repeated so often.
const REPEATS: u32 = 8;

/// What arrived, and when.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// An answer.
    Answer(Answer, Time),
    /// The host says that nobody listens (ICMP).
    Refused,
    /// A TCP segment: longhaul is there.
    Segment,
    /// A router or the host could not pass a packet on, or has nobody to give it to (ICMP).
    Returned(Returned, Time),
}

/// A packet that came back, or what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Who returned it.
    pub from: Option<IpAddr>,
    /// Whether it had arrived.
    pub arrived: bool,
    /// The first half of its nonce, if so much of it is quoted.
    pub nonce: Option<u32>,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Bytes of the IP packet.
    pub size: u32,
    /// How much later than planned.
    pub late: Span,
}

/// A UDP socket connected to the reflector, and the clock of the measurement.
#[derive(Debug)]
pub struct Socket {
    io: UdpSocket,
    /// The same, with more to be said.
    #[cfg(target_os = "linux")]
    extended: Arc<Io>,
    clock: Clock,
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
        // With a smaller one, answers get lost if they come in bursts.
        let _ = socket2::SockRef::from(&io).set_recv_buffer_size(BUFFER);
        let extended = Arc::new(extended(&io)?);
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).context("no random number")?;
        let (nonce, clock) = (u64::from_ne_bytes(nonce), Clock::start());
        let (sender, events) = mpsc::sync_channel(WAITING);
        let ear = Ear { nonce: nonce_end(nonce), clock, events: sender };
        let receiver = Arc::clone(&extended);
        // It lives as long as the program: a blocking receive cannot be told to end.
        thread::Builder::new().name("answers".to_owned()).spawn(move || ear.listen(&receiver))?;
        let headers = UDP_HEADER + if peer.is_ipv4() { 20 } else { 40 };
        Ok(Self {
            io,
            #[cfg(target_os = "linux")]
            extended,
            clock,
            nonce,
            headers,
            events,
            next_train: 0,
            buffer: vec![0; LARGEST],
            refused: false,
        })
    }

    /// The time since the socket was made.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
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
            let due = start + planned.at;
            let at = self.wait_until(due);
            self.send_one(Probe { nonce: self.nonce, train, index, sent: at.as_nanos() }, *size)?;
            left.push(Sent { at, size: *size, late: at.since(due) });
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

    /// Has routers and the host say what becomes of packets ([`Event::Returned`]).
    ///
    /// # Errors
    /// A sentence, where the system cannot do that.
    pub fn hear_routers(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        return self.extended.report_path_errors().context("the system does not pass on what routers say");
        #[cfg(not(target_os = "linux"))]
        anyhow::bail!("hops can be told apart on Linux only: elsewhere a program does not hear what routers say");
    }

    /// Sends a packet of `size` bytes that may pass `ttl` links. In its nonce is `number`, which comes back with whoever
    /// stops it; when it left.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_as_far(&mut self, ttl: u8, number: u32, size: u32) -> io::Result<Time> {
        #[cfg(target_os = "linux")]
        self.extended.set_ttl(ttl)?;
        let at = self.now();
        let nonce = u64::from(number) << 32 | u64::from(nonce_end(self.nonce));
        self.send_one(Probe { nonce, train: 0, index: ttl.into(), sent: at.as_nanos() }, size)?;
        Ok(at)
    }

    /// Sends the beginning of the buffer. Where routers are listened to, what they say of earlier packets makes a send fail
    /// that did nothing.
    fn put(&mut self, len: usize) -> io::Result<()> {
        let datagram = self.buffer.get(..len).unwrap_or_default();
        for _ in 0..REPEATS {
            match self.io.send(datagram) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => self.refused = true,
                Err(error) if error.kind() == ErrorKind::HostUnreachable => {}
                Err(error) if is_a_loss(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
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

/// The half of the nonce that is the same in all packets of a socket: who has not seen one cannot answer.
fn nonce_end(nonce: u64) -> u32 {
    nonce as u32
}

/// No fragments, where the system lets them be forbidden: they would hide what the path drops. And answers one by one,
/// each with its own time.
fn extended(io: &UdpSocket) -> io::Result<Io> {
    #[cfg(target_os = "linux")]
    {
        let extended = Io::new(io.try_clone()?)?;
        // A system that does not merge need not be told.
        let _ = extended.refuse_merged();
        // Sends wait for room in the kernel.
        io.set_nonblocking(false)?;
        Ok(extended)
    }
    #[cfg(not(target_os = "linux"))]
    io.try_clone()
}

/// Errors that mean the loss of one packet, now or before.
pub(super) fn is_a_loss(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    {
        use longhaul_sys::linux::ErrorClass;
        !matches!(ErrorClass::of(error), ErrorClass::Fatal | ErrorClass::WouldBlock)
    }
    #[cfg(not(target_os = "linux"))]
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::HostUnreachable)
}
