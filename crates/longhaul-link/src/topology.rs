//! Which nodes there are and how links join them.

use longhaul_units::Span;

use crate::config::LinkConfig;

/// Both directions of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duplex {
    /// From the first node to the second: left to right, up.
    pub there: LinkConfig,
    /// And back: down.
    pub back: LinkConfig,
}

impl Duplex {
    /// The same in both directions.
    #[must_use]
    pub fn symmetric(config: LinkConfig) -> Self {
        Self { there: config.clone(), back: config }
    }

    /// Only a delay, this in each direction.
    #[must_use]
    pub fn delay(one_way: Span) -> Self {
        Self::symmetric(LinkConfig::delay(one_way))
    }
}

/// A link from one node to another, in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The node that sends.
    pub from: u32,
    /// The node that receives.
    pub to: u32,
    /// What it is like.
    pub config: LinkConfig,
}

/// A graph of nodes and links, numbered in the order they were added. Hosts send and receive; routers pass on, and take
/// one from the TTL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    is_router: Vec<bool>,
    edges: Vec<Edge>,
}

impl Topology {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host and returns its number.
    pub fn host(&mut self) -> u32 {
        self.node(false)
    }

    /// Adds a router and returns its number.
    pub fn router(&mut self) -> u32 {
        self.node(true)
    }

    /// Adds a link in one direction and returns its number. A node that does not exist yet makes the topology
    /// impossible, which [`Network::new`](crate::Network::new) says.
    pub fn link(&mut self, from: u32, to: u32, config: LinkConfig) -> u32 {
        let is_hop = self.is_router.get(from as usize).copied().unwrap_or(false);
        self.edges.push(Edge { from, to, config: LinkConfig { is_hop, ..config } });
        self.edges.len() as u32 - 1
    }

    /// Adds both directions of a link and returns their numbers, there and back.
    pub fn duplex(&mut self, from: u32, to: u32, duplex: Duplex) -> (u32, u32) {
        (self.link(from, to, duplex.there), self.link(to, from, duplex.back))
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.is_router.len()
    }

    /// Whether a node passes packets on.
    #[must_use]
    pub fn is_router(&self, node: u32) -> bool {
        self.is_router.get(node as usize).copied().unwrap_or(false)
    }

    /// The links.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// What a link is like, to change it.
    pub fn link_mut(&mut self, number: u32) -> Option<&mut LinkConfig> {
        self.edges.get_mut(number as usize).map(|edge| &mut edge.config)
    }

    pub(crate) fn into_edges(self) -> Vec<Edge> {
        self.edges
    }

    fn node(&mut self, is_router: bool) -> u32 {
        self.is_router.push(is_router);
        self.is_router.len() as u32 - 1
    }

    /// Adds a host at a router and returns its number.
    fn attach(&mut self, router: u32, access: Duplex) -> u32 {
        let host = self.host();
        self.duplex(host, router, access);
        host
    }
}

/// Hosts on both sides of one link that all share.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumbbell {
    /// The graph.
    pub topology: Topology,
    /// The hosts on the left.
    pub left: Vec<u32>,
    /// The hosts on the right.
    pub right: Vec<u32>,
    /// The shared link, left to right and back.
    pub bottleneck: (u32, u32),
}

/// Two routers joined by `bottleneck`, and a host for each access link; `there` of an access link leads away from its
/// host.
#[must_use]
pub fn dumbbell(
    bottleneck: Duplex,
    left: impl IntoIterator<Item = Duplex>,
    right: impl IntoIterator<Item = Duplex>,
) -> Dumbbell {
    let at = |router| move |access| (router, access);
    let Row { topology, left, right, links } =
        row([bottleneck], left.into_iter().map(at(0)), right.into_iter().map(at(1)));
    Dumbbell { topology, left, right, bottleneck: links[0] }
}

/// Routers in a row, with hosts that each talk over some of the links between.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The graph.
    pub topology: Topology,
    /// The hosts on the left.
    pub left: Vec<u32>,
    /// The hosts on the right.
    pub right: Vec<u32>,
    /// The links between routers, left to right and back.
    pub links: Vec<(u32, u32)>,
}

/// Routers joined in a row by `links`, and a host for each access link, at the router of that place, from 0 to the number of links, which
/// those beyond are at, too; `there` of an access link leads away from its host.
#[must_use]
pub fn row(
    links: impl IntoIterator<Item = Duplex>,
    left: impl IntoIterator<Item = (usize, Duplex)>,
    right: impl IntoIterator<Item = (usize, Duplex)>,
) -> Row {
    let mut topology = Topology::new();
    let (mut last, mut numbers) = (topology.router(), Vec::new());
    let mut routers = vec![last];
    for link in links {
        let next = topology.router();
        numbers.push(topology.duplex(last, next, link));
        routers.push(next);
        last = next;
    }
    let router = |place: usize| routers.get(place).copied().unwrap_or(last);
    let left = left.into_iter().map(|(place, access)| topology.attach(router(place), access)).collect();
    let right = right.into_iter().map(|(place, access)| topology.attach(router(place), access)).collect();
    Row { topology, left, right, links: numbers }
}

/// One-way delays of the access links on the left in the TCP evaluation suite (draft-irtf-iccrg-tcpeval-01, section 3.1),
/// milliseconds.
const LEFT_MILLIS: [u64; 3] = [0, 12, 25];
/// The same on the right.
const RIGHT_MILLIS: [u64; 3] = [2, 37, 75];

/// The dumbbell of the TCP evaluation suite (draft-irtf-iccrg-tcpeval-01, section 3.1): host n on the left talks to host n
/// on the right, `pairs_per_rtt` pairs for each of nine round-trip times, which are 4, 74, 150, 28, 98, 174, 54, 124 and
/// 200 ms more than the bottleneck's.
#[must_use]
pub fn evaluation_dumbbell(bottleneck: Duplex, pairs_per_rtt: usize) -> Dumbbell {
    let access = |millis: u64| Duplex::delay(Span::from_millis(millis));
    let pairs = || (0..pairs_per_rtt).flat_map(|_| LEFT_MILLIS.into_iter().flat_map(|l| RIGHT_MILLIS.map(|r| (l, r))));
    dumbbell(bottleneck, pairs().map(|(left, _)| access(left)), pairs().map(|(_, right)| access(right)))
}

/// Routers in a row, with traffic along all of it and across each link.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkingLot {
    /// The graph.
    pub topology: Topology,
    /// The hosts at both ends.
    pub through: (u32, u32),
    /// For each link between routers the host before it and the one behind.
    pub across: Vec<(u32, u32)>,
    /// The links between routers, there and back.
    pub links: Vec<(u32, u32)>,
}

/// A parking lot: `links` join routers in a row; a pair of hosts talks over all of them and one pair over each.
#[must_use]
pub fn parking_lot(links: impl IntoIterator<Item = Duplex>, access: &Duplex) -> ParkingLot {
    let mut topology = Topology::new();
    let first = topology.router();
    let (mut last, mut across, mut numbers) = (first, Vec::new(), Vec::new());
    for link in links {
        let next = topology.router();
        numbers.push(topology.duplex(last, next, link));
        across.push((topology.attach(last, access.clone()), topology.attach(next, access.clone())));
        last = next;
    }
    let through = (topology.attach(first, access.clone()), topology.attach(last, access.clone()));
    ParkingLot { topology, through, across, links: numbers }
}

/// Links in a row with a host at each end.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The graph.
    pub topology: Topology,
    /// The hosts at the ends.
    pub ends: (u32, u32),
    /// The links, there and back.
    pub links: Vec<(u32, u32)>,
}

/// A chain: a host, the links one after the other with routers between, a host.
#[must_use]
pub fn chain(links: impl IntoIterator<Item = Duplex>) -> Chain {
    let mut topology = Topology::new();
    let first = topology.host();
    let mut links = links.into_iter().peekable();
    let (mut last, mut numbers) = (first, Vec::new());
    while let Some(link) = links.next() {
        let next = if links.peek().is_some() { topology.router() } else { topology.host() };
        numbers.push(topology.duplex(last, next, link));
        last = next;
    }
    Chain { topology, ends: (first, last), links: numbers }
}

/// A satellite hop: a host behind a terminal, with the thin return link up and the wide forward link down, a gateway, and
/// a host on the ground. `there` of `satellite` is the return link.
#[must_use]
pub fn satellite(satellite: Duplex, lan: Duplex, ground: Duplex) -> Chain {
    chain([lan, satellite, ground])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_hops_and_hosts_are_not() {
        let lot = parking_lot([Duplex::default(), Duplex::default()], &Duplex::default());
        assert_eq!((lot.topology.nodes(), lot.topology.edges().len(), lot.across.len()), (9, 16, 2));
        for edge in lot.topology.edges() {
            assert_eq!(edge.config.is_hop, lot.topology.is_router(edge.from));
        }
        let chain = chain([Duplex::default(), Duplex::default(), Duplex::default()]);
        assert_eq!((chain.ends, chain.links.as_slice()), ((0, 3), &[(0, 1), (2, 3), (4, 5)][..]));
        assert!(!chain.topology.is_router(0) && chain.topology.is_router(1) && !chain.topology.is_router(3));
    }

    #[test]
    fn the_evaluation_suites_round_trip_times() {
        let dumbbell = evaluation_dumbbell(Duplex::default(), 50);
        assert_eq!((dumbbell.left.len(), dumbbell.right.len()), (450, 450));
        let delay = |host: u32| {
            let edge = dumbbell.topology.edges().iter().find(|edge| edge.from == host).unwrap();
            edge.config.delay.as_millis()
        };
        let rtts: Vec<u64> =
            (0..9).map(|pair| 2 * (delay(dumbbell.left[pair]) + delay(dumbbell.right[pair]))).collect();
        assert_eq!(rtts, [4, 74, 150, 28, 98, 174, 54, 124, 200]);
    }
}
