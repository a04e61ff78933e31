//! Bytes that a link layer adds to each IP packet.

/// Link-layer overhead per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overhead {
    /// No overhead.
    #[default]
    None,
    /// A fixed number of bytes per packet.
    Bytes(u32),
    /// Ethernet without a VLAN tag (IEEE 802.3): 8 bytes of preamble and start delimiter, 14 of header, 4 of check
    /// sequence and 12 of gap, 38 bytes in total. A payload below 46 bytes is padded to 46.
    Ethernet,
    /// ATM cells with AAL5 (RFC 2684, VC multiplexing): an 8-byte trailer, padding to whole cells of 48 bytes, and a
    /// 5-byte header per cell.
    Aal5,
}

impl Overhead {
    /// Returns the bytes on the link for a packet of `size` bytes.
    #[inline]
    pub const fn on_link(self, size: u32) -> u64 {
        let size = size as u64;
        match self {
            Self::None => size,
            Self::Bytes(more) => size + more as u64,
            Self::Ethernet => (if size < 46 { 46 } else { size }) + 38,
            Self::Aal5 => (size + 8).div_ceil(48) * 53,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_frames_are_counted() {
        // 40 + 8 bytes fill one cell; one more byte needs a second cell; 1500 + 8 bytes take 31.4 cells, rounded up
        // to 32.
        for (size, cells) in [(0, 1), (40, 1), (41, 2), (52, 2), (88, 2), (89, 3), (1500, 32), (1528, 32), (1529, 33)] {
            assert_eq!(Overhead::Aal5.on_link(size), cells * 53, "{size}");
        }
        // The full frame of NASA's testbed, then the padding of small frames.
        assert_eq!(Overhead::Ethernet.on_link(1500), 1538);
        assert_eq!([0, 46, 47].map(|size| Overhead::Ethernet.on_link(size)), [84, 84, 85]);
        assert_eq!((Overhead::None.on_link(9), Overhead::Bytes(20).on_link(9)), (9, 29));
        assert_eq!(Overhead::Bytes(u32::MAX).on_link(u32::MAX), 2 * u64::from(u32::MAX));
    }
}
