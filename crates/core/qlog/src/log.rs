//! Log of a connection.

use std::fmt;

use longhaul_tcp::{
    ConnectionError, ConnectionEvent, InitialSequence, Observer, Parameters, RecoveryState, SegmentRecord, State,
    TimerKind,
};
use longhaul_units::{Span, Time};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::metrics::Metrics;
use crate::segment::Segment;
use crate::sink::Sink;
use crate::start::{Role, Start, address};

/// Log of a connection at one of its endpoints.
///
/// The log is an [`Observer`], which the caller installs on the connection. The log ends with the connection, or by
/// [`end`](Self::end). It calls [`Sink::begin`] when the handshake has succeeded or failed, because the name of the log
/// consists of both initial sequence numbers. The log of a server whose handshake fails is never begun, so SYNs from
/// forged addresses leave no logs.
///
/// If the sink drops records, the log counts them in `events_dropped` once the sink has room again, and repeats all
/// values that a reader has missed.
pub struct Log<S> {
    start: Start,
    sink: S,
    progress: Progress,
    /// Number of segments logged as sent, and number logged as received.
    segments: [u64; 2],
    parameters: Option<Parameters>,
    current: Values,
    logged: Values,
    /// Whether a record was dropped, so that `logged` may differ from `current`.
    is_behind: bool,
    error: Option<ConnectionError>,
    logged_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Begun,
    Ended,
}

#[derive(Clone, Debug)]
struct Values {
    state: Option<State>,
    /// The controller's phase, or the state of recovery.
    congestion: Option<&'static str>,
    metrics: Metrics,
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

impl<S> fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("start", &self.start).field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl<S: Sink> Log<S> {
    /// Creates a log of a connection, which the caller must install as an observer.
    pub fn new(start: Start, sink: S) -> Self {
        let state = if start.role == Role::Client { State::SynSent } else { State::SynReceived };
        let values = Values { state: Some(state), congestion: None, metrics: Metrics::default() };
        Self {
            sink,
            progress: Progress::Waiting,
            segments: [0; 2],
            parameters: None,
            current: values.clone(),
            logged: values,
            is_behind: false,
            error: None,
            logged_at: start.at,
            start,
        }
    }

    /// Returns the sink.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the numbers of segments logged as sent and as received.
    #[must_use]
    pub fn segments(&self) -> [u64; 2] {
        self.segments
    }

    /// Returns whether the log has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.progress == Progress::Ended
    }

    /// Ends the log unless it has already ended. The connection may still be open. Nothing is written if the handshake
    /// is still in progress.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.progress, Progress::Ended) != Progress::Begun {
            return;
        }
        self.sink.reserve_last();
        let trigger = match (self.error, self.current.state) {
            (Some(error), _) => error.to_string(),
            (None, Some(state)) if state.is_synchronized() && state.can_send() => "released".to_owned(),
            (None, _) => "clean".to_owned(),
        };
        self.write(self.logged_at, "connection_closed", json!({ "trigger": trigger }));
    }

    /// Logs an event that happened at `now`, unless the log has ended.
    pub fn log(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        if self.has_ended() || self.sink.is_over() {
            return;
        }
        match event {
            ConnectionEvent::SegmentSent { segment, retransmission } => {
                self.on_segment(now, Some(*retransmission), segment);
            }
            ConnectionEvent::SegmentReceived(segment) => self.on_segment(now, None, segment),
            ConnectionEvent::MetricsUpdated(metrics) => self.on_metrics(now, metrics),
            ConnectionEvent::TimerSet { timer, at } => self.on_timer(now, *timer, "set", Some(*at - now)),
            ConnectionEvent::TimerStopped(timer) => self.on_timer(now, *timer, "cancelled", None),
            ConnectionEvent::TimerExpired(timer) => self.on_timer(now, *timer, "expired", None),
            ConnectionEvent::ParametersSet(parameters) => self.parameters = Some(parameters.clone()),
            ConnectionEvent::StateChanged { old, new } => self.on_state(now, *old, *new),
            ConnectionEvent::Closed(error) => {
                self.logged_at = self.logged_at.max(now);
                self.error = *error;
                self.end();
            }
            _ => self.rare(now, event),
        }
    }

    fn on_segment(&mut self, now: Time, sent: Option<bool>, segment: &SegmentRecord<'_>) {
        let (direction, name) = if sent.is_some() { (0, "segment_sent") } else { (1, "segment_received") };
        self.segments[direction] += 1;
        self.write(now, name, Segment::new(segment, sent.unwrap_or(false)));
    }

    fn on_state(&mut self, now: Time, old: Option<State>, new: State) {
        if self.progress == Progress::Waiting && (new != State::Closed || self.start.role == Role::Client) {
            self.begin(now);
        }
        if old.is_none() {
            self.logged.state = None;
        }
        self.current.state = Some(new);
        self.log_state(now);
    }

    fn on_metrics(&mut self, now: Time, metrics: &longhaul_tcp::Metrics) {
        self.current.congestion = Some(match metrics.recovery {
            RecoveryState::Open => metrics.phase,
            recovery => recovery.name(),
        });
        self.current.metrics = Metrics::of(metrics);
        // During the handshake the values are defaults.
        if self.progress == Progress::Begun {
            self.log_congestion(now);
            self.log_metrics(now);
        }
    }

    fn log_state(&mut self, now: Time) {
        let Some(new) = self.current.state.filter(|new| self.logged.state != Some(*new)) else { return };
        let name = |state: State| state.name().to_lowercase();
        let data = match self.logged.state {
            Some(old) => json!({ "old": name(old), "new": name(new) }),
            None => json!({ "new": name(new) }),
        };
        if self.write(now, "connection_state_updated", data) {
            self.logged.state = Some(new);
        }
    }

    fn log_congestion(&mut self, now: Time) {
        let Some(new) = self.current.congestion.filter(|new| self.logged.congestion != Some(*new)) else { return };
        let data = json!({ "old": self.logged.congestion, "new": new });
        if self.write(now, "congestion_state_updated", data) {
            self.logged.congestion = Some(new);
        }
    }

    fn log_metrics(&mut self, now: Time) {
        if self.current.metrics == self.logged.metrics {
            return;
        }
        let changes = self.current.metrics.since(&self.logged.metrics);
        if self.write(now, "recovery_metrics_updated", changes) {
            self.logged.metrics = self.current.metrics.clone();
        }
    }

    fn on_timer(&mut self, now: Time, timer: TimerKind, event: &'static str, delta: Option<Span>) {
        let data = match delta {
            Some(delta) => json!({ "timer_type": timer.name(), "event_type": event, "delta": millis(delta) }),
            None => json!({ "timer_type": timer.name(), "event_type": event }),
        };
        self.write(now, "timer_updated", data);
    }

    fn begin(&mut self, now: Time) {
        let Some(parameters) = self.parameters.take() else { return };
        let Self { start, sink, .. } = self;
        let InitialSequence { iss: ours, irs: peers } = parameters.initial_sequence;
        let (client, server) = if start.role == Role::Client { (ours, peers) } else { (peers, ours) };
        let id = format!("{client:08x}{server:08x}");
        let started =
            Event { time: millis(start.at - start.epoch), name: Name("connection_started"), data: start.started() };
        sink.begin(&format!("{id}_{}.sqlog", start.role.name()), |sink| {
            sink.record(&start.header(&id));
            sink.record(&started);
        });
        self.progress = Progress::Begun;
        self.write(
            now,
            "parameters_set",
            json!({
                "congestion_control": parameters.congestion,
                "maximum_segment_size": parameters.mss,
                "sack": parameters.options.sack,
                "timestamps": parameters.options.timestamps,
                "window_scaling": parameters.options.wscale,
                "ecn": parameters.options.ecn,
                "microsecond_timestamps": parameters.options.microseconds,
                "client_initial_sequence": client,
                "server_initial_sequence": server,
            }),
        );
    }

    /// Logs an event, after the values that were missed because of earlier drops. Returns whether the event was logged.
    /// Logged times never decrease.
    fn write(&mut self, now: Time, name: &'static str, data: impl Serialize) -> bool {
        if self.is_behind
            && let Some(dropped) = self.sink.take_dropped()
        {
            self.is_behind = false;
            self.catch_up(now, dropped);
        }
        self.record(now, name, data)
    }

    /// Logs how many records were dropped, and all values that a reader may have missed.
    fn catch_up(&mut self, now: Time, dropped: u64) {
        self.record(now, "events_dropped", json!({ "count": dropped }));
        self.log_state(now);
        if self.progress != Progress::Waiting {
            self.log_congestion(now);
            self.logged.metrics = Metrics::default();
            self.log_metrics(now);
        }
    }

    fn record(&mut self, now: Time, name: &'static str, data: impl Serialize) -> bool {
        self.logged_at = self.logged_at.max(now);
        let time = millis(self.logged_at - self.start.epoch);
        let written = self.sink.record(&Event { time, name: Name(name), data });
        self.is_behind |= !written;
        written
    }

    /// Logs an event that does not change any logged values.
    fn rare(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        let (name, data) = match event {
            ConnectionEvent::DataAcked { cumulative, delivered } => {
                ("segments_acked", json!({ "acked_bytes": cumulative, "delivered_bytes": delivered }))
            }
            ConnectionEvent::SegmentLost { sequence, bytes, trigger } => {
                ("segment_lost", json!({ "sequence_number": sequence, "lost_bytes": bytes, "trigger": trigger.name() }))
            }
            ConnectionEvent::DatagramDropped { len, error } => {
                ("segment_dropped", json!({ "length": len, "trigger": "malformed", "details": error.to_string() }))
            }
            ConnectionEvent::SegmentRejected(rejection) => ("segment_rejected", json!({ "trigger": rejection.name() })),
            ConnectionEvent::RecoveryStarted { timeout } => {
                ("recovery_started", json!({ "trigger": if *timeout { "timeout" } else { "loss" } }))
            }
            ConnectionEvent::RecoveryEnded => ("recovery_ended", json!({})),
            ConnectionEvent::RecoveryUndone { timeout } => (
                "spurious_loss_detected",
                json!({ "episodes": 1, "trigger": if *timeout { "timeout" } else { "loss" } }),
            ),
            ConnectionEvent::MtuUpdated { old, new } => ("mtu_updated", json!({ "old": old, "new": new })),
            ConnectionEvent::EcnStateChanged { old, new } => {
                ("ecn_state_updated", json!({ "old": old.name(), "new": new.name() }))
            }
            ConnectionEvent::MoveClaimed { counter, claims } => {
                ("move_updated", json!({ "step": "claim", "counter": counter, "claims": claims }))
            }
            ConnectionEvent::MoveChallenged { counter } => {
                ("move_updated", json!({ "step": "answer", "counter": counter }))
            }
            ConnectionEvent::MoveFailed => ("move_updated", json!({ "step": "failed" })),
            ConnectionEvent::Moved { remote, local, keeps_path } => {
                ("path_changed", json!({ "remote": address(*remote), "local": local, "keeps_path": keeps_path }))
            }
            ConnectionEvent::HostError(error) => ("host_error", json!({ "error": error.name() })),
            ConnectionEvent::Released => ("connection_released", json!({})),
            // Phase changes are logged with the metrics.
            _ => return,
        };
        self.write(now, name, data);
    }
}

impl<S: Sink + std::fmt::Debug + Send> Observer for Log<S> {
    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        self.log(now, event);
    }
}

pub(crate) fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}
