//! Initial configuration of a simulation.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use longhaul_cc::{BuildParams, Congestion, NetworkHeaderKind};
use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::topology::{Duplex, Topology};
use longhaul_link::{LinkConfig, LinkRate, NetworkError, RouterConfig};
use longhaul_tcp::{Config, EndpointConfig};
use longhaul_units::Span;

/// Configuration of a host.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Address of the host. Connections use the ports after this one as their source. The first connection of a host
    /// that does not listen uses this port itself.
    pub address: SocketAddr,
    /// Settings of the host's endpoint.
    pub endpoint: EndpointConfig,
    /// Settings of the host's connections, whether opened or accepted.
    pub config: Arc<Config>,
    /// Reading of the host's clock at the start of the simulation.
    pub clock_ahead: Span,
    /// Timer tick: its timers fire at multiples of this by its clock, like a kernel's tick of 0.5 ms, 1 ms or 15.6 ms.
    /// `None` means nanosecond precision.
    pub timer_tick: Option<Span>,
    /// Clock granularity: its clock advances in steps of this, so all measurements are multiples of it, and its
    /// timers fire at the steps: 15.6 ms or 1 ms on Windows. `None` means nanosecond precision.
    pub clock_granularity: Option<Span>,
    /// Time for which its network card holds packets before it delivers them, from the arrival of the first one
    /// (interrupt moderation). Receive offload merges consecutive packets of a flow. With `None`, each packet is
    /// delivered on arrival.
    pub receive_hold: Option<Span>,
    /// Whether the host accepts connections.
    pub listens: bool,
}

/// Initial configuration of a simulation.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all randomness.
    pub seed: u64,
    /// The network. Each node that is not a router is a host.
    pub topology: Topology,
    /// The hosts, indexed by node; entries of routers are ignored.
    pub hosts: Vec<HostSetup>,
}

/// Uses full-sized segments for an Ethernet MTU of 1500 bytes from the start, without path MTU discovery.
pub const fn full_segments(config: &mut Config) {
    (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
}

/// Error in the configuration of a simulation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The network is invalid.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The number of hosts does not match the number of nodes.
    #[error("there are {nodes} nodes, but {hosts} host configurations; each node needs one, including routers")]
    Hosts {
        /// Number of nodes in the topology.
        nodes: usize,
        /// Number of host configurations.
        hosts: usize,
    },
    /// Two hosts have the same IP address.
    #[error("the hosts at nodes {first} and {second} have the same IP address; give each its own")]
    SameAddress {
        /// Node of the first host.
        first: usize,
        /// Node of the second host.
        second: usize,
    },
    /// A host had to open more concurrent connections than it has ports, which remain in use until TIME-WAIT is over.
    /// This is detected during the simulation: see [`Sim::lacks_port`](crate::Sim::lacks_port).
    #[error(
        "the host at node {node} has no port left for another connection; open fewer connections, or distribute them over more hosts"
    )]
    NoPort {
        /// The node of the host.
        node: usize,
    },
}

impl Setup {
    /// Creates hosts with default settings on all nodes that are not routers; all of them listen.
    pub fn new(seed: u64, topology: Topology) -> Self {
        let config = Arc::new(Config::default());
        let hosts = (0..topology.nodes() as u32).map(|node| HostSetup::at(node, Arc::clone(&config))).collect();
        Self { seed, topology, hosts }
    }

    /// Creates hosts 0 and 1 with default settings, and a link in each direction: number 0 from 0 to 1, number 1 from
    /// 1 to 0. Host 1 listens.
    pub fn symmetric(seed: u64, link: LinkConfig) -> Self {
        Self::pair(seed, Duplex::symmetric(link))
    }

    /// Creates the same hosts with a link that may differ by direction.
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

    /// Returns the configuration of a link for modification.
    ///
    /// # Panics
    /// Panics if there is no link of that number.
    pub fn link_mut(&mut self, number: u32) -> &mut LinkConfig {
        self.topology.link_mut(number).unwrap_or_else(|| panic!("there is no link {number}"))
    }

    /// Modifies the settings of all connections. Hosts that shared their settings continue to do so.
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

    /// Uses this congestion control on every host. If it is router-assisted, all links that have a rate get matching
    /// routers, and the hosts are configured to trust the routers' answers.
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

    /// Uses IPv6: the hosts keep their ports, and get addresses from the documentation prefix (RFC 3849). Headers on
    /// the links are then [20 bytes longer](crate::ip_header).
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
    /// Gives the host its own copy of the metrics cache, because settings may be shared by several hosts and runs.
    pub(crate) fn with_own_path_cache(mut self) -> Self {
        if let Some(shared) = &self.config.path_cache {
            let path_cache = Some(shared.copied());
            Arc::make_mut(&mut self.config).path_cache = path_cache;
        }
        self
    }

    /// Creates host `node` with the address 10.0.0.1:7001, 10.0.0.2:7002 and so on. From the 1000th host on, the port
    /// stays at 8000.
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
            receive_hold: None,
            listens: true,
        }
    }
}
