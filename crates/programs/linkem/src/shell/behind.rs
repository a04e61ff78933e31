//! A network namespace behind a link, with sockets of this process inside and outside.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, anyhow};
use longhaul_link::spec::Path;
use longhaul_netns::NetNs;
use longhaul_units::Span;

use super::network::{self, Network};
use super::packet::IpPacket;
use super::port::TunPort;
use crate::drive::Driver;
use crate::engine::Engine;
use crate::log::Logs;
use crate::relay::Counts;

/// A network namespace behind a running link. Sockets created in the namespace are inside, all others are outside.
/// Packets from the inside travel up.
#[derive(Debug)]
pub struct Behind {
    /// The namespace of the inside.
    pub namespace: NetNs,
    /// IPv4 addresses of the outside and the inside.
    pub ends: [Ipv4Addr; 2],
    /// IPv6 addresses of the outside and the inside, or `None` if the host has no IPv6.
    pub ends6: Option<[Ipv6Addr; 2]>,
    driver: Driver<IpPacket, TunPort>,
}

impl Behind {
    /// Creates the namespace and starts the link. With `receive_hold`, the outer device merges packets from the inside,
    /// as described at [`Link::set_receive_hold`](longhaul_netns::Link::set_receive_hold).
    ///
    /// # Errors
    /// Returns an error if this is not permitted, if there are no TUN devices, or if the link is invalid.
    pub fn start(path: &Path, logs: Logs, receive_hold: Option<Span>) -> Result<Self> {
        let Network { namespace, tuns, ends, ends6 } = Network::new(receive_hold).map_err(explained)?;
        let engine = Engine::new(path, false, logs)?;
        let driver = Driver::start(engine, TunPort::new(tuns)).context("starting the link")?;
        Ok(Self { namespace, ends, ends6, driver })
    }

    /// Waits until the link ends because of an error. Must be called within a tokio runtime.
    pub async fn failed(&self) -> io::Result<()> {
        self.driver.failed().await
    }

    /// Stops the link at once. Returns it, and the packets that were lost before or after it.
    ///
    /// # Errors
    /// Returns the error because of which the link had already stopped, or an error in writing a log.
    pub fn stop(self) -> Result<(Engine<IpPacket>, Counts)> {
        ended(&self.namespace, self.driver.stop())
    }

    /// Stops the link like [`stop`](Self::stop), but only once packets in flight have arrived and been answered, or
    /// after 3 s.
    pub fn finish(self) -> Result<(Engine<IpPacket>, Counts)> {
        ended(&self.namespace, self.driver.finish())
    }
}

fn ended(namespace: &NetNs, stopped: io::Result<(Engine<IpPacket>, TunPort)>) -> Result<(Engine<IpPacket>, Counts)> {
    let (engine, port) = stopped.context("the link")?;
    let drops = namespace.run(|| network::transmit_drops(network::INSIDE)).unwrap_or(0);
    let missed = drops + network::transmit_drops(&port.outside());
    Ok((engine, Counts { missed, unsent: port.unsent, ..Counts::default() }))
}

pub(super) fn explained(error: io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow!("only root may create network namespaces and devices ({error}); use sudo, or the relay")
        }
        ErrorKind::NotFound => anyhow!("{error}; load the module tun (modprobe tun), or use the relay"),
        _ => anyhow!("creating the network: {error}"),
    }
}
