//! Logs of connections: a file each, `<id>_<client|server>.sqlog`, of the records of `longhaul-qlog`.
//!
//! Every segment that the socket takes or gives is logged as it passes; the rest is sampled. A thread writes: a disk
//! that does not keep up costs records (`events_dropped` says how many), never time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use longhaul_qlog::Role;
use longhaul_qlog::{Log, Reference, Start};
use longhaul_tcp::{Batch, ConnId, Connection, Destination, Endpoint, Tuple};
use longhaul_units::{Span, Time};

use crate::io::{Incoming, Io};
use writer::Records;

#[cfg(test)]
mod tests;
mod writer;

/// Metrics are logged no more often than this; changes of state always.
const SAMPLE_INTERVAL: Span = Span::from_millis(1);
/// What is buffered reaches the file after so long, if there is something to log.
const FLUSH_INTERVAL: Span = Span::from_millis(500);

/// Where logs go.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A file for each connection.
    Dir(PathBuf),
    /// One file: the first connection takes it.
    File(Arc<Mutex<Option<PathBuf>>>),
}

impl Place {
    /// The place of one more connection's log, if it gets one.
    fn take(&self) -> Option<Path> {
        match self {
            Self::Dir(dir) => Some(Path::In(dir.clone())),
            Self::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).take().map(Path::At),
        }
    }
}

/// Where one log goes.
#[derive(Debug)]
enum Path {
    /// Into this directory, under its own name.
    In(PathBuf),
    /// Into this file.
    At(PathBuf),
}

impl Path {
    fn of(&self, file_name: &str) -> PathBuf {
        match self {
            Self::In(dir) => dir.join(file_name),
            Self::At(file) => file.clone(),
        }
    }
}

/// The logs of an endpoint's connections.
#[derive(Debug, Default)]
pub(crate) struct Qlogs {
    list: Vec<Qlog>,
    /// There was one.
    used: bool,
}

impl Qlogs {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Begins the log of a connection of `endpoint`.
    pub(crate) fn add(&mut self, place: &Place, endpoint: &Endpoint, id: ConnId, ends: [SocketAddr; 2], role: Role) {
        let (Some(connection), Some(tuple)) = (endpoint.connection(id), endpoint.tuple(id)) else { return };
        let Some(path) = place.take() else { return };
        let info = connection.info(Io::now());
        self.used = true;
        let (at, wall_clock) = Io::clocks();
        let [local, remote] = ends;
        let start = Start {
            role,
            local,
            remote,
            segments_before: [info.segments_out, info.segments_in],
            at,
            epoch: at,
            reference: Reference::System(wall_clock),
            vantage_point: "longhaul".to_owned(),
            interval: SAMPLE_INTERVAL,
        };
        self.list.push(Qlog::new(id, tuple, path, start));
    }

    /// A batch has left.
    pub(crate) fn sent(&mut self, now: Time, destination: &Destination, batch: &Batch) {
        let Some(id) = destination.connection else { return };
        if let Some(qlog) = self.list.iter_mut().find(|qlog| qlog.id == id) {
            qlog.sent(now, batch);
        }
    }

    /// Datagrams have come.
    pub(crate) fn received(&mut self, now: Time, tuple: &Tuple, incoming: &Incoming<'_>) {
        // The newest first: an older connection between the same addresses may not be over to us.
        if let Some(qlog) = self.list.iter_mut().rev().find(|qlog| qlog.tuple == *tuple) {
            qlog.received(now, incoming);
        }
    }

    /// Logs what has changed, and ends the logs of connections that are over.
    pub(crate) fn sample(&mut self, now: Time, endpoint: &Endpoint) {
        self.list.retain_mut(|qlog| qlog.sample(now, endpoint.connection(qlog.id)));
    }
}

impl Drop for Qlogs {
    /// The process may end next: what was logged is written first.
    fn drop(&mut self) {
        self.list.clear();
        if self.used {
            writer::wait();
        }
    }
}

/// A connection's log under way, and what it has to be found by.
#[derive(Debug)]
struct Qlog {
    id: ConnId,
    tuple: Tuple,
    log: Log<Records>,
    flushed_at: Time,
}

impl Qlog {
    fn new(id: ConnId, tuple: Tuple, path: Path, start: Start) -> Self {
        let flushed_at = start.at;
        Self { id, tuple, log: Log::new(start, Records::to(path)), flushed_at }
    }

    fn sent(&mut self, now: Time, batch: &Batch) {
        for (segment, header) in batch.parts() {
            self.log.sent(now, header, header.len() + usize::from(segment.payload_len), batch.ecn.bits());
        }
    }

    fn received(&mut self, now: Time, incoming: &Incoming<'_>) {
        for datagram in incoming.data.chunks(incoming.stride.max(1)) {
            self.log.received(now, datagram, datagram.len(), incoming.ecn);
        }
    }

    /// Logs what has changed. Whether the connection, `None` once it is forgotten, may still change.
    fn sample(&mut self, now: Time, connection: Option<&Connection>) -> bool {
        let goes_on = connection.is_some_and(|connection| self.log.sample(now, connection, now));
        if now - self.flushed_at >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.log.sink_mut().hand_over();
        }
        goes_on
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        self.log.end(Io::now(), None);
        self.log.sink_mut().hand_over();
    }
}
