//! Settings that are fixed before a socket connects or listens.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_tcp::{ConnId, EndpointConfig};
use longhaul_units::Time;

use crate::capture::Capture;
use crate::config::Config;
use crate::congestion::{Congestion, UnsafeCongestion};
use crate::handle::Handle;
use crate::io::UdpBackend;
use crate::limits::Limits;
use crate::observe::{Incoming, Observers, Role};
use crate::shared::{Shared, State};

/// Settings of a socket that is not yet in use.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) allow_unsafe: bool,
    pub(crate) linger: Option<Duration>,
    pub(crate) dscp: u8,
    pub(crate) capture: Option<Capture>,
    pub(crate) observers: Observers,
    pub(crate) reflect: bool,
    pub(crate) backlog: Option<usize>,
    pub(crate) limits: Limits,
    pub(crate) udp: UdpBackend,
    /// The socket of a former listener, to be taken over instead of opening a new one.
    pub(crate) takes_over: Option<Arc<Shared>>,
}

impl From<Config> for Setup {
    fn from(config: Config) -> Self {
        Self { config, ..Self::default() }
    }
}

/// Settings that each connection of a socket is given.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    linger: Option<Duration>,
    observers: Observers,
}

impl Setup {
    /// Returns the chosen congestion controller.
    pub(crate) fn congestion(&self) -> Congestion {
        Congestion(self.config.engine.congestion.clone())
    }

    /// Refuses a congestion controller for controlled environments only, unless it has been allowed.
    pub(crate) fn check(&self) -> io::Result<()> {
        let congestion = self.congestion();
        if self.allow_unsafe || congestion.is_internet_safe() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, UnsafeCongestion { name: congestion.name() }))
    }

    /// Returns the configuration of the endpoint on a socket with the address `local`.
    pub(crate) fn endpoint_config(&self, local: SocketAddr) -> io::Result<EndpointConfig> {
        let mut config = EndpointConfig::of_socket(secret()?, local);
        config.backlog = self.backlog.unwrap_or(config.backlog);
        config.reflect = self.reflect;
        self.limits.apply(&mut config);
        Ok(config)
    }

    /// Applies the settings that belong to the socket, and returns those for each connection.
    pub(crate) fn apply(&mut self, state: &mut State) -> Habits {
        state.dscp = self.dscp;
        state.captures.extend(self.capture.take());
        #[cfg(feature = "qlog")]
        if self.observers.qlog.is_some() {
            state.logs.is_needed = true;
        }
        Habits { linger: self.linger, observers: std::mem::take(&mut self.observers) }
    }
}

impl Habits {
    /// Creates the handle of a connection. The caller has already counted it in the endpoint's state.
    pub(crate) fn handle(&self, shared: &Arc<Shared>, id: ConnId, [local, peer]: [SocketAddr; 2]) -> Handle {
        Handle::new(Arc::clone(shared), id, local, peer, self.linger)
    }

    /// Installs observers on a connection that was just opened from here. The endpoint's own connections get theirs
    /// from [`observe_incoming`](Self::observe_incoming).
    pub(crate) fn observe(&self, state: &mut State, now: Time, id: ConnId, ends: [SocketAddr; 2]) {
        for observer in self.observers.create(ends, Role::Client) {
            state.endpoint.observe(now, id, observer);
        }
    }

    /// Lets the connections of a listener on `local` be observed from their SYN on.
    pub(crate) fn observe_incoming(&self, state: &mut State, local: SocketAddr) {
        let incoming = Incoming { observers: self.observers.clone(), local };
        state.endpoint.observe_incoming(Some(Box::new(incoming)));
    }
}

/// Returns the secret key of this process, from the operating system. Without entropy, no socket can be created.
fn secret() -> io::Result<&'static [u8; 32]> {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(secret) = SECRET.get() {
        return Ok(secret);
    }
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(io::Error::other)?;
    Ok(SECRET.get_or_init(|| fresh))
}
