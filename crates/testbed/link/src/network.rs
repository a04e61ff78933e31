//! A network of links.

use longhaul_units::Time;

use crate::hook::Hook;
use crate::link::Link;
use crate::packet::{Packet, Payload};
use crate::topology::{Edge, Topology};
use crate::validate::ConfigError;

mod routes;
mod schedule;

use routes::Routes;
pub use schedule::Schedule;

/// Error in a network's topology.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A link with an invalid configuration.
    #[error("link {number} from node {from} to node {to}: {error}")]
    Link {
        /// The number of the link, from 0.
        number: usize,
        /// Node at which the link begins.
        from: u32,
        /// Node at which the link ends.
        to: u32,
        /// The reason why it is invalid.
        error: ConfigError,
    },
    /// A link to or from a node that does not exist.
    #[error("link {number} joins node {from} to node {to}, but there are {nodes} nodes; add the nodes first")]
    NoNode {
        /// The number of the link, from 0.
        number: usize,
        /// Node at which the link begins.
        from: u32,
        /// Node at which the link ends.
        to: u32,
        /// The number of nodes.
        nodes: usize,
    },
}

/// A packet that has reached its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// Time at which the packet arrives.
    pub at: Time,
    /// The destination, [`Packet::to`].
    pub node: u32,
    /// Packet that has arrived.
    pub packet: Packet<T>,
}

/// Links between nodes, with static routes of the fewest hops. As for a [`Link`], the caller must poll until a time
/// before it offers packets at that time.
#[derive(Debug)]
pub struct Network<T, H = ()> {
    links: Vec<Link<T, H>>,
    ends: Vec<u32>,
    routes: Routes,
    schedule: Schedule,
    unroutable: u64,
}

impl<T: Payload> Network<T> {
    /// Creates an empty network.
    ///
    /// # Errors
    /// Returns an error if a link's configuration is invalid or one of its nodes does not exist.
    pub fn new(topology: Topology, seed: u64) -> Result<Self, NetworkError> {
        Self::with_hooks(topology, seed, |_, _| ())
    }
}

impl<T: Payload, H: Hook<T>> Network<T, H> {
    /// Creates an empty network. `hook` creates the hook of each link from its number and its edge.
    ///
    /// # Errors
    /// Returns an error if a link's configuration is invalid or one of its nodes does not exist.
    pub fn with_hooks(
        topology: Topology,
        seed: u64,
        mut hook: impl FnMut(u32, &Edge) -> H,
    ) -> Result<Self, NetworkError> {
        let nodes = topology.nodes();
        for (number, &Edge { from, to, .. }) in topology.edges().iter().enumerate() {
            if from.max(to) as usize >= nodes {
                return Err(NetworkError::NoNode { number, from, to, nodes });
            }
        }
        let routes = Routes::shortest(&topology);
        let edges = topology.into_edges();
        let mut links = Vec::with_capacity(edges.len());
        let mut ends = Vec::with_capacity(edges.len());
        for (number, edge) in edges.into_iter().enumerate() {
            let hook = hook(number as u32, &edge);
            let Edge { from, to, config } = edge;
            let link = Link::with_hook(config, seed, number as u64, hook);
            links.push(link.map_err(|error| NetworkError::Link { number, from, to, error })?);
            ends.push(to);
        }
        let schedule = Schedule::new(links.len());
        Ok(Self { links, ends, routes, schedule, unroutable: 0 })
    }

    /// Sends a packet from a node towards [`Packet::to`]. Returns whether the first link accepted it.
    pub fn offer(&mut self, now: Time, from: u32, packet: Packet<T>) -> bool {
        let Some(number) = self.routes.next(from, packet.to) else {
            self.unroutable += 1;
            return false;
        };
        self.with_link(number, |link| link.offer(now, packet)).unwrap_or(false)
    }

    /// Returns when [`poll`](Self::poll) is due next, or `None` while the network is empty.
    pub fn next_event(&self) -> Option<Time> {
        self.schedule.first().map(|(at, _)| at)
    }

    /// Advances the network to `now`, or to the next packet that reaches its destination before that. Call it until
    /// it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<Delivery<T>> {
        while let Some((due, number)) = self.schedule.first().filter(|(due, _)| *due <= now) {
            let Some((at, packet)) = self.with_link(number, |link| link.poll(due))? else { continue };
            let node = *self.ends.get(number as usize)?;
            if packet.to == node {
                return Some(Delivery { at, node, packet });
            }
            self.offer(at, node, packet);
        }
        None
    }

    /// Returns a link by its number.
    pub fn link(&self, number: u32) -> Option<&Link<T, H>> {
        self.links.get(number as usize)
    }

    /// Modifies a link and updates the schedule with its next event.
    pub fn with_link<R>(&mut self, number: u32, change: impl FnOnce(&mut Link<T, H>) -> R) -> Option<R> {
        let link = self.links.get_mut(number as usize)?;
        let result = change(link);
        self.schedule.set(number, link.next_event());
        Some(result)
    }

    /// Returns all links, in the order of their numbers.
    pub fn links(&self) -> &[Link<T, H>] {
        &self.links
    }

    /// Returns the number of packets dropped because no route leads to their destination.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }
}

#[cfg(test)]
mod tests;
