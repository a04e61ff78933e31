//! Settings that are fixed before a socket connects or listens.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_cc::Congestion;
use longhaul_cc::registry::Safety;
use longhaul_tcp::{Config, ConnId, EndpointConfig};

use crate::capture::Capture;
use crate::handle::Handle;
use crate::io::UdpBackend;
use crate::limits::Limits;
use crate::qlog::{Place, Role};
use crate::shared::Shared;

/// Settings of a socket that is not yet in use.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) allow_unsafe: bool,
    pub(crate) linger: Option<Duration>,
    pub(crate) dscp: u8,
    pub(crate) capture: Option<Capture>,
    pub(crate) qlog: Option<Place>,
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
    qlog: Option<Place>,
}

impl Setup {
    /// Refuses a congestion controller for controlled environments only, unless it has been allowed.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.allow_unsafe || self.config.congestion.safety() == Safety::Shared {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, UnsafeCongestion { name: self.config.congestion.name() }))
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
    pub(crate) fn apply(&mut self, shared: &Shared) -> Habits {
        let mut state = shared.lock();
        state.dscp = self.dscp;
        state.captures.extend(self.capture.take());
        Habits { linger: self.linger, qlog: self.qlog.take() }
    }
}

impl Habits {
    /// Creates the handle of a connection. The caller has already counted it in the endpoint's state.
    pub(crate) fn handle(&self, shared: &Arc<Shared>, id: ConnId, addresses: [SocketAddr; 2], role: Role) -> Handle {
        let [local, peer] = addresses;
        if let Some(place) = &self.qlog {
            let state = &mut *shared.lock();
            state.qlogs.add(place, &state.endpoint, id, addresses, role);
        }
        Handle::new(Arc::clone(shared), id, local, peer, self.linger)
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

/// A congestion controller for controlled environments only was chosen but not explicitly allowed. The inner error of
/// the [`std::io::Error`] that connecting or listening then returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "congestion controller `{name}` is not safe on a network shared with others; \
     use TcpSocket::allow_unsafe_congestion to allow it in a controlled environment"
)]
pub struct UnsafeCongestion {
    name: String,
}

impl UnsafeCongestion {
    /// Returns the name of the congestion controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A choice of congestion controller, given as a value or by name.
///
/// It is implemented for [`Congestion`], for parsed names and for text, so that
/// [`TcpSocket::set_congestion`](crate::TcpSocket::set_congestion) accepts all of them.
pub trait IntoCongestion {
    /// Converts the value.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the text names no controller; the message lists the available ones.
    fn into_congestion(self) -> io::Result<Congestion>;
}

impl IntoCongestion for Congestion {
    fn into_congestion(self) -> io::Result<Congestion> {
        Ok(self)
    }
}

impl IntoCongestion for longhaul_cc::registry::Spec {
    fn into_congestion(self) -> io::Result<Congestion> {
        Ok(self.into())
    }
}

impl IntoCongestion for &str {
    fn into_congestion(self) -> io::Result<Congestion> {
        self.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

impl IntoCongestion for &String {
    fn into_congestion(self) -> io::Result<Congestion> {
        self.as_str().into_congestion()
    }
}

impl IntoCongestion for String {
    fn into_congestion(self) -> io::Result<Congestion> {
        self.as_str().into_congestion()
    }
}
