//! Settings that are fixed before a socket connects or listens.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_tcp::{Endpoint, EndpointConfig};

use crate::capture::SharedCapture;
use crate::config::Config;
use crate::congestion::{Congestion, UnsafeCongestion};
use crate::disk::WaitForDisk;
use crate::io::{Io, Role, UdpBackend, canonical};
use crate::limits::Limits;
use crate::local_path::LocalPaths;
use crate::shards::{MAX_SHARDS, Shards};
use crate::shared::{self, Shared, State};
use crate::strays::Sharing;

/// Settings of a socket that is not yet in use.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) habits: Habits,
    pub(crate) dscp: u8,
    pub(crate) capture: Option<SharedCapture>,
    pub(crate) reflect: bool,
    pub(crate) backlog: Option<usize>,
    pub(crate) limits: Limits,
    pub(crate) udp: UdpBackend,
    pub(crate) paths: LocalPaths,
    /// All addresses of the server that a client connects to, if they are known.
    pub(crate) server: Vec<SocketAddr>,
    /// Number of sockets of a listener or connector; 0 means 1.
    pub(crate) shards: usize,
    pub(crate) sharing: Option<Sharing>,
    /// Sockets of an earlier listener to take over instead of opening new ones.
    pub(crate) takes_over: Vec<Arc<Shared>>,
}

impl From<Config> for Setup {
    fn from(config: Config) -> Self {
        Self { config, ..Self::default() }
    }
}

/// Settings for each connection of a socket, in addition to those of the engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits {
    pub(crate) linger: Option<Duration>,
    #[cfg(feature = "qlog")]
    pub(crate) qlog: Option<crate::qlog::Place>,
}

impl Setup {
    pub(crate) fn congestion(&self) -> Congestion {
        Congestion(self.config.engine.congestion.clone())
    }

    pub(crate) fn sharded(shards: usize) -> io::Result<Self> {
        let mut setup = Self::default();
        setup.set_shards(shards)?;
        Ok(setup)
    }

    pub(crate) fn set_shards(&mut self, shards: usize) -> io::Result<()> {
        if !(1..=MAX_SHARDS).contains(&shards) {
            let text = format!("a listener or connector has 1 to {MAX_SHARDS} shards, not {shards}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.shards = shards;
        Ok(())
    }

    /// Rejects a congestion controller for controlled environments only, unless it has been allowed.
    pub(crate) fn check(&self) -> io::Result<()> {
        let congestion = self.congestion();
        if self.config.allow_unsafe || congestion.is_internet_safe() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, UnsafeCongestion { name: congestion.name() }))
    }

    pub(crate) fn endpoint_config(&self, local: SocketAddr) -> io::Result<EndpointConfig> {
        let mut config = EndpointConfig::of_socket(secret()?, local);
        if let Some(sharing) = &self.sharing {
            (config.secret, config.shared_clock) = (sharing.secret, Io::ahead(Io::clocks()));
        }
        config.backlog = self.backlog.unwrap_or(config.backlog);
        config.reflect = self.reflect;
        self.limits.apply(&mut config);
        Ok(config)
    }

    /// Opens `socket` with its own endpoint, as the shard with this number if there are several.
    pub(crate) fn open(
        &self,
        socket: UdpSocket,
        role: Role,
        shard: Option<(&Arc<Shards>, u32)>,
    ) -> io::Result<Arc<Shared>> {
        let local = canonical(socket.local_addr()?);
        let io = Io::new(socket, role, self.udp)?;
        let buffers = shared::set_buffers(&io);
        let mut config = self.endpoint_config(local)?;
        let endpoint = match shard {
            None => Endpoint::new(config, Io::now()),
            Some((shards, index)) => {
                config.max_time_wait /= self.shards;
                // Sockets of a connector have different ports, so each can have a connection to the same peer.
                let index = (role == Role::Listener).then_some(index);
                Endpoint::in_group(config, Io::now(), shards.group.clone(), index)
            }
        };
        let shared = Shared::new(io, endpoint, local, buffers, shard.map(|(shards, _)| Arc::clone(shards)));
        self.apply(&mut shared.lock());
        Ok(shared)
    }

    /// Applies the settings that belong to a socket.
    pub(crate) fn apply(&self, state: &mut State) {
        state.dscp = self.dscp;
        state.strays = self.sharing.as_ref().map(|sharing| Arc::clone(&sharing.handler));
        state.captures.extend(self.capture.clone());
        let has_files = self.capture.is_some();
        #[cfg(feature = "qlog")]
        let has_files = has_files || self.habits.qlog.is_some();
        if has_files {
            state.disk = Some(WaitForDisk);
        }
    }

    /// Returns the settings for each connection, and their TCP settings with the wall clock as the shared clock. If the
    /// wall clock is stepped later, these connections keep the old time and are not synchronized with newer ones.
    pub(crate) fn split(mut self) -> (Habits, Arc<longhaul_tcp::Config>) {
        self.config.engine.shared_clock = Io::ahead(Io::clocks());
        (self.habits, Arc::new(self.config.engine))
    }
}

/// Returns the secret key of this process, from the operating system. If the system provides no entropy, no socket can
/// be created.
pub(crate) fn secret() -> io::Result<&'static [u8; 32]> {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(secret) = SECRET.get() {
        return Ok(secret);
    }
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(io::Error::other)?;
    Ok(SECRET.get_or_init(|| fresh))
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Span, Time};

    use super::*;

    /// Endpoints of hosts with different uptimes read their clocks at different times, with errors in nanoseconds. At a
    /// later moment, their shared times differ by these errors only.
    #[test]
    fn endpoints_share_a_wall_clock_that_is_set() {
        let ahead = |uptime, wall| Io::ahead((Time::from_nanos(uptime), Duration::from_nanos(wall)));
        let at = |seconds: u64| (1_700_000_000 + seconds) * 1_000_000_000;
        for (boot, uptime, error) in [(0, 10, 0), (0, 7_210, 20_000), (3_600, 1_400, 7_000)] {
            let ahead = ahead(uptime * 1_000_000_000, at(boot + uptime) + error).unwrap();
            let now = Time::ZERO + Span::from_secs(9_000 - boot);
            assert_eq!((now + ahead).as_nanos(), at(9_000) + error);
        }
        // The wall clock is not set, is behind the monotonic clock, or equals it.
        assert_eq!([ahead(0, 0), ahead(8, 7), ahead(8, 8)], [None, None, Some(Span::ZERO)]);
        assert!(Setup::default().split().1.shared_clock.is_some());
    }
}
