//! Addresses on which a gateway may listen for forwarders.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::permit::ports_of;
use crate::address;

/// Lowest port that is permitted without a rule. Lower ones belong to system services.
const UNPRIVILEGED: u16 = 1024;

/// Rule for an address on which forwarders may listen: `[ADDR:]PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenPermit {
    place: Place,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Any,
    Loopback,
    Address(IpAddr),
}

/// All rules of a gateway for addresses to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenPermits(Vec<ListenPermit>);

impl ListenPermits {
    /// Creates a set of rules. Without rules, ports from 1024 upwards are permitted on loopback addresses.
    pub(crate) fn new(mut rules: Vec<ListenPermit>) -> Self {
        if rules.is_empty() {
            rules.push(ListenPermit { place: Place::Loopback, ports: UNPRIVILEGED..=u16::MAX });
        }
        Self(rules)
    }

    /// Returns the address to listen on if a forwarder asks for `bind`, or `None` if that is not permitted.
    pub(crate) fn address(&self, bind: &str, port: u16) -> Option<SocketAddr> {
        let mut address = match bind {
            "" | "localhost" => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            "*" => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            _ => address::parse_host(bind).ok()?,
        };
        address.set_port(port);
        self.0.iter().any(|rule| rule.matches(address.ip(), port)).then_some(address)
    }
}

impl ListenPermit {
    fn matches(&self, address: IpAddr, port: u16) -> bool {
        // For port 0, the system chooses an unprivileged port.
        let ports = if port == 0 { UNPRIVILEGED..=u16::MAX } else { port..=port };
        let place = match self.place {
            Place::Any => true,
            Place::Loopback => address.to_canonical().is_loopback(),
            Place::Address(permitted) => address == permitted,
        };
        place && self.ports.contains(ports.start()) && self.ports.contains(ports.end())
    }
}

impl FromStr for ListenPermit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "`{text}` is not a rule: [ADDR:]PORT, where ADDR is an address, `localhost` or `any`, and PORT a number, a \
                 range such as 8000-8099, or `any`"
            )
        };
        let (place, port) = match text.rsplit_once(':') {
            None => (Place::Loopback, text),
            Some(("any", port)) => (Place::Any, port),
            Some(("localhost", port)) => (Place::Loopback, port),
            Some((address, port)) => {
                let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                let address: IpAddr = bare.unwrap_or(address).parse().map_err(|_| fault())?;
                if address.is_ipv6() != bare.is_some() {
                    return Err(fault());
                }
                (Place::Address(address), port)
            }
        };
        Ok(Self { place, ports: ports_of(port).ok_or_else(fault)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_permitted_unless_a_rule_names_other_addresses() {
        for (rules, bind, port, expected) in [
            (&[][..], "", 8080, Some("127.0.0.1")),
            (&[], "localhost", 0, Some("127.0.0.1")),
            (&[], "127.0.0.2", 1024, Some("127.0.0.2")),
            (&[], "::1", 8080, Some("::1")),
            (&[], "", 1023, None),
            (&[], "0.0.0.0", 8080, None),
            (&[], "*", 8080, None),
            (&[], "::", 8080, None),
            (&[], "192.0.2.1", 8080, None),
            (&[], "h.example", 8080, None),
            (&["80"], "", 80, Some("127.0.0.1")),
            (&["80"], "", 8080, None),
            (&["80"], "0.0.0.0", 80, None),
            (&["192.0.2.1:8000-8099"], "192.0.2.1", 8099, Some("192.0.2.1")),
            (&["192.0.2.1:8000-8099"], "192.0.2.1", 8100, None),
            (&["192.0.2.1:8000-8099"], "", 8000, None),
            (&["192.0.2.1:8000-8099"], "192.0.2.1", 0, None),
            (&["0.0.0.0:80", "[::1]:any"], "*", 80, Some("0.0.0.0")),
            (&["0.0.0.0:80", "[::1]:any"], "::1", 0, Some("::1")),
            (&["any:1024-65535"], "::", 0, Some("::")),
            (&["any:any"], "192.0.2.1", 1, Some("192.0.2.1")),
            (&["any:any"], "fe80::1%no-such-link", 1, None),
            (&[], "fe80::1%1", 8080, None),
        ] {
            let permits = ListenPermits::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
            assert_eq!(
                permits.address(bind, port),
                expected.map(|text| SocketAddr::new(text.parse().unwrap(), port)),
                "{rules:?} {bind}:{port}"
            );
        }
        for bad in
            ["", "0", "x", "any:0", "h.example:80", "::1:80", "[192.0.2.1]:80", "[::1:80", "9-8", "1-65536", "any:"]
        {
            assert!(bad.parse::<ListenPermit>().is_err(), "{bad}");
        }
    }
}
