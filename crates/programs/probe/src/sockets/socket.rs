//! UDP socket that sends probe packets at precise times and receives answers through the receiver thread.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use longhaul_units::{Span, Time};
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};

use super::answers::{Clock, Ear, Io};
use super::error::{Error, fill_random};
use crate::Planned;

/// Maximum error of a sleep: the last part of a wait is spent in a loop.
const AWAKE: Span = Span::from_micros(200);
/// Receive buffer of the kernel in bytes: 1 s of small packets.
const BUFFER: usize = 4 << 20;
/// Capacity of the channel of events. If it is full, the receiver thread blocks, and the kernel drops answers.
const WAITING: usize = 1 << 16;
/// Upper bound of UDP payloads in bytes.
const LARGEST: usize = 1 << 16;
const UDP_HEADER: u32 = 8;
/// Attempts to send a packet, as long as the system reports errors of earlier packets instead.
const REPEATS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Answer(Answer, Time),
    /// ICMP port unreachable.
    Refused,
    /// A TCP segment: the host runs longhaul.
    Segment,
    /// ICMP error of a router or of the host, and its arrival time.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux delivers ICMP errors to the socket"))]
    Returned(Returned, Time),
}

/// Content of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) from: Option<IpAddr>,
    /// Whether the packet had reached its destination.
    pub(super) arrived: bool,
    /// First half of the packet's nonce, if the error quotes enough of the packet.
    pub(super) nonce: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    /// Bytes of the IP packet.
    pub(super) size: u32,
    /// Delay after the planned departure time.
    pub(super) late: Span,
}

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    #[cfg(target_os = "linux")]
    extended: Arc<Io>,
    clock: Clock,
    nonce: u64,
    /// Bytes of the headers of IP and UDP.
    pub(super) headers: u32,
    events: Receiver<Event>,
    /// Dropped after `events`, on which the thread may be blocked.
    _receiver: ReceiverThread,
    pub(super) next_train: u32,
    buffer: Vec<u8>,
    /// Whether a send reported that an earlier packet was refused.
    refused: bool,
}

impl Socket {
    /// Creates a socket for the reflector at `peer`.
    pub(super) fn connect(peer: SocketAddr) -> Result<Self, Error> {
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let io = UdpSocket::bind(any).and_then(|io| io.connect(peer).map(|()| io));
        let io = io.map_err(|source| Error::Socket { address: peer, source })?;
        // With a smaller buffer, bursts of answers are lost.
        let _ = socket2::SockRef::from(&io).set_recv_buffer_size(BUFFER);
        let extended = Arc::new(extended(&io)?);
        let mut nonce = [0; 8];
        fill_random(&mut nonce)?;
        let (nonce, clock) = (u64::from_ne_bytes(nonce), Clock::start());
        let (sender, events) = mpsc::sync_channel(WAITING);
        let closed = Arc::new(AtomicBool::new(false));
        let ear = Ear { nonce: nonce_end(nonce), clock, events: sender, closed: Arc::clone(&closed) };
        let receiver = ReceiverThread::start(ear, Arc::clone(&extended), closed)?;
        let headers = UDP_HEADER + if peer.is_ipv4() { 20 } else { 40 };
        Ok(Self {
            io,
            #[cfg(target_os = "linux")]
            extended,
            clock,
            nonce,
            headers,
            events,
            _receiver: receiver,
            next_train: 0,
            buffer: vec![0; LARGEST],
            refused: false,
        })
    }

    /// Time since the socket was created.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sets the type of service of the following packets.
    pub(super) fn set_tos(&self, tos: u8) -> io::Result<()> {
        let options = socket2::SockRef::from(&self.io);
        if self.io.local_addr()?.is_ipv4() { options.set_tos_v4(tos.into()) } else { options.set_tclass_v6(tos.into()) }
    }

    /// Bytes of the smallest IP packet that is answered.
    pub(super) fn smallest(&self) -> u32 {
        self.headers + ANSWER_LEN as u32
    }

    /// Bytes of the UDP payload of an IP packet of `size` bytes.
    pub(super) fn payload(&self, size: u32) -> u32 {
        size.saturating_sub(self.headers)
    }

    /// Sends packets at their times, relative to the current time, with the sizes in `sizes`. Returns the number
    /// contained in answers, and the packets as sent.
    ///
    /// # Errors
    /// Errors of the system. Packets that are too large or refused by the host count as lost instead.
    pub(super) fn send(&mut self, packets: &[Planned], sizes: &[u32]) -> io::Result<(u32, Vec<Sent>)> {
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

    /// Sends a segment without a connection, which a longhaul endpoint answers with a reset (RFC 9293, section
    /// 3.10.7.1).
    pub(super) fn send_stray_segment(&mut self) -> io::Result<()> {
        // Data offset 5, ACK; window, sequence and acknowledgment number zero.
        const STRAY: [u8; 12] = [0x50, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let Some(datagram) = self.buffer.get_mut(..STRAY.len()) else { return Ok(()) };
        datagram.copy_from_slice(&STRAY);
        self.put(STRAY.len())
    }

    /// Enables ICMP errors as events ([`Event::Returned`]).
    pub(super) fn hear_routers(&self) -> Result<(), Error> {
        #[cfg(target_os = "linux")]
        return self
            .extended
            .report_path_errors()
            .map_err(|error| Error::caused("the system does not pass on what routers say", error));
        #[cfg(not(target_os = "linux"))]
        Err(Error::failed("hops can be told apart on Linux only: elsewhere a program does not hear what routers say"))
    }

    /// Sends a packet of `size` bytes with this TTL, and returns its departure time. The first half of its nonce is
    /// `number`, which the ICMP error quotes.
    pub(super) fn send_with_ttl(&mut self, ttl: u8, number: u32, size: u32) -> io::Result<Time> {
        #[cfg(target_os = "linux")]
        self.extended.set_ttl(ttl)?;
        let at = self.now();
        let nonce = u64::from(number) << 32 | u64::from(nonce_end(self.nonce));
        self.send_one(Probe { nonce, train: 0, index: ttl.into(), sent: at.as_nanos() }, size)?;
        Ok(at)
    }

    /// Sends the first `len` bytes of the buffer. If ICMP errors are enabled, a send may fail with the error of an
    /// earlier packet, without sending anything.
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

    /// Sleeps until shortly before `due`, waits for the rest in a loop, and returns the time.
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

    /// Waits for the next event until `until`.
    pub(super) fn receive(&mut self, until: Time) -> Result<Option<Event>, Error> {
        if std::mem::take(&mut self.refused) {
            return Ok(Some(Event::Refused));
        }
        let left = until.since(self.now());
        match self.events.recv_timeout(Duration::from_nanos(left.as_nanos())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::failed("answers can no longer be received")),
        }
    }
}

/// Receiver thread, which ends when this is dropped.
#[derive(Debug)]
struct ReceiverThread {
    io: Arc<Io>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReceiverThread {
    fn start(ear: Ear, io: Arc<Io>, closed: Arc<AtomicBool>) -> io::Result<Self> {
        let receiver = Arc::clone(&io);
        let thread = thread::Builder::new().name("answers".to_owned()).spawn(move || ear.listen(&receiver))?;
        Ok(Self { io, closed, thread: Some(thread) })
    }
}

impl Drop for ReceiverThread {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Ends a blocking receive call. Systems other than Linux may not support this for UDP; there the thread ends
        // at the next datagram.
        let woken = socket2::SockRef::from(&*self.io).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take_if(|_| woken.is_ok() && cfg!(target_os = "linux")) {
            let _ = thread.join();
        }
    }
}

/// Second half of the nonce, common to all packets of a socket. A host that has not seen a packet cannot answer one.
fn nonce_end(nonce: u64) -> u32 {
    nonce as u32
}

/// Disables fragmentation where the system permits that, because fragments would hide the path MTU, and disables
/// receive offload, so that each answer has its own timestamp.
fn extended(io: &UdpSocket) -> io::Result<Io> {
    #[cfg(target_os = "linux")]
    {
        let extended = Io::new(io.try_clone()?)?;
        // An error means that the system does not merge datagrams.
        let _ = extended.refuse_merged();
        // Sends block until the kernel has room.
        io.set_nonblocking(false)?;
        Ok(extended)
    }
    #[cfg(not(target_os = "linux"))]
    io.try_clone()
}

/// Returns whether an error means the loss of this or of an earlier packet.
pub(super) fn is_a_loss(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    {
        use longhaul_sys::linux::ErrorClass;
        !matches!(ErrorClass::of(error), ErrorClass::Fatal | ErrorClass::WouldBlock)
    }
    #[cfg(not(target_os = "linux"))]
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::HostUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_thread_does_not_outlive_its_socket() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = Socket::connect(peer.local_addr().unwrap()).unwrap();
        let closed = Arc::downgrade(&socket._receiver.closed);
        drop(socket);
        assert!(closed.upgrade().is_none(), "the thread has a reference");
    }
}
