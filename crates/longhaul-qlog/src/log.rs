//! Log of a connection.

use longhaul_tcp::{Connection, ConnectionError, Info, State};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::metrics::{Metrics, limited_by};
use crate::segment::{Segment, Sent};
use crate::sink::Sink;
use crate::start::{Role, Start};

/// Log of a connection at one of its endpoints.
///
/// The caller reports each datagram by [`sent`](Self::sent) and [`received`](Self::received), calls
/// [`sample`](Self::sample) whenever the connection may have changed, and [`end`](Self::end) when it is over. The first
/// sample after the handshake has succeeded or failed begins the sink ([`Sink::begin`]), because only then the name of
/// the log, which consists of both initial sequence numbers, is known.
#[derive(Debug)]
pub struct Log<S> {
    start: Start,
    sink: S,
    has_begun: bool,
    /// Numbers of segments logged as sent and as received.
    segments: [u64; 2],
    state: State,
    congestion: Option<String>,
    metrics: Metrics,
    limited: [Span; 6],
    losses: Losses,
    sent: Sent,
    error: Option<ConnectionError>,
    logged_at: Time,
    sampled_at: Time,
}

/// Loss counters as last logged.
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
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("tcp:{}", self.0))
    }
}

impl<S: Sink> Log<S> {
    /// Creates a log of a connection whose handshake is in progress or has just ended.
    pub fn new(start: Start, sink: S) -> Self {
        let state = if start.role == Role::Client { State::SynSent } else { State::SynReceived };
        Self {
            sink,
            has_begun: false,
            segments: [0; 2],
            state,
            congestion: None,
            metrics: Metrics::default(),
            limited: [Span::ZERO; 6],
            losses: Losses::default(),
            sent: Sent::default(),
            error: None,
            logged_at: start.at,
            sampled_at: Time::ZERO,
            start,
        }
    }

    /// Returns the sink.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the connection's state as last logged.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the numbers of segments logged as sent and as received.
    #[must_use]
    pub fn segments(&self) -> [u64; 2] {
        self.segments
    }

    /// Replaces [`Start::segments_before`], for callers that know the numbers only later. Has no effect after the first
    /// sample that follows the handshake.
    pub fn set_segments_before(&mut self, segments: [u64; 2]) {
        self.start.segments_before = segments;
    }

    /// Logs a sent datagram of `len` bytes, of which `datagram` has at least the header. `ecn` is the ECN field of the
    /// IP header (RFC 3168, section 5).
    pub fn sent(&mut self, now: Time, datagram: &[u8], len: usize, ecn: u8) {
        let Ok((header, offset)) = CheshireCodec::parse(datagram) else { return };
        let payload_len = len.saturating_sub(offset);
        let repeats = self.sent.repeats(&header, payload_len);
        let segment = Segment::new(&header, offset, payload_len, ecn).retransmitted(repeats);
        self.segments[0] += 1;
        self.event(now, "segment_sent", segment);
    }

    /// Logs a received datagram. The parameters are those of [`sent`](Self::sent).
    pub fn received(&mut self, now: Time, datagram: &[u8], len: usize, ecn: u8) {
        match CheshireCodec::parse(datagram) {
            Ok((header, offset)) => {
                self.segments[1] += 1;
                self.event(now, "segment_received", Segment::new(&header, offset, len.saturating_sub(offset), ecn));
            }
            Err(error) => {
                let data = json!({ "length": len, "trigger": "malformed", "details": error.to_string() });
                self.event(now, "segment_dropped", data);
            }
        }
    }

    /// Logs what has changed in the connection. `clock` is the current time by the connection's own clock. Returns
    /// `false` if the log is over because the connection has closed or the sink drops all further records.
    pub fn sample(&mut self, now: Time, connection: &Connection, clock: Time) -> bool {
        if self.sink.is_over() {
            return false;
        }
        let state = connection.state();
        let due = now - self.sampled_at >= self.start.interval || state != self.state;
        if !due || matches!(state, State::SynSent | State::SynReceived) {
            return true;
        }
        self.sampled_at = now;
        self.error = connection.error();
        self.log(now, &connection.info(clock));
        state != State::Closed
    }

    /// Ends the log. `error` is used if no sample had an error. Has no effect if no sample was logged after the
    /// handshake.
    pub fn end(&mut self, now: Time, error: Option<ConnectionError>) {
        if !self.has_begun {
            return;
        }
        let trigger = match self.error.or(error) {
            Some(error) => error.to_string(),
            None if self.state.is_synchronized() && self.state.can_send() => "released".to_owned(),
            None => "clean".to_owned(),
        };
        self.event(now, "connection_closed", json!({ "trigger": trigger }));
    }

    fn log(&mut self, now: Time, info: &Info) {
        if !self.has_begun {
            self.begin(now, info);
        }
        if let Some(dropped) = self.sink.take_dropped() {
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
        // Log only the metrics that have changed.
        let limited_by = limited_by(&info.limited, &std::mem::replace(&mut self.limited, info.limited));
        let metrics = Metrics::of(info, limited_by.or(self.metrics.limited_by));
        if metrics != self.metrics {
            let logged = self.event(now, "recovery_metrics_updated", metrics.since(&self.metrics));
            // If the record was dropped, readers lack its values, so the next record must contain all of them.
            self.metrics = if logged { metrics } else { Metrics::default() };
        }
    }

    /// Logs the bytes marked lost and the spurious recovery episodes since the last call.
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

    /// Begins the sink, and logs the start of the connection and its parameters.
    fn begin(&mut self, now: Time, info: &Info) {
        let Self { start, sink, .. } = self;
        let (ours, peers) = info.initial_sequence;
        let (client, server) = if start.role == Role::Client { (ours, peers) } else { (peers, ours) };
        let id = format!("{client:08x}{server:08x}");
        let started =
            Event { time: millis(start.at - start.epoch), name: Name("connection_started"), data: start.started() };
        sink.begin(&format!("{id}_{}.sqlog", start.role.name()), |sink| {
            sink.record(&start.header(&id));
            sink.record(&started);
        });
        self.has_begun = true;
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

    /// Logs an event. Returns whether it was logged. Logged times never decrease, even if callers report events out of
    /// order.
    fn event(&mut self, now: Time, name: &'static str, data: impl Serialize) -> bool {
        self.logged_at = self.logged_at.max(now);
        self.sink.record(&Event { time: millis(self.logged_at - self.start.epoch), name: Name(name), data })
    }
}

fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}
