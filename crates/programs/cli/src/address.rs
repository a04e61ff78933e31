//! Addresses in texts and of names. IPv6 addresses may have a zone, as in `fe80::1%eth0` (RFC 4007, section 11), without
//! which a link-local address does not say to which link it belongs.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Splits `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`. An IPv6 address without a port needs no brackets.
#[must_use]
pub fn split(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse().ok().map(Some);
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').filter(|(host, _)| is_ipv6(host))?;
        return Some((host, if rest.is_empty() { None } else { port(rest.strip_prefix(':')?)? }));
    }
    if is_ipv6(text) {
        return Some((text, None));
    }
    match text.split_once(':') {
        Some((host, number)) => Some((host, port(number)?)),
        None => Some((text, None)),
    }
}

/// Returns whether a host is an IPv6 address, with or without a zone.
#[must_use]
pub fn is_ipv6(host: &str) -> bool {
    let (address, zone) = without_zone(host);
    let is_zone = |zone: &str| {
        !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '@'))
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_zone)
}

/// Returns a host without its zone, and the zone.
#[must_use]
pub fn without_zone(host: &str) -> (&str, Option<&str>) {
    host.split_once('%').map_or((host, None), |(address, zone)| (address, Some(zone)))
}

/// Returns a host and a port as they are written together.
#[must_use]
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Parses an address of this host with a port.
///
/// # Errors
/// Returns a sentence if it is none, or if there is no interface of that name.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    match split(text) {
        Some((host, Some(port))) => numeric(host, port),
        _ => Err("it is not an address with a port, such as 192.0.2.7:7000 or [2001:db8::7]:7000".to_owned()),
    }
}

/// Parses an address of this host without a port, which is 0 in the result.
///
/// # Errors
/// The same as [`parse`].
pub fn parse_host(text: &str) -> Result<SocketAddr, String> {
    numeric(text, 0)
}

fn numeric(host: &str, port: u16) -> Result<SocketAddr, String> {
    let (address, zone) = without_zone(host);
    let address = address.parse::<IpAddr>().map_err(|_| format!("{host:?} is not an address"))?;
    match zone {
        None => Ok(SocketAddr::new(address, port)),
        Some(_) if is_ipv6(host) => {
            // The system knows the interfaces, and looks for no name.
            let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
            found.ok_or_else(|| format!("there is no interface for {host}"))
        }
        Some(_) => Err(format!("{host:?} is not an address")),
    }
}

/// Looks up the addresses of a host.
///
/// # Errors
/// Returns the system's error, also if there is no address.
pub async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if found.is_empty() { Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        for (text, host, port) in [
            ("h.example", "h.example", None),
            ("h.example:80", "h.example", Some(80)),
            ("192.0.2.1:0", "192.0.2.1", Some(0)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:80", "2001:db8::1", Some(80)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0.7]:80", "fe80::1%eth0.7", Some(80)),
        ] {
            assert_eq!(split(text), Some((host, port)), "{text}");
        }
        for bad in ["h:", "h:x", "h:65536", "a:b:1", "[::1", "[::1]x", "[::1]:", "[h]:1", "fe80::1%", "[fe80::1%a b]:1"]
        {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_this_host_may_have_a_zone() {
        assert_eq!(parse("192.0.2.1:7"), Ok("192.0.2.1:7".parse().unwrap()));
        assert_eq!(parse("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert_eq!(parse_host("::"), Ok("[::]:0".parse().unwrap()));
        for bad in ["192.0.2.1", "h.example:7", "192.0.2.1%lo:7", "[fe80::1%no-such-link]:7", ":7", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        #[cfg(target_os = "linux")]
        {
            // The loopback interface is the first one of a network namespace.
            assert_eq!(parse("[fe80::1%lo]:7"), Ok("[fe80::1%1]:7".parse().unwrap()));
            assert_eq!(parse_host("fe80::1%1"), Ok("[fe80::1%1]:0".parse().unwrap()));
        }
    }
}
