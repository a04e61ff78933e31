//! Conversion of datagrams to TCP segments in IP packets, and back, and to UDP datagrams in IP packets.
//!
//! Both formats have the same 16-bit words in a different order; the ports move between the UDP and the TCP header.
//! With this conversion, a kernel's TCP behind a TUN device can be a peer of longhaul, and captures show ordinary TCP.
//! Only URG cannot be converted, because the UDP format has no urgent pointer: the bit is cleared, and urgent data is
//! delivered in-line.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::codec::{FIXED_LEN, options_bytes, put};

mod checksum;
#[cfg(test)]
mod tests;

use checksum::Sum;
pub use checksum::{tcp_checksum_from_udp, udp_checksum_from_tcp};

/// Fields of the IP header other than addresses and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Identification; IPv4 only.
    pub identification: u16,
}

impl Default for IpFields {
    /// Returns a TTL of 64 (recommended by RFC 1700 and the default of Linux) and zero for the other fields.
    fn default() -> Self {
        Self { ttl: 64, tos: 0, identification: 0 }
    }
}

/// Addresses, IP fields and length of a datagram that was converted from a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromTcp {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Fields of the packet's IP header other than addresses and length.
    pub ip: IpFields,
    /// Length of the UDP payload in bytes.
    pub len: usize,
}

/// Reason why a datagram or packet cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShimError {
    /// The datagram is shorter than a header, or its data offset is invalid.
    #[error("the datagram is not a valid segment")]
    NotASegment,
    /// Source and destination have different IP versions.
    #[error("source and destination have different IP versions")]
    MixedAddresses,
    /// The packet would be longer than its length field can express.
    #[error("a packet of {len} bytes is too long")]
    TooLong {
        /// Length of the packet in bytes.
        len: usize,
    },
    /// The buffer is too small.
    #[error("the output needs {needed} bytes, the buffer has {available}")]
    BufferTooSmall {
        /// Length of the output in bytes.
        needed: usize,
        /// Length of the buffer in bytes.
        available: usize,
    },
    /// The input is not an IPv4 or IPv6 packet, or it is truncated.
    #[error("not a complete IP packet")]
    NotIp,
    /// The IP header is not directly followed by a valid TCP header, or the packet is a fragment.
    #[error("not an unfragmented TCP segment")]
    NotTcp,
    /// The TCP checksum is wrong.
    #[error("the TCP checksum is wrong")]
    Checksum,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Length of the fields of a TCP header that a datagram lacks: ports, checksum and urgent pointer.
const EXTRA_LEN: usize = TCP_LEN - FIXED_LEN;
/// Mask of URG in the second byte of the flags word.
const URG: u8 = 0x20;

/// Largest number of bytes that [`tcp_from_udp`] and [`udp_packet`] add to a datagram: IPv6 header, ports, checksum, and
/// urgent pointer or length.
pub const MAX_GROWTH: usize = IPV6_LEN + EXTRA_LEN;

/// Converts the UDP payload `datagram` to a TCP segment in an IP packet. Returns the length of the packet in bytes.
///
/// # Errors
/// Returns an error if the datagram is not a segment, if it is too long, if the addresses have different IP versions,
/// or if the buffer is too small.
pub fn tcp_from_udp(
    datagram: &[u8],
    source: SocketAddr,
    destination: SocketAddr,
    ip: IpFields,
    out: &mut [u8],
) -> Result<usize, ShimError> {
    let (fixed, rest) = split_segment(datagram).ok_or(ShimError::NotASegment)?;
    let mut header = tcp_header(fixed, source.port(), destination.port());
    put_packet(TCP, [source.ip(), destination.ip()], ip, (&mut header, 16), rest, out)
}

/// Puts the UDP payload `datagram` into a UDP datagram in an IP packet, for captures of other protocols over UDP. Returns
/// the length of the packet in bytes.
///
/// # Errors
/// Returns an error if the datagram is too long, if the addresses have different IP versions, or if the buffer is too
/// small.
pub fn udp_packet(
    datagram: &[u8],
    source: SocketAddr,
    destination: SocketAddr,
    ip: IpFields,
    out: &mut [u8],
) -> Result<usize, ShimError> {
    let ([p0, p1], [p2, p3]) = (source.port().to_be_bytes(), destination.port().to_be_bytes());
    // A length with more bits is an error below.
    let [l0, l1] = (datagram.len().wrapping_add(UDP_LEN) as u16).to_be_bytes();
    let mut header: [u8; UDP_LEN] = [p0, p1, p2, p3, l0, l1, 0, 0];
    put_packet(UDP, [source.ip(), destination.ip()], ip, (&mut header, 6), datagram, out)
}

/// Writes an IP packet with a transport header, whose checksum field begins at the given byte and is zero, and the data
/// that follows the header.
fn put_packet(
    protocol: u8,
    [source, destination]: [IpAddr; 2],
    ip: IpFields,
    (header, checksum_at): (&mut [u8], usize),
    rest: &[u8],
    out: &mut [u8],
) -> Result<usize, ShimError> {
    let segment_len = rest.len().saturating_add(header.len());
    let segment_len = u16::try_from(segment_len).map_err(|_| ShimError::TooLong { len: segment_len })?;

    // IP header.
    let available = out.len();
    let (head_len, out) = match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let head = ipv4_header(from, to, ip, protocol, segment_len)?;
            (IPV4_LEN, put(out, &head))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => (IPV6_LEN, put(out, &ipv6_header(from, to, ip, protocol, segment_len))),
        _ => return Err(ShimError::MixedAddresses),
    };
    let needed = usize::from(segment_len).saturating_add(head_len);
    let too_small = ShimError::BufferTooSmall { needed, available };

    // Transport header, with the checksum of pseudo-header, header, options and data. In UDP, zero means that there is
    // no checksum (RFC 768).
    let mut sum = Sum::pseudo_header(source, destination, protocol, segment_len);
    sum.add(header);
    sum.add(rest);
    let checksum = if protocol == UDP && sum.checksum() == 0 { u16::MAX } else { sum.checksum() };
    if let Some(field) = header.get_mut(checksum_at..).and_then(<[u8]>::first_chunk_mut) {
        *field = checksum.to_be_bytes();
    }
    out.and_then(|out| put(out, header)).and_then(|out| put(out, rest)).ok_or(too_small)?;
    Ok(needed)
}

/// Converts the TCP segment in the IP packet `packet` to a UDP payload.
///
/// The TCP checksum is verified, because the datagram gets a new checksum that would conceal corruption.
///
/// # Errors
/// Returns an error if the packet has no valid TCP segment, or if the buffer is too small.
pub fn udp_from_tcp(packet: &[u8], out: &mut [u8]) -> Result<FromTcp, ShimError> {
    let (source, destination, ip, segment) = split_packet(packet)?;
    let segment_len = u16::try_from(segment.len()).map_err(|_| ShimError::NotIp)?;
    let mut sum = Sum::pseudo_header(source, destination, TCP, segment_len);
    sum.add(segment);
    if sum.checksum() != 0 {
        return Err(ShimError::Checksum);
    }

    // Reorder the words of the header. The checksum and the urgent pointer are omitted.
    let (&header, rest) = segment.split_first_chunk::<TCP_LEN>().ok_or(ShimError::NotTcp)?;
    let [p0, p1, p2, p3, s0, s1, s2, s3, a0, a1, a2, a3, b0, b1, w0, w1, ..] = header;
    let fixed = [b0, b1 & !URG, w0, w1, s0, s1, s2, s3, a0, a1, a2, a3];
    options_bytes(b0 >> 4, rest).map_err(|_| ShimError::NotTcp)?;
    let needed = FIXED_LEN.saturating_add(rest.len());
    let too_small = ShimError::BufferTooSmall { needed, available: out.len() };
    put(out, &fixed).and_then(|out| put(out, rest)).ok_or(too_small)?;
    Ok(FromTcp {
        source: SocketAddr::new(source, u16::from_be_bytes([p0, p1])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([p2, p3])),
        ip,
        len: needed,
    })
}

/// Splits a datagram into the fixed part of the header and the rest. Returns `None` if the data offset is invalid.
fn split_segment(datagram: &[u8]) -> Option<(&[u8; FIXED_LEN], &[u8])> {
    let (fixed, rest) = datagram.split_first_chunk::<FIXED_LEN>()?;
    options_bytes(fixed.first()? >> 4, rest).is_ok().then_some((fixed, rest))
}

/// Returns the TCP header with a checksum of zero. Reserved bits are kept (RFC 9768 uses one of them), URG is cleared.
fn tcp_header(fixed: &[u8; FIXED_LEN], source: u16, destination: u16) -> [u8; TCP_LEN] {
    let [b0, b1, w0, w1, s0, s1, s2, s3, a0, a1, a2, a3] = *fixed;
    let [p0, p1] = source.to_be_bytes();
    let [p2, p3] = destination.to_be_bytes();
    [p0, p1, p2, p3, s0, s1, s2, s3, a0, a1, a2, a3, b0, b1 & !URG, w0, w1, 0, 0, 0, 0]
}

fn ipv4_header(
    from: Ipv4Addr,
    to: Ipv4Addr,
    ip: IpFields,
    protocol: u8,
    payload: u16,
) -> Result<[u8; IPV4_LEN], ShimError> {
    let too_long = ShimError::TooLong { len: usize::from(payload).saturating_add(IPV4_LEN) };
    let [l0, l1] = payload.checked_add(IPV4_LEN as u16).ok_or(too_long)?.to_be_bytes();
    let [i0, i1] = ip.identification.to_be_bytes();
    let [f0, f1, f2, f3] = from.octets();
    let [t0, t1, t2, t3] = to.octets();
    // Version 4, header length of 5 words, Don't Fragment flag (RFC 791, section 3.1).
    let mut header = [0x45, ip.tos, l0, l1, i0, i1, 0x40, 0, ip.ttl, protocol, 0, 0, f0, f1, f2, f3, t0, t1, t2, t3];
    let mut sum = Sum::default();
    sum.add(&header);
    if let Some(field) = header.get_mut(10..12) {
        field.copy_from_slice(&sum.checksum().to_be_bytes());
    }
    Ok(header)
}

fn ipv6_header(from: Ipv6Addr, to: Ipv6Addr, ip: IpFields, protocol: u8, payload: u16) -> [u8; IPV6_LEN] {
    let [l0, l1] = payload.to_be_bytes();
    let mut header = [0; IPV6_LEN];
    // Version 6, traffic class across two bytes, flow label 0 (RFC 8200, section 3).
    let head = [0x60 | ip.tos >> 4, ip.tos << 4, 0, 0, l0, l1, protocol, ip.ttl];
    if let Some((first, addresses)) = header.split_first_chunk_mut()
        && let Some((source, destination)) = addresses.split_first_chunk_mut()
        && let Some(destination) = destination.first_chunk_mut()
    {
        *first = head;
        *source = from.octets();
        *destination = to.octets();
    }
    header
}

fn split_packet(packet: &[u8]) -> Result<(IpAddr, IpAddr, IpFields, &[u8]), ShimError> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => split_ipv4(packet),
        Some(6) => split_ipv6(packet),
        _ => Err(ShimError::NotIp),
    }
}

fn split_ipv4(packet: &[u8]) -> Result<(IpAddr, IpAddr, IpFields, &[u8]), ShimError> {
    let header = packet.first_chunk::<IPV4_LEN>().ok_or(ShimError::NotIp)?;
    let [version, tos, l0, l1, i0, i1, g0, g1, ttl, protocol, _, _, f0, f1, f2, f3, t0, t1, t2, t3] = *header;
    let header_len = usize::from(version & 0xf).saturating_mul(4);
    let total = usize::from(u16::from_be_bytes([l0, l1]));
    if header_len < IPV4_LEN {
        return Err(ShimError::NotIp);
    }
    let segment = packet.get(header_len..total).ok_or(ShimError::NotIp)?;
    // More Fragments flag and fragment offset.
    let fragment = u16::from_be_bytes([g0, g1]) & 0x3fff != 0;
    if protocol != TCP || fragment {
        return Err(ShimError::NotTcp);
    }
    let fields = IpFields { ttl, tos, identification: u16::from_be_bytes([i0, i1]) };
    Ok((Ipv4Addr::new(f0, f1, f2, f3).into(), Ipv4Addr::new(t0, t1, t2, t3).into(), fields, segment))
}

fn split_ipv6(packet: &[u8]) -> Result<(IpAddr, IpAddr, IpFields, &[u8]), ShimError> {
    let (&[c0, c1, _, _, l0, l1, next, ttl], rest) = packet.split_first_chunk().ok_or(ShimError::NotIp)?;
    let (&from, rest) = rest.split_first_chunk::<16>().ok_or(ShimError::NotIp)?;
    let (&to, rest) = rest.split_first_chunk::<16>().ok_or(ShimError::NotIp)?;
    let segment = rest.get(..usize::from(u16::from_be_bytes([l0, l1]))).ok_or(ShimError::NotIp)?;
    if next != TCP {
        return Err(ShimError::NotTcp);
    }
    let fields = IpFields { ttl, tos: c0 << 4 | c1 >> 4, identification: 0 };
    Ok((Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into(), fields, segment))
}
