//! Receive path.

use std::fmt;
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

/// Largest number of messages per call of [`UdpSocket::recv`].
pub const MAX_RECV_BATCH: usize = MAX_BATCH;

/// Metadata of a received message, which is a datagram or several datagrams coalesced by the kernel (GRO).
///
/// Coalesced datagrams have the same peer, TOS, TTL, and size, except that the last one may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Source address. It is an IPv4 address for an IPv4 peer of an IPv6 socket. A forged source port may be zero; no
    /// reply can be sent to it.
    pub addr: SocketAddr,
    /// Destination address. It is the socket's own address if the socket is bound to one. Otherwise, it is reported by
    /// the kernel, or `None` if the kernel does not report it.
    pub dst_ip: Option<IpAddr>,
    /// Length in bytes of all complete datagrams. A truncated datagram is not counted.
    pub len: usize,
    /// Size in bytes of each datagram except the last; `len` if there is only one.
    pub stride: usize,
    /// TOS or traffic class, including DSCP and ECN. `None` if not reported by the kernel.
    pub tos: Option<u8>,
    /// TTL or hop limit on arrival. `None` if not reported by the kernel.
    pub ttl: Option<u8>,
    /// Time at which the kernel received the message (for coalesced datagrams, the first of them), on `CLOCK_REALTIME`
    /// since the Unix epoch, for [`ClockMap`](crate::clock::ClockMap). `None` if not reported by the kernel.
    pub timestamp: Option<Duration>,
    /// Whether the buffer was too small. The last datagram was truncated and is not part of the message.
    pub truncated: bool,
    /// Whether the buffer for control messages was too small, so that some of the above fields may be missing.
    pub control_truncated: bool,
    /// Number of datagrams that this socket had lost because of a full receive buffer when this message was queued;
    /// wraps. `None` if there were none.
    pub drops: Option<u32>,
}

impl Meta {
    /// Returns the ECN field (RFC 3168): 0 is Not-ECT, 1 is ECT(1), 2 is ECT(0), 3 is CE; 0 if unknown.
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.tos.unwrap_or(0) & 0b11
    }

    /// Returns whether the kernel coalesced several datagrams, whose individual arrival times are then unknown.
    #[must_use]
    pub fn coalesced(&self) -> bool {
        self.len > self.stride
    }
}

/// Reusable buffers for several messages.
pub struct RecvBatch {
    buffers: Vec<RecvBuffer>,
    slots: Vec<InMessage>,
    metas: Vec<Meta>,
}

impl RecvBatch {
    /// Creates a batch for up to `messages` (1 to [`MAX_RECV_BATCH`]) messages, with buffers that the first receive
    /// takes from `pool`.
    #[must_use]
    pub fn new(pool: &RecvPool, messages: usize) -> Self {
        let messages = messages.clamp(1, MAX_RECV_BATCH);
        Self {
            buffers: (0..messages).map(|_| pool.buffer()).collect(),
            slots: (0..messages).map(|_| InMessage::default()).collect(),
            metas: Vec::with_capacity(messages),
        }
    }

    /// Iterates over the messages of the last [`UdpSocket::recv`], in the order of arrival.
    pub fn messages(&mut self) -> impl Iterator<Item = Received<'_>> {
        self.metas.iter().zip(&mut self.buffers).map(|(meta, buffer)| Received { meta, buffer })
    }

    /// Clears the messages, and drops the references to memory that [`Received::take`] returned, so that this memory is
    /// freed when its last user drops it. Buffers that were not taken remain for the next receive.
    pub fn forget(&mut self) {
        self.metas.clear();
        self.buffers.iter_mut().for_each(RecvBuffer::forget);
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch").field("len", &self.metas.len()).finish_non_exhaustive()
    }
}

/// Message of a [`RecvBatch`]. Its `Debug` output does not contain the data.
#[derive(Debug)]
pub struct Received<'a> {
    /// Metadata of the message.
    pub meta: &'a Meta,
    buffer: &'a mut RecvBuffer,
}

impl Received<'_> {
    /// Returns the `meta.len` bytes of the message in place: one datagram, or several of `meta.stride` bytes each.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.buffer.filled(self.meta.len)
    }

    /// Iterates over the datagrams in place. An empty datagram is omitted.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.data().chunks(self.meta.stride.max(1))
    }

    /// Returns the bytes of the message, without a copy if it is large ([`RecvBuffer::take`]).
    pub fn take(&mut self) -> Bytes {
        self.buffer.take(self.meta.len)
    }
}

impl UdpSocket {
    /// Receives as many messages as have arrived and fit into `batch`. Returns their number, which is at least one.
    ///
    /// The previous messages of `batch` are replaced; bytes taken from them remain valid.
    ///
    /// # Errors
    /// Returns the unchanged system error, which [`ErrorClass`](super::ErrorClass) classifies. `batch` is then empty.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.metas.clear();
        let buffers = batch.buffers.iter_mut().map(RecvBuffer::writable);
        let received = recvmmsg(self.as_fd(), 0, buffers, &mut batch.slots)?;
        let only_ip = self.only_ip();
        batch.metas.extend(batch.slots.iter().take(received).map(|message| meta(message, only_ip)));
        Ok(received)
    }
}

/// Returns the metadata of a message. `dst_ip` is the destination address to use if the kernel does not report one.
pub(super) fn meta(message: &InMessage, dst_ip: Option<IpAddr>) -> Meta {
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut meta = Meta {
        addr: message.name.decode().unwrap_or(nobody),
        dst_ip,
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
        // A single truncated datagram is discarded; of coalesced ones, only the last is truncated.
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
        // struct in_pktinfo: interface, local address, destination address.
        (IPPROTO_IP, libc::IP_PKTINFO) => {
            meta.dst_ip = Some(Ipv4Addr::from(array::<4>(data, 8)).into());
        }
        // struct in6_pktinfo: destination address, interface.
        (IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            meta.dst_ip = Some(IpAddr::V6(Ipv6Addr::from(array::<16>(data, 0))).to_canonical());
        }
        (SOL_SOCKET, libc::SCM_TIMESTAMPNS) => meta.timestamp = timespec(data),
        (SOL_SOCKET, libc::SO_RXQ_OVFL) => meta.drops = Some(u32::from_ne_bytes(array(data, 0))),
        _ => {}
    }
}

/// Decodes a `struct timespec` of 64-bit or (on 32-bit systems) 32-bit numbers.
pub(super) fn timespec(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = match data.len() {
        16 => (i64::from_ne_bytes(array(data, 0)), i64::from_ne_bytes(array(data, 8))),
        8 => (i32::from_ne_bytes(array(data, 0)).into(), i32::from_ne_bytes(array(data, 4)).into()),
        _ => return None,
    };
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, IoSlice};

    use super::super::syscall::DENIED;
    use super::super::{Transmit, UdpSocket};
    use super::*;

    #[test]
    fn messages_arrive_where_calls_for_several_are_denied() {
        let bind = || UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let (from, to) = (bind(), bind());
        let mut batch = RecvBatch::new(&RecvPool::new(4, 4), 4);
        DENIED.set(true);
        assert_eq!(to.recv(&mut batch).unwrap_err().kind(), ErrorKind::WouldBlock);
        let slices = ["one", "another"].map(|text| [IoSlice::new(text.as_bytes())]);
        let destination = Some(to.local_addr());
        let transmits =
            slices.each_ref().map(|slices| Transmit { destination, tos: 2, src_ip: None, segment_size: None, slices });
        assert_eq!(from.send_batch(&transmits).unwrap(), 1);
        assert_eq!(from.send_batch(&transmits[1..]).unwrap(), 1);
        assert_eq!(to.recv(&mut batch).unwrap(), 2);
        let received: Vec<_> = batch.messages().map(|message| (message.data().to_vec(), message.meta.ecn())).collect();
        assert_eq!(received, [(b"one".to_vec(), 2), (b"another".to_vec(), 2)]);
        assert_eq!(batch.metas[0].addr, from.local_addr());
    }
}
