//! Logs of connections in qlog's sequential form (draft-ietf-quic-qlog-main-schema): a JSON text sequence (RFC 7464),
//! one file a connection, `<id>_<client|server>.sqlog`.
//!
//! qlog has no schema for TCP: the events are of a namespace of our own, `tcp`, with the names and units of qlog's
//! QUIC events where those exist: times are milliseconds, `pacing_rate` and `delivery_rate` bits per second, windows
//! bytes. Both sides' files of a connection have the same id: the client's and the server's initial sequence number.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul_tcp::{ConnId, Connection, ConnectionError, Info, State};
use longhaul_units::{Span, Time};
use serde::Serialize;
use serde_json::{Value, json};

use crate::info::LimitedBy;
use crate::io::Io;

mod date;

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

/// A connection's log under way. The file begins once the handshake is over, for only then its name is known.
#[derive(Debug)]
pub(crate) struct Qlog {
    id: ConnId,
    role: Role,
    dir: PathBuf,
    local: SocketAddr,
    peer: SocketAddr,
    /// The moment that times count from, by our clock and by the wall clock.
    epoch: (Time, Duration),
    out: Option<BufWriter<File>>,
    failed: bool,
    state: State,
    congestion: Option<String>,
    metrics: Metrics,
    limited: LimitedBy,
    error: Option<ConnectionError>,
    sampled_at: Time,
    flushed_at: Time,
}

/// What `recovery_metrics_updated` says; a field is left out if it has not changed, or is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_variance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pto_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmitted_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<&'static str>,
}

impl Metrics {
    fn of(info: &Info, limited_by: Option<&'static str>) -> Self {
        let millis = |span: Span| span.as_nanos() as f64 / 1e6;
        Self {
            min_rtt: info.min_rtt.map(millis),
            smoothed_rtt: info.srtt.map(millis),
            latest_rtt: info.latest_rtt.map(millis),
            rtt_variance: info.srtt.map(|_| millis(info.rttvar)),
            rto: Some(millis(info.rto)),
            pto_count: Some(info.backoff.into()),
            congestion_window: Some(info.cwnd.0),
            bytes_in_flight: Some(info.in_flight.0),
            ssthresh: info.ssthresh.map(|bytes| bytes.0),
            packets_in_flight: Some(info.unacked_segments),
            pacing_rate: info.pacing_rate.map(|rate| rate.as_bits_per_sec()),
            delivery_rate: info.delivery_rate.map(|rate| rate.as_bits_per_sec()),
            peer_window: Some(info.peer_window.0),
            lost_bytes: Some(info.bytes_lost),
            retransmitted_bytes: Some(info.bytes_retransmitted),
            startup_phase: Some(info.phase),
            limited_by,
        }
    }

    /// What differs from `before`.
    fn since(&self, before: &Self) -> Self {
        fn changed<T: PartialEq + Copy>(new: Option<T>, old: Option<T>) -> Option<T> {
            new.filter(|_| new != old)
        }
        Self {
            min_rtt: changed(self.min_rtt, before.min_rtt),
            smoothed_rtt: changed(self.smoothed_rtt, before.smoothed_rtt),
            latest_rtt: changed(self.latest_rtt, before.latest_rtt),
            rtt_variance: changed(self.rtt_variance, before.rtt_variance),
            rto: changed(self.rto, before.rto),
            pto_count: changed(self.pto_count, before.pto_count),
            congestion_window: changed(self.congestion_window, before.congestion_window),
            bytes_in_flight: changed(self.bytes_in_flight, before.bytes_in_flight),
            ssthresh: changed(self.ssthresh, before.ssthresh),
            packets_in_flight: changed(self.packets_in_flight, before.packets_in_flight),
            pacing_rate: changed(self.pacing_rate, before.pacing_rate),
            delivery_rate: changed(self.delivery_rate, before.delivery_rate),
            peer_window: changed(self.peer_window, before.peer_window),
            lost_bytes: changed(self.lost_bytes, before.lost_bytes),
            retransmitted_bytes: changed(self.retransmitted_bytes, before.retransmitted_bytes),
            startup_phase: changed(self.startup_phase, before.startup_phase),
            limited_by: changed(self.limited_by, before.limited_by),
        }
    }
}

impl Qlog {
    /// A log of the connection `id` that begins now.
    pub(crate) fn new(id: ConnId, role: Role, dir: PathBuf, local: SocketAddr, peer: SocketAddr) -> Self {
        let epoch = Io::clocks();
        let state = if role == Role::Client { State::SynSent } else { State::SynReceived };
        Self {
            id,
            role,
            dir,
            local,
            peer,
            epoch,
            out: None,
            failed: false,
            state,
            congestion: None,
            metrics: Metrics::default(),
            limited: LimitedBy::default(),
            error: None,
            sampled_at: Time::ZERO,
            flushed_at: epoch.0,
        }
    }

    pub(crate) fn id(&self) -> ConnId {
        self.id
    }

    /// Logs what has changed. Whether the connection, `None` once it is forgotten, may still change.
    pub(crate) fn sample(&mut self, now: Time, connection: Option<&Connection>) -> bool {
        let Some(connection) = connection.filter(|_| !self.failed) else { return false };
        let state = connection.state();
        let due = now - self.sampled_at >= SAMPLE_INTERVAL || state != self.state;
        if !due || matches!(state, State::SynSent | State::SynReceived) {
            return true;
        }
        self.sampled_at = now;
        self.error = connection.error();
        let info = connection.info(now);
        let result = self.log(now, &info);
        self.check(result);
        state != State::Closed && !self.failed
    }

    fn log(&mut self, now: Time, info: &Info) -> io::Result<()> {
        if self.out.is_none() {
            self.begin(now, info)?;
        }
        if info.state != self.state {
            let data = json!({ "old": self.state.name().to_lowercase(), "new": info.state.name().to_lowercase() });
            self.state = info.state;
            self.event(now, "connection_state_updated", data)?;
        }
        let congestion = if info.recovery == "open" { info.phase } else { info.recovery };
        if self.congestion.as_deref() != Some(congestion) {
            let old = self.congestion.replace(congestion.to_owned());
            self.event(now, "congestion_state_updated", json!({ "old": old, "new": congestion }))?;
        }
        let limited = LimitedBy::of(info);
        let limited_by = limited.since(&self.limited).most();
        self.limited = limited;
        let metrics = Metrics::of(info, limited_by.or(self.metrics.limited_by));
        if metrics != self.metrics {
            let data = serde_json::to_value(metrics.since(&self.metrics))?;
            self.metrics = metrics;
            self.event(now, "recovery_metrics_updated", data)?;
        }
        if now - self.flushed_at >= FLUSH_INTERVAL {
            self.flushed_at = now;
            self.out.as_mut().map_or(Ok(()), Write::flush)?;
        }
        Ok(())
    }

    /// Opens the file and writes what it begins with.
    fn begin(&mut self, now: Time, info: &Info) -> io::Result<()> {
        let (ours, peers) = info.initial_sequence;
        let (client, server) = if self.role == Role::Client { (ours, peers) } else { (peers, ours) };
        let id = format!("{client:08x}{server:08x}");
        std::fs::create_dir_all(&self.dir)?;
        let path = self.dir.join(format!("{id}_{}.sqlog", self.role.name()));
        self.out = Some(BufWriter::new(File::create(path)?));
        let epoch = date::rfc3339(self.epoch.1);
        self.record(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": format!("longhaul {}", env!("CARGO_PKG_VERSION")),
            "trace": {
                "common_fields": {
                    "group_id": id,
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "system", "epoch": epoch },
                },
                "vantage_point": { "name": "longhaul", "type": self.role.name() },
                "event_schemas": [SCHEMA],
            },
        }))?;
        let address = |address: SocketAddr| json!({ "ip": address.ip().to_string(), "port": address.port() });
        let started = json!({ "local": address(self.local), "remote": address(self.peer) });
        self.event(self.epoch.0, "connection_started", started)?;
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
        )
    }

    fn event(&mut self, now: Time, name: &str, data: Value) -> io::Result<()> {
        let time = (now - self.epoch.0).as_nanos() as f64 / 1e6;
        self.record(&json!({ "time": time, "name": format!("tcp:{name}"), "data": data }))
    }

    /// A record of RFC 7464: the separator, the text, a line feed.
    fn record(&mut self, value: &Value) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.write_all(b"\x1e")?;
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")
    }

    /// If the disk failed the log ends; the connection goes on.
    fn check(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        self.failed = true;
        tracing::warn!(dir = %self.dir.display(), %error, "the qlog ends here");
        if let Some(out) = self.out.take() {
            // Dropping the writer would try once more.
            let _ = out.into_parts();
        }
    }

    fn end(&mut self) -> io::Result<()> {
        let now = Io::now();
        let trigger = match self.error {
            Some(error) => error.to_string(),
            None if self.state.is_synchronized() && self.state.can_send() => "released".to_owned(),
            None => "clean".to_owned(),
        };
        self.event(now, "connection_closed", json!({ "trigger": trigger }))?;
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        if self.out.is_some() {
            let result = self.end();
            self.check(result);
        }
    }
}
