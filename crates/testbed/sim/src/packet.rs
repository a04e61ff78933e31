//! Packets carried by the network.

use std::net::{IpAddr, SocketAddr};

use longhaul_link::Payload;
use longhaul_wire::Ecn;

/// Initial TTL or hop limit of packets, as recommended by IANA (RFC 1700). Each router decrements it.
pub const TTL: u8 = 64;

/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: usize = 8;

/// Bytes of an IP header without options or extensions: 20 (RFC 791) or 40 (RFC 8200).
pub const fn ip_header(address: &IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

/// Contents of a link's packet: a datagram, boxed to make moves between queues cheap, or `None` in cross traffic.
pub type Parcel = Option<Box<Packet>>;

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address, which may be forged.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The DiffServ codepoint of the IP header.
    pub dscp: u8,
    /// UDP payload: a segment.
    pub payload: Vec<u8>,
    /// Number of zeros that follow the payload. They are not stored; they serve for streams of
    /// [zeros](crate::Content::Zeros).
    pub zeros: u32,
}

impl Packet {
    /// Returns the length of the UDP payload.
    pub fn payload_len(&self) -> usize {
        self.payload.len() + self.zeros as usize
    }

    /// Returns the length of the IP packet, including IP and UDP headers.
    pub fn wire_len(&self) -> usize {
        ip_header(&self.to.ip()) + UDP_HEADER + self.payload_len()
    }

    pub(crate) fn addressed(self: Box<Self>, node: u32, flow: u32) -> longhaul_link::Packet<Parcel> {
        let (ecn, dscp) = (self.ecn, self.dscp);
        let packet = longhaul_link::Packet::new(self.wire_len() as u32, Some(self));
        longhaul_link::Packet { ttl: TTL, ..packet }.to(node).flow(flow).ecn(ecn).dscp(dscp)
    }
}

impl Payload for Packet {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        (!self.payload.is_empty()).then_some(self.payload.as_mut_slice())
    }
}
