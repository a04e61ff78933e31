//! What a link adds to each IP packet.

/// Bytes that a link layer sends for each packet beyond the packet itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overhead {
    /// Nothing.
    #[default]
    None,
    /// So many bytes a packet.
    Bytes(u32),
    /// Ethernet without a VLAN tag (IEEE 802.3): preamble and start 8, header 14, check sequence 4, gap 12, which is
    /// 38 in all; a payload below 46 bytes is padded to that.
    Ethernet,
    /// ATM cells of AAL5 (RFC 2684, VC multiplexing): an 8-byte trailer, padding to whole cells of 48 bytes, and 5
    /// bytes of header to each.
    Aal5,
}

impl Overhead {
    /// Bytes on the link for a packet of `size` bytes.
    #[must_use]
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
        // 40 + 8 fills one cell; one byte more needs a second; 1500 + 8 takes 31.4 of them.
        for (size, cells) in [(0, 1), (40, 1), (41, 2), (52, 2), (88, 2), (89, 3), (1500, 32), (1528, 32), (1529, 33)] {
            assert_eq!(Overhead::Aal5.on_link(size), cells * 53, "{size}");
        }
        // The full frame of NASA's testbed, a minimal frame and 64 + 20 bytes of padding.
        assert_eq!(Overhead::Ethernet.on_link(1500), 1538);
        assert_eq!([0, 46, 47].map(|size| Overhead::Ethernet.on_link(size)), [84, 84, 85]);
        assert_eq!((Overhead::None.on_link(9), Overhead::Bytes(20).on_link(9)), (9, 29));
        assert_eq!(Overhead::Bytes(u32::MAX).on_link(u32::MAX), 2 * u64::from(u32::MAX));
    }
}
