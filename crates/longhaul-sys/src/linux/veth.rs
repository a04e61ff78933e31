//! Pairs of virtual network cards (veth), made by the programs `ip` and `ethtool`.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{self, Command};

use super::link::Link;
use super::netns::{NetNs, OWN};

/// Ethernet's.
const MTU: u16 = 1500;
const NEAR: &str = "near";
const FAR: &str = "far";

/// A plain card's: no segmentation offload, but receive offload.
const OFFLOADS: [&str; 8] = ["tso", "off", "gso", "off", "tx-udp-segmentation", "off", "gro", "on"];

/// What programs say of a kernel that does not let them, or cannot.
const REFUSALS: [&str; 4] = ["not permitted", "not supported", "Unknown device type", "ermission denied"];

/// `sysfs` shows the devices of the namespace that mounts it.
const HOLD: &str = "mount -t sysfs none /sys && echo 1000000 > /sys/class/net/far/gro_flush_timeout";

/// One end of a veth pair to be made: where, the device's name, its address in a network with a prefix of 24 bits.
pub type VethEnd<'a> = (&'a NetNs, &'a str, Ipv4Addr);

/// Joins two namespaces by a veth pair, and switches both ends on. Needs root and `ip`.
///
/// # Errors
/// The system's; `NotFound` without `ip`; with what it said if it failed, `Unsupported` where the kernel refused, else `Other`.
pub fn join(near: VethEnd<'_>, far: VethEnd<'_>) -> io::Result<()> {
    // `ip` takes a namespace by path: that of an open file is as good as a name, and needs no removal.
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

/// Whether it is for lack of permission, of a program or of the kernel's support that no pair was made, and not for a fault.
#[must_use]
pub fn is_impossible(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::Unsupported)
}

/// Two network namespaces joined by a veth pair that behaves like a plain network card.
///
/// Its MTU is 1500. Segmentation offloads are off, so that the kernel cuts every batch into packets before they cross;
/// receive offload (GRO) is on, so that they are merged again after they have crossed, as a card's driver does it. (With
/// segmentation offload a veth pair hands 64 KiB buffers over whole.)
///
/// The namespaces have no names: when the last process and the last handle in them are gone, the kernel removes them and
/// the devices inside.
#[derive(Debug)]
pub struct VethPair {
    /// Where senders and clients run.
    pub near: NetNs,
    /// Where receivers and servers run.
    pub far: NetNs,
}

impl VethPair {
    /// The near end's address.
    pub const NEAR_ADDR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
    /// The far end's address.
    pub const FAR_ADDR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

    /// Makes the pair. Needs root, `ip` and `ethtool`.
    ///
    /// # Errors
    /// The system's: `PermissionDenied` where namespaces are not permitted, `NotFound` without one of the programs;
    /// with what it said if one failed, `Unsupported` where the kernel refused, else `Other`.
    pub fn new() -> io::Result<Self> {
        let pair = Self { near: NetNs::anonymous()?, far: NetNs::anonymous()? };
        join((&pair.near, NEAR, Self::NEAR_ADDR), (&pair.far, FAR, Self::FAR_ADDR))?;
        for (namespace, name) in [(&pair.near, NEAR), (&pair.far, FAR)] {
            namespace.run(|| run("ethtool", &[&["-K", name], &OFFLOADS[..]].concat()))??;
        }
        Ok(pair)
    }

    /// Has the far end's kernel wait a millisecond for what may be merged: packets of two calls then meet, as they do in the
    /// ring of a network card under load.
    ///
    /// # Errors
    /// As [`new`](Self::new)'s; the program is `unshare`.
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
