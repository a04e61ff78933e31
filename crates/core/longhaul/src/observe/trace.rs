//! Tracing of connections: `tracing` events from the events of the engine.
//!
//! The target is `longhaul::connection`. States, recovery episodes, timeouts and other rare changes are at the level
//! `DEBUG`, events of each segment at `TRACE`. All are in the span `connection` with the connection's addresses. A
//! connection is traced if its subscriber is interested when the connection is created, so other connections have no
//! overhead.

use std::net::SocketAddr;

use longhaul_tcp::{ConnectionEvent, Detail, Metrics, Observer, SegmentRecord, TimerKind};
use longhaul_units::{Bytes, Time};
use tracing::{Level, Span, debug_span, enabled};

const TARGET: &str = "longhaul::connection";

/// Emits an event of a level in a connection's span.
macro_rules! emit {
    ($level:ident, $span:expr, $($event:tt)+) => {
        tracing::$level!(target: TARGET, parent: $span, $($event)+)
    };
}

#[derive(Debug)]
pub(crate) struct Tracing {
    span: Span,
    detail: Detail,
}

impl Tracing {
    /// Creates the observer of a connection if a subscriber is interested in it.
    pub(crate) fn new([local, peer]: [SocketAddr; 2], is_client: bool) -> Option<Self> {
        if !enabled!(target: TARGET, Level::DEBUG) {
            return None;
        }
        let detail = if enabled!(target: TARGET, Level::TRACE) { Detail::Segments } else { Detail::Changes };
        let role = if is_client { "client" } else { "server" };
        let span = debug_span!(target: TARGET, "connection", role, %local, %peer);
        Some(Self { span, detail })
    }
}

impl Observer for Tracing {
    fn detail(&self) -> Detail {
        self.detail
    }

    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        let span = &self.span;
        match event {
            ConnectionEvent::SegmentSent { segment, retransmission } => {
                segment_passed(span, "sent", segment, Some(*retransmission));
            }
            ConnectionEvent::SegmentReceived(segment) => segment_passed(span, "received", segment, None),
            ConnectionEvent::DataAcked { cumulative, delivered } => {
                emit!(trace, span, cumulative, delivered, "data acknowledged");
            }
            ConnectionEvent::SegmentLost { sequence, bytes, trigger } => {
                emit!(trace, span, sequence, bytes, trigger = trigger.name(), "segment marked lost");
            }
            ConnectionEvent::TimerSet { timer, at } => {
                emit!(trace, span, timer = timer.name(), after = %(*at - now), "timer set");
            }
            ConnectionEvent::TimerStopped(timer) => emit!(trace, span, timer = timer.name(), "timer stopped"),
            ConnectionEvent::TimerExpired(timer @ (TimerKind::DelayedAck | TimerKind::Reordering)) => {
                emit!(trace, span, timer = timer.name(), "timer expired");
            }
            ConnectionEvent::MetricsUpdated(metrics) => updated(span, metrics),
            _ => changed(span, event),
        }
    }
}

fn segment_passed(span: &Span, direction: &str, segment: &SegmentRecord<'_>, retransmission: Option<bool>) {
    let SegmentRecord { header, payload_len, .. } = *segment;
    emit!(
        trace, span, flags = ?header.flags, seq = header.seq, ack = header.ack, window = header.window,
        len = payload_len, ecn = ?segment.ecn, retransmission, "segment {direction}"
    );
}

fn updated(span: &Span, metrics: &Metrics) {
    emit!(
        trace, span, cwnd = metrics.cwnd.0, ssthresh = metrics.ssthresh.map(|Bytes(bytes)| bytes),
        in_flight = metrics.in_flight.0, srtt = ?metrics.srtt, rto = ?metrics.rto,
        pacing_rate = ?metrics.pacing_rate, delivery_rate = ?metrics.delivery_rate, "metrics updated"
    );
}

fn changed(span: &Span, event: &ConnectionEvent<'_>) {
    match event {
        ConnectionEvent::ParametersSet(parameters) => emit!(
            debug,
            span,
            congestion = parameters.congestion,
            mss = parameters.mss,
            sack = parameters.options.sack,
            timestamps = parameters.options.timestamps,
            ecn = parameters.options.ecn,
            "parameters set"
        ),
        ConnectionEvent::StateChanged { old: Some(old), new } => emit!(debug, span, %old, %new, "state changed"),
        ConnectionEvent::StateChanged { old: None, new } => emit!(debug, span, %new, "observed"),
        ConnectionEvent::Released => emit!(debug, span, "released by the application"),
        ConnectionEvent::DatagramDropped { len, error } => {
            emit!(debug, span, len, %error, "malformed datagram dropped");
        }
        ConnectionEvent::SegmentRejected(rejection) => {
            emit!(debug, span, reason = rejection.name(), "segment not accepted");
        }
        ConnectionEvent::RecoveryStarted { timeout } => emit!(debug, span, timeout, "recovery started"),
        ConnectionEvent::RecoveryEnded => emit!(debug, span, "recovery ended"),
        ConnectionEvent::RecoveryUndone { timeout } => emit!(debug, span, timeout, "spurious recovery undone"),
        ConnectionEvent::TimerExpired(timer) => emit!(debug, span, timer = timer.name(), "timer expired"),
        ConnectionEvent::PhaseChanged { old, new } => emit!(debug, span, old, new, "congestion control phase changed"),
        ConnectionEvent::MtuUpdated { old, new } => emit!(debug, span, old, new, "path MTU changed"),
        ConnectionEvent::EcnStateChanged { old, new } => {
            emit!(debug, span, old = old.name(), new = new.name(), "ECN state changed");
        }
        ConnectionEvent::MoveClaimed { counter, claims } => emit!(debug, span, counter, claims, "move claimed"),
        ConnectionEvent::MoveChallenged { counter } => emit!(debug, span, counter, "challenge of a move answered"),
        ConnectionEvent::MoveFailed => emit!(debug, span, "claims of a move not answered"),
        ConnectionEvent::Moved { remote, local, keeps_path } => {
            emit!(debug, span, %remote, ?local, keeps_path, "moved");
        }
        ConnectionEvent::HostError(error) => emit!(debug, span, %error, "error reported by the host"),
        ConnectionEvent::Closed(Some(error)) => emit!(debug, span, %error, "closed"),
        ConnectionEvent::Closed(None) => emit!(debug, span, "closed"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this binary install no subscriber either.
    #[test]
    fn without_a_subscriber_there_is_no_observer() {
        let ends = [([127, 0, 0, 1], 1), ([127, 0, 0, 1], 2)].map(SocketAddr::from);
        assert!(Tracing::new(ends, true).is_none());
    }
}
