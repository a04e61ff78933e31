//! Control bits.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Control bits of a segment, in the low bits of the header's first 16-bit word (RFC 9293, section 3.1; AE is defined
/// in RFC 9768). URG and the reserved bits are never set: they are ignored on receipt and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No bits set.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push: the receiver should deliver the data without delay.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x010);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768).
    pub const AE: Self = Self(0x100);

    const ALL: u16 = 0x1df;

    /// Creates flags from `bits`, clearing URG and the reserved bits.
    #[must_use]
    pub const fn from_bits_truncate(bits: u16) -> Self {
        Self(bits & Self::ALL)
    }

    /// Returns the bits at their positions in the header's first 16-bit word.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether at least one bit of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets of bits.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Sets the bits of `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Clears the bits of `other`.
    pub const fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.insert(other);
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SYN, "SYN"),
            (Self::FIN, "FIN"),
            (Self::RST, "RST"),
            (Self::PSH, "PSH"),
            (Self::ACK, "ACK"),
            (Self::ECE, "ECE"),
            (Self::CWR, "CWR"),
            (Self::AE, "AE"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            f.write_str(separator)?;
            f.write_str(name)?;
            separator = "|";
        }
        if self.is_empty() { f.write_str("NONE") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn debug_lists_the_flags_that_are_set() {
        assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(format!("{:?}", Flags::FIN | Flags::PSH | Flags::ACK), "FIN|PSH|ACK");
        assert_eq!(format!("{:?}", Flags::AE | Flags::CWR | Flags::ECE | Flags::SYN), "SYN|ECE|CWR|AE");
        assert_eq!(format!("{:?}", Flags::NONE), "NONE");
    }

    #[test]
    fn set_operations() {
        let mut flags = Flags::SYN;
        flags.insert(Flags::ACK);
        assert!(flags.contains(Flags::SYN | Flags::ACK));
        assert!(!flags.contains(Flags::SYN | Flags::FIN));
        assert!(flags.intersects(Flags::SYN | Flags::FIN));
        flags.remove(Flags::SYN);
        assert_eq!(flags, Flags::ACK);
        flags |= Flags::RST;
        assert_eq!(flags.bits(), 0x014);
    }

    #[test]
    fn urgent_and_reserved_bits_are_dropped() {
        assert_eq!(Flags::from_bits_truncate(0xffff).bits(), 0x1df);
        assert_eq!(Flags::from_bits_truncate(0x0020), Flags::NONE);
    }
}
