//! Routes: parsing the kernel's table, and adding default routes and IPv6 addresses by netlink.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use socket2::{Domain, Protocol, Socket, Type};

/// Constants of linux/netlink.h and linux/rtnetlink.h.
const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL and NLM_F_CREATE: a request to create a new object, with an acknowledgement.
const FLAGS: u16 = 0x001 | 0x004 | 0x200 | 0x400;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;
const RTA_GATEWAY: u16 = 5;
/// Constants of linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_F_NODAD: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) device: String,
    pub(super) network: Ipv4Addr,
    pub(super) mask: Ipv4Addr,
}

impl Route {
    /// Returns whether the route is not a default route.
    pub(super) fn is_specific(&self) -> bool {
        !self.mask.is_unspecified()
    }

    pub(super) fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask.to_bits() == self.network.to_bits() & self.mask.to_bits()
    }
}

pub(super) fn parse(table: &str) -> Vec<Route> {
    let route = |line: &str| {
        let mut words = line.split_whitespace();
        let device = words.next()?.to_owned();
        // Addresses are in network byte order, printed as numbers in host byte order.
        let address = |word: &str| Some(Ipv4Addr::from(u32::from_str_radix(word, 16).ok()?.to_ne_bytes()));
        let network = address(words.next()?)?;
        let mask = address(words.nth(5)?)?;
        Some(Route { device, network, mask })
    };
    table.lines().skip(1).filter_map(route).collect()
}

pub(super) fn add_default(gateway: IpAddr) -> io::Result<()> {
    let family = if gateway.is_ipv4() { AF_INET } else { AF_INET6 };
    let route = [family, 0, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST, 0, 0, 0, 0];
    ask(RTM_NEWROUTE, &route, RTA_GATEWAY, gateway)
}

/// Adds an address to a device in the calling thread's namespace. Duplicate address detection is skipped, because no
/// other host is on a link between two devices.
pub(super) fn add_address(device: u32, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
    let [a, b, c, d] = device.to_ne_bytes();
    ask(RTM_NEWADDR, &[AF_INET6, prefix, IFA_F_NODAD, RT_SCOPE_UNIVERSE, a, b, c, d], IFA_ADDRESS, address.into())
}

fn ask(kind: u16, body: &[u8], attribute: u16, address: IpAddr) -> io::Result<()> {
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(Protocol::from(NETLINK_ROUTE)))?;
    socket.write_all(&request(kind, body, attribute, address))?;
    let mut answer = [0; 512];
    let len = socket.read(&mut answer)?;
    answered(answer.get(..len).unwrap_or_default())
}

fn request(kind: u16, body: &[u8], attribute: u16, address: IpAddr) -> Vec<u8> {
    let (v4, v6);
    let value = match address {
        IpAddr::V4(address) => {
            v4 = address.octets();
            &v4[..]
        }
        IpAddr::V6(address) => {
            v6 = address.octets();
            &v6[..]
        }
    };
    // The casts are lossless: addresses have at most 16 bytes.
    let attribute = [(4 + value.len() as u16).to_ne_bytes(), attribute.to_ne_bytes()].concat();
    let len = (16 + body.len() + attribute.len() + value.len()) as u32;
    let sequence_and_port = [0; 8];
    let header = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &FLAGS.to_ne_bytes(), &sequence_and_port].concat();
    [&header, body, &attribute, value].concat()
}

/// Returns the error in an acknowledgement; zero means success.
fn answered(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, error) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(error)) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        _ => Err(io::Error::other("no acknowledgement of a route")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_table_is_read() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            linkem3\t0C0012C6\t00000000\t0001\t0\t0\t0\tFCFFFFFF\t0\t0\t0\n\
            broken\n";
        let routes = parse(table);
        assert_eq!(routes.len(), 2);
        assert!(!routes[0].is_specific());
        let ours = Route {
            device: "linkem3".into(),
            network: Ipv4Addr::new(198, 18, 0, 12),
            mask: Ipv4Addr::new(255, 255, 255, 252),
        };
        assert_eq!(routes[1], ours);
        assert!(ours.contains(Ipv4Addr::new(198, 18, 0, 15)) && !ours.contains(Ipv4Addr::new(198, 18, 0, 16)));
    }

    #[test]
    fn a_refusal_is_an_error() {
        let mut answer = [0; 36];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert!(answered(&answer).is_ok());
        answer[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(answered(&answer).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(answered(&answer[..10]).is_err());
    }
}
