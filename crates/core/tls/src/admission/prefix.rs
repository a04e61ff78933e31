//! Address prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address prefix. A full-length prefix is a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Returns whether `peer` has this prefix.
    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        let ((ours, width), (theirs, other)) = (number(self.address), number(peer.to_canonical()));
        // For prefix length 0, the shift by the whole width yields `None`: all addresses match.
        width == other && (ours ^ theirs).checked_shr(self.rest(width)).unwrap_or(0) == 0
    }

    /// Returns the length of the prefix in bits.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the lowest address with this prefix.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.extend(false)
    }

    /// Returns the highest address with this prefix.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.extend(true)
    }

    /// Sets all bits after the prefix to `ones`.
    fn extend(&self, ones: bool) -> IpAddr {
        let (bits, width) = number(self.address);
        let prefix = u128::MAX.checked_shl(self.rest(width)).unwrap_or(0);
        let bits = if ones { bits | !prefix } else { bits & prefix };
        if self.address.is_ipv4() { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
    }

    /// Returns the number of bits after the prefix.
    fn rest(&self, width: u32) -> u32 {
        width - u32::from(self.bits)
    }
}

/// Returns an address as a number, and its length in bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl std::str::FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not an address or a prefix such as 192.0.2.0/24");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| fault())?;
        if bits > most {
            return Err(fault());
        }
        // Addresses are compared in their canonical form.
        match address.to_canonical() {
            canonical @ IpAddr::V4(_) if address.is_ipv6() && bits >= 96 => {
                Ok(Self { address: canonical, bits: bits - 96 })
            }
            _ => Ok(Self { address, bits }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_begins_alike() {
        let contains = |prefix: &str, peer: &str| prefix.parse::<Prefix>().unwrap().contains(peer.parse().unwrap());
        for (prefix, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.128/25", "::ffff:192.0.2.129", "192.0.2.127"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "2001:db8::", "192.0.2.1"),
            ("::1", "::1", "::2"),
            ("::ffff:0:0/96", "192.0.2.1", "::1"),
            ("::ffff:192.0.2.0/120", "192.0.2.1", "192.0.3.1"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ] {
            assert!(contains(prefix, inside) && !contains(prefix, outside), "{prefix}");
        }
        for (prefix, first, last) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
            ("192.0.2.130/25", "192.0.2.128", "192.0.2.255"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("2001:db8::1/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::1", "::1", "::1"),
        ] {
            let parsed: Prefix = prefix.parse().unwrap();
            assert_eq!(
                [parsed.first(), parsed.last()],
                [first, last].map(|a| a.parse::<IpAddr>().unwrap()),
                "{prefix}"
            );
        }
        for bad in ["", "x", "192.0.2.0/33", "::/129", "192.0.2.0/", "/24", "192.0.2/24", "192.0.2.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}
