//! The two ends of the link: devices and addresses.
//!
//! Addresses are from 198.18.0.0/15, which is set aside for benchmarks and never met in the Internet (RFC 2544, section
//! C.2.2): four for each shell, by the number in the name of its outer device. A name can be taken only once, so several
//! shells that start at the same time get different numbers. IPv6's are of the network with that number in 2001:2::/48,
//! which has the same purpose (RFC 5180, with erratum 1752).

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_sys::linux::{NetNs, Tun};

use super::route::{self, Route};

/// The device inside.
pub(super) const INSIDE: &str = "link0";
/// Devices outside, with a number.
const OUTSIDE: &str = "linkem";

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Networks of four addresses in 198.18.0.0/15.
const NETWORKS: u32 = 1 << 15;
const PREFIX: u8 = 30;

/// Where an interface identifier begins (RFC 4291, section 2.5.1).
const PREFIX6: u8 = 64;

/// What a device says about itself unasked, and would send over the link as packets that nobody sent: link-local
/// addresses, the search for others who have them, and for routers.
const SILENT: [(&str, &str); 4] =
    [("addr_gen_mode", "1"), ("accept_dad", "0"), ("accept_ra", "0"), ("router_solicitations", "0")];

/// Ethernet's.
const MTU: u16 = 1500;
/// Packets that a device holds until they are read: 60 ms at 1 Gb/s.
const QUEUE: u32 = 5000;

/// A namespace behind two devices, between which nothing passes packets yet.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) namespace: NetNs,
    pub(super) tuns: [Tun; 2],
    /// The outside's and the inside's address.
    pub(super) ends: [Ipv4Addr; 2],
    /// The same for IPv6, if there is any here.
    pub(super) ends6: Option<[Ipv6Addr; 2]>,
}

impl Network {
    /// Makes the namespace and the devices.
    ///
    /// # Errors
    /// The system's: not permitted, no TUN devices.
    pub(super) fn new() -> io::Result<Self> {
        let namespace = NetNs::anonymous()?;
        let (outer, number) = claim()?;
        let ends = addresses(number);
        let [outside, inside] = ends;
        configure(&outer, outside)?;
        let inner = namespace.run(|| {
            let inner = Tun::open(INSIDE)?;
            configure(&inner, inside)?;
            route::add_default(outside.into())?;
            io::Result::Ok(inner)
        })??;
        let ends6 = addresses6(number);
        let has_v6 = configure6(&outer, ends6[0]).is_ok() && {
            let inside = || configure6(&inner, ends6[1]).and_then(|()| route::add_default(ends6[0].into()));
            namespace.run(inside)?.is_ok()
        };
        if !has_v6 {
            silence(&outer, "disable_ipv6", "1");
            namespace.run(|| silence(&inner, "disable_ipv6", "1"))?;
        }
        Ok(Self { namespace, tuns: [inner, outer], ends, ends6: has_v6.then_some(ends6) })
    }
}

/// A device with a number whose addresses are free.
fn claim() -> io::Result<(Tun, u32)> {
    let routes = route::parse(&fs::read_to_string("/proc/thread-self/net/route")?);
    for number in candidates(&routes) {
        match Tun::open(&format!("{OUTSIDE}{number}")) {
            // Somebody else's.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            opened => return opened.map(|tun| (tun, number)),
        }
    }
    Err(io::Error::other("all addresses of 198.18.0.0/15 are in use; end other shells"))
}

/// The numbers whose addresses no route leads to, beginning after the highest that is used here: inside a shell that is
/// another number than the shell's own.
fn candidates(routes: &[Route]) -> impl Iterator<Item = u32> {
    let used: Vec<_> = routes.iter().filter(|route| route.is_specific()).collect();
    let base = FIRST.to_bits();
    let last = used.iter().map(|route| route.network.to_bits().wrapping_sub(base) / 4).filter(|n| *n < NETWORKS).max();
    let first = last.map_or(0, |last| last + 1);
    (0..NETWORKS).map(move |step| (first + step) % NETWORKS).filter(move |number| {
        addresses(*number).iter().all(|address| !used.iter().any(|route| route.contains(*address)))
    })
}

/// The outside's and the inside's address.
fn addresses(number: u32) -> [Ipv4Addr; 2] {
    [1, 2].map(|host| Ipv4Addr::from_bits(FIRST.to_bits() + number * 4 + host))
}

/// The same in IPv6.
fn addresses6(number: u32) -> [Ipv6Addr; 2] {
    // Numbers have 15 bits.
    [1, 2].map(|host| Ipv6Addr::new(0x2001, 2, 0, number as u16, 0, 0, 0, host))
}

fn configure(tun: &Tun, address: Ipv4Addr) -> io::Result<()> {
    let link = tun.link();
    link.set_mtu(MTU)?;
    link.set_queue_len(QUEUE)?;
    SILENT.iter().for_each(|(name, value)| silence(tun, name, value));
    link.set_address(address, PREFIX)?;
    link.set_up()
}

/// Gives a device an address of IPv6. Fails where there is none, or new devices are to have none.
fn configure6(tun: &Tun, address: Ipv6Addr) -> io::Result<()> {
    route::add_address(tun.link().index()?, address, PREFIX6)
}

fn silence(tun: &Tun, name: &str, value: &str) {
    // A kernel without IPv6 has no such file, and nothing to be silent about.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/{name}", tun.link().name()), value);
}

/// Packets that a device of the calling thread's namespace could not hold until they were read.
pub(super) fn transmit_drops(device: &str) -> u64 {
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    drops_of(&devices, device).unwrap_or(0)
}

/// Eight numbers about receiving come first, then bytes, packets, errors and drops of sending.
fn drops_of(devices: &str, device: &str) -> Option<u64> {
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(network: [u8; 4], mask: [u8; 4]) -> Route {
        Route { device: "x".into(), network: network.into(), mask: mask.into() }
    }

    #[test]
    fn numbers_in_use_are_passed_over() {
        let first = |routes: &[Route]| candidates(routes).next();
        let default = route([0; 4], [0; 4]);
        let small = [255, 255, 255, 252];
        assert_eq!(first(std::slice::from_ref(&default)), Some(0));
        assert_eq!(first(&[default, route([198, 18, 0, 0], small), route([198, 18, 0, 12], small)]), Some(4));
        // The last one is taken: from the beginning again.
        assert_eq!(first(&[route([198, 19, 255, 252], small)]), Some(0));
        // Somebody has the lower half.
        assert_eq!(first(&[route([198, 18, 0, 0], [255, 255, 0, 0])]), Some(NETWORKS / 2));
        assert_eq!(first(&[route([198, 18, 0, 0], [255, 254, 0, 0])]), None);
        assert_eq!(addresses(NETWORKS - 1)[1], Ipv4Addr::new(198, 19, 255, 254));
        let [outside, inside] = addresses6(NETWORKS - 1).map(|address| address.to_string());
        assert_eq!((outside.as_str(), inside.as_str()), ("2001:2:0:7fff::1", "2001:2:0:7fff::2"));
    }

    #[test]
    fn drops_are_found_in_the_table_of_devices() {
        let table = "Inter-| Receive | Transmit\n link0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  lo:0 0 0 0 0 0 0 0 0 0 0 7 0 0 0 0\n";
        assert_eq!(
            (drops_of(table, "link0"), drops_of(table, "lo"), drops_of(table, "link")),
            (Some(12), Some(7), None)
        );
    }
}
