//! An emulated link in operation.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;

use super::link::Emulated;

/// What a link saw of the file's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How long packets waited for their transmission: the median, and what 95 % did not exceed.
    pub queued: [Duration; 2],
    /// Packets that did not arrive.
    pub dropped: u64,
    /// Whether the emulator was fast enough.
    pub is_reliable: bool,
}

#[cfg(target_os = "linux")]
type Relay = longhaul_linkem::relay::Running;
/// Links in real time need Linux.
#[cfg(not(target_os = "linux"))]
type Relay = std::convert::Infallible;

/// A link, and where the sender sends to.
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
    /// The system's.
    pub(super) fn start(link: &Emulated, to: SocketAddr) -> Result<Self> {
        use longhaul_linkem::relay::{Options, Running};
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = Running::start(&Options::new(listen, to), &link.path, longhaul_linkem::log::Logs::default())?;
        Ok(Self { addr: relay.local_addr(), relay })
    }

    /// Ends it.
    ///
    /// # Errors
    /// Those for which it had ended before.
    pub(super) fn stop(self) -> Result<Seen> {
        /// Later than that at the 99th percentile, the emulator itself was too slow.
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
        anyhow::bail!("the link {} cannot be emulated here, for that needs Linux; --link none does without", link.text)
    }

    pub(super) fn stop(self) -> Result<Seen> {
        match self.relay {}
    }
}
