//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// A ones' complement sum of 16-bit words. Only the last slice added may be of odd length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// The pseudo-header of RFC 9293, section 3.1, and RFC 8200, section 8.1: the order of words does not matter.
    pub(super) fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: u16) -> Self {
        let mut sum = Self::default();
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => sum.add(&address.octets()),
                IpAddr::V6(address) => sum.add(&address.octets()),
            }
        }
        sum.add(&[0, protocol]);
        sum.add(&len.to_be_bytes());
        sum
    }

    /// Adds `bytes`; a last single byte counts as the high half of a word.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        // Words of 32 bits fold to the same sum, and 64 bits hold 2^32 of them.
        let (words, rest) = bytes.as_chunks::<4>();
        for &word in words {
            self.0 = self.0.wrapping_add(u64::from(u32::from_be_bytes(word)));
        }
        let (pairs, rest) = rest.as_chunks::<2>();
        let last = rest.first().map(|&byte| [byte, 0]);
        for &pair in pairs.iter().chain(&last) {
            self.0 = self.0.wrapping_add(u64::from(u16::from_be_bytes(pair)));
        }
    }

    /// The sum, folded to 16 bits.
    fn folded(self) -> u16 {
        let mut sum = self.0;
        while let carry @ 1.. = sum >> 16 {
            sum = (sum & 0xffff).wrapping_add(carry);
        }
        u16::try_from(sum).unwrap_or(u16::MAX)
    }

    /// The checksum: the complement of the sum.
    pub(super) fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// UDP's protocol number less TCP's.
const PROTOCOLS: u16 = 17 - 6;

/// The UDP checksum of the datagram that stands for a TCP segment, from the segment's checksum and length (header
/// included), without looking at a byte of it.
///
/// Between the two forms the pseudo-header's protocol grows by 11, and UDP's length field takes the place of the zero
/// urgent pointer; all other words only move. Zero is given as 0xffff, for a zero in the field means that there is no
/// checksum (RFC 768). The segment's urgent pointer must be zero and URG clear.
#[must_use]
pub fn udp_checksum_from_tcp(tcp_checksum: u16, len: u16) -> u16 {
    let sum = u64::from(!tcp_checksum).wrapping_add(u64::from(PROTOCOLS)).wrapping_add(u64::from(len));
    match Sum(sum).checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The reverse of [`udp_checksum_from_tcp`]: the TCP checksum of the segment that a datagram stands for, from the
/// datagram's checksum and length (header included).
#[must_use]
pub fn tcp_checksum_from_udp(udp_checksum: u16, len: u16) -> u16 {
    // Subtraction in ones' complement adds the complement.
    let sum = u64::from(!udp_checksum).wrapping_add(u64::from(!PROTOCOLS)).wrapping_add(u64::from(!len));
    Sum(sum).checksum()
}
