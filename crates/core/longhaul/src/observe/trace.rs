//! Tracing of connections: `tracing` events from the events of the engine.
//!
//! The target is `longhaul::connection`. States, recovery episodes, timeouts and other rare changes are at the level
//! `DEBUG`, events of each segment at `TRACE`. All are in the span `connection` with the connection's addresses. A
//! connection is traced if its subscriber is interested when the connection is created, so that other connections pay
//! nothing.

use std::net::SocketAddr;

use longhaul_tcp::{ConnectionEvent, Detail, Metrics, Observer, SegmentRecord, TimerKind};
use longhaul_units::{Bytes, Time};
use tracing::{Level, Span, debug, debug_span, enabled, trace};

use super::Role;

const TARGET: &str = "longhaul::connection";

/// Observer that emits tracing events.
#[derive(Debug)]
pub(crate) struct Tracing {
    span: Span,
    detail: Detail,
}

impl Tracing {
    /// Creates the observer of a connection if a subscriber is interested in it.
    pub(crate) fn new([local, peer]: [SocketAddr; 2], role: Role) -> Option<Self> {
        if !enabled!(target: TARGET, Level::DEBUG) {
            return None;
        }
        let detail = if enabled!(target: TARGET, Level::TRACE) { Detail::Segments } else { Detail::Changes };
        let span = debug_span!(target: TARGET, "connection", role = role.name(), %local, %peer);
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
            ConnectionEvent::SegmentSent { segment, retransmission } => sent(span, segment, *retransmission),
            ConnectionEvent::SegmentReceived(segment) => received(span, segment),
            ConnectionEvent::DataAcked { cumulative, delivered } => {
                trace!(target: TARGET, parent: span, cumulative, delivered, "data acknowledged");
            }
            ConnectionEvent::SegmentLost { sequence, bytes, trigger } => {
                trace!(target: TARGET, parent: span, sequence, bytes, trigger = trigger.name(), "segment marked lost");
            }
            ConnectionEvent::TimerSet { timer, at } => {
                trace!(target: TARGET, parent: span, timer = timer.name(), after = %(*at - now), "timer set");
            }
            ConnectionEvent::TimerStopped(timer) => {
                trace!(target: TARGET, parent: span, timer = timer.name(), "timer stopped");
            }
            ConnectionEvent::TimerExpired(timer @ (TimerKind::DelayedAck | TimerKind::Reordering)) => {
                trace!(target: TARGET, parent: span, timer = timer.name(), "timer expired");
            }
            ConnectionEvent::MetricsUpdated(metrics) => updated(span, metrics),
            _ => changed(span, event),
        }
    }
}

fn sent(span: &Span, segment: &SegmentRecord<'_>, retransmission: bool) {
    let SegmentRecord { header, payload_len, .. } = *segment;
    trace!(
        target: TARGET, parent: span, flags = ?header.flags, seq = header.seq, ack = header.ack,
        window = header.window, len = payload_len, ecn = ?segment.ecn, retransmission, "segment sent"
    );
}

fn received(span: &Span, segment: &SegmentRecord<'_>) {
    let SegmentRecord { header, payload_len, .. } = *segment;
    trace!(
        target: TARGET, parent: span, flags = ?header.flags, seq = header.seq, ack = header.ack,
        window = header.window, len = payload_len, ecn = ?segment.ecn, "segment received"
    );
}

fn updated(span: &Span, metrics: &Metrics) {
    trace!(
        target: TARGET, parent: span, cwnd = metrics.cwnd.0, ssthresh = metrics.ssthresh.map(|Bytes(bytes)| bytes),
        in_flight = metrics.in_flight.0, srtt = ?metrics.srtt, rto = ?metrics.rto,
        pacing_rate = ?metrics.pacing_rate, delivery_rate = ?metrics.delivery_rate, "metrics updated"
    );
}

/// Emits a rare event.
fn changed(span: &Span, event: &ConnectionEvent<'_>) {
    match event {
        ConnectionEvent::ParametersSet(parameters) => debug!(
            target: TARGET, parent: span, congestion = parameters.congestion, mss = parameters.mss,
            sack = parameters.sack, timestamps = parameters.timestamps, ecn = parameters.ecn, "parameters set"
        ),
        ConnectionEvent::StateChanged { old: Some(old), new } => {
            debug!(target: TARGET, parent: span, %old, %new, "state changed");
        }
        ConnectionEvent::StateChanged { old: None, new } => debug!(target: TARGET, parent: span, %new, "observed"),
        ConnectionEvent::Released => debug!(target: TARGET, parent: span, "released by the application"),
        ConnectionEvent::DatagramDropped { len, error } => {
            debug!(target: TARGET, parent: span, len, %error, "malformed datagram dropped");
        }
        ConnectionEvent::SegmentRejected(rejection) => {
            debug!(target: TARGET, parent: span, reason = rejection.name(), "segment not accepted");
        }
        ConnectionEvent::RecoveryStarted { timeout } => {
            debug!(target: TARGET, parent: span, timeout, "recovery started");
        }
        ConnectionEvent::RecoveryEnded => debug!(target: TARGET, parent: span, "recovery ended"),
        ConnectionEvent::RecoveryUndone { timeout } => {
            debug!(target: TARGET, parent: span, timeout, "spurious recovery undone");
        }
        ConnectionEvent::TimerExpired(timer) => {
            debug!(target: TARGET, parent: span, timer = timer.name(), "timer expired");
        }
        ConnectionEvent::PhaseChanged { old, new } => {
            debug!(target: TARGET, parent: span, old, new, "congestion control phase changed");
        }
        ConnectionEvent::MtuUpdated { old, new } => debug!(target: TARGET, parent: span, old, new, "path MTU changed"),
        ConnectionEvent::EcnStateChanged { old, new } => {
            debug!(target: TARGET, parent: span, old = old.name(), new = new.name(), "ECN state changed");
        }
        ConnectionEvent::HostError(error) => debug!(target: TARGET, parent: span, %error, "error reported by the host"),
        ConnectionEvent::Closed(Some(error)) => debug!(target: TARGET, parent: span, %error, "closed"),
        ConnectionEvent::Closed(None) => debug!(target: TARGET, parent: span, "closed"),
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
        assert!(Tracing::new(ends, Role::Client).is_none());
    }
}
