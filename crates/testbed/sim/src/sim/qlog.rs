//! Event logs of connections.

use std::io::Write;
use std::net::SocketAddr;

use longhaul_qlog::{Reference, Role, Start};
use longhaul_tcp::ConnId;
use longhaul_units::Time;

use super::{SessionId, Sim};
use crate::qlog::{Qlog, SharedLog};

impl Sim {
    /// Writes the events at one end of a connection to `out` as qlog (see [`longhaul_qlog`]): every segment, losses,
    /// windows and RTTs. Times are those of the simulation. If the connection is opened later, it is logged from its
    /// first segment; otherwise, from now on.
    ///
    /// Nothing is written until the handshake is complete or has failed. Runs with the same seed produce the same
    /// log, byte for byte. An error of `out` ends the log; [`Qlog::finish`] returns it.
    ///
    /// # Panics
    /// Panics if the host of `session` does not belong to this simulation.
    pub fn qlog<W: Write + Send + 'static>(&mut self, session: SessionId, out: W) -> Qlog<W> {
        let (handle, log) = Qlog::new(out);
        match self.ends(session) {
            Some((role, ends)) => {
                let connection = self.connection_of(session, ends);
                self.start_qlog(session.host, connection, role, ends, log);
            }
            None => self.qlogs.wait(session, log),
        }
        handle
    }

    /// Starts the logs of a connection that was just opened. The arguments are session number and address of client
    /// and server.
    pub(super) fn start_qlogs_between(&mut self, [client, server]: [(u32, SocketAddr); 2]) {
        let ends = [(client, Role::Client, server.1), (server, Role::Server, client.1)];
        for ((session, local), role, remote) in ends {
            for (id, log) in self.qlogs.take(|id| id.number == session) {
                let connection = self.find(id).map(|session| session.id);
                self.start_qlog(id.host, connection, role, [local, remote], log);
            }
        }
    }

    fn start_qlog(
        &mut self,
        node: usize,
        connection: Option<ConnId>,
        role: Role,
        [local, remote]: [SocketAddr; 2],
        log: SharedLog,
    ) {
        let (now, place) = (self.now, self.place(node));
        let host = &mut self.hosts[place];
        let clock = host.clock(now);
        let info = connection.and_then(|id| host.endpoint.connection(id)).map(|connection| connection.info(clock));
        log.start(Start {
            role,
            local,
            remote,
            segments_before: info.map_or([0; 2], |info| [info.segments_out, info.segments_in]),
            at: now,
            epoch: Time::ZERO,
            reference: Reference::Monotonic,
            vantage_point: format!("node {node}"),
        });
        match connection {
            Some(id) => {
                host.endpoint.observe(clock, id, log.observer(host.clock_ahead));
            }
            None => {
                let incoming = self.qlogs.expect(place as u32, host.clock_ahead, remote, log);
                host.endpoint.observe_incoming(Some(Box::new(incoming)));
            }
        }
    }

    /// Returns the role and the addresses of a session's connection, the session's own address first.
    fn ends(&self, id: SessionId) -> Option<(Role, [SocketAddr; 2])> {
        if let Some(session) = self.find(id) {
            let host = self.host(id.host);
            let tuple = host.endpoint.tuple(session.id)?;
            let role = if session.is_client { Role::Client } else { Role::Server };
            return Some((role, [host.source(&tuple), tuple.remote]));
        }
        let (place, remote) = self.expected.iter().find(|(_, (_, number))| *number == id.number)?.0;
        Some((Role::Server, [self.hosts.get(*place as usize)?.address, *remote]))
    }

    /// Returns the connection of a session, or the connection in the handshake if it is not accepted yet.
    fn connection_of(&mut self, id: SessionId, [_, remote]: [SocketAddr; 2]) -> Option<ConnId> {
        if let Some(session) = self.find(id) {
            return Some(session.id);
        }
        let host = self.host_mut(id.host);
        let tuple = host.tuple(remote);
        host.endpoint.find(&tuple)
    }
}
