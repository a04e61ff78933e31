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
    /// Node at which the link begins.
    pub from: u32,
    /// Node at which the link ends.
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
    /// Nodes and links of the dumbbell.
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
    /// Nodes and links of the row.
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

/// Links in a row with a host at each end.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Nodes and links of the chain.
    pub topology: Topology,
    /// The hosts at the ends.
    pub ends: (u32, u32),
    /// The links, in both directions.
    pub links: Vec<(u32, u32)>,
}

/// Builds a chain: two hosts joined by the links in series, with a router between successive links.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_hops_and_hosts_are_not() {
        let access = |places: [usize; 3]| places.map(|place| (place, Duplex::default()));
        let row = row([Duplex::default(), Duplex::default()], access([0, 0, 1]), access([2, 1, 9]));
        assert_eq!((row.topology.nodes(), row.topology.edges().len()), (9, 16));
        for edge in row.topology.edges() {
            assert_eq!(edge.config.is_hop, row.topology.is_router(edge.from));
        }
        let chain = chain([Duplex::default(), Duplex::default(), Duplex::default()]);
        assert_eq!((chain.ends, chain.links.as_slice()), ((0, 3), &[(0, 1), (2, 3), (4, 5)][..]));
        assert!(!chain.topology.is_router(0) && chain.topology.is_router(1) && !chain.topology.is_router(3));
    }
}
