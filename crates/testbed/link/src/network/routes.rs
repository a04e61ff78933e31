//! Static routes: the link towards each node.

use std::collections::VecDeque;

use crate::topology::Topology;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Routes(Vec<Table>);

#[derive(Debug)]
enum Table {
    /// One link for all destinations: a host. This saves a table for each of thousands of hosts.
    Only(u32),
    Each(Box<[u32]>),
}

impl Routes {
    /// Computes routes of the fewest hops; ties go to the link with the lowest number.
    pub(crate) fn shortest(topology: &Topology) -> Self {
        let nodes = topology.nodes();
        let mut out = vec![Vec::new(); nodes];
        let mut into = vec![Vec::new(); nodes];
        for (number, edge) in topology.edges().iter().enumerate() {
            out[edge.from as usize].push(number as u32);
            into[edge.to as usize].push((edge.from, number as u32));
        }
        let table = |out: &Vec<u32>| match out.as_slice() {
            [] => Table::Only(NONE),
            [only] => Table::Only(*only),
            _ => Table::Each(vec![NONE; nodes].into()),
        };
        let mut routes = Self(out.iter().map(table).collect());
        for destination in 0..nodes {
            routes.towards(destination, &into);
        }
        routes
    }

    #[inline]
    pub(crate) fn next(&self, node: u32, destination: u32) -> Option<u32> {
        let link = match self.0.get(node as usize)? {
            Table::Only(link) => *link,
            Table::Each(links) => *links.get(destination as usize)?,
        };
        (link != NONE).then_some(link)
    }

    /// Sets the routes to one destination by breadth-first search backwards from it.
    fn towards(&mut self, destination: usize, into: &[Vec<(u32, u32)>]) {
        let mut reached = vec![false; into.len()];
        reached[destination] = true;
        let mut queue = VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            for &(from, link) in &into[node] {
                let from = from as usize;
                if core::mem::replace(&mut reached[from], true) {
                    continue;
                }
                if let Table::Each(links) = &mut self.0[from] {
                    links[destination] = link;
                }
                queue.push_back(from);
            }
        }
    }
}
