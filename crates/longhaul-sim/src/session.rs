//! An application at one end of a connection.

use longhaul_tcp::{Blocked, ConnId, Connection, ConnectionError, State};
use longhaul_units::Time;

use crate::pattern::Pattern;
use crate::plan::{Close, Plan};

/// Follows its [`Plan`], and knows what it has seen.
#[derive(Debug)]
pub struct Session {
    /// Its connection.
    pub id: ConnId,
    /// What it does.
    pub plan: Plan,
    /// What it writes.
    pub writes: Pattern,
    /// What it should read.
    pub reads: Pattern,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
    /// The end of the peer's stream was read.
    pub ended: bool,
    /// Everything it read was what the peer wrote.
    pub intact: bool,
    /// The error it met.
    pub error: Option<ConnectionError>,
    /// It has let go of the connection.
    pub released: bool,
    shut: bool,
    write_again: Time,
    read_again: Time,
}

impl Session {
    pub(crate) fn new(id: ConnId, plan: Plan, writes: Pattern, reads: Pattern) -> Self {
        Self {
            id,
            plan,
            writes,
            reads,
            written: 0,
            read: 0,
            ended: false,
            intact: true,
            error: None,
            released: false,
            shut: false,
            write_again: Time::ZERO,
            read_again: plan.read_from,
        }
    }

    /// It wrote all it wanted, read to the end, and met no error.
    #[must_use]
    pub fn ended_well(&self) -> bool {
        self.intact && self.error.is_none() && self.written == self.plan.send && self.ended
    }

    /// Does what can be done now. When to be called again at the latest, and whether the connection can be let go.
    pub(crate) fn run(&mut self, now: Time, connection: &mut Connection) -> (Option<Time>, bool) {
        if self.plan.abort_at.is_some_and(|at| at <= now) {
            connection.abort();
        }
        self.read_on(now, connection);
        self.write_on(now, connection);
        let sent = self.written == self.plan.send;
        let close = match self.plan.close {
            Close::AfterWriting => sent,
            Close::AfterEnd => sent && self.ended,
            Close::Never => false,
        };
        // Before the handshake is over, closing would mean giving up (RFC 9293, section 3.10.4).
        if close && !self.shut && connection.state() != State::SynSent {
            self.shut = true;
            connection.shutdown();
        }
        self.error = self.error.or(connection.error());
        let done = self.error.is_some() || (self.shut && (self.ended || self.plan.leave_early));
        let pauses = [self.write_again, self.read_again].into_iter().chain(self.plan.abort_at);
        (pauses.filter(|at| *at > now).min(), done)
    }

    fn read_on(&mut self, now: Time, connection: &mut Connection) {
        while !self.ended && self.read_again <= now {
            match connection.read(self.plan.read_chunk) {
                Ok(data) if data.is_empty() => self.ended = true,
                Ok(data) => {
                    self.intact &= self.reads.matches(self.read, &data);
                    self.read += data.len() as u64;
                    self.read_again = now + self.plan.read_pause;
                }
                Err(Blocked::Failed(error)) => {
                    self.error = Some(error);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    fn write_on(&mut self, now: Time, connection: &mut Connection) {
        let mut buffer = [0; 4096];
        while self.write_again <= now {
            let allowed = self.plan.may_have_written(self.read, self.ended).saturating_sub(self.written);
            let chunk = self.plan.write_chunk.min(buffer.len()).min(usize::try_from(allowed).unwrap_or(usize::MAX));
            let Some(part) = buffer.get_mut(..chunk).filter(|part| !part.is_empty()) else { return };
            self.writes.fill(self.written, part);
            match connection.write(part) {
                Ok(taken) => {
                    self.written += taken as u64;
                    self.write_again = now + self.plan.write_pause;
                }
                Err(_) => return,
            }
        }
    }
}
