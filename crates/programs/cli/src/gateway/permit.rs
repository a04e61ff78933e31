//! Targets that a gateway permits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use longhaul_tls::admission::Prefix;

use crate::tunnel::Target;

/// Rule for the targets to which the gateway may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    host: Host,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// Every host, but no [special](is_special) address.
    Any,
    /// A name exactly as sent by the peer, unless it resolves to a special address.
    Name(String),
    /// These addresses, even if the peer sends a name that resolves to them.
    Addresses(Prefix),
    /// The name `localhost`, and loopback addresses.
    Localhost,
}

/// All rules of a gateway for targets. Without rules, nothing is permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permits(Vec<Permit>);

impl Permits {
    /// Creates a set of rules. A target is permitted if one rule permits it.
    pub(crate) fn new(rules: Vec<Permit>) -> Self {
        Self(rules)
    }

    /// Returns whether some address of `target` could be permitted. If not, its name need not be resolved.
    pub(crate) fn may_permit(&self, target: &Target) -> bool {
        self.0.iter().any(|rule| rule.ports.contains(&target.port()) && rule.may_match(target))
    }

    /// Returns whether `target`, whose name was resolved to `address`, is permitted.
    ///
    /// Loopback, link-local, unspecified, multicast and broadcast addresses are permitted only by a rule that names
    /// such addresses, so that the owner of a name cannot direct it to the gateway itself.
    pub(crate) fn permits(&self, target: &Target, address: SocketAddr) -> bool {
        self.0.iter().any(|rule| rule.ports.contains(&target.port()) && rule.matches(target, address.ip()))
    }
}

impl Permit {
    fn may_match(&self, target: &Target) -> bool {
        match &self.host {
            Host::Any => true,
            Host::Name(name) => name == plain(target.host()),
            Host::Addresses(prefix) => target.address().is_none_or(|address| prefix.contains(address)),
            Host::Localhost => target.address().is_none_or(|address| address.to_canonical().is_loopback()),
        }
    }

    fn matches(&self, target: &Target, address: IpAddr) -> bool {
        let special = is_special(address);
        match &self.host {
            Host::Any => !special,
            Host::Name(name) => !special && name == plain(target.host()),
            Host::Addresses(prefix) => prefix.contains(address) && (!special || is_special_prefix(prefix)),
            Host::Localhost => address.to_canonical().is_loopback(),
        }
    }
}

impl FromStr for Permit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "`{text}` is not a rule: HOST:PORT or `any`, where HOST is a name, an address, a prefix such as \
                 192.0.2.0/24, or `any`, and PORT a number, a range such as 8000-8099, or `any`"
            )
        };
        if text == "any" {
            return Ok(Self { host: Host::Any, ports: 1..=u16::MAX });
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        Ok(Self { host: host_of(host).ok_or_else(fault)?, ports: ports_of(port).ok_or_else(fault)? })
    }
}

/// Parses a port, a range such as `8000-8099`, or `any`.
pub(crate) fn ports_of(text: &str) -> Option<RangeInclusive<u16>> {
    let ports = match text.split_once('-') {
        _ if text == "any" => Some(1..=u16::MAX),
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()).map(|(first, last)| first..=last),
        None => text.parse().ok().map(|port| port..=port),
    };
    ports.filter(|ports: &RangeInclusive<u16>| *ports.start() > 0 && !ports.is_empty())
}

fn host_of(text: &str) -> Option<Host> {
    if let Some(bracketed) = text.strip_prefix('[') {
        // `[2001:db8::]/32` or `[2001:db8::1]`
        let (address, bits) = bracketed.split_once(']')?;
        let prefix = format!("{address}{bits}").parse::<Prefix>().ok()?;
        return address.contains(':').then_some(Host::Addresses(prefix));
    }
    if let Ok(prefix) = text.parse::<Prefix>() {
        return (!text.contains(':')).then_some(Host::Addresses(prefix));
    }
    let name = Target::new(text, 1).ok()?;
    Some(match plain(name.host()) {
        "any" => Host::Any,
        "localhost" => Host::Localhost,
        name => Host::Name(name.to_owned()),
    })
}

/// Strips the final dot of an absolute name.
fn plain(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns whether an address is valid only on this host or link, or may be translated to such an address.
fn is_special(address: IpAddr) -> bool {
    special_bits(address).is_some()
}

/// Returns whether all addresses of a prefix are special. A rule with such a prefix permits special addresses on
/// purpose.
fn is_special_prefix(prefix: &Prefix) -> bool {
    special_bits(prefix.first()).is_some_and(|bits| prefix.bits() >= bits)
}

/// Returns the length of the shortest prefix of a special address that only special addresses share, or `None` if the
/// address is not special.
fn special_bits(address: IpAddr) -> Option<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => match address.octets() {
            // This host (RFC 1122, section 3.2.1.3), and loopback.
            [0 | 127, ..] => Some(8),
            [169, 254, ..] => Some(16),
            // Multicast, reserved and broadcast.
            [224..=255, ..] => Some(3),
            _ => None,
        },
        IpAddr::V6(address) => match address.segments() {
            // The unspecified and the loopback address, and the deprecated IPv4-compatible addresses (RFC 4291, section
            // 2.5.5.1).
            [0, 0, 0, 0, 0, 0, ..] => Some(96),
            // Local prefixes of translators, with the IPv4 address at a position that only the translator knows (RFC
            // 8215).
            [0x64, 0xff9b, 1, ..] => Some(48),
            [0xfe80..=0xfebf, ..] => Some(10),
            [0xff00..=0xffff, ..] => Some(8),
            segments => embedded(segments)
                .into_iter()
                .flatten()
                .find_map(|(address, at)| special_bits(address.into()).map(|bits| at + bits)),
        },
    }
}

/// Returns the IPv4 addresses to which a translator or a tunnel may send packets for an IPv6 address, and the bit at
/// which each of them begins.
fn embedded(segments: [u16; 8]) -> [Option<(Ipv4Addr, u8)>; 2] {
    let at = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        // NAT64 (RFC 6052, section 2.1), and IPv4-translated (RFC 2765, section 2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => [Some((at(high, low), 96)), None],
        // 6to4 (RFC 3056, section 2).
        [0x2002, high, low, ..] => [Some((at(high, low), 16)), None],
        // Teredo: the server, and the client, inverted (RFC 4380, section 4).
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            [Some((at(high, low), 32)), Some((at(!client_high, !client_low), 96))]
        }
        // ISATAP (RFC 5214, section 6.1).
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => [Some((at(high, low), 96)), None],
        _ => [None; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(rules: &[&str], host: &str, port: u16, address: &str) -> bool {
        let permits = Permits::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        let target = Target::new(host, port).unwrap();
        let permitted = permits.permits(&target, SocketAddr::new(address.parse().unwrap(), port));
        assert!(permits.may_permit(&target) || !permitted, "{rules:?} {host}");
        permitted
    }

    #[test]
    fn only_what_is_said_is_permitted() {
        for (rules, host, port, address, expected) in [
            (&[][..], "a.example", 80, "192.0.2.1", false),
            (&["a.example:80"], "a.example", 80, "192.0.2.1", true),
            (&["A.Example.:80"], "a.example", 80, "192.0.2.1", true),
            (&["a.example:80"], "a.example.", 80, "192.0.2.1", true),
            (&["a.example:80"], "a.example", 81, "192.0.2.1", false),
            (&["a.example:80"], "b.a.example", 80, "192.0.2.1", false),
            // A rule for a name does not permit its address.
            (&["a.example:80"], "192.0.2.1", 80, "192.0.2.1", false),
            // A rule for addresses permits names that lead there.
            (&["192.0.2.0/24:80"], "a.example", 80, "192.0.2.9", true),
            (&["192.0.2.0/24:80"], "a.example", 80, "192.0.3.9", false),
            (&["192.0.2.1:80-90"], "192.0.2.1", 90, "192.0.2.1", true),
            (&["192.0.2.1:80-90"], "192.0.2.1", 91, "192.0.2.1", false),
            (&["[2001:db8::]/32:any"], "2001:db8::7", 9, "2001:db8::7", true),
            (&["[2001:db8::1]:9"], "2001:db8::2", 9, "2001:db8::2", false),
            (&["any:443", "b.example:80"], "c.example", 443, "203.0.113.1", true),
            (&["any:443", "b.example:80"], "c.example", 80, "203.0.113.1", false),
            (&["any"], "c.example", 25, "2001:db8::1", true),
            (&["any"], "10.1.1.1", 25, "10.1.1.1", true),
        ] {
            assert_eq!(permitted(rules, host, port, address), expected, "{rules:?} {host}:{port} {address}");
        }
    }

    #[test]
    fn names_do_not_lead_to_the_gateway_itself() {
        let special = [
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "fe80::1",
            "::ffff:169.254.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            // Forms that translators and tunnels send to 127.0.0.1 or 169.254.169.254.
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe:1::1",
            "2001:0:7f00:1::1",
            "2001:0:c000:201:0:0:80ff:fffe",
            "2001:db8::5efe:7f00:1",
            "2001:db8::200:5efe:a9fe:a9fe",
        ];
        for address in special {
            for rule in [
                "any",
                "any:80",
                "a.example:80",
                "0.0.0.0/0:80",
                "[::]/0:80",
                "[::]/80:80",
                "[::ffff:0:0]/96:80",
                "[2000::]/3:80",
                "[2002::]/16:80",
                "[2001::]/32:80",
                "[64:ff9b::]/96:80",
                "[64:ff9b::]/40:80",
                "[2001:db8::]/32:80",
                "128.0.0.0/1:80",
                "0.0.0.0/1:80",
            ] {
                assert!(!permitted(&[rule], "a.example", 80, address), "{rule} {address}");
                assert!(!permitted(&[rule], address, 80, address), "{rule} {address}");
            }
        }
        for (rule, host, address) in [
            ("127.0.0.1:80", "127.0.0.1", "127.0.0.1"),
            ("127.0.0.0/8:80", "a.example", "127.0.0.5"),
            ("[::1]:80", "::1", "::1"),
            ("[fe80::]/10:80", "fe80::1", "fe80::1"),
            ("169.254.0.0/16:80", "169.254.7.7", "169.254.7.7"),
            ("[64:ff9b::127.0.0.0]/104:80", "a.example", "64:ff9b::127.0.0.1"),
            ("[64:ff9b:1::]/48:80", "a.example", "64:ff9b:1::192.0.2.1"),
            ("[2002:7f00::]/24:80", "a.example", "2002:7f00:1::1"),
            ("[::ffff:127.0.0.0]/104:80", "a.example", "127.0.0.1"),
            ("224.0.0.0/4:80", "224.0.0.1", "224.0.0.1"),
            // Ordinary addresses in these forms.
            ("any", "a.example", "64:ff9b::192.0.2.1"),
            ("any", "a.example", "2002:c000:201::1"),
            ("any", "a.example", "2001:0:c000:201:0:0:3fff:fdfe"),
            ("[::ffff:0:0]/96:80", "a.example", "192.0.2.1"),
            ("localhost:80", "localhost", "127.0.0.1"),
            ("localhost:80", "::1", "::1"),
            ("localhost:80", "127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            assert!(permitted(&[rule], host, 80, address), "{rule} {host} {address}");
        }
        assert!(!permitted(&["localhost:80"], "localhost", 80, "192.0.2.1"));
        assert!(!permitted(&["127.0.0.1:80"], "127.0.0.2", 80, "127.0.0.2"));
    }

    #[test]
    fn other_texts_are_no_rules() {
        for bad in [
            "",
            "a",
            ":80",
            "a:",
            "a:0",
            "a:x",
            "a:9-8",
            "a:0-9",
            "a:1-65536",
            "a b:1",
            "2001:db8::1:80",
            "[a]:1",
            "[192.0.2.1]:1",
            "[::1:1",
            "192.0.2.0/33:1",
            "*:80",
        ] {
            assert!(bad.parse::<Permit>().is_err(), "{bad}");
        }
    }
}
