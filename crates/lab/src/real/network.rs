//! The emulated link: a relay between loopback sockets, or a network namespace.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use longhaul_link::Payload;
use longhaul_link::spec::{Direction, Path};
use longhaul_linkem::engine::Engine;
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Counts, Options, Running};
use longhaul_linkem::shell::Behind;

use crate::experiment::CellSetup;
use crate::world::LinkSample;

/// Send buffers of the kernel's TCP in the namespace: the defaults, but a maximum of 64 MB, so that they do not limit
/// the rate.
const SEND_BUFFERS: (&str, &str) = ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 67108864");

pub(super) struct Network {
    path: Path,
    /// The senders' namespace. Without it, both ends are on the loopback.
    behind: Option<Behind>,
    relay: Option<Running>,
}

pub(super) struct Ended {
    pub(super) link: LinkSample,
    /// 99th percentile of the lateness in seconds.
    pub(super) lateness: f64,
    /// Packets lost outside the link.
    pub(super) lost: u64,
}

impl Network {
    pub(super) fn new(setup: &CellSetup, seed: u64) -> Result<Self> {
        let path = Path { link: setup.bottleneck().clone(), seed };
        let receive_hold = setup.flows.first().map(|flow| flow.receive_hold).filter(|hold| !hold.is_zero());
        let behind = setup.real_time.then(|| Behind::start(&path, Logs::default(), receive_hold)).transpose()?;
        let network = Self { path, behind, relay: None };
        if setup.real_time {
            network.inside(|| fs::write(SEND_BUFFERS.0, SEND_BUFFERS.1)).context(SEND_BUFFERS.0)?;
        }
        Ok(network)
    }

    pub(super) fn outside(&self) -> IpAddr {
        self.behind.as_ref().map_or(Ipv4Addr::LOCALHOST, |behind| behind.ends[0]).into()
    }

    /// The senders' address, which differs from the receivers' in a namespace only.
    pub(super) fn sender(&self) -> IpAddr {
        self.behind.as_ref().map_or(Ipv4Addr::LOCALHOST, |behind| behind.ends[1]).into()
    }

    /// Creates something, such as a socket, at the senders' side.
    pub(super) fn inside<T: Send>(&self, make: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match &self.behind {
            Some(behind) => behind.namespace.run(make)?,
            None => make(),
        }
    }

    /// Connects the senders to these receivers, and returns the addresses to which they send. The relay has one per
    /// receiver, because flows behind the same relay address could not be distinguished.
    pub(super) fn connect(&mut self, receivers: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
        if self.behind.is_some() {
            return Ok(receivers);
        }
        let mut options: Option<Options> = None;
        for to in receivers {
            let listen = (Ipv4Addr::LOCALHOST, 0).into();
            options = Some(options.map_or_else(|| Options::new(listen, to), |options| options.and(listen, to)));
        }
        let relay = Running::start(&options.context("no flows")?, &self.path, Logs::default())?;
        let addresses = relay.local_addrs().to_vec();
        self.relay = Some(relay);
        Ok(addresses)
    }

    pub(super) fn stop(self) -> Result<Ended> {
        match (self.behind, self.relay) {
            (Some(behind), _) => behind.stop().map(|(engine, counts)| ended(&engine, counts)),
            (None, Some(relay)) => relay.stop().map(|(engine, counts)| ended(&engine, counts)),
            (None, None) => anyhow::bail!("no flows"),
        }
    }
}

fn ended<T: Payload>(engine: &Engine<T>, counts: Counts) -> Ended {
    let Counts { refused, missed, unsent, .. } = counts;
    Ended {
        link: LinkSample::new(engine.stats(Direction::Up), engine.now()),
        lateness: engine.lateness().quantile(0.99).as_secs_f64(),
        lost: refused + missed + unsent,
    }
}
