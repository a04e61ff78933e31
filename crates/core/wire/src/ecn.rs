//! ECN field of the IP header.

/// ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0): ECN-capable, Classic ECN.
    Ect0,
    /// ECT(1): ECN-capable, L4S (RFC 9331).
    Ect1,
    /// CE: congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns the codepoint in the low two bits of the TOS or traffic class.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the low two bits of the TOS or traffic class.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// Returns whether a queue may mark the packet instead of dropping it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_rfc_3168() {
        for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            assert_eq!((Ecn::from_bits(bits | 0xfc), ecn.bits()), (ecn, bits));
        }
        assert!([Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().all(Ecn::is_capable) && !Ecn::NotEct.is_capable());
        assert_eq!(Ecn::default(), Ecn::NotEct);
    }
}
