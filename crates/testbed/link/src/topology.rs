//! Graphs of nodes and links.

use longhaul_units::Span;

use crate::config::LinkConfig;

/// Both directions of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duplex {
    /// From the first node to the second: left to right, or up.
    pub there: LinkConfig,
    /// From the second node to the first: right to left, or down.
    pub back: LinkConfig,
}

impl Duplex {
    /// Uses the same configuration in both directions.
    pub fn symmetric(config: LinkConfig) -> Self {
        Self { there: config.clone(), back: config }
    }

    /// Creates a link with only a delay, the same in each direction.
    pub fn delay(one_way: Span) -> Self {
        Self::symmetric(LinkConfig::delay(one_way))
    }
}

/// A unidirectional link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The sending node.
    pub from: u32,
    /// The receiving node.
    pub to: u32,
    /// The configuration of the link.
    pub config: LinkConfig,
}

/// Graph of nodes and links, each numbered in the order of their addition. Hosts send and receive; routers forward
/// packets and decrement their TTL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    is_router: Vec<bool>,
    edges: Vec<Edge>,
}

impl Topology {
    /// Creates an empty graph.
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

    /// Adds a unidirectional link and returns its number. If one of its nodes does not exist,
    /// [`Network::new`](crate::Network::new) returns an error.
    pub fn link(&mut self, from: u32, to: u32, config: LinkConfig) -> u32 {
        let is_hop = self.is_router.get(from as usize).copied().unwrap_or(false);
        self.edges.push(Edge { from, to, config: LinkConfig { is_hop, ..config } });
        self.edges.len() as u32 - 1
    }

    /// Adds both directions of a link and returns their numbers, forward direction first.
    pub fn duplex(&mut self, from: u32, to: u32, duplex: Duplex) -> (u32, u32) {
        (self.link(from, to, duplex.there), self.link(to, from, duplex.back))
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.is_router.len()
    }

    /// Returns whether a node forwards packets.
    pub fn is_router(&self, node: u32) -> bool {
        self.is_router.get(node as usize).copied().unwrap_or(false)
    }

    /// Returns the links.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the configuration of a link for modification.
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

    fn attach(&mut self, router: u32, access: Duplex) -> u32 {
        let host = self.host();
        self.duplex(host, router, access);
        host
    }
}

/// A dumbbell: hosts on both sides of one shared link.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumbbell {
    /// The graph.
    pub topology: Topology,
    /// The hosts on the left.
    pub left: Vec<u32>,
    /// The hosts on the right.
    pub right: Vec<u32>,
    /// The shared link: left to right, and right to left.
    pub bottleneck: (u32, u32),
}

/// Builds two routers joined by `bottleneck`, and one host for each access link. `there` of an access link leads away
/// from its host.
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

/// Routers in a row, with hosts whose paths each cross some of the links in between.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The graph.
    pub topology: Topology,
    /// The hosts on the left.
    pub left: Vec<u32>,
    /// The hosts on the right.
    pub right: Vec<u32>,
    /// The links between routers: left to right, and right to left.
    pub links: Vec<(u32, u32)>,
}

/// Builds a row of routers joined by `links`, and one host for each access link, attached to the router at the given
/// position. Positions count from 0; those beyond the last router mean the last one. `there` of an access link leads
/// away from its host.
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

/// One-way delays of the left access links in the TCP evaluation suite (draft-irtf-iccrg-tcpeval-01, section 3.1), in
/// milliseconds.
const LEFT_MILLIS: [u64; 3] = [0, 12, 25];
/// One-way delays of the right access links, in milliseconds.
const RIGHT_MILLIS: [u64; 3] = [2, 37, 75];

/// Builds the dumbbell of the TCP evaluation suite (draft-irtf-iccrg-tcpeval-01, section 3.1). Host n on the left
/// talks to host n on the right. There are `pairs_per_rtt` pairs for each of nine RTTs, which exceed that of the
/// bottleneck by 4, 74, 150, 28, 98, 174, 54, 124 and 200 ms.
pub fn evaluation_dumbbell(bottleneck: Duplex, pairs_per_rtt: usize) -> Dumbbell {
    let access = |millis: u64| Duplex::delay(Span::from_millis(millis));
    let pairs = || (0..pairs_per_rtt).flat_map(|_| LEFT_MILLIS.into_iter().flat_map(|l| RIGHT_MILLIS.map(|r| (l, r))));
    dumbbell(bottleneck, pairs().map(|(left, _)| access(left)), pairs().map(|(_, right)| access(right)))
}

/// A parking lot: routers in a row, with traffic along the whole row and across each link.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkingLot {
    /// The graph.
    pub topology: Topology,
    /// The hosts at the two ends of the row.
    pub through: (u32, u32),
    /// For each link between routers, the host before it and the host after it.
    pub across: Vec<(u32, u32)>,
    /// The links between routers, in both directions.
    pub links: Vec<(u32, u32)>,
}

/// Builds a parking lot: `links` join routers in a row, one pair of hosts talks over all of them, and one pair over
/// each.
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
    /// The links, in both directions.
    pub links: Vec<(u32, u32)>,
}

/// Builds a chain: two hosts joined by the links in series, with a router between each two links.
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

/// Builds a satellite path: a host behind a terminal, the satellite link, a gateway, and a host on the ground.
/// `there` of `satellite` is the narrow return link (up), `back` the wide forward link (down).
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
