//! The two ends of the link: devices and addresses.
//!
//! IPv4 addresses are from 198.18.0.0/15, which is reserved for benchmarks and not routed on the Internet (RFC 2544,
//! section C.2.2). Each shell uses four of them, selected by the number in the name of its outer device. A name can
//! be taken only once, so shells that start at the same time get different numbers. IPv6 addresses are from the
//! network with that number in 2001:2::/48, which has the same purpose (RFC 5180, with erratum 1752).

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_netns::{NetNs, Tun};
use longhaul_units::Span;

use super::route::{self, Route};

/// Name of the inner device.
pub(super) const INSIDE: &str = "link0";
/// Name prefix of outer devices, followed by a number.
const OUTSIDE: &str = "linkem";

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Number of networks of four addresses in 198.18.0.0/15.
const NETWORKS: u32 = 1 << 15;
const PREFIX: u8 = 30;

/// Length of an IPv6 network prefix (RFC 4291, section 2.5.1).
const PREFIX6: u8 = 64;

/// Settings that stop a device from sending its own packets over the link: link-local addresses, duplicate address
/// detection, and router discovery.
const SILENT: [(&str, &str); 4] =
    [("addr_gen_mode", "1"), ("accept_dad", "0"), ("accept_ra", "0"), ("router_solicitations", "0")];

const MTU: u16 = 1500;
/// Length of a device's transmit queue in packets: 60 ms at 1 Gb/s.
const QUEUE: u32 = 5000;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) namespace: NetNs,
    pub(super) tuns: [Tun; 2],
    /// IPv4 addresses of the outside and the inside.
    pub(super) ends: [Ipv4Addr; 2],
    /// IPv6 addresses of the outside and the inside, if the host supports IPv6.
    pub(super) ends6: Option<[Ipv6Addr; 2]>,
}

impl Network {
    /// Creates the namespace and the devices. With `receive_hold`, the outer device merges packets.
    pub(super) fn new(receive_hold: Option<Span>) -> io::Result<Self> {
        let namespace = NetNs::anonymous()?;
        let (outer, number) = claim(receive_hold.is_some())?;
        let ends = addresses(number);
        let [outside, inside] = ends;
        configure(&outer, outside)?;
        receive_hold.map_or(Ok(()), |hold| outer.link().set_receive_hold(hold.into()))?;
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

fn claim(merges: bool) -> io::Result<(Tun, u32)> {
    let open = if merges { Tun::open_merging } else { Tun::open };
    let routes = route::parse(&fs::read_to_string("/proc/thread-self/net/route")?);
    for number in candidates(&routes) {
        match open(&format!("{OUTSIDE}{number}")) {
            // The device belongs to another shell.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            opened => return opened.map(|tun| (tun, number)),
        }
    }
    Err(io::Error::other("all addresses of 198.18.0.0/15 are in use; end other shells"))
}

/// Returns the numbers whose addresses are not routed yet, starting after the highest one in use. Inside a shell,
/// this differs from the shell's own number.
fn candidates(routes: &[Route]) -> impl Iterator<Item = u32> {
    let used: Vec<_> = routes.iter().filter(|route| route.is_specific()).collect();
    let base = FIRST.to_bits();
    let last = used.iter().map(|route| route.network.to_bits().wrapping_sub(base) / 4).filter(|n| *n < NETWORKS).max();
    let first = last.map_or(0, |last| last + 1);
    (0..NETWORKS).map(move |step| (first + step) % NETWORKS).filter(move |number| {
        addresses(*number).iter().all(|address| !used.iter().any(|route| route.contains(*address)))
    })
}

/// Returns the IPv4 addresses of the outside and the inside.
fn addresses(number: u32) -> [Ipv4Addr; 2] {
    [1, 2].map(|host| Ipv4Addr::from_bits(FIRST.to_bits() + number * 4 + host))
}

/// Returns the IPv6 addresses of the outside and the inside.
fn addresses6(number: u32) -> [Ipv6Addr; 2] {
    // The cast is lossless, because numbers have 15 bits.
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

/// Assigns an IPv6 address to a device. Fails if the kernel has no IPv6, or if it is disabled for new devices.
fn configure6(tun: &Tun, address: Ipv6Addr) -> io::Result<()> {
    route::add_address(tun.link().index()?, address, PREFIX6)
}

fn silence(tun: &Tun, name: &str, value: &str) {
    // Ignore errors: a kernel without IPv6 has no such file.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/{name}", tun.link().name()), value);
}

/// Returns the number of packets dropped because the transmit queue of a device in the thread's namespace was full.
pub(super) fn transmit_drops(device: &str) -> u64 {
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    drops_of(&devices, device).unwrap_or(0)
}

/// Eight receive counters come first, followed by bytes, packets, errors and drops sent.
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
        // The last number is taken, so the search restarts at the first.
        assert_eq!(first(&[route([198, 19, 255, 252], small)]), Some(0));
        // The lower half of the range is routed elsewhere.
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
