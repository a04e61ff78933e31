//! Halfback (Li, Dong, Godfrey, CoNEXT 2015): a short flow is sent in one round trip. While its ACKs arrive, copies of
//! its segments are sent from the last one backwards, until ACKs and copies meet.

use longhaul_cc::compose::{LossEvent, Opening, Overlay, Signal, Stage, Startup, StartupResponse, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, AckFrequency, Demands, Episode, Granted, NeedError, Needs, Path, ProbeKind, ProbePlan, SegmentKind, Sent,
    Timeout, update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::first_flight::{FirstFlight, FlightRecovery};

pub(crate) static ENTRY: Entry =
    Entry::startup("halfback", |values| Box::new(Halfback::new(HalfbackConfig::from_values(values))))
        .described(
            "paces a short flow over one RTT, then retransmits half of it from the end backwards",
            "Li, Dong, Godfrey, CoNEXT 2015 (mechanics reconstructed)",
        )
        .with_options(HalfbackConfig::OPTIONS)
        .tested_in(&["halfback+new-reno", "halfback+cubic", "halfback(clock=segment)+slow-start+new-reno+rfc6675"])
        .internet_safe();

/// Segments for which the peer is requested to send one ACK each: those of the published pacing threshold.
const FREQUENT_ACKS: u32 = 100;
/// If ACKs arrive at less than this share of the sending rate, their rate is that of the path and not the sender's.
const PATH_LIMITED: f64 = 0.9;

longhaul_cc::options! {
    pub(crate) struct HalfbackConfig {
        pacing_threshold: Bytes [Bytes] = OptionSpec::int(
            "pacing-threshold", 2000, 1 << 30, 141_000,
            "maximum bytes in the first RTT",
        ),
        /// Whether each acknowledged segment releases a copy. In the paper each ACK does, which is the same without
        /// delayed ACKs.
        by_segment: bool [|clock: &str| clock == "segment"] = OptionSpec::choice(
            "clock", &["ack", "segment"],
            "clock of the copies: each ACK, or each segment acknowledged",
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    /// The flight is being sent.
    Pacing,
    /// ACKs of the flight arrive, and copies are sent.
    Answered,
    /// Part of the flight was lost; copies continue.
    Recovery(FlightRecovery),
}

/// Delivery rate since the first ACK.
#[derive(Clone, Copy, Debug, Default)]
struct AckRate {
    first: Option<Time>,
    last: Time,
    /// Bytes delivered after the first ACK.
    bytes: Bytes,
}

impl AckRate {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let at = ack.rx_time.unwrap_or(ack.now);
        match self.first {
            None => self.first = Some(at),
            Some(_) => self.bytes += ack.delivered,
        }
        self.last = self.last.max(at);
    }

    fn rate(&self) -> Option<Rate> {
        let span = self.last.since(self.first?);
        (span > Span::ZERO).then(|| Rate::from_bytes_over(self.bytes, span))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Halfback {
    config: HalfbackConfig,
    granted: bool,
    phase: Phase,
    flight: FirstFlight,
    acks: AckRate,
    /// Whether the flight includes the whole flow, so that its end is known.
    whole: bool,
    plan: ProbePlan,
}

impl Halfback {
    pub(crate) fn new(config: HalfbackConfig) -> Self {
        Self {
            config,
            granted: false,
            phase: Phase::Idle,
            flight: FirstFlight::default(),
            acks: AckRate::default(),
            whole: false,
            plan: update!(ProbePlan {
                prefer: [Some(ProbeKind::Backwards), None, None],
                segments: 0,
                gap: Span::ZERO,
                dscp: 0,
                id: 1,
                ..ProbePlan::new(0, ProbeKind::Dummy, 0)
            }),
        }
    }

    fn over(&mut self) -> Step {
        self.phase = Phase::Idle;
        Step::Done
    }

    /// Allows one more copy for an ACK, up to half of the flight.
    fn copy(&mut self, ack: &Ack<'_>, path: &Path) {
        if !self.whole {
            return;
        }
        let more = if self.config.by_segment { ack.delivered.0.div_ceil(path.mss.0.max(1)) } else { 1 };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.plan.segments = self.plan.segments.saturating_add(more).min(self.flight.segments() / 2);
    }

    /// Ends the start after the whole flight was delivered. The window becomes the one that the rate of the ACKs
    /// fills.
    fn delivered(&mut self, path: &Path, window: &mut Window) -> Step {
        let rtt = path.min_rtt.or(path.handshake_rtt);
        let rate = self.acks.rate().filter(|rate| *rate < self.flight.pace().mul_f64(PATH_LIMITED));
        // At a higher rate the sender, not the path, was the limit.
        if let Some((rate, rtt)) = rate.zip(rtt) {
            let fits = rate.bytes_in(rtt).as_f64().max(self.flight.initial());
            window.cwnd = window.cwnd.min(fits);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
        self.over()
    }

    fn answered(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if ack.delivered == Bytes::ZERO {
            return Step::Stay;
        }
        self.acks.on_ack(ack);
        self.flight.on_delivered(ack.delivered);
        self.copy(ack, path);
        if self.flight.is_delivered() { self.delivered(path, window) } else { Step::Stay }
    }
}

impl Stage for Halfback {
    fn needs(&self) -> Needs {
        let ack_frequency = AckFrequency::First(FREQUENT_ACKS);
        let preferred =
            update!(Demands { probes: true, pacing: true, whole_window: true, ack_frequency, ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// Without pacing or probes there is no Halfback, and the slow-start variant begins.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.granted = granted.pacing && granted.probes;
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        if self.phase == Phase::Pacing && sent.kind == SegmentKind::Data {
            self.flight.on_sent(sent, path);
            self.whole = path.queued == Bytes::ZERO;
        }
    }

    fn next_tick(&self) -> Option<Time> {
        self.flight.grown_at().filter(|_| self.phase == Phase::Pacing)
    }

    fn overlay(&self) -> Overlay {
        match self.phase {
            Phase::Idle => Overlay::default(),
            Phase::Pacing if self.flight.is_spread() => self.flight.overlay(),
            Phase::Pacing => Overlay::default(),
            Phase::Answered | Phase::Recovery(_) => update!(Overlay { probe: Some(self.plan), ..Overlay::default() }),
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "handshake",
            Phase::Pacing => "halfback-pacing",
            Phase::Answered => "halfback-copying",
            Phase::Recovery(_) => "recovery",
        }
    }
}

impl Startup for Halfback {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        let wanted = self.granted && !path.handshake_lossy && opening == Opening::Connection;
        let Some(rtt) = path.handshake_rtt.filter(|_| wanted) else { return self.over() };
        let known = Bytes::from_f64(window.ssthresh);
        self.flight = FirstFlight::new(self.config.pacing_threshold.min(known), rtt, window.cwnd);
        self.phase = Phase::Pacing;
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match &mut self.phase {
            Phase::Pacing if ack.delivered == Bytes::ZERO => Step::Stay,
            Phase::Pacing => {
                self.flight.close(window);
                self.whole &= path.queued == Bytes::ZERO;
                self.phase = Phase::Answered;
                self.answered(ack, path, window)
            }
            Phase::Answered => self.answered(ack, path, window),
            Phase::Recovery(_) if matches!(ack.episode, Episode::In | Episode::Again) => {
                if ack.delivered > Bytes::ZERO {
                    self.copy(ack, path);
                }
                Step::Stay
            }
            Phase::Recovery(_) | Phase::Idle => self.over(),
        }
    }

    /// Recovers a loss as usual, while copies continue: they are what recovers the end of the flow.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        match (&mut self.phase, loss.signal) {
            (Phase::Pacing | Phase::Answered, Signal::Loss) => {
                self.phase = Phase::Recovery(FlightRecovery::begin(loss.ack, path, window));
                self.copy(loss.ack, path);
                StartupResponse::Handled
            }
            (Phase::Recovery(_), Signal::LossAgain) => {
                FlightRecovery::again(path, window);
                StartupResponse::Handled
            }
            _ => StartupResponse::Delegate,
        }
    }

    fn on_tick(&mut self, _now: Time, _path: &Path, window: &mut Window) -> Step {
        if self.phase == Phase::Pacing {
            self.flight.open(window);
        }
        Step::Stay
    }

    fn on_timeout(&mut self, _timeout: &Timeout, _path: &Path, window: &mut Window) -> Option<f64> {
        if self.phase == Phase::Pacing {
            self.flight.close(window);
        }
        None
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
