//! Headers of capture files: little-endian pcap 2.4 with nanosecond timestamps and raw IP packets
//! (draft-ietf-opsawg-pcap).

/// Magic number of pcap files with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Snapshot length written by tcpdump if packets are not truncated.
const SNAPLEN: u32 = 262_144;
/// LINKTYPE_RAW: each packet starts with an IPv4 or IPv6 header.
const LINKTYPE: u32 = 101;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Returns the file header. The unused time zone and accuracy fields are zero.
#[must_use]
pub fn file_header() -> [u8; 24] {
    let [major, minor] = VERSION;
    let version = u32::from(minor) << 16 | u32::from(major);
    little_endian([MAGIC, version, 0, 0, SNAPLEN, LINKTYPE])
}

/// Returns the record header of an untruncated packet of `len` bytes captured `nanos` nanoseconds after the epoch.
///
/// The seconds field has 32 bits and wraps after 136 years.
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

    /// Compares the headers with the fields of draft-ietf-opsawg-pcap, byte by byte.
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
        // 258 s and 3 ns after the epoch, and the same 2^32 s (136 years) later.
        let expected = [2, 1, 0, 0, 3, 0, 0, 0, 0x2c, 1, 0, 0, 0x2c, 1, 0, 0];
        assert_eq!(packet_header(258_000_000_003, 300), expected);
        assert_eq!(packet_header((258 + (1 << 32)) * NANOS_PER_SEC + 3, 300), expected);
    }
}
