//! Initial windows: how much may be sent before the path is known.

use longhaul_units::Bytes;

use crate::Path;

/// Number of segments in RFC 6928.
pub const DEFAULT_SEGMENTS: u32 = 10;

/// Payload of a full-sized segment over Ethernet, which RFC 6928's limit in bytes assumes (14600 / 10).
const ETHERNET_MSS: u64 = 1460;

/// Returns the window of RFC 6928, equation 1, with `segments` instead of ten: `min(n MSS, max(2 MSS, n x 1460))`.
#[must_use]
pub fn rfc6928(mss: Bytes, segments: u32) -> Bytes {
    let segments = u64::from(segments);
    (mss * segments).min((mss * 2).max(Bytes(ETHERNET_MSS) * segments))
}

/// Returns the window of RFC 3390, equation 1: `min(4 MSS, max(2 MSS, 4380))`, two to four segments.
#[must_use]
pub fn rfc3390(mss: Bytes) -> Bytes {
    (mss * 4).min((mss * 2).max(Bytes(4380)))
}

/// Returns the initial window of a connection: that of [`rfc6928`], or one segment if its SYN or SYN-ACK was
/// retransmitted more than once (RFC 6928, section 2).
#[must_use]
pub fn of_connection(path: &Path, segments: u32) -> Bytes {
    if path.handshake_lossy { path.mss } else { rfc6928(path.mss, segments) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc6928_bounds_by_bytes_for_large_segments() {
        let rows = [(536, 5360), (1448, 14480), (1460, 14600), (4312, 14600), (8948, 17896), (65_483, 130_966)];
        for (mss, window) in rows {
            assert_eq!(rfc6928(Bytes(mss), DEFAULT_SEGMENTS), Bytes(window), "MSS {mss}");
        }
    }

    /// RFC 3390, section 1: four segments up to 1095 bytes, 4380 bytes up to 2190, two segments above.
    #[test]
    fn rfc3390_has_three_ranges() {
        for (mss, window) in [(536, 2144), (1095, 4380), (1460, 4380), (2190, 4380), (2191, 4382), (8948, 17896)] {
            assert_eq!(rfc3390(Bytes(mss)), Bytes(window), "MSS {mss}");
        }
    }

    #[test]
    fn a_handshake_that_lost_more_than_one_segment_starts_with_one() {
        let mut path = Path::new(Bytes(1448));
        assert_eq!(of_connection(&path, 10), Bytes(14480));
        path.handshake_lossy = true;
        assert_eq!(of_connection(&path, 10), Bytes(1448));
    }
}
