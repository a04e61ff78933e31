//! Event logs (qlog) in virtual time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;

use longhaul_qlog::{Log, Sequence, Start};
use longhaul_tcp::{Connection, ConnectionError};
use longhaul_units::Time;

use crate::packet::Packet;
use crate::sim::SessionId;
use crate::tap::{Sighting, Tap};

/// Handle of a log of one end of a connection, created by [`Sim::qlog`](crate::Sim::qlog). Logging continues after
/// the handle is dropped.
#[derive(Debug)]
pub struct Qlog<W>(Rc<RefCell<Watch<W>>>);

impl<W: Write + 'static> Qlog<W> {
    /// Creates a log that waits for its connection, and the simulation's reference to it.
    pub(crate) fn new(out: W) -> (Self, Rc<RefCell<dyn Watcher>>) {
        let watch = Watch { waits: Some(Sequence::new(out)), log: None, is_counted: false };
        let watch = Rc::new(RefCell::new(watch));
        (Self(Rc::clone(&watch)), watch)
    }

    /// Ends the log at its present state and returns the output.
    ///
    /// # Errors
    /// Returns the first error in writing.
    pub fn finish(self) -> io::Result<W> {
        let Watch { waits, log, .. } = &mut *self.0.borrow_mut();
        match log.as_mut().map(Log::sink_mut).or(waits.as_mut()) {
            Some(sequence) => sequence.finish(),
            None => Err(io::Error::other("the log has no output")),
        }
    }
}

/// A log, independent of the type of its output.
pub(crate) trait Watcher {
    /// Starts the log, when the addresses of its connection are known.
    fn begin(&mut self, start: Start);

    fn see(&mut self, now: Time, is_sent: bool, packet: &Packet);

    /// Logs the changes of its connection if the connection's state has changed.
    fn log_state(&mut self, now: Time, connection: &Connection, clock: Time);

    /// Logs the changes of its connection. Returns whether there may be further changes.
    fn sample(&mut self, now: Time, connection: &Connection, clock: Time) -> bool;

    /// Ends the log, when its connection no longer exists.
    fn end(&mut self, now: Time, error: Option<ConnectionError>);
}

#[derive(Debug)]
struct Watch<W> {
    /// The output, until the log has started.
    waits: Option<Sequence<W>>,
    log: Option<Log<Sequence<W>>>,
    /// Whether the number of segments before the start of the log is known.
    is_counted: bool,
}

impl<W: Write> Watcher for Watch<W> {
    fn begin(&mut self, start: Start) {
        if let Some(sequence) = self.waits.take() {
            self.log = Some(Log::new(start, sequence));
        }
    }

    fn see(&mut self, now: Time, is_sent: bool, packet: &Packet) {
        let Some(log) = &mut self.log else { return };
        let (len, ecn) = (packet.payload_len(), packet.ecn.bits());
        match is_sent {
            true => log.sent(now, &packet.payload, len, ecn),
            false => log.received(now, &packet.payload, len, ecn),
        }
    }

    fn log_state(&mut self, now: Time, connection: &Connection, clock: Time) {
        if self.log.as_ref().is_some_and(|log| log.state() != connection.state()) {
            self.sample(now, connection, clock);
        }
    }

    fn sample(&mut self, now: Time, connection: &Connection, clock: Time) -> bool {
        let Some(log) = &mut self.log else { return true };
        if !self.is_counted {
            self.is_counted = true;
            let (info, [sent, received]) = (connection.info(clock), log.segments());
            let before = [info.segments_out.saturating_sub(sent), info.segments_in.saturating_sub(received)];
            log.set_segments_before(before);
        }
        log.sample(now, connection, clock)
    }

    fn end(&mut self, now: Time, error: Option<ConnectionError>) {
        if let Some(log) = &mut self.log {
            log.end(now, error);
            log.sink_mut().flush();
        }
    }
}

/// The logs of a simulation.
#[derive(Default)]
pub(crate) struct Qlogs {
    list: Vec<Entry>,
    by_ends: Rc<RefCell<ByEnds>>,
    /// Number of logs whose connections have not been opened yet.
    waiting: usize,
}

/// A log with its session and, once known, the addresses of its connection.
pub(crate) struct Entry {
    pub(crate) session: SessionId,
    pub(crate) watcher: Rc<RefCell<dyn Watcher>>,
    ends: Option<[SocketAddr; 2]>,
}

impl Qlogs {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether a log waits for its connection to be opened.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting > 0
    }

    /// Returns a tap that passes segments to the logs of their connections.
    pub(crate) fn tap(&self) -> impl Tap + 'static {
        Rc::clone(&self.by_ends)
    }

    /// Adds a log, and returns its number.
    pub(crate) fn add(&mut self, session: SessionId, watcher: Rc<RefCell<dyn Watcher>>) -> u32 {
        self.list.push(Entry { session, watcher, ends: None });
        self.waiting += 1;
        self.list.len() as u32 - 1
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Entry> {
        self.list.get(number as usize)
    }

    /// Returns the logs that wait for a session.
    pub(crate) fn waiting_for(&self, is_session: impl Fn(SessionId) -> bool) -> Vec<u32> {
        let entries = (0..).zip(&self.list);
        entries.filter(|(_, entry)| entry.ends.is_none() && is_session(entry.session)).map(|(n, _)| n).collect()
    }

    pub(crate) fn begin(&mut self, number: u32, start: Start) {
        let Some(entry) = self.list.get_mut(number as usize).filter(|entry| entry.ends.is_none()) else { return };
        let ends = [start.local, start.remote];
        entry.ends = Some(ends);
        entry.watcher.borrow_mut().begin(start);
        self.by_ends.borrow_mut().0.entry(ends).or_default().push(Rc::clone(&entry.watcher));
        self.waiting -= 1;
    }

    /// Stops logging the segments of a connection that has ended.
    pub(crate) fn end(&mut self, number: u32) {
        let Some(entry) = self.list.get(number as usize) else { return };
        let Some(ends) = entry.ends else { return };
        let by_ends = &mut self.by_ends.borrow_mut().0;
        if let Some(watchers) = by_ends.get_mut(&ends) {
            watchers.retain(|watcher| !Rc::ptr_eq(watcher, &entry.watcher));
            if watchers.is_empty() {
                by_ends.remove(&ends);
            }
        }
    }
}

/// Logs by the addresses of their connections, that of the logging end first.
#[derive(Default)]
struct ByEnds(HashMap<[SocketAddr; 2], Vec<Rc<RefCell<dyn Watcher>>>>);

impl Tap for ByEnds {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let (is_sent, ends) = match sighting {
            Sighting::Sent(_) => (true, [packet.from, packet.to]),
            Sighting::Received(_) => (false, [packet.to, packet.from]),
            Sighting::Injected(_) => return,
        };
        for watcher in self.0.get(&ends).into_iter().flatten() {
            watcher.borrow_mut().see(now, is_sent, packet);
        }
    }
}
