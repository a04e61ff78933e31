//! IP packets as devices give and take them.

use longhaul_link::{Ecn, Packet, Payload};

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;

/// An IP packet with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpPacket(Vec<u8>);

impl IpPacket {
    /// The packet for a link; `None` if it is not IP, or what a host that forwards packets says unasked.
    pub(super) fn read(bytes: &[u8]) -> Option<Packet<Self>> {
        if is_listener_report(bytes) {
            return None;
        }
        let (tos, ttl) = match bytes.first()? >> 4 {
            4 if bytes.len() >= V4_HEADER => (*bytes.get(1)?, *bytes.get(8)?),
            6 if bytes.len() >= V6_HEADER => (bytes.first()? << 4 | bytes.get(1)? >> 4, *bytes.get(7)?),
            _ => return None,
        };
        let packet = Packet::new(u32::try_from(bytes.len()).ok()?, Self(bytes.to_vec()));
        Some(Packet { ttl, ..packet.dscp(tos >> 2).ecn(Ecn::from_bits(tos)) })
    }

    /// The bytes of a packet that comes from a link, with the mark that a queue may have set.
    pub(super) fn write(packet: Packet<Self>) -> Vec<u8> {
        let (ecn, Self(mut bytes)) = (packet.ecn, packet.payload);
        mark(&mut bytes, ecn);
        bytes
    }
}

impl Payload for IpPacket {
    /// What follows the IP header.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let header = match self.0.first()? >> 4 {
            4 => usize::from(self.0.first()? & 0xf) * 4,
            _ => V6_HEADER,
        };
        self.0.get_mut(header..)
    }
}

/// Whether a packet tells routers which groups its sender listens to (RFC 2710, RFC 3810): ICMPv6 behind a header of hop
/// options, with a hop limit of 1. There are no routers on this link, and nobody sent it on purpose.
fn is_listener_report(bytes: &[u8]) -> bool {
    const HOP_OPTIONS: u8 = 0;
    const ICMPV6: u8 = 58;
    const REPORTS: [u8; 3] = [131, 132, 143];
    let [first, _, _, _, _, _, HOP_OPTIONS, 1, rest @ ..] = bytes else { return false };
    let after = |offset: usize| rest.get(V6_HEADER - 8 + offset).copied();
    // The options take eight bytes, of which the first is what comes next.
    first >> 4 == 6 && after(0) == Some(ICMPV6) && after(8).is_some_and(|kind| REPORTS.contains(&kind))
}

/// Sets the ECN field, and IPv4's checksum to what it is then (RFC 1624, equation 3).
fn mark(bytes: &mut [u8], ecn: Ecn) {
    match bytes {
        [first, tos, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let word = |first: u8, tos: u8| u32::from(u16::from_be_bytes([first, tos]));
            let marked = *tos & !3 | ecn.bits();
            let old = !word(*first, *tos) & 0xffff;
            let sum = (!word(*high, *low) & 0xffff) + old + word(*first, marked);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!(sum as u16)).to_be_bytes();
            *tos = marked;
        }
        [_, second, ..] => *second = *second & !0x30 | ecn.bits() << 4,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of RFC 1071, over all words.
    fn sum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum = words.sum::<u64>();
        !(((sum % 0xffff) as u16).max(u16::from(sum > 0) * u16::from(sum % 0xffff == 0) * 0xffff))
    }

    #[test]
    fn marks_are_set_and_checksums_hold() {
        for number in 0..=u16::MAX {
            let mut v4 = [0x45, 0xba, 0, 20, 0, 0, 0x40, 0, 61, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            v4[4..6].copy_from_slice(&number.to_be_bytes());
            let checksum = sum(&v4);
            v4[10..12].copy_from_slice(&checksum.to_be_bytes());
            let packet = IpPacket::read(&v4).unwrap();
            assert_eq!((packet.ecn, packet.dscp, packet.ttl, packet.size), (Ecn::Ect0, 0x2e, 61, 20));
            let marked = IpPacket::write(packet.ecn(Ecn::Ce));
            assert_eq!(marked[1], 0xbb);
            let mut bare = marked.clone();
            bare[10..12].fill(0);
            let right = sum(&bare).to_be_bytes();
            assert_eq!(marked[10..12], right, "{number}");
        }
    }

    #[test]
    fn reports_of_listeners_are_not_for_the_link() {
        // Hop limit 1; a router alert; a report of MLDv2.
        let mut report = [0; 76];
        report[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 36, 0, 1]);
        report[40..48].copy_from_slice(&[58, 0, 5, 2, 0, 0, 1, 0]);
        report[48] = 143;
        assert!(IpPacket::read(&report).is_none());
        for (place, other) in [(6, 17), (7, 64), (40, 17), (48, 128)] {
            let mut packet = report;
            packet[place] = other;
            assert!(IpPacket::read(&packet).is_some(), "{place}");
        }
        assert!(IpPacket::read(&report[..48]).is_some());
    }

    #[test]
    fn both_versions_are_read_and_nothing_else() {
        let mut v6 = vec![0x6b, 0xa1, 2, 3, 0, 1, 17, 64];
        v6.resize(41, 0);
        let packet = IpPacket::read(&v6).unwrap();
        assert_eq!((packet.ecn, packet.dscp, packet.ttl), (Ecn::Ect0, 0x2e, 64));
        let mut marked = packet.ecn(Ecn::Ce);
        assert_eq!(marked.payload.bytes_mut().map(|bytes| bytes.len()), Some(1));
        marked.payload.bytes_mut().unwrap()[0] = 9;
        v6[1] = 0xb1;
        v6[40] = 9;
        assert_eq!(IpPacket::write(marked), v6);
        assert!(IpPacket::read(&v6[..39]).is_none());
        assert!(IpPacket::read(&[0x45; 19]).is_none() && IpPacket::read(&[]).is_none());
        assert!(IpPacket::read(&[0x05; 40]).is_none());
    }
}
