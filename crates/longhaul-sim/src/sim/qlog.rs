//! Event logs: when they start, and when they sample their connections.

use std::io::Write;
use std::net::SocketAddr;

use longhaul_qlog::{Reference, Role, Start};
use longhaul_units::{Span, Time};

use super::{Follower, SessionId, Sim};
use crate::qlog::Qlog;

impl Sim {
    /// Writes the events at one end of a connection to `out` as qlog (see [`longhaul_qlog`]): every segment, losses,
    /// windows and RTTs. Times are those of the simulation. If the connection is opened later, it is logged from its
    /// first segment on; otherwise, from now on.
    ///
    /// Nothing is written until the handshake is complete or has failed. Runs with the same seed produce the same
    /// log, byte for byte. An error of `out` ends the log; [`Qlog::finish`] returns it.
    ///
    /// # Panics
    /// Panics if the host of `session` does not belong to this simulation.
    pub fn qlog<W: Write + 'static>(&mut self, session: SessionId, out: W) -> Qlog<W> {
        if self.qlogs.is_empty() {
            let tap = self.qlogs.tap();
            self.add_tap(tap);
        }
        let (handle, watcher) = Qlog::new(out);
        let number = self.qlogs.add(session, watcher);
        if let Some((role, ends)) = self.ends(session) {
            self.begin_qlog(number, role, ends);
        }
        if self.sample_qlog(number) {
            self.add_follower(session.host, Follower::Qlog(number));
        }
        handle
    }

    /// Starts the logs of a connection about to be opened. The arguments are session number and address of client and
    /// server.
    pub(super) fn begin_qlogs_between(&mut self, [client, server]: [(u32, SocketAddr); 2]) {
        let ends = [(client, Role::Client, server.1), (server, Role::Server, client.1)];
        for ((session, local), role, remote) in ends {
            for log in self.qlogs.waiting_for(|id| id.number == session) {
                self.begin_qlog(log, role, [local, remote]);
            }
        }
    }

    fn begin_qlog(&mut self, number: u32, role: Role, [local, remote]: [SocketAddr; 2]) {
        let Some(entry) = self.qlogs.get(number) else { return };
        let start = Start {
            role,
            local,
            remote,
            segments_before: [0; 2],
            at: self.now,
            epoch: Time::ZERO,
            reference: Reference::Monotonic,
            vantage_point: format!("node {}", entry.session.host),
            interval: Span::ZERO,
        };
        self.qlogs.begin(number, start);
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

    /// Logs state changes after a host's endpoint has acted and before its applications do, because they may change
    /// the state again or release the connection.
    pub(super) fn log_states(&mut self, place: u32) {
        for &(host, follower) in &self.followers {
            let Follower::Qlog(number) = follower else { continue };
            if host != place {
                continue;
            }
            let Some(entry) = self.qlogs.get(number) else { continue };
            let Some(session) = self.find(entry.session) else { continue };
            let host = self.host(entry.session.host);
            if let Some(connection) = host.endpoint.connection(session.id) {
                entry.watcher.borrow_mut().log_state(self.now, connection, host.clock(self.now));
            }
        }
    }

    /// Logs changes after an event at the host of a log. Returns whether there is more to log.
    pub(super) fn sample_qlog(&mut self, number: u32) -> bool {
        let Some(entry) = self.qlogs.get(number) else { return false };
        let Some(session) = self.find(entry.session) else { return true };
        let host = self.host(entry.session.host);
        let connection = host.endpoint.connection(session.id);
        let mut watcher = entry.watcher.borrow_mut();
        let goes_on = connection.is_some_and(|c| watcher.sample(self.now, c, host.clock(self.now)));
        if !goes_on {
            watcher.end(self.now, session.error);
        }
        drop(watcher);
        if !goes_on {
            self.qlogs.end(number);
        }
        goes_on
    }
}
