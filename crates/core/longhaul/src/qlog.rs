//! qlog files, one per connection: `<id>_<client|server>.sqlog`, with the records of `longhaul-qlog`.
//!
//! A log is an observer of its connection and contains every event. A separate thread writes the files. If the disk is
//! too slow, records are dropped and counted in `events_dropped`, and sending is never delayed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use longhaul_qlog::{Log, Reference, Role, Start};
use longhaul_tcp::{ConnectionEvent, Observer};
use longhaul_units::Time;

use crate::io::Io;
use crate::sync::Mutex;
use writer::Records;

#[cfg(test)]
mod tests;
mod writer;

/// Destination of the logs of a socket.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A directory, for one file per connection.
    Dir(PathBuf),
    /// A single file, which the first connection uses.
    File(Arc<Mutex<Option<PathBuf>>>),
}

impl Place {
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::File(Arc::new(Mutex::new(Some(path))))
    }

    /// Returns whether another connection can be logged.
    fn is_free(&self) -> bool {
        match self {
            Self::Dir(_) => true,
            Self::File(file) => file.lock().is_some(),
        }
    }

    /// Returns the path for the log of another connection, if it will be logged.
    fn take(&self, file_name: &str) -> Option<PathBuf> {
        match self {
            Self::Dir(dir) => Some(dir.join(file_name)),
            Self::File(file) => file.lock().take(),
        }
    }
}

/// Observer that writes the log of one connection.
#[derive(Debug)]
pub(crate) struct Qlog(Log<Records>);

impl Qlog {
    /// Creates the log of a connection between these addresses, the local one first. Nothing is written before the
    /// handshake has ended.
    pub(crate) fn new(place: &Place, [local, remote]: [SocketAddr; 2], is_client: bool) -> Option<Self> {
        if !place.is_free() {
            return None;
        }
        let (at, wall_clock) = Io::clocks();
        let start = Start {
            role: if is_client { Role::Client } else { Role::Server },
            local,
            remote,
            segments_before: [0; 2],
            at,
            epoch: at,
            reference: Reference::System(wall_clock),
            vantage_point: "longhaul".to_owned(),
        };
        Some(Self(Log::new(start, Records::to(place.clone(), at))))
    }
}

impl Observer for Qlog {
    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        self.0.log(now, event);
        self.0.sink_mut().output.submit_sometimes(now);
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        self.0.end();
    }
}
