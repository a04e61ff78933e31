//! What a network carries.

use std::net::{IpAddr, SocketAddr};

use longhaul_link::Payload;
use longhaul_wire::Ecn;

/// The TTL or hop limit that packets leave hosts with, of which each router takes one: what IANA recommends (RFC 1700).
pub const TTL: u8 = 64;

/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: usize = 8;

/// Bytes of an IP header without options or extensions: 20 (RFC 791) or 40 (RFC 8200).
#[must_use]
pub const fn ip_header(address: &IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

/// What links carry: a packet apart from what is moved from queue to queue, or nothing but a size in cross traffic.
pub type Parcel = Option<Box<Packet>>;

/// A UDP datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Whom it claims to be from.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// The DiffServ codepoint of its IP header.
    pub dscp: u8,
    /// UDP payload: a segment.
    pub payload: Vec<u8>,
    /// So many zeros follow, which nobody has to carry: streams of [zeros](crate::Content::Zeros).
    pub zeros: u32,
}

impl Packet {
    /// Bytes of the UDP payload.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.payload.len() + self.zeros as usize
    }

    /// Bytes of the IP packet, IP and UDP headers included.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        ip_header(&self.to.ip()) + UDP_HEADER + self.payload_len()
    }

    /// For a network that takes it to `node`.
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
