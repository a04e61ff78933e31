//! Opening and accepting connections.

use std::net::SocketAddr;
use std::sync::Arc;

use longhaul_link::source::{ConnectionVector, Side};
use longhaul_units::Time;

use super::{Event, SessionId, Sim};
use crate::agent::Agent;
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::script::Script;
use crate::session::Role;
use crate::setup::SetupError;

/// Number of source ports per host, apart from its own.
const PORTS: u16 = 16_384;

#[derive(Debug)]
pub(super) struct Opening {
    from: u32,
    to: u32,
    pub(super) client: (Role, u32),
    pub(super) server: (Role, u32),
}

impl Sim {
    /// Makes the host at a node accept connections.
    pub fn listen(&mut self, node: usize) {
        let host = self.host_mut(node);
        let config = Arc::clone(&host.config);
        host.endpoint.listen(config);
    }

    /// Opens a connection from host 0 to host 1 with an application at each end. The second session exists once host
    /// 1 has accepted the connection.
    pub fn open(&mut self, client: Plan, server: Plan) -> (SessionId, SessionId) {
        self.open_between(0, 1, client, server)
    }

    /// Opens a connection between any two hosts, identified by their nodes. Two hosts may have many connections.
    ///
    /// # Panics
    /// Panics if there is no host at one of the nodes, or if there is no port left.
    pub fn open_between(&mut self, from: usize, to: usize, client: Plan, server: Plan) -> (SessionId, SessionId) {
        let (opening, ids) = self.plan_opening(from, to, (client, None), (server, None));
        self.open_now(opening).expect("a port is left");
        ids
    }

    /// Schedules a connection to be opened at a later time. The sessions exist after that time, unless the host [has no port
    /// left](Self::lacks_port).
    pub fn open_at(&mut self, at: Time, from: usize, to: usize, client: Plan, server: Plan) -> (SessionId, SessionId) {
        let (opening, ids) = self.plan_opening(from, to, (client, None), (server, None));
        self.waiting += 1;
        self.queue.add(at, Event::Open(Box::new(opening)));
        ids
    }

    /// Makes these agents exchange datagrams between two hosts in place of their endpoints.
    ///
    /// # Panics
    /// Panics if there is no host at one of the nodes.
    pub fn place_agents(&mut self, nodes: [usize; 2], agents: [Box<dyn Agent>; 2]) {
        self.flows += 1;
        let flow = self.flows;
        for (node, agent) in nodes.into_iter().zip(agents) {
            self.host_mut(node).agent = Some((agent, flow));
        }
    }

    /// Schedules a connection with this exchange: volumes, order and pauses.
    pub fn replay(&mut self, from: usize, to: usize, vector: &ConnectionVector) -> (SessionId, SessionId) {
        let (opening, ids) = self.plan_replay(from, to, vector);
        self.waiting += 1;
        self.queue.add(vector.start, Event::Open(Box::new(opening)));
        ids
    }

    pub(super) fn plan_replay(
        &mut self,
        from: usize,
        to: usize,
        vector: &ConnectionVector,
    ) -> (Opening, (SessionId, SessionId)) {
        let [client, server] = [Side::Initiator, Side::Acceptor].map(|side| {
            let (script, plan) = Script::of(vector, side);
            (plan.zeros(), Some(Box::new(script)))
        });
        self.plan_opening(from, to, client, server)
    }

    fn plan_opening(
        &mut self,
        from: usize,
        to: usize,
        client: (Plan, Option<Box<Script>>),
        server: (Plan, Option<Box<Script>>),
    ) -> (Opening, (SessionId, SessionId)) {
        let (from_place, to_place) = (self.place(from) as u32, self.place(to) as u32);
        let key = 2 * u64::from(self.flows);
        self.flows += 1;
        let (up, down) = (Pattern::new(key), Pattern::new(key + 1));
        let role = |is_client, (plan, script), writes, reads| {
            let role = Role::new(is_client, self.flows, plan, writes, reads);
            Role { script, ..role }
        };
        let (client, server) = (role(true, client, up, down), role(false, server, down, up));
        let number = self.sessions.len() as u32;
        self.sessions.extend([None, None]);
        let ids = (SessionId { host: from, number }, SessionId { host: to, number: number + 1 });
        let (client, server) = ((client, number), (server, number + 1));
        (Opening { from: from_place, to: to_place, client, server }, ids)
    }

    /// Returns an error that names the first host without a free port for a scheduled connection, if there is one. The
    /// sessions of that connection, and of all those scheduled later, never exist.
    pub fn lacks_port(&self) -> Option<SetupError> {
        self.without_port.map(|node| SetupError::NoPort { node })
    }

    /// Opens a scheduled connection, if there is a port. Returns the node from which it is opened.
    pub(super) fn open_planned(&mut self, opening: Opening) -> usize {
        self.waiting -= 1;
        let node = self.nodes[opening.from as usize] as usize;
        if self.without_port.is_none() && self.open_now(opening).is_none() {
            self.without_port = Some(node);
        }
        node
    }

    fn open_now(&mut self, opening: Opening) -> Option<()> {
        let Opening { from, to, client: (client, number), server } = opening;
        let peer = self.hosts[to as usize].address;
        let (index, source) = self.connect(from, peer, client)?;
        self.sessions[number as usize] = Some((from, index as u32));
        if self.qlogs.any_waits() {
            self.start_qlogs_between([(number, source), (server.1, peer)]);
        }
        // This replaces an earlier connection from the same address that was never accepted.
        if self.expected.insert((to, source), server).is_none() {
            self.waiting += 1;
        }
        self.settle_place(from);
        Some(())
    }

    /// Returns the index of the new session at its host, and the source address of its packets.
    fn connect(&mut self, from: u32, peer: SocketAddr, role: Role) -> Option<(usize, SocketAddr)> {
        for _ in 0..PORTS {
            let port = self.hosts[from as usize].next_port;
            self.hosts[from as usize].next_port = if port < PORTS { port + 1 } else { 1 };
            if let Some(opened) = self.connect_from(from, port, peer, &role) {
                return Some(opened);
            }
        }
        None
    }

    fn connect_from(&mut self, from: u32, port: u16, peer: SocketAddr, role: &Role) -> Option<(usize, SocketAddr)> {
        let now = self.now;
        let host = &mut self.hosts[from as usize];
        let (clock, config, tuple) = (host.clock(now), Arc::clone(&host.config), host.tuple_from(port, peer));
        let id = host.endpoint.connect(clock, tuple, config)?;
        let source = host.source(&tuple);
        Some((host.start(now, id, role.clone()), source))
    }

    /// Opens a connection between two hosts from the first one's own port, with an application only at the opening end.
    /// Returns `None` if this connection exists already.
    pub fn open_from(
        &mut self,
        from: usize,
        to: usize,
        plan: Plan,
        writes: Pattern,
        reads: Pattern,
    ) -> Option<SessionId> {
        let (place, peer) = (self.place(from) as u32, self.host(to).address);
        self.flows += 1;
        let role = Role::new(true, self.flows, plan, writes, reads);
        let (index, _) = self.connect_from(place, 0, peer, &role)?;
        let number = self.sessions.len() as u32;
        self.sessions.push(Some((place, index as u32)));
        self.settle_place(place);
        Some(SessionId { host: from, number })
    }

    /// Assigns an application to the next connection that the host at a node accepts and that has no application
    /// planned.
    pub fn expect(&mut self, node: usize, plan: Plan, writes: Pattern, reads: Pattern) {
        let place = self.place(node) as u32;
        let role = Role::new(false, 0, plan, writes, reads);
        self.any_expected.entry(place).or_default().push_back(role);
        self.waiting += 1;
    }

    pub(super) fn accept(&mut self, place: u32) {
        let host = &mut self.hosts[place as usize];
        while let Some(id) = host.endpoint.accept() {
            let tuple = host.endpoint.tuple(id);
            let known = tuple.and_then(|tuple| self.expected.remove(&(place, tuple.remote)));
            let any = || Some((self.any_expected.get_mut(&place)?.pop_front()?, u32::MAX));
            let Some((role, number)) = known.or_else(any) else {
                // No application is planned for this connection; its SYN may have been delayed.
                host.endpoint.release(host.clock(self.now), id);
                continue;
            };
            self.waiting -= 1;
            let index = host.start(self.now, id, role);
            if let Some(session) = self.sessions.get_mut(number as usize) {
                *session = Some((place, index as u32));
            }
        }
    }
}
