//! Internet checksum (RFC 1071).

use core::net::IpAddr;

/// Ones' complement sum of 16-bit words. Only the last slice added may have an odd length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Sums the pseudo-header of RFC 9293, section 3.1 or RFC 8200, section 8.1. The order of words does not matter.
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

    /// Adds `bytes`. If their number is odd, a zero byte is added after the last one.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        // Sums of 32-bit words fold to the same 16-bit sum. 64 bits hold the sum of 2^32 such words.
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

    fn folded(self) -> u16 {
        let mut sum = self.0;
        while let carry @ 1.. = sum >> 16 {
            sum = (sum & 0xffff).wrapping_add(carry);
        }
        u16::try_from(sum).unwrap_or(u16::MAX)
    }

    /// Returns the checksum, which is the complement of the sum.
    pub(super) fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Difference between the protocol numbers of UDP and TCP.
const PROTOCOLS: u16 = 17 - 6;

/// Computes the UDP checksum of a converted TCP segment from its TCP checksum and its length (including the header),
/// without reading the segment.
///
/// The conversion increases the pseudo-header's protocol number by 11 and adds UDP's length field in place of the zero
/// urgent pointer. All other words only change their position. A checksum of zero is returned as 0xffff, because zero
/// means that there is no checksum (RFC 768). The segment's urgent pointer must be zero and URG must be clear.
#[must_use]
pub fn udp_checksum_from_tcp(tcp_checksum: u16, len: u16) -> u16 {
    let sum = u64::from(!tcp_checksum).wrapping_add(u64::from(PROTOCOLS)).wrapping_add(u64::from(len));
    match Sum(sum).checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Computes the TCP checksum of a converted datagram from its UDP checksum and its length (including the header), the
/// reverse of [`udp_checksum_from_tcp`].
#[must_use]
pub fn tcp_checksum_from_udp(udp_checksum: u16, len: u16) -> u16 {
    // In ones' complement, subtraction is addition of the complement.
    let sum = u64::from(!udp_checksum).wrapping_add(u64::from(!PROTOCOLS)).wrapping_add(u64::from(!len));
    Sum(sum).checksum()
}
