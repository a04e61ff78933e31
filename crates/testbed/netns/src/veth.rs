//! Pairs of virtual Ethernet devices (veth), created by the programs `ip` and `ethtool`.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{self, Command};

use crate::link::Link;
use crate::netns::{NetNs, OWN};

const MTU: u16 = 1500;
const NEAR: &str = "near";
const FAR: &str = "far";

/// Offloads of a simple network card: no segmentation offload, but receive offload.
const OFFLOADS: [&str; 8] = ["tso", "off", "gso", "off", "tx-udp-segmentation", "off", "gro", "on"];

/// Parts of the error messages of `ip` and `ethtool` that mean that the kernel does not permit or support an operation.
const REFUSALS: [&str; 4] = ["not permitted", "not supported", "Unknown device type", "ermission denied"];

/// Sets the device's GRO timeout to 1 ms. A `sysfs` shows the devices of the network namespace in which it was mounted,
/// so this mounts a new one.
const HOLD: &str = "mount -t sysfs none /sys && echo 1000000 > /sys/class/net/far/gro_flush_timeout";

/// One end of a veth pair: network namespace, name of the device, and its address in a /24 network.
pub type VethEnd<'a> = (&'a NetNs, &'a str, Ipv4Addr);

/// Connects two network namespaces by a veth pair and sets both ends up. Needs root and `ip`.
///
/// # Errors
/// Returns the system's error, or `NotFound` if `ip` is not installed. If `ip` fails, returns its message as
/// `Unsupported` if the kernel refused the operation, else as `Other`.
pub fn join(near: VethEnd<'_>, far: VethEnd<'_>) -> io::Result<()> {
    // `ip` accepts a namespace by its path. The path of an open file, unlike a name, need not be removed afterwards.
    let there = far.0.run(|| File::open(OWN))??;
    let path = format!("/proc/{}/fd/{}", process::id(), there.as_raw_fd());
    let add = ["link", "add", near.1, "type", "veth", "peer", "name", far.1, "netns", &path];
    near.0.run(|| run("ip", &add))??;
    for (namespace, name, address) in [near, far] {
        namespace.run(|| {
            let link = Link::new(name)?;
            link.set_mtu(MTU)?;
            link.set_address(address, 24)?;
            link.set_up()
        })??;
    }
    Ok(())
}

/// Two network namespaces connected by a veth pair that behaves like a simple network card.
///
/// The MTU is 1500 bytes. Segmentation offloads are off, so that the kernel segments each batch into packets before it
/// is transmitted. (Otherwise, a veth pair would pass 64 KiB buffers unsegmented.) Receive offload (GRO) is on, so that
/// the packets are coalesced on receipt, as by a network card's driver.
///
/// The namespaces have no names. The kernel removes them and their devices when no process or handle refers to them.
#[derive(Debug)]
pub struct VethPair {
    /// Namespace of the senders and clients.
    pub near: NetNs,
    /// Namespace of the receivers and servers.
    pub far: NetNs,
}

impl VethPair {
    /// Address of the near end.
    pub const NEAR_ADDR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
    /// Address of the far end.
    pub const FAR_ADDR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

    /// Creates the pair. Needs root, `ip` and `ethtool`.
    ///
    /// # Errors
    /// Returns `PermissionDenied` if namespaces are not permitted, and `NotFound` if one of the programs is not
    /// installed. If a program fails, returns its message as `Unsupported` if the kernel refused the operation, else as
    /// `Other`.
    pub fn new() -> io::Result<Self> {
        let pair = Self { near: NetNs::anonymous()?, far: NetNs::anonymous()? };
        join((&pair.near, NEAR, Self::NEAR_ADDR), (&pair.far, FAR, Self::FAR_ADDR))?;
        for (namespace, name) in [(&pair.near, NEAR), (&pair.far, FAR)] {
            namespace.run(|| run("ethtool", &[&["-K", name], &OFFLOADS[..]].concat()))??;
        }
        Ok(pair)
    }

    /// Makes GRO at the far end wait 1 ms for further packets, so that packets of different send calls are coalesced,
    /// as in the receive ring of a network card under load. Needs `unshare`.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new).
    pub fn hold_arrivals(&self) -> io::Result<()> {
        self.far.run(|| run("unshare", &["--mount", "sh", "-c", HOLD]))?
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<()> {
    let failed = |kind, why: &str| io::Error::new(kind, format!("{program} {}: {why}", arguments.join(" ")));
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            let refused = REFUSALS.iter().any(|refusal| why.contains(refusal));
            Err(failed(if refused { io::ErrorKind::Unsupported } else { io::ErrorKind::Other }, why.trim()))
        }
        Err(error) => Err(failed(error.kind(), &error.to_string())),
    }
}
