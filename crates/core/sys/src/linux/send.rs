//! Transmit path.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_UDP};

use super::addr::RawAddr;
use super::cmsg::SendControl;
use super::socket::UdpSocket;
use super::syscall::{MAX_BATCH, OutMessage, is_denied, sendmmsg, sendmsg};
use crate::{ErrorClass, canonical};

/// Largest number of datagrams per GSO batch. Linux allows 64 since 4.18 and more since 6.9, but GRO coalesces at most
/// 64.
pub const MAX_GSO_SEGMENTS: usize = 64;

/// Largest number of slices per [`Transmit`] (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// Largest number of [`Transmit`]s per call of [`UdpSocket::send_batch`].
pub const MAX_SEND_BATCH: usize = MAX_BATCH;

/// Datagram to send, or a batch of datagrams that differ only in their payload. `Debug` does not show the payload.
#[derive(Clone, Copy)]
pub struct Transmit<'a> {
    /// Destination, or `None` on a connected socket.
    pub destination: Option<SocketAddr>,
    /// TOS or traffic class: DSCP in the upper 6 bits (RFC 2474), ECN in the lower 2 bits (RFC 3168).
    pub tos: u8,
    /// Source address, in the address family of the destination. It should be the address to which the peer sends
    /// ([`Meta::dst_ip`]). If it is `None`, the kernel chooses.
    ///
    /// [`Meta::dst_ip`]: super::Meta::dst_ip
    pub src_ip: Option<IpAddr>,
    /// Size in bytes of the datagrams into which the payload is segmented; the last one may be shorter. If it is `None`
    /// or zero, the payload is a single datagram. A batch has at most [`UdpSocket::max_gso_segments`] datagrams and
    /// 65,507 bytes.
    pub segment_size: Option<u16>,
    /// Payload in at most [`MAX_SLICES`] slices, whose boundaries are independent of those of the datagrams.
    pub slices: &'a [IoSlice<'a>],
}

impl fmt::Debug for Transmit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { destination, tos, src_ip, segment_size, slices } = self;
        f.debug_struct("Transmit")
            .field("destination", destination)
            .field("tos", tos)
            .field("src_ip", src_ip)
            .field("segment_size", segment_size)
            .field("slices", &slices.len())
            .finish()
    }
}

impl Transmit<'_> {
    /// Returns the segment size if the payload has more than one segment.
    fn gso(&self) -> Option<u16> {
        let size = self.segment_size.filter(|&size| size > 0)?;
        let total: usize = self.slices.iter().map(|slice| slice.len()).sum();
        (total > usize::from(size)).then_some(size)
    }
}

impl UdpSocket {
    /// Returns the largest number of datagrams per [`Transmit`]: [`MAX_GSO_SEGMENTS`], or 1 if the kernel or the
    /// network card cannot segment. Any send may reduce it to 1 permanently.
    #[must_use]
    pub fn max_gso_segments(&self) -> usize {
        if self.gso.load(Ordering::Relaxed) { MAX_GSO_SEGMENTS } else { 1 }
    }

    /// Sends a datagram or a batch of datagrams.
    ///
    /// If the network card cannot segment a batch (the kernel returns `EIO` or `EINVAL`), this call sends the datagrams
    /// one by one with the same TOS and source address. If the first one is sent successfully, segmentation was the
    /// cause of the error, and [`max_gso_segments`](Self::max_gso_segments) is 1 from then on. If the send buffer or a
    /// queue of the host fills up after the first one, the rest of the batch is dropped, as if it were lost on the
    /// path.
    ///
    /// # Errors
    /// Returns the unchanged system error, which [`ErrorClass`] classifies, or `InvalidInput` for more than
    /// [`MAX_SLICES`] slices. In general, nothing was sent in this case. If the datagrams are sent one by one, the
    /// error may also belong to a later datagram; the rest of the batch is then not sent.
    pub fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        check(transmit)?;
        let Some(size) = transmit.gso() else {
            return sendmsg(self.as_fd(), &self.message(transmit, None));
        };
        if self.gso.load(Ordering::Relaxed) {
            match sendmsg(self.as_fd(), &self.message(transmit, Some(size))) {
                Err(error) if may_be_gso(&error) => {}
                result => return result,
            }
        }
        self.send_one_by_one(transmit, size)
    }

    /// Sends several [`Transmit`]s in order, up to [`MAX_SEND_BATCH`] or until the send buffer is full. Returns the
    /// number sent. The next call should start with the first one that was not sent.
    ///
    /// # Errors
    /// Returns the errors of [`send`](Self::send) if the first one fails. If a later one fails, its error is returned
    /// by the call that starts with it. An empty list is not an error.
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
            Err(error) if is_denied(&error) || (may_be_gso(&error) && first.gso().is_some()) => {
                self.send(first).map(|()| 1)
            }
            result => result,
        }
    }

    /// Sends the datagrams of a batch that cannot be segmented. If the first one is sent, this disables segmentation.
    fn send_one_by_one(&self, transmit: &Transmit<'_>, size: u16) -> io::Result<()> {
        let whole: Vec<u8> = transmit.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        for (index, datagram) in whole.chunks(size.into()).enumerate() {
            let single = Transmit { slices: &[IoSlice::new(datagram)], ..*transmit };
            match sendmsg(self.as_fd(), &self.message(&single, None)) {
                Err(error) if index > 0 && is_full(&error) => return Ok(()),
                result => result?,
            }
            self.gso.store(false, Ordering::Relaxed);
        }
        Ok(())
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
                // struct in_pktinfo: interface, source address, destination address (unused when sending).
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

/// Checks the number of slices. The kernel would return `EMSGSIZE`, which has a different meaning for the caller.
fn check(transmit: &Transmit<'_>) -> io::Result<()> {
    if transmit.slices.len() > MAX_SLICES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many slices for one call"));
    }
    Ok(())
}

/// Returns whether an error may mean that segmentation is not supported.
///
/// `EIO` means that the card cannot checksum or transform segments. `EINVAL` means that segmentation was refused, but
/// it may also be a blackhole route or, on older kernels, a segment larger than the interface's MTU.
fn may_be_gso(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

fn is_full(error: &io::Error) -> bool {
    matches!(ErrorClass::of(error), ErrorClass::WouldBlock | ErrorClass::NoBuffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::syscall::set_option;
    use crate::linux::{Meta, RecvBatch};
    use crate::pool::RecvPool;

    /// Sends one batch. Returns the number of messages received, and their metadata.
    fn exchange(listen: &str, client: &UdpSocket, size: u16) -> (usize, Vec<Meta>) {
        let server = UdpSocket::new(std::net::UdpSocket::bind(listen).unwrap()).unwrap();
        let payload: Vec<u8> = (0..5500_u32).map(|i| (i / 100) as u8).collect();
        let transmit = Transmit {
            destination: Some(server.local_addr()),
            tos: 0x2f,
            src_ip: Some(client.local_addr().ip()),
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

    /// The kernel refuses GSO batches with EINVAL on a socket with checksums disabled, but sends single datagrams.
    #[test]
    fn a_refused_batch_is_sent_one_by_one_and_disables_segmentation() {
        for (addr, level, no_checksum) in
            [("127.0.0.1:0", libc::SOL_SOCKET, libc::SO_NO_CHECK), ("[::1]:0", SOL_UDP, UDP_NO_CHECK6_TX)]
        {
            let client = UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap();
            assert_eq!(exchange(addr, &client, 1000).0, 1, "merged");
            set_option(client.as_fd(), level, no_checksum, 1).unwrap();
            if addr.starts_with('[') {
                // IPv6 receivers discard datagrams without a checksum (RFC 8200, section 8.1), so only the effect on
                // `max_gso_segments` is checked.
                let slices = [IoSlice::new(&[0; 2000])];
                let destination = Some(client.local_addr());
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

    /// Defined in linux/udp.h, but not in the C library's headers.
    const UDP_NO_CHECK6_TX: i32 = 101;

    #[test]
    fn an_error_with_another_cause_does_not_disable_segmentation() {
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

    /// The first datagram causes an ICMP port unreachable, which the call for the second datagram returns.
    #[test]
    fn an_error_after_the_first_of_single_datagrams_is_returned() {
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let io = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        io.connect(closed).unwrap();
        let client = UdpSocket::new(io).unwrap();
        client.gso.store(false, Ordering::Relaxed);
        let slices = [IoSlice::new(&[0; 3000])];
        let transmit = Transmit { destination: None, tos: 0, src_ip: None, segment_size: Some(1000), slices: &slices };
        assert_eq!(client.send(&transmit).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_default_tos_set_before_wrapping_is_respected() {
        let server = UdpSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let io = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        set_option(io.as_fd(), IPPROTO_IP, libc::IP_TOS, 0xb8).unwrap();
        let client = UdpSocket::new(io).unwrap();
        let mut batch = RecvBatch::new(&RecvPool::new(1, 1), 1);
        for tos in [0, 0xb8, 0xb9] {
            let transmit = Transmit {
                destination: Some(server.local_addr()),
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
}
