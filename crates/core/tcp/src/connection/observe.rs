//! Reports to the observers of a connection.
//!
//! Events are reported where they happen. Values that many places change, such as metrics and timers, are compared
//! after each segment, timer and transmission. Without observers, each report costs the test of one pointer.

use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Codec, Header};

use super::{Numbers, Timer, Timers, Watch};
use crate::{
    Batch, ConnectionEvent, Detail, EcnState, LossTrigger, Metrics, Observer, Parameters, SegmentRecord, State,
    TimerKind,
};

/// The timers whose arming and stopping is reported, with their kinds.
const TRACKED: [(Timer, TimerKind); 2] =
    [(Timer::Rto, TimerKind::Retransmission), (Timer::Probe, TimerKind::TailLossProbe)];

/// The observers of a connection, usually none.
#[derive(Debug, Default)]
pub(crate) struct Observers(Option<Box<Observation>>);

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

#[derive(Debug, Default)]
struct Reported {
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    plpmtu: u16,
    ecn: EcnState,
    timers: [Option<Time>; TRACKED.len()],
}

impl Observers {
    #[inline]
    pub(crate) fn report<'a>(&mut self, now: Time, event: impl FnOnce() -> ConnectionEvent<'a>) {
        if let Some(observation) = &mut self.0 {
            observation.report(now, &event());
        }
    }

    #[inline]
    pub(crate) fn report_detail<'a>(&mut self, now: Time, event: impl FnOnce() -> ConnectionEvent<'a>) {
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

    #[inline]
    pub(super) fn begin_call(&mut self, now: Time) {
        if let Some(observation) = &mut self.0 {
            observation.now = observation.now.max(now);
        }
    }

    #[inline]
    pub(super) fn report_lost(&mut self, now: Time, numbers: &Numbers, trigger: LossTrigger) {
        let Some(observation) = &mut self.0 else { return };
        for (start, bytes) in std::mem::take(&mut observation.lost) {
            let sequence = numbers.sequence(start);
            observation.report(now, &ConnectionEvent::SegmentLost { sequence, bytes, trigger });
        }
    }

    #[inline]
    pub(super) fn report_expired(&mut self, now: Time, timer: Timer) {
        let Some(observation) = &mut self.0 else { return };
        let Some(kind) = timer.kind() else { return };
        let tracked = observation.last.timers.iter_mut().zip(TRACKED).find(|(_, (tracked, _))| *tracked == timer);
        if let Some((last, _)) = tracked {
            *last = None;
        }
        observation.report(now, &ConnectionEvent::TimerExpired(kind));
    }

    #[cold]
    #[inline(never)]
    pub(super) fn report_segments(&mut self, now: Time, batch: &Batch) {
        let Some(observation) = &mut self.0 else { return };
        for (segment, header) in batch.parts() {
            let Ok((header, header_len)) = CheshireCodec::parse(header) else { continue };
            let payload_len = usize::from(segment.payload_len);
            let retransmission = observation.repeats(&header, payload_len);
            if observation.is_detailed() {
                let segment = SegmentRecord { header: &header, header_len, payload_len, ecn: batch.ecn };
                observation.report(now, &ConnectionEvent::SegmentSent { segment, retransmission });
            }
        }
    }

    /// Adds an observer to a connection of which data up to `sent_to` was sent, if any was.
    fn add(&mut self, now: Time, observer: Box<dyn Observer>, sent_to: Option<u32>, plpmtu: u16) {
        let detail = observer.detail();
        let observation = self.0.get_or_insert_with(|| {
            let last = Reported { plpmtu, ..Reported::default() };
            Box::new(Observation { observers: Vec::new(), now, detail, sent_to, lost: Vec::new(), last })
        });
        observation.detail = observation.detail.max(detail);
        // The next report contains all metrics, for the new observer.
        observation.last.metrics = None;
        observation.observers.push(observer);
    }

    /// Reports changes of phase, packet size and ECN, and with full detail also of timers and metrics.
    fn compare(&mut self, now: Time, metrics: Metrics, plpmtu: u16, ecn: EcnState, timers: &Timers) {
        let timers = TRACKED.map(|(timer, _)| timers.get(timer));
        let Some(observation) = &mut self.0 else { return };
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

impl Watch<'_> {
    /// Adds an observer, which receives all events from now on. After the handshake, the parameters and the state
    /// are reported to it at once.
    pub(crate) fn add(&mut self, mut observer: Box<dyn Observer>) {
        let (now, state) = (self.timers.now, self.life.state);
        if state.is_synchronized() {
            observer.event(now, &ConnectionEvent::ParametersSet(Parameters::new(self)));
            observer.event(now, &ConnectionEvent::StateChanged { old: None, new: state });
        }
        let was_sent = self.stats.segments_out > 0;
        let sent_to = was_sent.then(|| self.numbers.sequence(self.snd.sent_to()));
        self.observers.add(now, observer, sent_to, self.pmtu.current);
    }

    pub(super) fn report_state(&mut self, old: State) {
        if self.observers.is_empty() {
            return;
        }
        let new = self.life.state;
        if !old.is_synchronized() && new != State::SynReceived {
            let parameters = Parameters::new(self);
            self.observers.report(self.timers.now, || ConnectionEvent::ParametersSet(parameters));
        }
        self.observers.report(self.timers.now, || ConnectionEvent::StateChanged { old: Some(old), new });
    }

    /// Reports changes since the last call. Called after each segment, timer and transmission, if there are observers.
    #[cold]
    #[inline(never)]
    pub(super) fn report_changes(&mut self) {
        let (now, metrics) = (self.timers.now, Metrics::new(self));
        let ecn = self.ext.ecn_check.state(self.negotiated.ecn);
        self.observers.compare(now, metrics, self.pmtu.current, ecn, self.timers);
    }

    /// Reports the last changes and the end of the connection, and drops the observers.
    pub(crate) fn end(&mut self) {
        if !self.observers.is_empty() {
            self.report_changes();
        }
        let (Some(mut observation), error) = (self.observers.0.take(), self.life.error) else { return };
        observation.report(self.timers.now, &ConnectionEvent::Closed(error));
    }
}

#[cfg(test)]
mod tests;
