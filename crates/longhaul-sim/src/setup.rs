//! What a simulation begins with.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use longhaul_cc::{BuildParams, Congestion, NetworkHeaderKind};
use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::topology::{Duplex, Topology};
use longhaul_link::{LinkConfig, LinkRate, NetworkError, RouterConfig};
use longhaul_tcp::{Config, EndpointConfig};
use longhaul_units::Span;

/// What a host is like.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its address. Connections leave from the ports after this one, the first of a host that does not listen from this
    /// one itself.
    pub address: SocketAddr,
    /// Its endpoint's settings.
    pub endpoint: EndpointConfig,
    /// The settings of its connections, opened or accepted.
    pub config: Arc<Config>,
    /// What its clock shows when the simulation begins.
    pub clock_ahead: Span,
    /// Its timers fire at multiples of this by its clock, as those of a kernel with a tick do: 0.5 ms, 1 ms, 15.6 ms.
    /// `None` is to the nanosecond.
    pub timer_tick: Option<Span>,
    /// Its clock stands still between multiples of this, so that all it measures is a multiple too, and its timers fire
    /// when the clock gets there: Windows' 15.6 ms, or 1 ms. `None` is to the nanosecond.
    pub clock_granularity: Option<Span>,
    /// Whether it accepts connections.
    pub listens: bool,
}

/// What a simulation begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Decides everything random.
    pub seed: u64,
    /// The network. Each node that is no router is a host.
    pub topology: Topology,
    /// The hosts, by their nodes; entries of routers mean nothing.
    pub hosts: Vec<HostSetup>,
}

/// Full segments of an Ethernet's 1500 bytes from the first one on, without a search for them.
pub const fn full_segments(config: &mut Config) {
    (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
}

/// Why there can be no such simulation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The network cannot be.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Hosts and nodes don't match.
    #[error("there are {nodes} nodes, but settings of {hosts} hosts; each node needs one, routers too")]
    Hosts {
        /// Nodes of the topology.
        nodes: usize,
        /// Settings given.
        hosts: usize,
    },
    /// Two hosts have one IP address.
    #[error("the hosts at nodes {first} and {second} have one IP address; give each its own")]
    SameAddress {
        /// A node.
        first: usize,
        /// Another one.
        second: usize,
    },
    /// A host was to open more connections at a time than it has ports, which are taken until TIME-WAIT is over. This shows in the course of
    /// the simulation: see [`Sim::lacks_port`](crate::Sim::lacks_port).
    #[error(
        "the host at node {node} has no port left for another connection; let fewer come, or share them out over more hosts"
    )]
    NoPort {
        /// The node.
        node: usize,
    },
}

impl Setup {
    /// Hosts with default settings on all nodes that are no routers; all listen.
    #[must_use]
    pub fn new(seed: u64, topology: Topology) -> Self {
        let config = Arc::new(Config::default());
        let hosts = (0..topology.nodes() as u32).map(|node| HostSetup::at(node, Arc::clone(&config))).collect();
        Self { seed, topology, hosts }
    }

    /// Hosts 0 and 1 with default settings, this link from 0 to 1 (number 0) and the same back (number 1). Host 1
    /// listens.
    #[must_use]
    pub fn symmetric(seed: u64, link: LinkConfig) -> Self {
        Self::pair(seed, Duplex::symmetric(link))
    }

    /// The same with another link back.
    #[must_use]
    pub fn pair(seed: u64, links: Duplex) -> Self {
        let mut topology = Topology::new();
        let (client, server) = (topology.host(), topology.host());
        topology.duplex(client, server, links);
        let mut setup = Self::new(seed, topology);
        if let Some(host) = setup.hosts.first_mut() {
            host.listens = false;
        }
        setup
    }

    /// What a link is like, to change it.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn link_mut(&mut self, number: u32) -> &mut LinkConfig {
        self.topology.link_mut(number).unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Changes the settings of all connections. Hosts that shared theirs go on sharing them.
    #[must_use]
    pub fn configure(mut self, change: impl Fn(&mut Config)) -> Self {
        let mut last: Option<(Arc<Config>, Arc<Config>)> = None;
        for host in &mut self.hosts {
            let before = Arc::clone(&host.config);
            let after = match &last {
                Some((old, new)) if Arc::ptr_eq(old, &before) => Arc::clone(new),
                _ => {
                    let mut config = Config::clone(&before);
                    change(&mut config);
                    Arc::new(config)
                }
            };
            host.config = Arc::clone(&after);
            last = Some((before, after));
        }
        self
    }

    /// The same under this congestion control at every host; if that asks routers, with such at all links that have a rate, for
    /// which the application vouches.
    #[must_use]
    pub fn under(mut self, congestion: &Congestion) -> Self {
        let needs = congestion.build(&BuildParams::default()).needs();
        let header = needs.required.network_header.or(needs.preferred.network_header);
        let router = header.and_then(|header| match header {
            NetworkHeaderKind::QuickStart => Some(RouterConfig::QuickStart(QuickStartConfig::default())),
            NetworkHeaderKind::Rcp => Some(RouterConfig::Rcp(RcpConfig::default())),
            NetworkHeaderKind::Xcp => Some(RouterConfig::Xcp(XcpConfig::default())),
            _ => None,
        });
        let mut number = 0;
        while let Some(link) = self.topology.link_mut(number).filter(|_| router.is_some()) {
            link.router = router.clone().filter(|_| link.rate != LinkRate::Unlimited);
            number += 1;
        }
        self.configure(|config| {
            config.congestion = congestion.clone();
            config.routers_answer = router.is_some();
        })
    }

    /// The same, over IPv6: the hosts keep their ports and get addresses from the prefix for documentation (RFC 3849).
    /// Headers on the links then take [20 bytes more](crate::ip_header).
    #[must_use]
    pub fn over_ipv6(mut self) -> Self {
        for (number, host) in (1u32..).zip(&mut self.hosts) {
            let [high, low] = [(number >> 16) as u16, number as u16];
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, high, low);
            host.address = SocketAddr::from((address, host.address.port()));
        }
        self
    }
}

impl HostSetup {
    /// Hosts may share their settings, and runs their setup; what a host learns of its paths stays with it and its run.
    pub(crate) fn with_own_path_cache(mut self) -> Self {
        if let Some(shared) = &self.config.path_cache {
            let path_cache = Some(shared.copied());
            Arc::make_mut(&mut self.config).path_cache = path_cache;
        }
        self
    }

    /// Addresses 10.0.0.1:7001, 10.0.0.2:7002 and so on; from the thousandth host on the port stays.
    fn at(node: u32, config: Arc<Config>) -> Self {
        let number = node + 1;
        let [_, b, c, d] = number.to_be_bytes();
        let port = 7000 + number.min(1000) as u16;
        let mut secret = [0; 32];
        for part in secret.chunks_mut(4) {
            part.copy_from_slice(&number.to_le_bytes());
        }
        Self {
            address: SocketAddr::from(([10, b, c, d], port)),
            endpoint: EndpointConfig::new(secret),
            config,
            clock_ahead: Span::ZERO,
            timer_tick: None,
            clock_granularity: None,
            listens: true,
        }
    }
}
