//! Two network namespaces joined by a veth pair that behaves like a plain network card.
//!
//! MTU 1500. Segmentation offloads are off, so that the kernel cuts every batch into packets before they cross;
//! receive offload (GRO) is on, so that they are merged again after they have crossed, as a card's driver does it.
//! (With segmentation offload a veth pair hands 64 KiB buffers over whole, and a benchmark measures `memcpy`.)
//!
//! The namespaces have no names: when the last process and the last handle in them are gone, the kernel removes them
//! and the devices inside, also when the bench fails or is killed.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};
use longhaul_sys::linux::{Link, NetNs};

const MTU: u16 = 1500;
const NEAR: (&str, Ipv4Addr) = ("lhb-near", Ipv4Addr::new(10, 99, 0, 1));
const FAR: (&str, Ipv4Addr) = ("lhb-far", Ipv4Addr::new(10, 99, 0, 2));

/// The pair, up and with addresses.
#[derive(Debug)]
pub struct VethPair {
    /// Where senders and clients run.
    pub near: NetNs,
    /// Where receivers and servers run.
    pub far: NetNs,
}

impl VethPair {
    /// The far end's address.
    pub const FAR_ADDR: Ipv4Addr = FAR.1;

    /// Makes the pair. Needs root, and the programs `ip` and `ethtool`.
    ///
    /// # Errors
    /// What is missing.
    pub fn new() -> Result<Self> {
        let pair = Self {
            near: NetNs::anonymous().context("making a network namespace (root may)")?,
            far: NetNs::anonymous().context("making a network namespace (root may)")?,
        };
        // `ip` takes a namespace by path: that of an open file is as good as a name, and needs no removal.
        let far = pair.far.run(|| File::open("/proc/thread-self/ns/net"))??;
        let far_path = format!("/proc/{}/fd/{}", process::id(), far.as_raw_fd());
        let add = ["link", "add", NEAR.0, "type", "veth", "peer", "name", FAR.0, "netns", &far_path];
        pair.near.run(|| run("ip", &add))??;
        pair.near.run(|| configure(NEAR))??;
        pair.far.run(|| configure(FAR))??;
        Ok(pair)
    }
}

/// Sets one end up; called in its namespace.
fn configure((name, addr): (&str, Ipv4Addr)) -> Result<()> {
    let offloads = ["tso", "off", "gso", "off", "tx-udp-segmentation", "off", "gro", "on"];
    run("ethtool", &[&["-K", name], &offloads[..]].concat())?;
    let link = Link::new(name)?;
    link.set_mtu(MTU)?;
    link.set_address(addr, 24)?;
    link.set_up()?;
    Ok(())
}

fn run(program: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(program).args(args).output().with_context(|| format!("running {program}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", args.join(" "), message.trim());
    Ok(())
}
