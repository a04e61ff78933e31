//! qlog files of connections, one each: `<id>_<client|server>.sqlog`, with the records of `longhaul-qlog`.
//!
//! Every segment is logged when it passes the socket; everything else is sampled. A separate thread writes the files.
//! If the disk is too slow, records are dropped and counted in `events_dropped`, and sending is never delayed.

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

/// Minimum interval between samples of metrics. Changes of state are always logged.
const SAMPLE_INTERVAL: Span = Span::from_millis(1);
/// Interval at which buffered records are passed to the writing thread, as long as there is something to log.
const FLUSH_INTERVAL: Span = Span::from_millis(500);

/// Destination of the logs of a socket.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A directory, for one file per connection.
    Dir(PathBuf),
    /// A single file, which the first connection takes.
    File(Arc<Mutex<Option<PathBuf>>>),
}

impl Place {
    /// Returns the destination of another connection's log, if it is to be logged.
    fn take(&self) -> Option<Path> {
        match self {
            Self::Dir(dir) => Some(Path::In(dir.clone())),
            Self::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).take().map(Path::At),
        }
    }
}

/// Destination of one log.
#[derive(Debug)]
enum Path {
    /// A file in this directory, named after the connection.
    In(PathBuf),
    /// This file.
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
    /// Whether there has ever been a log.
    used: bool,
}

impl Qlogs {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Starts the log of a connection of `endpoint`.
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

    /// Records a batch that was sent.
    pub(crate) fn sent(&mut self, now: Time, destination: &Destination, batch: &Batch) {
        let Some(id) = destination.connection else { return };
        if let Some(qlog) = self.list.iter_mut().find(|qlog| qlog.id == id) {
            qlog.sent(now, batch);
        }
    }

    /// Records datagrams that were received.
    pub(crate) fn received(&mut self, now: Time, tuple: &Tuple, incoming: &Incoming<'_>) {
        // The latest connection comes first, because an older one between the same addresses may not have ended here
        // yet.
        if let Some(qlog) = self.list.iter_mut().rev().find(|qlog| qlog.tuple == *tuple) {
            qlog.received(now, incoming);
        }
    }

    /// Logs what has changed, and ends the logs of connections that are closed.
    pub(crate) fn sample(&mut self, now: Time, endpoint: &Endpoint) {
        self.list.retain_mut(|qlog| qlog.sample(now, endpoint.connection(qlog.id)));
    }
}

impl Drop for Qlogs {
    /// Waits until the logs are written, because the process may exit next.
    fn drop(&mut self) {
        self.list.clear();
        if self.used {
            writer::wait();
        }
    }
}

/// The log of one connection, with the keys to find it.
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

    /// Logs what has changed. Returns whether the connection, `None` once it has been removed, may still change.
    fn sample(&mut self, now: Time, connection: Option<&Connection>) -> bool {
        let goes_on = connection.is_some_and(|connection| self.log.sample(now, connection, now));
        if now - self.flushed_at >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.log.sink_mut().submit();
        }
        goes_on
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        self.log.end(Io::now(), None);
        self.log.sink_mut().submit();
    }
}
