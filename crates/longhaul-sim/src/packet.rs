//! What a link carries.

use std::net::{IpAddr, SocketAddr};

use longhaul_tcp::Ecn;

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
}

impl Packet {
    /// Bytes it takes on the wire, IP and UDP headers included.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        ip_header(&self.to.ip()) + UDP_HEADER + self.payload.len()
    }
}
