//! A running emulated link.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;

use super::link::Emulated;

/// Measurements of a link in the direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Queueing delay of packets: the median and the 95th percentile.
    pub queued: [Duration; 2],
    /// Number of packets lost.
    pub dropped: u64,
    /// Whether the emulator was fast enough for the measurements to be valid.
    pub is_reliable: bool,
}

#[cfg(target_os = "linux")]
type Relay = longhaul_linkem::relay::Running;
/// Uninhabited, because links are emulated in real time on Linux only.
#[cfg(not(target_os = "linux"))]
type Relay = std::convert::Infallible;

/// A running link and the address to which the sender connects.
#[derive(Debug)]
pub(super) struct Running {
    relay: Relay,
    addr: SocketAddr,
}

impl Running {
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

#[cfg(target_os = "linux")]
impl Running {
    /// Starts a link to a receiver.
    ///
    /// # Errors
    /// Returns the system's error if the sockets cannot be opened.
    pub(super) fn start(link: &Emulated, to: SocketAddr) -> Result<Self> {
        use longhaul_linkem::relay::{Options, Running};
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = Running::start(&Options::new(listen, to), &link.path, longhaul_linkem::log::Logs::default())?;
        Ok(Self { addr: relay.local_addr(), relay })
    }

    /// Stops the link.
    ///
    /// # Errors
    /// Returns the error because of which the link had stopped before.
    pub(super) fn stop(self) -> Result<Seen> {
        /// If the 99th percentile of the lateness exceeds this, the emulator was too slow.
        const TOO_LATE: longhaul_units::Span = longhaul_units::Span::from_millis(1);
        let (engine, counts) = self.relay.stop()?;
        let all = engine.stats(longhaul_link::spec::Direction::Up).all();
        let queued = [0.5, 0.95].map(|share| Duration::from_nanos(all.sojourn.quantile(share).as_nanos()));
        let was_lossless = (counts.missed, counts.unsent) == (0, 0);
        let is_reliable = was_lossless && engine.lateness().quantile(0.99) <= TOO_LATE;
        Ok(Seen { queued, dropped: all.dropped_total(), is_reliable })
    }
}

#[cfg(not(target_os = "linux"))]
impl Running {
    pub(super) fn start(link: &Emulated, _: SocketAddr) -> Result<Self> {
        anyhow::bail!("the link {} cannot be emulated: that needs Linux; use --link none", link.text)
    }

    pub(super) fn stop(self) -> Result<Seen> {
        match self.relay {}
    }
}
