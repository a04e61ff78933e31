//! Reports to the observers of a connection.
//!
//! Events are reported where they happen. Values that many places change, such as metrics and timers, are compared
//! after each segment, timer and transmission. Without observers, each report is a test of one pointer.

use longhaul_units::{Bytes, Time};
use longhaul_wire::{CheshireCodec, Codec, Header};

use super::loss::Phase;
use super::reporting::threshold;
use super::timers::Timer;
use super::{Connection, State};
use crate::batch::Batch;
use crate::error::ConnectionError;
use crate::observer::{
    ConnectionEvent, Detail, EcnState, LossTrigger, Metrics, Observer, Parameters, RecoveryState, SegmentRecord,
    TimerKind,
};
use crate::scoreboard::Record;

/// The timers whose arming and stopping is reported, with their kinds.
const TRACKED: [(Timer, TimerKind); 2] =
    [(Timer::Rto, TimerKind::Retransmission), (Timer::Probe, TimerKind::TailLossProbe)];

/// The observers of a connection, usually none.
#[derive(Debug, Default)]
pub(super) struct Observers(Option<Box<Observation>>);

#[derive(Debug)]
struct Observation {
    observers: Vec<Box<dyn Observer>>,
    /// The time of the latest event, or of the application call in progress, which the connection's clock ignores.
    now: Time,
    /// The most detail that an observer requests.
    detail: Detail,
    /// The end of the highest sequence space sent, by which retransmissions are detected.
    sent_to: Option<u32>,
    /// Segments marked lost and not reported yet: start and sequence space.
    lost: Vec<(u64, u64)>,
    last: Reported,
}

/// Values as last reported.
#[derive(Debug, Default)]
struct Reported {
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    plpmtu: u16,
    ecn: EcnState,
    timers: [Option<Time>; TRACKED.len()],
}

impl Observers {
    /// Reports an event to all observers, if there are any.
    #[inline]
    pub(super) fn report<'a>(&mut self, now: Time, event: impl FnOnce() -> ConnectionEvent<'a>) {
        if let Some(observation) = &mut self.0 {
            observation.report(now, &event());
        }
    }

    /// Reports an event of [`Detail::Segments`].
    #[inline]
    pub(super) fn report_detail<'a>(&mut self, now: Time, event: impl FnOnce() -> ConnectionEvent<'a>) {
        if let Some(observation) = self.0.as_mut().filter(|observation| observation.is_detailed()) {
            observation.report(now, &event());
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the list of segments marked lost, if they are reported.
    #[inline]
    pub(super) fn lost(&mut self) -> Option<&mut Vec<(u64, u64)>> {
        self.0.as_mut().filter(|observation| observation.is_detailed()).map(|observation| &mut observation.lost)
    }
}

impl Observation {
    #[cold]
    #[inline(never)]
    fn report(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        self.now = self.now.max(now);
        for observer in &mut self.observers {
            observer.event(self.now, event);
        }
    }

    fn is_detailed(&self) -> bool {
        self.detail == Detail::Segments
    }

    /// Records that a segment is sent. Returns whether all of its sequence space was sent before.
    fn repeats(&mut self, header: &Header, payload_len: usize) -> bool {
        let len = header.sequence_len(payload_len as u32);
        if len == 0 {
            return false;
        }
        let end = header.seq.wrapping_add(len);
        let repeats = self.sent_to.is_some_and(|sent| end.wrapping_sub(sent).cast_signed() <= 0);
        if !repeats {
            self.sent_to = Some(end);
        }
        repeats
    }
}

impl Connection {
    /// Adds an observer, which receives all events from `now` on. After the handshake, the parameters and the state
    /// are reported to it at once.
    pub(crate) fn observe(&mut self, now: Time, mut observer: Box<dyn Observer>) {
        let now = self.timers.advance(now);
        let detail = observer.detail();
        let state = self.life.state;
        if state.is_synchronized() {
            observer.event(now, &ConnectionEvent::ParametersSet(self.parameters()));
            observer.event(now, &ConnectionEvent::StateChanged { old: None, new: state });
        }
        let was_sent = self.stats.segments_out > 0;
        let sent_to = was_sent.then(|| self.numbers.sequence(self.snd.sent_to()));
        let observation = self.observers.0.get_or_insert_with(|| {
            let last = Reported { plpmtu: self.pmtu.current(), ..Reported::default() };
            Box::new(Observation { observers: Vec::new(), now, detail, sent_to, lost: Vec::new(), last })
        });
        observation.detail = observation.detail.max(detail);
        // The next report contains all metrics, for the new observer.
        observation.last.metrics = None;
        observation.observers.push(observer);
    }

    /// Sets the time of the application's call that follows, and of the events that it causes.
    #[inline]
    pub(crate) fn begin_call(&mut self, now: Time) {
        let now = self.timers.advance(now);
        if let Some(observation) = &mut self.observers.0 {
            observation.now = observation.now.max(now);
        }
    }

    /// Enters `next` and reports the transition.
    pub(super) fn enter(&mut self, next: State) {
        let old = self.life.state;
        self.life.enter(next);
        self.report_state(old);
    }

    /// Reports that the state has changed from `old`.
    pub(super) fn report_state(&mut self, old: State) {
        if self.observers.is_empty() {
            return;
        }
        let new = self.life.state;
        if !old.is_synchronized() && new != State::SynReceived {
            let parameters = self.parameters();
            self.observers.report(self.timers.now(), || ConnectionEvent::ParametersSet(parameters));
        }
        self.observers.report(self.timers.now(), || ConnectionEvent::StateChanged { old: Some(old), new });
    }

    /// Reports a received segment, which is handled next.
    #[inline]
    pub(crate) fn report_received(&mut self, now: Time, segment: SegmentRecord<'_>) {
        self.observers.report_detail(now, || ConnectionEvent::SegmentReceived(segment));
    }

    /// Reports an event that the endpoint has found.
    #[inline]
    pub(crate) fn report_event(&mut self, now: Time, event: ConnectionEvent<'_>) {
        self.observers.report(now, || event);
    }

    /// Reports the segments of a batch that is about to leave, and what has changed.
    #[inline]
    pub(super) fn report_batch(&mut self, batch: &Batch) {
        if !self.observers.is_empty() {
            self.report_segments(batch);
            self.report_changes();
        }
    }

    #[cold]
    #[inline(never)]
    fn report_segments(&mut self, batch: &Batch) {
        let Some(observation) = &mut self.observers.0 else { return };
        for (segment, header) in batch.parts() {
            let Ok((header, header_len)) = CheshireCodec::parse(header) else { continue };
            let payload_len = usize::from(segment.payload_len);
            let retransmission = observation.repeats(&header, payload_len);
            if observation.is_detailed() {
                let segment = SegmentRecord { header: &header, header_len, payload_len, ecn: batch.ecn };
                observation.report(self.timers.now(), &ConnectionEvent::SegmentSent { segment, retransmission });
            }
        }
        // An aborted connection ends with its RST.
        if self.is_drained() {
            self.end_observation();
        }
    }

    /// Reports a segment that was marked lost by a timeout.
    pub(super) fn note_lost(&mut self, record: &Record) {
        if let Some(lost) = self.observers.lost() {
            lost.push((record.start, record.sequence_len()));
        }
    }

    /// Reports the segments that were marked lost.
    #[inline]
    pub(super) fn report_lost(&mut self, trigger: LossTrigger) {
        if !self.observers.is_empty() {
            self.report_lost_segments(trigger);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_lost_segments(&mut self, trigger: LossTrigger) {
        let Some(observation) = &mut self.observers.0 else { return };
        let mut lost = std::mem::take(&mut observation.lost);
        for (start, bytes) in lost.drain(..) {
            let sequence = self.numbers.sequence(start);
            observation.report(self.timers.now(), &ConnectionEvent::SegmentLost { sequence, bytes, trigger });
        }
        observation.lost = lost;
    }

    /// Reports that a timer has expired.
    #[inline]
    pub(super) fn report_expired(&mut self, timer: Timer) {
        let Some(observation) = &mut self.observers.0 else { return };
        let Some(kind) = timer.kind() else { return };
        if let Some(place) = TRACKED.iter().position(|(tracked, _)| *tracked == timer) {
            observation.last.timers[place] = None;
        }
        observation.report(self.timers.now(), &ConnectionEvent::TimerExpired(kind));
    }

    /// Reports what has changed since the last call: phase, packet size, ECN, and in detail timers and metrics. Called
    /// after each segment, timer and transmission.
    #[inline]
    pub(super) fn report_changes(&mut self) {
        if !self.observers.is_empty() {
            self.compare_and_report();
        }
    }

    #[cold]
    #[inline(never)]
    fn compare_and_report(&mut self) {
        let (metrics, plpmtu, ecn) = (self.metrics(), self.pmtu.current(), self.ecn_state());
        let timers = TRACKED.map(|(timer, _)| self.timers.get(timer));
        let now = self.timers.now();
        let Some(observation) = &mut self.observers.0 else { return };
        let last = std::mem::take(&mut observation.last);
        observation.last = Reported { metrics: Some(metrics), phase: Some(metrics.phase), plpmtu, ecn, timers };
        if let Some(old) = last.phase.filter(|old| *old != metrics.phase) {
            observation.report(now, &ConnectionEvent::PhaseChanged { old, new: metrics.phase });
        }
        if last.plpmtu != plpmtu {
            observation.report(now, &ConnectionEvent::MtuUpdated { old: last.plpmtu, new: plpmtu });
        }
        if last.ecn != ecn {
            observation.report(now, &ConnectionEvent::EcnStateChanged { old: last.ecn, new: ecn });
        }
        if !observation.is_detailed() {
            return;
        }
        for ((_, timer), (old, new)) in TRACKED.into_iter().zip(last.timers.into_iter().zip(timers)) {
            match new {
                _ if new == old => {}
                Some(at) => observation.report(now, &ConnectionEvent::TimerSet { timer, at }),
                None => observation.report(now, &ConnectionEvent::TimerStopped(timer)),
            }
        }
        if last.metrics != Some(metrics) {
            observation.report(now, &ConnectionEvent::MetricsUpdated(metrics));
        }
    }

    /// Reports the last changes and the end of the connection, and drops the observers.
    pub(crate) fn end_observation(&mut self) {
        self.report_changes();
        let Some(mut observation) = self.observers.0.take() else { return };
        let error: Option<ConnectionError> = self.life.error;
        observation.report(self.timers.now(), &ConnectionEvent::Closed(error));
    }

    fn parameters(&self) -> Parameters {
        let agreed = self.negotiated;
        Parameters {
            congestion: self.cc.controller.name(),
            mss: self.mss(),
            sack: agreed.sack,
            timestamps: agreed.timestamps,
            window_scaling: agreed.window_scaling,
            ecn: agreed.ecn,
            microseconds: agreed.microseconds,
            initial_sequence: self.numbers.initial(),
        }
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            min_rtt: self.rtt.min(),
            srtt: self.rtt.srtt(),
            latest_rtt: self.rtt.latest(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            backoff: self.rtt.backoff(),
            cwnd: self.cc.control.cwnd,
            ssthresh: threshold(&self.cc.control),
            in_flight: Bytes(self.pipe()),
            unacked_segments: self.snd.board().len() as u64,
            pacing_rate: self.cc.pacer.rate(),
            delivery_rate: self.cc.rate.latest,
            peer_window: Bytes(self.snd.window()),
            bytes_lost: self.stats.incidents().bytes_lost,
            bytes_retransmitted: self.stats.incidents().bytes_retransmitted,
            phase: self.cc.controller.snapshot().phase,
            recovery: self.recovery_state(),
            limit: self.cc.limits.current,
        }
    }

    pub(super) fn recovery_state(&self) -> RecoveryState {
        match self.loss.phase {
            Phase::Open => RecoveryState::Open,
            Phase::Recovery(_) => RecoveryState::Recovery,
            Phase::Timeout(_) => RecoveryState::Timeout,
        }
    }

    fn ecn_state(&self) -> EcnState {
        match () {
            () if !self.negotiated.ecn => EcnState::Off,
            () if self.ext.ecn_check.has_failed() => EcnState::Failed,
            () if self.ext.ecn_check.asked_at().is_some() => EcnState::Testing,
            () => EcnState::Capable,
        }
    }
}

#[cfg(test)]
mod tests;
