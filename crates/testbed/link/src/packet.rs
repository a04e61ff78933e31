//! Packets carried by links.

use longhaul_units::Time;
use longhaul_wire::Ecn;

/// DiffServ codepoints.
pub mod dscp {
    /// Default forwarding (RFC 2474, section 4.1).
    pub const DEFAULT: u8 = 0;
    /// Less-effort traffic (RFC 8622), which may be starved and pushed out.
    pub const LE: u8 = 1;
}

/// Contents of a packet: bytes, a segment, or only a size.
///
/// `Clone` is required because links may duplicate packets.
pub trait Payload: Clone {
    /// Returns the bytes that a bit error may hit: the UDP payload, or more. Returns `None`, the default, if there are none, as in
    /// cross traffic that consists only of sizes.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Lets `edit` read and modify the UDP payload. Returns what `edit` returns: whether it changed the payload, so
    /// that a checksum over it must be updated. `edit` is not called if there is no UDP payload.
    fn edit_datagram(&mut self, edit: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        self.bytes_mut().is_some_and(edit)
    }
}

impl Payload for () {}

/// A number is a label and has no bytes on the wire.
impl Payload for u64 {}

impl Payload for Vec<u8> {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(self)
    }
}

impl<P: Payload> Payload for Box<P> {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.as_mut().bytes_mut()
    }

    fn edit_datagram(&mut self, edit: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        self.as_mut().edit_datagram(edit)
    }
}

impl<P: Payload> Payload for Option<P> {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.as_mut()?.bytes_mut()
    }

    fn edit_datagram(&mut self, edit: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        self.as_mut().is_some_and(|payload| payload.edit_datagram(edit))
    }
}

/// An IP packet with a payload of the caller's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes of the IP packet including its header; links add their own overhead.
    pub size: u32,
    /// The flow that it belongs to, for statistics and hooks.
    pub flow: u32,
    /// The destination node in a [`Network`](crate::Network); a single link ignores it.
    pub to: u32,
    /// The ECN field.
    pub ecn: Ecn,
    /// The DiffServ codepoint, 0 to 63.
    pub dscp: u8,
    /// IP TTL or hop limit.
    pub ttl: u8,
    /// Whether a bit error went undetected by the link's and UDP's checksums. Also set if the payload has no bytes.
    pub corrupted: bool,
    /// Time at which it entered its current or last queue. Written by links.
    pub enqueued: Time,
    /// Contents of the packet.
    pub payload: T,
}

impl<T> Packet<T> {
    /// Creates a packet of `size` bytes with default header fields: not ECN-capable, DSCP 0, TTL 64.
    pub fn new(size: u32, payload: T) -> Self {
        Self {
            size,
            flow: 0,
            to: 0,
            ecn: Ecn::NotEct,
            dscp: dscp::DEFAULT,
            ttl: 64,
            corrupted: false,
            enqueued: Time::ZERO,
            payload,
        }
    }

    /// Replaces the flow.
    #[must_use]
    pub fn flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }

    /// Replaces the destination node.
    #[must_use]
    pub fn to(self, to: u32) -> Self {
        Self { to, ..self }
    }

    /// Replaces the ECN field.
    #[must_use]
    pub fn ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// Replaces the DiffServ codepoint; the two highest bits of the byte are ignored.
    #[must_use]
    pub fn dscp(self, dscp: u8) -> Self {
        Self { dscp: dscp & 63, ..self }
    }
}
