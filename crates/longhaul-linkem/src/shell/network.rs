//! The two ends of the link: devices and addresses.
//!
//! Addresses are from 198.18.0.0/15, which is set aside for benchmarks and never met in the Internet (RFC 2544, section
//! C.2.2): four for each shell, by the number in the name of its outer device. A name can be taken only once, so several
//! shells that start at the same time get different numbers.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;

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

/// Ethernet's.
const MTU: u16 = 1500;
/// Packets that a device holds until they are read: 60 ms at 1 Gb/s.
const QUEUE: u32 = 5000;

/// A namespace behind two devices, between which nothing passes packets yet.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) namespace: NetNs,
    pub(super) tuns: [Tun; 2],
    pub(super) inside: Ipv4Addr,
    pub(super) outside: Ipv4Addr,
}

impl Network {
    /// Makes the namespace and the devices.
    ///
    /// # Errors
    /// The system's: not permitted, no TUN devices.
    pub(super) fn new() -> io::Result<Self> {
        let namespace = NetNs::anonymous()?;
        let (outer, number) = claim()?;
        let [outside, inside] = addresses(number);
        configure(&outer, outside)?;
        let inner = namespace.run(|| {
            let inner = Tun::open(INSIDE)?;
            configure(&inner, inside)?;
            route::add_default(outside)?;
            io::Result::Ok(inner)
        })??;
        Ok(Self { namespace, tuns: [inner, outer], inside, outside })
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

fn configure(tun: &Tun, address: Ipv4Addr) -> io::Result<()> {
    let link = tun.link();
    link.set_mtu(MTU)?;
    link.set_queue_len(QUEUE)?;
    // It would announce itself over the link, and be packets that nobody sent. A kernel without IPv6 has no such file.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name()), "1");
    link.set_address(address, PREFIX)?;
    link.set_up()
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
