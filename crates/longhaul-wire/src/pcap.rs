//! Capture files: classic pcap of version 2.4 with nanoseconds and raw IP packets (draft-ietf-opsawg-pcap), little-endian.

/// Classic pcap with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// What tcpdump writes for "whole packets".
const SNAPLEN: u32 = 262_144;
/// LINKTYPE_RAW: an IPv4 or IPv6 header comes first.
const LINKTYPE: u32 = 101;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// What a file begins with. Time zone and accuracy, unused, are zero.
#[must_use]
pub fn file_header() -> [u8; 24] {
    let [major, minor] = VERSION;
    let version = u32::from(minor) << 16 | u32::from(major);
    little_endian([MAGIC, version, 0, 0, SNAPLEN, LINKTYPE])
}

/// What comes before a packet of `len` bytes, all of which follow, seen `nanos` nanoseconds after the epoch. The seconds
/// have 32 bits, which last 136 years.
#[must_use]
pub fn packet_header(nanos: u128, len: u32) -> [u8; 16] {
    let (seconds, nanos) = (nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC);
    little_endian([seconds as u32, nanos as u32, len, len])
}

fn little_endian<const FIELDS: usize, const BYTES: usize>(fields: [u32; FIELDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the draft's fields, one by one.
    #[test]
    fn headers_are_the_formats() {
        let expected = [
            0x4d, 0x3c, 0xb2, 0xa1, // nanoseconds
            2, 0, 4, 0, // version 2.4
            0, 0, 0, 0, 0, 0, 0, 0, // reserved
            0, 0, 4, 0, // 256 KiB
            101, 0, 0, 0, // raw IP
        ];
        assert_eq!(file_header(), expected);
        // 258 s and 3 ns after the epoch; 136 years later again.
        let expected = [2, 1, 0, 0, 3, 0, 0, 0, 0x2c, 1, 0, 0, 0x2c, 1, 0, 0];
        assert_eq!(packet_header(258_000_000_003, 300), expected);
        assert_eq!(packet_header((258 + (1 << 32)) * NANOS_PER_SEC + 3, 300), expected);
    }
}
