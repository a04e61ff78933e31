//! Parsing and look-up of host addresses. An IPv6 address may carry a zone, as in `fe80::1%eth0` (RFC 4007, section
//! 11). A link-local address needs a zone, because all links use the same prefix.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Splits `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`. An IPv6 address without a port needs no brackets.
pub(crate) fn split(text: &str) -> Option<(&str, Option<u16>)> {
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
pub(crate) fn is_ipv6(host: &str) -> bool {
    let (address, zone) = without_zone(host);
    let is_zone = |zone: &str| {
        !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '@'))
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_zone)
}

/// Splits a host into its address and its zone, if there is one.
pub(crate) fn without_zone(host: &str) -> (&str, Option<&str>) {
    host.split_once('%').map_or((host, None), |(address, zone)| (address, Some(zone)))
}

/// Joins a host and a port, with brackets around an IPv6 address.
pub(crate) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the address with which another machine reaches the UDP port of `listener`: its own, or the one that this machine
/// has on the default route. The port is omitted if it is the `usual` one. `ADDRESS` stands for an unknown address. Sends
/// nothing.
pub(crate) fn reachable(listener: SocketAddr, usual: u16) -> String {
    let ip = if listener.ip().is_unspecified() { on_default_route(listener.is_ipv6()) } else { Some(listener.ip()) };
    let host = ip.map_or_else(|| "ADDRESS".to_owned(), |ip| ip.to_string());
    if listener.port() == usual { host } else { join(&host, listener.port()) }
}

fn on_default_route(ipv6: bool) -> Option<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849) have the default route.
    let documentation: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    ];
    documentation.into_iter().filter(|(any, _)| any.is_ipv4() || ipv6).find_map(|(any, other)| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((other, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

/// Parses a numeric address with a port. Returns a sentence if the text is not such an address, or if its zone does not
/// name an interface.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    match split(text) {
        Some((host, Some(port))) => numeric(host, port),
        _ => Err("it is not an address with a port, such as 192.0.2.7:7000 or [2001:db8::7]:7000".to_owned()),
    }
}

/// Parses a numeric address without a port; the port of the result is 0.
pub(crate) fn parse_host(text: &str) -> Result<SocketAddr, String> {
    numeric(text, 0)
}

fn numeric(host: &str, port: u16) -> Result<SocketAddr, String> {
    let (address, zone) = without_zone(host);
    let address = address.parse::<IpAddr>().map_err(|_| format!("{host:?} is not an address"))?;
    match zone {
        None => Ok(SocketAddr::new(address, port)),
        Some(_) if is_ipv6(host) => {
            // Resolves the zone to an interface index. A numeric host causes no DNS query.
            let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
            found.ok_or_else(|| format!("there is no interface for {host}"))
        }
        Some(_) => Err(format!("{host:?} is not an address")),
    }
}

/// Resolves a host.
/// Returns the system's error, or `NotFound` if the name has no address.
pub(crate) async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
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
            // The loopback interface has index 1 in every network namespace.
            assert_eq!(parse("[fe80::1%lo]:7"), Ok("[fe80::1%1]:7".parse().unwrap()));
            assert_eq!(parse_host("fe80::1%1"), Ok("[fe80::1%1]:0".parse().unwrap()));
        }
    }
}
