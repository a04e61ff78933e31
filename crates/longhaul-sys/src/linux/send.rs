//! Sending.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP};

use super::addr::{RawAddr, canonical};
use super::cmsg::SendControl;
use super::socket::UdpSocket;
use super::syscall::{MAX_BATCH, OutMessage, sendmmsg, sendmsg};

/// The most datagrams in one GSO batch. Linux allows 64 since 4.18, more only since 6.9, and a GRO receiver merges 64.
pub const MAX_GSO_SEGMENTS: usize = 64;

/// The most slices one [`Transmit`] may gather (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// The most [`Transmit`]s that one call of [`UdpSocket::send_batch`] sends.
pub const MAX_SEND_BATCH: usize = MAX_BATCH;

/// A datagram to send, or a batch of datagrams that differ in nothing but their payload.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// `None` on a connected socket.
    pub destination: Option<SocketAddr>,
    /// The whole TOS or traffic class byte: DSCP in the upper six bits (RFC 2474), ECN in the lower two (RFC 3168).
    pub tos: u8,
    /// The source address, of the family of the destination: where the peer's datagrams came to ([`Meta::dst_ip`]).
    /// `None` leaves the choice to the kernel.
    ///
    /// [`Meta::dst_ip`]: super::Meta::dst_ip
    pub src_ip: Option<IpAddr>,
    /// The payload is cut into datagrams of this size (the last may be shorter); `None` or zero: it is one datagram.
    /// All together at most [`UdpSocket::max_gso_segments`] datagrams and 65,507 bytes.
    pub segment_size: Option<u16>,
    /// The payload, gathered from at most [`MAX_SLICES`] slices whose borders need not be those of datagrams.
    pub slices: &'a [IoSlice<'a>],
}

impl Transmit<'_> {
    /// The segment size, if the payload is more than one segment.
    fn gso(&self) -> Option<u16> {
        let size = self.segment_size.filter(|&size| size > 0)?;
        let total: usize = self.slices.iter().map(|slice| slice.len()).sum();
        (total > usize::from(size)).then_some(size)
    }
}

impl UdpSocket {
    /// How many datagrams a [`Transmit`] may hold at present: [`MAX_GSO_SEGMENTS`], or 1 if the kernel or the network
    /// card cannot segment. May fall to 1 at any send, for good.
    #[must_use]
    pub fn max_gso_segments(&self) -> usize {
        if self.gso.load(Ordering::Relaxed) { MAX_GSO_SEGMENTS } else { 1 }
    }

    /// Sends a datagram, or a batch of them, whole.
    ///
    /// When the network card cannot segment (the kernel says `EIO` or `EINVAL`), the datagrams of the batch leave one
    /// by one within this call, with the same TOS and source; if the first one passes, that shows segmentation to have
    /// been at fault, and [`max_gso_segments`](Self::max_gso_segments) is 1 from then on. Should the send buffer fill up
    /// in the midst of that, the rest of the batch counts as lost on the way.
    ///
    /// # Errors
    /// The system's, untranslated; [`ErrorClass`](super::ErrorClass) says what to do. Nothing was sent then. `InvalidInput`
    /// for more than [`MAX_SLICES`] slices.
    pub fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        check(transmit)?;
        let Some(size) = transmit.gso() else {
            return sendmsg(self.as_fd(), &self.message(transmit, None));
        };
        if !self.gso.load(Ordering::Relaxed) {
            return self.send_one_by_one(transmit, size);
        }
        match sendmsg(self.as_fd(), &self.message(transmit, Some(size))) {
            Err(error) if may_be_gso(&error) => {
                self.send_one_by_one(transmit, size)?;
                self.gso.store(false, Ordering::Relaxed);
                Ok(())
            }
            result => result,
        }
    }

    /// Sends several, in order, as far as the send buffer and [`MAX_SEND_BATCH`] allow; returns how many went. The next
    /// call should start with the first that did not.
    ///
    /// # Errors
    /// As [`send`](Self::send), and only when the very first failed; an error of a later one comes with the call that
    /// starts with it. An empty slice is no error.
    pub fn send_batch(&self, transmits: &[Transmit<'_>]) -> io::Result<usize> {
        let Some(first) = transmits.first() else {
            return Ok(0);
        };
        let segments = self.gso.load(Ordering::Relaxed);
        let mut messages = ArrayVec::<_, MAX_BATCH>::new();
        for transmit in transmits.iter().take(MAX_BATCH) {
            let size = transmit.gso();
            if check(transmit).is_err() || (size.is_some() && !segments) {
                break;
            }
            messages.push(self.message(transmit, size));
        }
        if messages.is_empty() {
            return self.send(first).map(|()| 1);
        }
        match sendmmsg(self.as_fd(), &messages) {
            Err(error) if may_be_gso(&error) && first.gso().is_some() => self.send(first).map(|()| 1),
            result => result,
        }
    }

    fn send_one_by_one(&self, transmit: &Transmit<'_>, size: u16) -> io::Result<()> {
        let mut sent = 0;
        let mut rest = transmit.slices.iter().map(|slice| &**slice);
        let mut head: &[u8] = &[];
        let mut datagram = Vec::new();
        loop {
            head = cut(head, &mut rest, size.into(), &mut datagram);
            if datagram.is_empty() {
                return Ok(());
            }
            let single = Transmit { slices: &datagram, ..*transmit };
            match sendmsg(self.as_fd(), &self.message(&single, None)) {
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(()),
                Ok(()) => sent += 1,
            }
        }
    }

    fn message<'a>(&self, transmit: &Transmit<'a>, gso: Option<u16>) -> OutMessage<'a> {
        let to_v4 = transmit.destination.map_or(self.peer_is_v4, |addr| canonical(addr).is_ipv4());
        let mut control = SendControl::default();
        let [default_v4, default_v6] = self.default_tos;
        let tos = i32::from(transmit.tos).to_ne_bytes();
        if to_v4 && transmit.tos != default_v4 {
            control.push(IPPROTO_IP, libc::IP_TOS, &tos);
        } else if !to_v4 && transmit.tos != default_v6 {
            control.push(IPPROTO_IPV6, libc::IPV6_TCLASS, &tos);
        }
        match transmit.src_ip.map(|ip| ip.to_canonical()) {
            Some(IpAddr::V4(ip)) => {
                // struct in_pktinfo: interface, source, (unused when sending) destination.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                control.push(IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(ip)) => {
                // struct in6_pktinfo: source, interface.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                control.push(IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(size) = gso {
            control.push(SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
        }
        OutMessage {
            name: transmit.destination.map(|addr| RawAddr::encode(addr, self.v6)),
            control,
            slices: transmit.slices,
        }
    }
}

/// The kernel would say `EMSGSIZE`, which means something else to the caller.
fn check(transmit: &Transmit<'_>) -> io::Result<()> {
    if transmit.slices.len() > MAX_SLICES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more slices than one call can gather"));
    }
    Ok(())
}

/// `EIO`: the card cannot checksum or transform segments. `EINVAL`: refused, but so is a blackholed route, and by
/// older kernels a segment above the interface's MTU.
fn may_be_gso(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Moves the next `size` bytes of `head` and then `rest` to `out`; returns what remains of the last slice touched.
fn cut<'a>(
    mut head: &'a [u8],
    rest: &mut impl Iterator<Item = &'a [u8]>,
    size: usize,
    out: &mut Vec<IoSlice<'a>>,
) -> &'a [u8] {
    out.clear();
    let mut room = size;
    while room > 0 {
        if head.is_empty() {
            match rest.next() {
                Some(slice) => head = slice,
                None => break,
            }
            continue;
        }
        let (now, later) = head.split_at(head.len().min(room));
        out.push(IoSlice::new(now));
        room -= now.len();
        head = later;
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::syscall::set_option;
    use crate::linux::{Meta, RecvBatch};
    use crate::pool::RecvPool;
    use proptest::prelude::*;

    /// Sends one batch, returns what arrived of it.
    fn exchange(listen: &str, client: &UdpSocket, size: u16) -> (usize, Vec<Meta>) {
        let server = UdpSocket::new(std::net::UdpSocket::bind(listen).unwrap()).unwrap();
        let payload: Vec<u8> = (0..5500_u32).map(|i| (i / 100) as u8).collect();
        let transmit = Transmit {
            destination: Some(server.local_addr().unwrap()),
            tos: 0x2f,
            src_ip: Some(client.local_addr().unwrap().ip()),
            segment_size: Some(size),
            slices: &[IoSlice::new(&payload[..50]), IoSlice::new(&payload[50..])],
        };
        client.send(&transmit).unwrap();
        let mut batch = RecvBatch::new(&RecvPool::new(4, 4), 8);
        let (mut bytes, mut metas) = (Vec::new(), Vec::new());
        while bytes.len() < payload.len() {
            if server.recv(&mut batch).is_ok() {
                for message in batch.messages() {
                    bytes.extend_from_slice(message.data());
                    metas.push(*message.meta);
                }
            }
        }
        assert_eq!(bytes, payload);
        (metas.len(), metas)
    }

    /// A socket without checksums is one whose batches the kernel refuses with EINVAL, but whose datagrams it sends.
    #[test]
    fn a_refused_batch_leaves_one_by_one_and_ends_segmentation() {
        for (addr, level, no_checksum) in
            [("127.0.0.1:0", libc::SOL_SOCKET, libc::SO_NO_CHECK), ("[::1]:0", SOL_UDP, UDP_NO_CHECK6_TX)]
        {
            let client = UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap();
            assert_eq!(exchange(addr, &client, 1000).0, 1, "merged");
            set_option(client.as_fd(), level, no_checksum, 1).unwrap();
            if addr.starts_with('[') {
                // A receiver of IPv6 refuses datagrams without checksum (RFC 8200, section 8.1), so the switch-over is
                // all there is to see.
                let slices = [IoSlice::new(&[0; 2000])];
                let destination = Some(client.local_addr().unwrap());
                let transmit =
                    Transmit { destination, tos: 0, src_ip: None, segment_size: Some(1000), slices: &slices };
                client.send(&transmit).unwrap();
            } else {
                let (messages, metas) = exchange(addr, &client, 1000);
                assert_eq!(messages, 6);
                assert!(metas.iter().all(|meta| meta.tos == Some(0x2f)), "{metas:?}");
            }
            assert_eq!(client.max_gso_segments(), 1);
            set_option(client.as_fd(), level, no_checksum, 0).unwrap();
            assert_eq!(exchange(addr, &client, 1000).0, 6, "off for good, whatever the caller asks");
        }
    }

    /// From linux/udp.h; the C library's headers lack it.
    const UDP_NO_CHECK6_TX: i32 = 101;

    #[test]
    fn a_refusal_that_is_not_segmentations_fault_does_not_end_it() {
        let client = UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let payload = [0; 2000];
        let transmit = Transmit {
            destination: Some("127.0.0.1:0".parse().unwrap()),
            tos: 0,
            src_ip: None,
            segment_size: Some(1000),
            slices: &[IoSlice::new(&payload)],
        };
        assert_eq!(client.send(&transmit).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(client.send_batch(&[transmit]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(client.max_gso_segments(), MAX_GSO_SEGMENTS);
    }

    #[test]
    fn a_default_tos_set_before_is_known() {
        let server = UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let io = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        set_option(io.as_fd(), IPPROTO_IP, libc::IP_TOS, 0xb8).unwrap();
        let client = UdpSocket::new(io).unwrap();
        let mut batch = RecvBatch::new(&RecvPool::new(1, 1), 1);
        for tos in [0, 0xb8, 0xb9] {
            let transmit = Transmit {
                destination: Some(server.local_addr().unwrap()),
                tos,
                src_ip: None,
                segment_size: None,
                slices: &[IoSlice::new(b"x")],
            };
            client.send(&transmit).unwrap();
            while server.recv(&mut batch).is_err() {}
            assert_eq!(batch.messages().next().unwrap().meta.tos, Some(tos));
        }
    }

    proptest! {
        /// Cutting is `chunks` of the concatenation, wherever the slices' borders are.
        #[test]
        fn cutting_is_chunks(slices in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20), size in 1..70_usize) {
            let whole: Vec<u8> = slices.concat();
            let mut rest = slices.iter().map(|slice| &slice[..]);
            let mut head: &[u8] = &[];
            let mut out = Vec::new();
            for chunk in whole.chunks(size) {
                head = cut(head, &mut rest, size, &mut out);
                let datagram: Vec<u8> = out.iter().flat_map(|slice| slice.iter().copied()).collect();
                prop_assert_eq!(&datagram, chunk);
            }
            cut(head, &mut rest, size, &mut out);
            prop_assert!(out.is_empty());
        }
    }
}
