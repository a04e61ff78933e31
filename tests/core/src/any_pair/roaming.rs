//! A client whose address changes during the transfer, and that changes between addresses of the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use longhaul_link::Random;
use longhaul_sim::{Nat, SessionId, Sim};
use longhaul_tcp::{Mobility, MoveTags, State, Tuple};
use longhaul_units::{Span, Time};

/// Maximum number of changes, after which the transfer ends over the last path.
const MOST: u32 = 12;

/// Number of addresses of the server.
const SERVERS: u64 = 3;

/// Tags that depend on each bit of a message, for simulations without attackers.
#[derive(Debug)]
struct Tags;

impl MoveTags for Tags {
    fn client(&self, message: &[u8]) -> [u8; 8] {
        let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        message.iter().fold(0xcbf2_9ce4_8422_2325, fold).to_be_bytes()
    }

    fn server(&self, message: &[u8]) -> [u8; 8] {
        self.client(message).map(|byte| !byte)
    }
}

/// Changes of the addresses: of the client's, by itself or by a NAT, and of the server's that the client uses.
#[derive(Debug)]
pub(super) struct Roaming {
    random: Random,
    nat: Nat,
    is_set: bool,
    changes: u32,
    next: Time,
}

impl Roaming {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 77);
        let lifetime = Span::from_millis(500 + random.below(30_000));
        Self { random, nat: Nat::new(outside(0), lifetime), is_set: false, changes: 0, next: Time::ZERO }
    }

    /// Lets the connection move once it exists at both ends, and then changes the address now and then.
    pub(super) fn act(&mut self, sim: &mut Sim, ids: (SessionId, SessionId)) {
        if !self.is_set {
            self.is_set = self.set(sim, ids);
            return;
        }
        if sim.now() < self.next || self.changes == MOST {
            return;
        }
        self.changes += 1;
        self.next = sim.now() + Span::from_millis(100 + self.random.below(3000));
        let (here, other) = (sim.host(0).address, outside(self.random.below(20) as u8));
        match self.random.below(4) {
            0 => self.nat.restart(other),
            1 => self.relocate(sim, ids.0, here),
            2 => {
                // The NAT may keep its outer address while the inner one changes.
                let number = 1 + self.random.below(200) as u8;
                self.relocate(sim, ids.0, SocketAddr::from(([10, 7, 0, number], 7001)));
            }
            _ => {
                let port = 1024 + self.random.below(60_000) as u16;
                self.relocate(sim, ids.0, SocketAddr::new(here.ip(), port));
                self.nat.restart(other);
            }
        }
    }

    /// Lets the client continue at `to`, with any address of the server.
    fn relocate(&mut self, sim: &mut Sim, id: SessionId, to: SocketAddr) {
        let (connection, now) = (sim.session(id).id, sim.now());
        let mut remote = sim.host(1).address;
        remote.set_port(remote.port() + self.random.below(SERVERS) as u16);
        let host = sim.host_mut(0);
        let (clock, former) = (host.clock(now), host.endpoint.tuple(connection));
        let moves = former.is_some_and(|tuple| host.endpoint.relocate(clock, connection, Tuple { remote, ..tuple }));
        if moves {
            host.address = to;
        }
        sim.settle(0);
    }

    fn set(&mut self, sim: &mut Sim, (client, server): (SessionId, SessionId)) -> bool {
        let Some(second) = sim.find(server) else { return false };
        let connections = [sim.session(client).id, second.id];
        let is_open =
            |node: usize| sim.host(node).endpoint.state(connections[node]).is_some_and(State::is_synchronized);
        if !is_open(0) || !is_open(1) {
            return false;
        }
        for (node, connection) in connections.into_iter().enumerate() {
            let mobility = Mobility { number: [9; 8], is_client: node == 0, tags: Arc::new(Tags) };
            assert!(sim.host_mut(node).endpoint.set_mobility(connection, mobility), "an open connection can move");
        }
        // The NAT is put on the path of the open connection, and so is its first change.
        let [out, back] = self.nat.hooks();
        sim.set_hook(0, out);
        sim.set_hook(1, back);
        true
    }
}

fn outside(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, 100 + number])
}
