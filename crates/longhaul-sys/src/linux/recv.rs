//! Receiving.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};

use super::addr::array;
use super::cmsg::Message;
use super::socket::UdpSocket;
use super::syscall::{InMessage, MAX_BATCH, recvmmsg};
use crate::pool::{RecvBuffer, RecvPool};

/// The most messages that one call of [`UdpSocket::recv`] receives.
pub const MAX_RECV_BATCH: usize = MAX_BATCH;

/// What is known about a received message: one datagram, or several that the kernel merged (GRO): of one peer, one
/// size (the last may be shorter), one TOS and one TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The sender; an IPv4 address also when it came to an IPv6 socket. Port zero can be forged, but not replied to.
    pub addr: SocketAddr,
    /// The address it was sent to. `None` if the kernel did not say.
    pub dst_ip: Option<IpAddr>,
    /// Bytes of whole datagrams; what was cut off one is not counted.
    pub len: usize,
    /// The size of each datagram but the last; `len` if there is just one.
    pub stride: usize,
    /// The whole TOS or traffic class byte. `None` if the kernel did not say.
    pub tos: Option<u8>,
    /// The TTL or hop limit it arrived with. `None` if the kernel did not say.
    pub ttl: Option<u8>,
    /// When the kernel received it (the first of them, if merged), by `CLOCK_REALTIME` since the Unix epoch: for
    /// [`ClockMap`](crate::clock::ClockMap). `None` if the kernel did not say.
    pub timestamp: Option<Duration>,
    /// The buffer was too small: the last datagram was cut and is left out.
    pub truncated: bool,
    /// There was no room for all that the kernel had to say: some of the above may be missing.
    pub control_truncated: bool,
    /// How many datagrams this socket had lost to a full receive buffer when this one was queued; wraps. `None` as
    /// long as there were none.
    pub drops: Option<u32>,
}

impl Meta {
    /// The ECN field (RFC 3168): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE; 0 if unknown.
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.tos.unwrap_or(0) & 0b11
    }

    /// Whether the kernel merged several datagrams, whose arrival times then are not known one by one.
    #[must_use]
    pub fn coalesced(&self) -> bool {
        self.len > self.stride
    }
}

/// Room for several messages, used again and again.
#[derive(Debug)]
pub struct RecvBatch {
    buffers: Vec<RecvBuffer>,
    slots: Vec<InMessage>,
    metas: Vec<Meta>,
}

impl RecvBatch {
    /// Room for `messages` (1 to [`MAX_RECV_BATCH`]) messages at a time, in buffers from `pool`. The buffers are taken
    /// from the pool at the first receive.
    #[must_use]
    pub fn new(pool: &RecvPool, messages: usize) -> Self {
        let messages = messages.clamp(1, MAX_RECV_BATCH);
        Self {
            buffers: (0..messages).map(|_| pool.buffer()).collect(),
            slots: (0..messages).map(|_| InMessage::default()).collect(),
            metas: Vec::with_capacity(messages),
        }
    }

    /// How many messages the last [`UdpSocket::recv`] brought.
    #[must_use]
    pub fn len(&self) -> usize {
        self.metas.len()
    }

    /// Whether there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.metas.is_empty()
    }

    /// The messages of the last [`UdpSocket::recv`], in the order of arrival.
    pub fn messages(&mut self) -> impl Iterator<Item = Received<'_>> {
        self.metas.iter().zip(&mut self.buffers).map(|(meta, buffer)| Received { meta, buffer })
    }

    /// Forgets the messages and lets go of what was taken of them, so that its memory lives no longer than whoever took
    /// it wants; buffers that nobody took stay for the next receive.
    pub fn forget(&mut self) {
        self.metas.clear();
        self.buffers.iter_mut().for_each(RecvBuffer::forget);
    }

    /// Forgets the messages and gives the buffers back to the pool, for a socket that may now be silent for long.
    pub fn release(&mut self) {
        self.metas.clear();
        self.buffers.iter_mut().for_each(RecvBuffer::release);
    }
}

/// A message of a [`RecvBatch`].
#[derive(Debug)]
pub struct Received<'a> {
    /// What is known about it.
    pub meta: &'a Meta,
    buffer: &'a mut RecvBuffer,
}

impl Received<'_> {
    /// Its bytes (`meta.len` of them), in place: one datagram, or several of `meta.stride` bytes each.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.buffer.filled(self.meta.len)
    }

    /// The datagrams, in place. An empty datagram is not among them.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.data().chunks(self.meta.stride.max(1))
    }

    /// Its bytes to keep, without a copy if they are many ([`RecvBuffer::take`]).
    pub fn take(&mut self) -> Bytes {
        self.buffer.take(self.meta.len)
    }
}

impl UdpSocket {
    /// Receives what has arrived, as many messages as `batch` has room for, and returns how many (at least one). What
    /// `batch` held before is gone; bytes taken from it are not affected.
    ///
    /// # Errors
    /// The system's, untranslated; [`ErrorClass`](super::ErrorClass) says what to do. `batch` is empty then.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.metas.clear();
        let buffers = batch.buffers.iter_mut().map(RecvBuffer::writable);
        let received = recvmmsg(self.as_fd(), 0, buffers, &mut batch.slots)?;
        batch.metas.extend(batch.slots.iter().take(received).map(meta));
        Ok(received)
    }
}

pub(super) fn meta(message: &InMessage) -> Meta {
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut meta = Meta {
        addr: message.name.decode().unwrap_or(nobody),
        dst_ip: None,
        len: message.len,
        stride: message.len,
        tos: None,
        ttl: None,
        timestamp: None,
        truncated: message.flags & libc::MSG_TRUNC != 0,
        control_truncated: message.flags & libc::MSG_CTRUNC != 0,
        drops: None,
    };
    for control in message.control.messages() {
        note(&mut meta, &control);
    }
    if meta.truncated {
        // A single datagram that was cut has nothing whole; of merged ones the last is broken.
        meta.len = if meta.stride < message.len { message.len - message.len % meta.stride.max(1) } else { 0 };
        meta.stride = meta.stride.min(meta.len);
    }
    meta
}

fn note(meta: &mut Meta, control: &Message<'_>) {
    let data = control.data;
    let int = || i32::from_ne_bytes(array(data, 0));
    match (control.level, control.kind) {
        (SOL_UDP, libc::UDP_GRO) => {
            if let Ok(size) = usize::try_from(int())
                && size > 0
            {
                meta.stride = size.min(meta.len);
            }
        }
        (IPPROTO_IP, libc::IP_TOS) => meta.tos = data.first().copied(),
        (IPPROTO_IPV6, libc::IPV6_TCLASS) => meta.tos = u8::try_from(int()).ok(),
        (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => meta.ttl = u8::try_from(int()).ok(),
        // struct in_pktinfo: interface, local address, destination.
        (IPPROTO_IP, libc::IP_PKTINFO) => {
            meta.dst_ip = Some(Ipv4Addr::from(array::<4>(data, 8)).into());
        }
        // struct in6_pktinfo: destination, interface.
        (IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            meta.dst_ip = Some(IpAddr::V6(Ipv6Addr::from(array::<16>(data, 0))).to_canonical());
        }
        (SOL_SOCKET, libc::SCM_TIMESTAMPNS) => meta.timestamp = timespec(data),
        (SOL_SOCKET, libc::SO_RXQ_OVFL) => meta.drops = Some(u32::from_ne_bytes(array(data, 0))),
        _ => {}
    }
}

/// A `struct timespec` of 64-bit or, on 32-bit systems, 32-bit numbers.
pub(super) fn timespec(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = match data.len() {
        16 => (i64::from_ne_bytes(array(data, 0)), i64::from_ne_bytes(array(data, 8))),
        8 => (i32::from_ne_bytes(array(data, 0)).into(), i32::from_ne_bytes(array(data, 4)).into()),
        _ => return None,
    };
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?))
}
