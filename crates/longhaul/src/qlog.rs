//! Logs of connections in qlog's sequential form (draft-ietf-quic-qlog-main-schema): a JSON text sequence (RFC 7464),
//! one file a connection, `<id>_<client|server>.sqlog`.
//!
//! qlog has no schema for TCP: the events are of a namespace of our own, `tcp`, with the names and units of qlog's
//! QUIC events where those exist: times are milliseconds, `pacing_rate` and `delivery_rate` bits per second, windows
//! bytes. Both sides' files of a connection have the same id: the client's and the server's initial sequence number.
//!
//! Every segment that the socket takes or gives is logged as it passes; the rest is sampled. A thread writes: a disk
//! that does not keep up costs records (`events_dropped` says how many), never time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_tcp::{Batch, ConnId, Connection, ConnectionError, Destination, Endpoint, Info, State, Tuple};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec};
use serde::Serialize;
use serde_json::{Value, json};

use crate::info::LimitedBy;
use crate::io::{Incoming, Io};
use metrics::Metrics;
use segment::{Segment, Sent};
use writer::Log;

mod date;
mod metrics;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

/// Names the schema of the events: a private one is named by a web address of its owner, and month and year.
const SCHEMA: &str = "https://github.com/longhaul-rs/longhaul/112026/qlog/tcp";
/// Metrics are logged no more often than this; changes of state always.
const SAMPLE_INTERVAL: Span = Span::from_millis(1);
/// What is buffered reaches the file after so long, if there is something to log.
const FLUSH_INTERVAL: Span = Span::from_millis(500);

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

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

#[derive(Debug)]
enum Path {
    In(PathBuf),
    At(PathBuf),
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
        self.list.push(Qlog::new(id, role, path, tuple, ends, [info.segments_out, info.segments_in]));
    }

    /// A batch has left.
    pub(crate) fn sent(&mut self, now: Time, destination: &Destination, batch: &Batch, ecn: u8) {
        let Some(id) = destination.connection else { return };
        if let Some(qlog) = self.list.iter_mut().find(|qlog| qlog.id == id) {
            qlog.sent(now, batch, ecn);
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

/// A connection's log under way. The file begins once the handshake is over, for only then its name is known.
#[derive(Debug)]
struct Qlog {
    id: ConnId,
    role: Role,
    path: Path,
    tuple: Tuple,
    local: SocketAddr,
    peer: SocketAddr,
    /// Segments sent and received before the log began.
    before: [u64; 2],
    /// The moment that times count from, by our clock and by the wall clock.
    epoch: (Time, Duration),
    log: Log,
    state: State,
    congestion: Option<String>,
    metrics: Metrics,
    limited: LimitedBy,
    losses: Losses,
    sent: Sent,
    error: Option<ConnectionError>,
    logged_at: Time,
    sampled_at: Time,
    flushed_at: Time,
}

/// Counters of loss, as last logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    bytes: u64,
    timeouts: u64,
    spurious: u64,
}

#[derive(Serialize)]
struct Event<D> {
    time: f64,
    name: Name,
    data: D,
}

struct Name(&'static str);

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("tcp:{}", self.0))
    }
}

impl Qlog {
    fn new(id: ConnId, role: Role, path: Path, tuple: Tuple, ends: [SocketAddr; 2], before: [u64; 2]) -> Self {
        let epoch = Io::clocks();
        let state = if role == Role::Client { State::SynSent } else { State::SynReceived };
        let [local, peer] = ends;
        Self {
            id,
            role,
            path,
            tuple,
            local,
            peer,
            before,
            epoch,
            log: Log::default(),
            state,
            congestion: None,
            metrics: Metrics::default(),
            limited: LimitedBy::default(),
            losses: Losses::default(),
            sent: Sent::default(),
            error: None,
            logged_at: epoch.0,
            sampled_at: Time::ZERO,
            flushed_at: epoch.0,
        }
    }

    fn sent(&mut self, now: Time, batch: &Batch, ecn: u8) {
        let mut headers = batch.headers.as_slice();
        for segment in &batch.segments {
            let (bytes, rest) = headers.split_at(usize::from(segment.header_len).min(headers.len()));
            headers = rest;
            let Ok((header, offset)) = CheshireCodec::parse(bytes) else { continue };
            let payload = usize::from(segment.payload_len);
            let repeats = self.sent.repeats(&header, payload);
            let segment = Segment::new(&header, offset, payload, ecn).retransmitted(repeats);
            self.event(now, "segment_sent", segment);
        }
    }

    fn received(&mut self, now: Time, incoming: &Incoming<'_>) {
        for datagram in incoming.data.chunks(incoming.stride.max(1)) {
            match CheshireCodec::parse(datagram) {
                Ok((header, offset)) => {
                    let payload = datagram.len().saturating_sub(offset);
                    self.event(now, "segment_received", Segment::new(&header, offset, payload, incoming.ecn));
                }
                Err(error) => {
                    let data =
                        json!({ "length": datagram.len(), "trigger": "malformed", "details": error.to_string() });
                    self.event(now, "segment_dropped", data);
                }
            }
        }
    }

    /// Logs what has changed. Whether the connection, `None` once it is forgotten, may still change.
    fn sample(&mut self, now: Time, connection: Option<&Connection>) -> bool {
        let Some(connection) = connection.filter(|_| !self.log.has_failed()) else { return false };
        let state = connection.state();
        let due = now - self.sampled_at >= SAMPLE_INTERVAL || state != self.state;
        if !due || matches!(state, State::SynSent | State::SynReceived) {
            return true;
        }
        self.sampled_at = now;
        self.error = connection.error();
        self.log(now, &connection.info(now));
        state != State::Closed
    }

    fn log(&mut self, now: Time, info: &Info) {
        if !self.log.is_open() {
            self.begin(now, info);
        }
        if let Some(dropped) = self.log.take_dropped() {
            self.event(now, "events_dropped", json!({ "count": dropped }));
        }
        if info.state != self.state {
            let data = json!({ "old": self.state.name().to_lowercase(), "new": info.state.name().to_lowercase() });
            self.state = info.state;
            self.event(now, "connection_state_updated", data);
        }
        self.log_losses(now, info);
        let congestion = if info.recovery == "open" { info.phase } else { info.recovery };
        if self.congestion.as_deref() != Some(congestion) {
            let old = self.congestion.replace(congestion.to_owned());
            self.event(now, "congestion_state_updated", json!({ "old": old, "new": congestion }));
        }
        let limited = LimitedBy::of(info);
        let limited_by = limited.since(&self.limited).most();
        self.limited = limited;
        let metrics = Metrics::of(info, limited_by.or(self.metrics.limited_by));
        if metrics != self.metrics {
            let logged = self.event(now, "recovery_metrics_updated", metrics.since(&self.metrics));
            // What readers did not get cannot be what the next one differs from.
            self.metrics = if logged { metrics } else { Metrics::default() };
        }
        if now - self.flushed_at >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.log.hand_over();
        }
    }

    /// Segments held lost, and episodes that turned out to be unnecessary, since the last time.
    fn log_losses(&mut self, now: Time, info: &Info) {
        let losses = Losses { bytes: info.bytes_lost, timeouts: info.timeouts, spurious: info.spurious_recoveries };
        let before = std::mem::replace(&mut self.losses, losses);
        let [sack, ..] = info.options;
        if losses.bytes > before.bytes {
            let trigger = match (losses.timeouts > before.timeouts, sack) {
                (true, _) => "pto_expired",
                (false, true) => "time_threshold",
                (false, false) => "reordering_threshold",
            };
            let data = json!({ "lost_bytes": losses.bytes - before.bytes, "trigger": trigger });
            self.event(now, "segment_lost", data);
        }
        if losses.spurious > before.spurious {
            self.event(now, "spurious_loss_detected", json!({ "episodes": losses.spurious - before.spurious }));
        }
    }

    /// Names the file and says what it begins with.
    fn begin(&mut self, now: Time, info: &Info) {
        let (ours, peers) = info.initial_sequence;
        let (client, server) = if self.role == Role::Client { (ours, peers) } else { (peers, ours) };
        let id = format!("{client:08x}{server:08x}");
        let path = match &self.path {
            Path::In(dir) => dir.join(format!("{id}_{}.sqlog", self.role.name())),
            Path::At(file) => file.clone(),
        };
        let started = self.started();
        let header = header(&id, self.role, self.epoch.1);
        self.log.open(path, |log| {
            log.record(&header);
            log.record(&Event { time: 0.0, name: Name("connection_started"), data: started });
        });
        let [sack, timestamps, window_scaling, ecn, microseconds] = info.options;
        self.event(
            now,
            "parameters_set",
            json!({
                "congestion_control": info.congestion,
                "maximum_segment_size": info.mss,
                "sack": sack,
                "timestamps": timestamps,
                "window_scaling": window_scaling,
                "ecn": ecn,
                "microsecond_timestamps": microseconds,
                "client_initial_sequence": client,
                "server_initial_sequence": server,
            }),
        );
    }

    fn started(&self) -> Value {
        let address = |address: SocketAddr| json!({ "ip": address.ip().to_string(), "port": address.port() });
        let [sent, received] = self.before;
        json!({
            "local": address(self.local),
            "remote": address(self.peer),
            // A server's log begins when the connection is accepted.
            "segments_before": { "sent": sent, "received": received },
        })
    }

    /// Whether it was logged. Times never go back, although their readers come to the lock in another order.
    fn event(&mut self, now: Time, name: &'static str, data: impl Serialize) -> bool {
        self.logged_at = self.logged_at.max(now);
        let time = (self.logged_at - self.epoch.0).as_nanos() as f64 / 1e6;
        self.log.record(&Event { time, name: Name(name), data })
    }
}

/// The record that a file begins with.
fn header(id: &str, role: Role, epoch: Duration) -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": format!("longhaul {}", env!("CARGO_PKG_VERSION")),
        "trace": {
            "common_fields": {
                "group_id": id,
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "system", "epoch": date::rfc3339(epoch) },
            },
            "vantage_point": { "name": "longhaul", "type": role.name() },
            "event_schemas": [SCHEMA],
        },
    })
}

impl Drop for Qlog {
    fn drop(&mut self) {
        if !self.log.is_open() {
            return;
        }
        let trigger = match self.error {
            Some(error) => error.to_string(),
            None if self.state.is_synchronized() && self.state.can_send() => "released".to_owned(),
            None => "clean".to_owned(),
        };
        self.event(Io::now(), "connection_closed", json!({ "trigger": trigger }));
        self.log.hand_over();
    }
}
