//! What a link carries.

use longhaul_units::Time;
use longhaul_wire::Ecn;

/// DiffServ codepoints.
pub mod dscp {
    /// Default forwarding (RFC 2474, section 4.1).
    pub const DEFAULT: u8 = 0;
    /// Less effort: what may be starved and pushed out (RFC 8622).
    pub const LE: u8 = 1;
}

/// What travels with a packet: bytes, a segment, or nothing but a size.
///
/// `Clone` is asked for because links duplicate packets.
pub trait Payload: Clone {
    /// The bytes that a bit error may hit: the UDP payload, or more. `None` if there are none, as in cross traffic that is
    /// only a size.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;

    /// Lets `edit` read and change the UDP payload, and returns what it does: whether there is something else now, so that
    /// a checksum over it has to be made right. Without a UDP payload `edit` is not called.
    fn edit_datagram(&mut self, edit: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        self.bytes_mut().is_some_and(edit)
    }
}

impl Payload for () {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl Payload for u64 {
    /// A number is a label, not bytes on the wire.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

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

/// An IP packet on its way, and what the caller wants carried with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes of the IP packet, its header included; a link adds its own overhead to that.
    pub size: u32,
    /// Which flow it belongs to, for statistics and hooks.
    pub flow: u32,
    /// The node a [`Network`](crate::Network) takes it to; a single link does not look at it.
    pub to: u32,
    /// The ECN field.
    pub ecn: Ecn,
    /// The DiffServ codepoint, 0 to 63.
    pub dscp: u8,
    /// IP TTL or hop limit.
    pub ttl: u8,
    /// Whether a bit error went unseen by the link's and UDP's checksums. Also set where the payload has no bytes.
    pub corrupted: bool,
    /// When it entered the queue it is in, or was in last. Links write it.
    pub enqueued: Time,
    /// What is carried.
    pub payload: T,
}

impl<T> Packet<T> {
    /// A packet of `size` bytes with default marks: not ECN-capable, DSCP 0, TTL 64.
    #[must_use]
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

    /// The same with another flow.
    #[must_use]
    pub fn flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }

    /// The same to another node.
    #[must_use]
    pub fn to(self, to: u32) -> Self {
        Self { to, ..self }
    }

    /// The same with another ECN field.
    #[must_use]
    pub fn ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// The same with another DiffServ codepoint; the two bits above six are dropped.
    #[must_use]
    pub fn dscp(self, dscp: u8) -> Self {
        Self { dscp: dscp & 63, ..self }
    }
}
