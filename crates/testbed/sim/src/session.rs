//! Application at one end of a connection.

use bytes::Bytes;
use longhaul_tcp::{Blocked, ConnId, Connection, ConnectionError, Info, State};
use longhaul_units::Time;

use crate::pattern::Pattern;
use crate::plan::{Close, Content, Plan};
use crate::script::Script;
use crate::sim::Guest;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Follows its [`Plan`] and records its progress.
#[derive(Debug)]
pub struct Session {
    /// Connection of the session.
    pub id: ConnId,
    /// Whether the application opened the connection.
    pub is_client: bool,
    /// Plan of the application.
    pub plan: Plan,
    /// The stream that the application writes.
    pub writes: Pattern,
    /// The stream that the application expects to read.
    pub reads: Pattern,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read so far.
    pub read: u64,
    /// Whether the application has read the end of the peer's stream.
    pub ended: bool,
    /// Whether all bytes read so far are those that the peer wrote.
    pub intact: bool,
    /// The error of the connection.
    pub error: Option<ConnectionError>,
    /// Whether the application has released the connection.
    pub released: bool,
    /// Flow number in the packets of its connection, in both directions; 0 if it was accepted without a plan.
    pub flow: u32,
    /// Time at which the connection was opened or accepted, by its host's clock.
    pub opened_at: Time,
    /// Time at which the connection was established.
    pub established_at: Option<Time>,
    /// Time at which the application last read data.
    pub read_at: Option<Time>,
    /// Time at which the application released the connection.
    pub released_at: Option<Time>,
    /// State of the connection when it was released. `None` for sessions of a [client population](crate::Sim::add_population).
    pub last: Option<Box<Info>>,
    /// Time of the application's next action if nothing happens before.
    pub(crate) wakes: Option<Time>,
    /// Whether the connection has had an event that the application has not handled yet.
    pub(crate) called: bool,
    shut: bool,
    write_again: Time,
    read_again: Time,
    script: Option<Box<Script>>,
    pub(crate) guest: Option<Box<Guest>>,
}

impl Session {
    pub(crate) fn new(now: Time, id: ConnId, role: Role) -> Self {
        let Role { is_client, flow, plan, writes, reads, script, guest } = role;
        Self {
            id,
            is_client,
            plan,
            writes,
            reads,
            written: 0,
            read: 0,
            ended: false,
            intact: true,
            error: None,
            released: false,
            flow,
            opened_at: now,
            established_at: None,
            read_at: None,
            released_at: None,
            last: None,
            wakes: None,
            called: false,
            shut: false,
            write_again: Time::ZERO,
            read_again: plan.read_from,
            script,
            guest,
        }
    }

    /// Returns whether the application wrote everything, read to the end, and met no error.
    pub fn ended_well(&self) -> bool {
        self.intact && self.error.is_none() && self.written == self.plan.send && self.ended
    }

    /// Performs all possible actions. Returns the latest time at which to call it again, and whether the connection can
    /// be released.
    pub(crate) fn run(&mut self, now: Time, connection: &mut Connection) -> (Option<Time>, bool) {
        if self.plan.abort_at.is_some_and(|at| at <= now) {
            connection.abort();
        }
        if self.established_at.is_none() && connection.state().is_synchronized() {
            self.established_at = Some(now);
            if let Some(script) = &mut self.script {
                script.begin(now);
            }
        }
        // Read, then write; close when the plan says so.
        self.read_on(now, connection);
        let stops = self.stop(now);
        let goes_on = self.write_on(now, connection);
        if let Some(guest) = self.guest.as_mut().filter(|_| self.established_at.is_some()) {
            guest.look(now, self.written, self.read);
        }
        let sent = self.written == self.plan.send;
        let close = match self.plan.close {
            Close::AfterWriting => sent,
            Close::AfterEnd => sent && self.ended,
            Close::AfterReading(bytes) => sent && self.read >= bytes,
            Close::Never => false,
        };
        // Closing before the handshake is complete would abort the connection (RFC 9293, section 3.10.4).
        if close && !self.shut && connection.state() != State::SynSent {
            self.shut = true;
            connection.shutdown();
        }
        self.error = self.error.or(connection.status().error());
        let done = self.error.is_some() || (self.shut && (self.ended || self.plan.leave_early));
        let times = [Some(self.write_again), Some(self.read_again), stops, goes_on, self.plan.abort_at];
        (times.into_iter().flatten().filter(|at| *at > now).min(), done)
    }

    fn stop(&mut self, now: Time) -> Option<Time> {
        let at = self.established_at? + self.plan.stop_after?;
        if at <= now {
            (self.plan.send, self.plan.stop_after) = (self.written, None);
            return None;
        }
        Some(at)
    }

    fn read_on(&mut self, now: Time, connection: &mut Connection) {
        while !self.ended && self.read_again <= now {
            match connection.read(self.plan.read_chunk) {
                Ok(data) if data.is_empty() => self.ended = true,
                Ok(data) => {
                    if self.plan.content == Content::Pattern {
                        self.intact &= self.reads.matches(self.read, &data);
                    }
                    self.read += data.len() as u64;
                    self.read_at = Some(now);
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

    /// Returns how many bytes it may have written by now, and the time at which to call again.
    fn allowance(&mut self, now: Time) -> (u64, Option<Time>) {
        if let Some(script) = &mut self.script {
            return script.allows(now, self.written, self.read);
        }
        let allowed = self.plan.may_have_written(self.read, self.ended);
        if self.plan.on_off.is_none() {
            return (allowed, None);
        }
        let Some(since) = self.established_at else { return (0, None) };
        let (is_on, until) = self.plan.is_on(now - since);
        (if is_on { allowed } else { 0 }, until.map(|span| since + span))
    }

    /// Writes as much as it may. Returns when it may continue, if that depends only on time.
    fn write_on(&mut self, now: Time, connection: &mut Connection) -> Option<Time> {
        loop {
            let (allowed, again) = self.allowance(now);
            if self.write_again > now || allowed <= self.written {
                return again;
            }
            let allowed = usize::try_from(allowed - self.written).unwrap_or(usize::MAX);
            let chunk = self.plan.write_chunk.min(allowed);
            let result = match self.plan.content {
                Content::Pattern => self.write_pattern(chunk, connection),
                Content::Zeros => {
                    connection.writer().write_bytes(&mut Bytes::from_static(ZEROS.get(..chunk).unwrap_or(&ZEROS)))
                }
            };
            let Ok(taken) = result else { return again };
            self.written += taken as u64;
            self.write_again = now + self.plan.write_pause;
            if let Some(script) = &mut self.script {
                script.wrote(now, self.written);
            }
            if taken == 0 {
                return again;
            }
        }
    }

    fn write_pattern(&self, chunk: usize, connection: &mut Connection) -> Result<usize, Blocked> {
        let mut buffer = [0; 4096];
        let room = connection.status().writable();
        let len = chunk.min(buffer.len()).min(room.max(1));
        let part = &mut buffer[..len];
        self.writes.fill(self.written, part);
        connection.write(part)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) is_client: bool,
    pub(crate) flow: u32,
    pub(crate) plan: Plan,
    pub(crate) writes: Pattern,
    pub(crate) reads: Pattern,
    pub(crate) script: Option<Box<Script>>,
    pub(crate) guest: Option<Box<Guest>>,
}

impl Role {
    pub(crate) fn new(is_client: bool, flow: u32, plan: Plan, writes: Pattern, reads: Pattern) -> Self {
        Self { is_client, flow, plan, writes, reads, script: None, guest: None }
    }
}
