//! IP packets as read from and written to TUN devices.

use longhaul_link::{Ecn, Packet, Payload};

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// IP protocol number of UDP.
const UDP: u8 = 17;

/// An IP packet including its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPacket(Vec<u8>);

impl IpPacket {
    /// Parses a packet for a link. Returns `None` if it is not IP, or if the kernel sent it on its own behalf.
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

    /// Returns the bytes of a packet from a link, with DSCP and ECN as set by the link and the TTL set by the hop.
    pub(super) fn write(packet: Packet<Self>) -> Vec<u8> {
        let (class, ttl, Self(mut bytes)) = (packet.dscp << 2 | packet.ecn.bits(), packet.ttl, packet.payload);
        mark(&mut bytes, class, ttl);
        bytes
    }

    /// Returns the checksum and the payload of an unfragmented UDP datagram, without trailing bytes.
    fn udp(&mut self) -> Option<([&mut u8; 2], &mut [u8])> {
        let header = match self.0.as_slice() {
            // Require that the packet is not a fragment: no more-fragments flag and no offset.
            [first, _, _, _, _, _, flags, 0, _, UDP, ..] if first >> 4 == 4 && flags & 0x3f == 0 => {
                usize::from(first & 0xf) * 4
            }
            [first, _, _, _, _, _, UDP, ..] if first >> 4 == 6 => V6_HEADER,
            _ => return None,
        };
        let [_, _, _, _, len_high, len_low, high, low, payload @ ..] = self.0.get_mut(header..)? else { return None };
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low])).checked_sub(UDP_HEADER)?;
        Some(([high, low], payload.get_mut(..len)?))
    }
}

impl Payload for IpPacket {
    /// Returns everything after the IP header.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let header = match self.0.first()? >> 4 {
            4 => usize::from(self.0.first()? & 0xf) * 4,
            _ => V6_HEADER,
        };
        self.0.get_mut(header..)
    }

    /// Lets `edit` modify the UDP payload if it is complete. The UDP checksum is updated incrementally, so that a wrong
    /// checksum remains wrong.
    fn edit_datagram(&mut self, edit: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        let Some(([high, low], payload)) = self.udp() else { return false };
        let before = words(payload);
        if !edit(payload) {
            return false;
        }
        let checksum = u16::from_be_bytes([*high, *low]);
        // Zero means no checksum (RFC 768), which IPv6 permits for tunnels (RFC 6935).
        if checksum != 0 {
            let adjusted = adjust(checksum, before, words(payload));
            [*high, *low] = if adjusted == 0 { u16::MAX } else { adjusted }.to_be_bytes();
        }
        true
    }
}

/// Returns whether a packet is a multicast listener report (RFC 2710, RFC 3810): ICMPv6 after a hop-by-hop options
/// header, with hop limit 1. The kernel sends it on its own behalf, and there is no router on the link to receive it.
fn is_listener_report(bytes: &[u8]) -> bool {
    const HOP_OPTIONS: u8 = 0;
    const ICMPV6: u8 = 58;
    const REPORTS: [u8; 3] = [131, 132, 143];
    let [first, _, _, _, _, _, HOP_OPTIONS, 1, rest @ ..] = bytes else { return false };
    let after = |offset: usize| rest.get(V6_HEADER - 8 + offset).copied();
    // The options header takes eight bytes, the first of which is the type of the next header.
    first >> 4 == 6 && after(0) == Some(ICMPV6) && after(8).is_some_and(|kind| REPORTS.contains(&kind))
}

fn mark(bytes: &mut [u8], class: u8, ttl: u8) {
    match bytes {
        [first, tos, _, _, _, _, _, _, old_ttl, protocol, high, low, ..] if *first >> 4 == 4 => {
            let before = words(&[*first, *tos, *old_ttl, *protocol]);
            (*tos, *old_ttl) = (class, ttl);
            let after = words(&[*first, *tos, *old_ttl, *protocol]);
            [*high, *low] = adjust(u16::from_be_bytes([*high, *low]), before, after).to_be_bytes();
        }
        [first, second, _, _, _, _, _, hop_limit, ..] => {
            *first = *first & 0xf0 | class >> 4;
            *second = *second & 0x0f | class << 4;
            *hop_limit = ttl;
        }
        _ => {}
    }
}

/// Returns the ones' complement sum of the 16-bit words of at most one IP packet (RFC 1071).
fn words(bytes: &[u8]) -> u16 {
    let (pairs, last) = bytes.as_chunks();
    let last = last.first().map_or(0, |last| u32::from(*last) << 8);
    fold(pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum::<u32>() + last)
}

/// Updates a checksum when the sum of its words changes from `before` to `after` (RFC 1624, equation 3).
fn adjust(checksum: u16, before: u16, after: u16) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!before) + u32::from(after))
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the checksum of RFC 1071 over all words.
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
            let bleached = IpPacket::write(IpPacket::read(&v4).unwrap().dscp(0).ecn(Ecn::NotEct));
            assert_eq!((bleached[1], sum(&bleached)), (0, 0));
            let mut bare = marked.clone();
            bare[10..12].fill(0);
            let right = sum(&bare).to_be_bytes();
            assert_eq!(marked[10..12], right, "{number}");
        }
    }

    #[test]
    fn marks_are_set_in_ipv6() {
        let v6 = [0x6b, 0xa7, 0x65, 0x43, 0, 0, 17, 61];
        let v6 = [&v6[..], &[7; 32]].concat();
        let packet = IpPacket::read(&v6).unwrap();
        assert_eq!((packet.ecn, packet.dscp), (Ecn::Ect0, 0x2e));
        let written = |packet| IpPacket::write(packet)[..4].to_vec();
        assert_eq!(written(packet.clone()), v6[..4]);
        assert_eq!(written(packet.clone().ecn(Ecn::Ce)), [0x6b, 0xb7, 0x65, 0x43]);
        assert_eq!(written(packet.dscp(0).ecn(Ecn::NotEct)), [0x60, 0x07, 0x65, 0x43]);
    }

    /// Computes a UDP checksum over pseudo-header, UDP header and payload (RFC 768; RFC 8200, section 8.1).
    fn udp_sum(packet: &[u8]) -> u16 {
        let (header, addresses) = if packet[0] >> 4 == 4 { (20, 12..20) } else { (40, 8..40) };
        let udp = &packet[header..];
        let mut all = packet[addresses].to_vec();
        all.extend([0, 17]);
        all.extend(&udp[4..6]);
        all.extend(&udp[..6]);
        all.extend([0, 0]);
        all.extend(&udp[8..]);
        all.resize(all.len().next_multiple_of(2), 0);
        match sum(&all) {
            0 => u16::MAX,
            sum => sum,
        }
    }

    /// Builds a datagram with this payload and correct checksums.
    fn udp(is_v6: bool, payload: &[u8]) -> Vec<u8> {
        let len = 8 + payload.len() as u8;
        let mut packet = if is_v6 {
            let mut header = vec![0x60, 0, 0, 0, 0, len, 17, 64];
            header.extend(1..=32);
            header
        } else {
            vec![0x45, 0, 0, 20 + len, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
        };
        if !is_v6 {
            let checksum = sum(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let header = packet.len();
        packet.extend([0x1b, 0x58, 0x1b, 0x59, 0, len, 0, 0]);
        packet.extend(payload);
        let checksum = udp_sum(&packet);
        packet[header + 6..header + 8].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    #[test]
    fn a_router_edits_the_payload_and_the_checksum_holds() {
        for (is_v6, len) in [(false, 40), (false, 41), (true, 40), (true, 41)] {
            for number in 0..=u8::MAX {
                let payload: Vec<u8> = (0..len).map(|place: u8| place.wrapping_mul(number)).collect();
                let sent = udp(is_v6, &payload);
                let mut packet = IpPacket::read(&sent).unwrap();
                assert!(packet.payload.edit_datagram(&mut |datagram| {
                    assert_eq!(datagram, payload);
                    datagram[usize::from(number) % datagram.len()] = number;
                    *datagram.last_mut().unwrap() ^= 0xff;
                    true
                }));
                packet.ttl -= 1;
                let bytes = IpPacket::write(packet);
                let header = if is_v6 { 40 } else { 20 };
                assert_eq!(bytes[header + 6..header + 8], udp_sum(&bytes).to_be_bytes(), "{is_v6} {len} {number}");
                assert_ne!(bytes[header + 8..], sent[header + 8..]);
                assert_eq!(bytes[if is_v6 { 7 } else { 8 }], 63);
                assert!(is_v6 || sum(&bytes[..20]) == 0, "the header's checksum, with the new TTL");
            }
        }
    }

    #[test]
    fn a_checksum_that_comes_to_zero_is_all_ones() {
        let sent = IpPacket::read(&udp(false, &[7; 40])).unwrap();
        let mut ones = 0;
        for word in 0..=u16::MAX {
            let mut packet = sent.clone();
            packet.payload.edit_datagram(&mut |datagram| {
                datagram[..2].copy_from_slice(&word.to_be_bytes());
                true
            });
            let bytes = IpPacket::write(packet);
            assert_eq!(bytes[26..28], udp_sum(&bytes).to_be_bytes(), "{word}");
            ones += u32::from(bytes[26..28] == [0xff, 0xff]);
        }
        assert!(ones > 0);
    }

    #[test]
    fn only_complete_datagrams_are_edited() {
        let (v4, v6) = (udp(false, &[7; 40]), udp(true, &[7; 40]));
        let edits = |bytes: &[u8]| {
            let mut called = false;
            let edited = IpPacket::read(bytes).unwrap().payload.edit_datagram(&mut |_| {
                called = true;
                true
            });
            assert_eq!(edited, called);
            called
        };
        assert!(edits(&v4) && edits(&v6));
        // In order: TCP; a first fragment; two later fragments; a UDP length beyond the end; one below the header's.
        for (place, value) in [(9, 6), (6, 0x20), (6, 1), (7, 1), (25, 49), (25, 7)] {
            let mut other = v4.clone();
            other[place] = value;
            assert!(!edits(&other), "{place}");
        }
        assert!(!edits(&v4[..27]) && !edits(&v6[..47]));
        let mut fragment = v6.clone();
        fragment[6] = 44;
        assert!(!edits(&fragment));
        // An absent checksum is not adjusted, a wrong one stays wrong, and an unmodified payload leaves the checksum
        // unchanged.
        for (checksum, changes) in [([0, 0], true), ([1, 2], true), ([1, 2], false)] {
            let mut sent = v4.clone();
            sent[26..28].copy_from_slice(&checksum);
            let mut packet = IpPacket::read(&sent).unwrap();
            let changed = packet.payload.edit_datagram(&mut |datagram| {
                datagram[0] = if changes { 9 } else { datagram[0] };
                changes
            });
            assert_eq!(changed, changes);
            let bytes = IpPacket::write(packet);
            assert_eq!(bytes[26..28] == checksum, checksum == [0, 0] || !changes);
            assert!(bytes[26..28] != udp_sum(&bytes).to_be_bytes());
        }
    }

    #[test]
    fn listener_reports_are_dropped() {
        // Hop limit 1; a router alert; an MLDv2 report.
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
