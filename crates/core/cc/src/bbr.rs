//! BBR (bottleneck bandwidth and round-trip propagation time): monolithic controllers that send at the path's delivery
//! rate, and keep little more data in flight than that rate requires.
//!
//! [`v3`] is version 3 (draft-ietf-ccwg-bbr). Version 1 is in another crate, and shares [`Base`]. Both measure the
//! delivery rate and the smallest RTT, probe for bandwidth by sending faster for a while, and occasionally empty the
//! queue to measure the propagation delay. Version 3 also limits its rate and window by the loss that it causes.
//!
//! Neither version specifies a response to congestion marks, so neither sends its segments as ECN-capable.
#![expect(missing_docs, reason = "no part of the public interface")]

mod aggregation;
mod app_limit;
mod full_pipe;
mod random;
mod sample;
pub(crate) mod v3;

pub use self::sample::Sample;

use self::aggregation::Aggregation;
use self::app_limit::AppLimit;
use self::full_pipe::FullPipe;
use self::random::Random;

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::{Ack, BuildParams, Control, Episode, Pace, Path, SegmentKind, SendLimit, Sent, Timeout, initial_window};

/// Minimum time for which ProbeRTT keeps little in flight, long enough for flows that share a bottleneck to
/// overlap.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Validity period of the smallest RTT.
pub const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// Minimum window, in segments, that keeps data flowing to a receiver that acknowledges every second segment.
const MIN_PIPE_SEGMENTS: f64 = 4.0;

/// Pacing rate relative to the bandwidth estimate: slightly below it, so that queues shrink on average
/// (`BBRPacingMarginPercent`).
const MARGIN: f64 = 0.99;
/// Time in which the data of a quantum is sent.
const QUANTUM_SPAN: Span = Span::from_millis(1);
/// Maximum quantum.
const QUANTUM_MAX: Bytes = Bytes(65_536);
/// The RTT to assume while none is known.
const NOMINAL_RTT: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Fast,
    Timeout,
}

/// State and behaviour common to both versions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Base {
    pub mss: Bytes,
    cap: Bytes,
    /// `C.cwnd` and `C.InitialCwnd`, bytes.
    pub cwnd: f64,
    pub initial_cwnd: f64,
    /// `BBR.full_bw_reached`: whether the pipe has been full once.
    pub filled: bool,
    pipe: FullPipe,
    /// Rounds so far, whether the current ACK begins one, and the total of delivered bytes when it began. A round ends
    /// when a segment is delivered that was sent after its beginning.
    pub round: u64,
    pub round_start: bool,
    round_began: Bytes,
    aggregation: Aggregation,
    app_limit: AppLimit,
    /// Bytes/s; zero before the handshake.
    pub pacing_rate: f64,
    pub quantum: Bytes,
    random: Random,
    phase: Phase,
    /// The last window before a reduction by recovery or ProbeRTT.
    prior_cwnd: f64,
    /// End of the 200 ms of ProbeRTT, once little is in flight, and whether a round trip has passed since.
    held_until: Option<Time>,
    held_round: bool,
    pub idle_restart: bool,
    /// Values of the last event.
    pub in_flight: Bytes,
    pub total_delivered: Bytes,
    limit: SendLimit,
}

impl Base {
    /// The state before the handshake.
    #[must_use]
    pub fn new(params: &BuildParams) -> Self {
        let cwnd = initial_window::rfc6928(params.mss, initial_window::DEFAULT_SEGMENTS).as_f64();
        Self {
            mss: params.mss,
            cap: params.max_cwnd,
            cwnd,
            initial_cwnd: cwnd,
            filled: false,
            pipe: FullPipe::default(),
            round: 0,
            round_start: false,
            round_began: Bytes::ZERO,
            aggregation: Aggregation::new(Time::ZERO),
            app_limit: AppLimit::default(),
            pacing_rate: 0.0,
            quantum: Bytes::ZERO,
            random: Random::default(),
            phase: Phase::Open,
            prior_cwnd: 0.0,
            held_until: None,
            held_round: false,
            idle_restart: false,
            in_flight: Bytes::ZERO,
            total_delivered: Bytes::ZERO,
            limit: SendLimit::App,
        }
    }

    /// Starts after the handshake, with a pacing gain of `gain`.
    pub fn begin(&mut self, now: Time, gain: f64, path: &Path) {
        let cwnd = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        (self.cwnd, self.initial_cwnd) = (cwnd, cwnd);
        self.aggregation = Aggregation::new(now);
        (self.pacing_rate, self.quantum) = (initial_rate(gain, cwnd, path.srtt), Bytes::ZERO);
    }

    /// Sets the pacing rate to `gain` times the bandwidth `bw`, bytes/s, minus the margin. Until the pipe was filled,
    /// the rate only increases, because the samples of an application with little to send must not decrease it.
    pub fn set_pacing(&mut self, gain: f64, bw: f64) {
        let rate = gain * bw * MARGIN;
        if bw > 0.0 && (self.filled || rate > self.pacing_rate) {
            self.pacing_rate = rate.max(1.0);
        }
    }

    /// Sets the quantum to the data of 1 ms at the current rate, at least `least` segments.
    pub fn set_quantum(&mut self, least: u64) {
        let rate = Rate::from_bytes_per_sec(self.pacing_rate as u64);
        self.quantum = rate.bytes_in(QUANTUM_SPAN).min(QUANTUM_MAX).max(self.mss * least);
    }

    /// Begins a round (`BBRStartRound`) with `delivered` bytes delivered in total. The current round is not counted.
    pub const fn begin_round(&mut self, delivered: Bytes) {
        self.round_began = delivered;
    }

    /// Counts the round that an ACK begins, if any (`BBRUpdateRound`).
    pub fn count_round(&mut self, sample: &Sample) {
        self.round_start = sample.prior_delivered.is_some_and(|prior| prior >= self.round_began);
        if self.round_start {
            self.begin_round(sample.total_delivered);
            self.round += 1;
        }
    }

    /// Scales the initial window if the segment size decreases before the first acknowledgment (RFC 5681, section
    /// 3.1).
    pub fn on_mss(&mut self, path: &Path) {
        if self.total_delivered == Bytes::ZERO {
            let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
            (self.cwnd, self.initial_cwnd) = (self.cwnd.min(initial), self.initial_cwnd.min(initial));
        }
    }

    /// Processes a sent segment. Returns whether it ends a pause in which there was no data.
    pub fn on_sent(&mut self, event: &Sent, path: &Path) -> bool {
        self.mss = path.mss;
        let idle = event.in_flight_before == Bytes::ZERO && event.kind == SegmentKind::Data;
        let restarts = idle && matches!(self.limit, SendLimit::App | SendLimit::SendBuffer);
        if restarts {
            self.idle_restart = true;
            self.aggregation = Aggregation::new(event.now);
        }
        if event.kind != SegmentKind::Probe {
            self.in_flight = event.in_flight_before + event.bytes;
        }
        restarts
    }

    /// Processes an ACK, and returns its sample.
    pub fn on_ack(&mut self, event: &Ack<'_>, path: &Path) -> Sample {
        (self.mss, self.limit) = (path.mss, event.limit);
        (self.in_flight, self.total_delivered) = (event.in_flight, event.total_delivered);
        Sample::of(event, &self.app_limit)
    }

    /// Returns the sample of an event at `now` that delivers nothing.
    #[must_use]
    pub fn without_ack(&self, now: Time) -> Sample {
        let mut ack = Ack::new(now);
        ack.total_delivered = self.total_delivered;
        Sample::of(&ack, &self.app_limit)
    }

    /// Returns by how much the data acknowledged at once exceeds a bandwidth of `bw` bytes/s, at most the window. An
    /// episode of such excess ends at `reset` bytes.
    pub fn excess(&mut self, sample: &Sample, bw: f64, reset: f64) -> f64 {
        self.aggregation.excess(sample.now, bw, sample.newly_acked, reset).min(self.cwnd)
    }

    /// Looks for a full pipe at the end of a round with a bandwidth of `bw` (`BBRCheckFullBWReached`).
    pub fn check_full_pipe(&mut self, sample: &Sample, bw: f64) {
        if !self.pipe.full && self.round_start && !sample.app_limited {
            self.pipe.on_round(bw);
            self.filled |= self.pipe.full;
        }
    }

    /// Starts a new search for a full pipe from `baseline` bytes/s.
    pub const fn search_full_pipe(&mut self, baseline: f64) {
        self.pipe = FullPipe::from(baseline);
    }

    /// Returns a number from 0 to `bound` - 1, uniformly distributed.
    pub fn random_below(&mut self, bound: u64, measured: u64) -> u64 {
        self.random.below(bound, measured)
    }

    /// Begins ProbeRTT, which keeps little in flight for 200 ms or a round trip, whichever is longer.
    pub const fn begin_probe_rtt(&mut self) {
        (self.held_until, self.held_round) = (None, false);
    }

    /// Processes an ACK in ProbeRTT (`BBRHandleProbeRTT`), where up to `least` bytes in flight count as little. Samples
    /// of these rounds do not show the bandwidth. Returns whether a round trip with little in flight is over.
    pub fn hold_probe_rtt(&mut self, sample: &Sample, least: f64) -> bool {
        self.app_limit.mark(sample.total_delivered, self.in_flight);
        if self.held_until.is_some() {
            self.held_round |= self.round_start;
        } else if sample.in_flight <= least {
            self.held_until = Some(sample.now + PROBE_RTT_DURATION);
            self.begin_round(sample.total_delivered);
        }
        self.held_round
    }

    /// Returns whether ProbeRTT has lasted long enough at `now`.
    #[must_use]
    pub fn has_probed_rtt(&self, now: Time) -> bool {
        self.held_until.is_some_and(|until| now > until)
    }

    /// Processes a spurious recovery episode, because of which a full pipe may have been detected too early.
    pub fn on_spurious(&mut self) {
        self.restore_cwnd();
        self.phase = Phase::Open;
        self.pipe = FullPipe::default();
    }

    /// Follows the recovery: returns [`Episode::Enter`] or [`Episode::Exit`] if it begins or ends. An episode that
    /// immediately follows another one continues it. At the beginning the window is saved, where `modulated` means that
    /// ProbeRTT controls it.
    pub fn follow(&mut self, episode: Episode, modulated: bool) -> Option<Episode> {
        let before = self.phase;
        self.phase = match episode {
            Episode::None | Episode::Exit => Phase::Open,
            Episode::Enter | Episode::In | Episode::Again => Phase::Fast,
            Episode::Rto => Phase::Timeout,
        };
        match (before, self.phase) {
            (Phase::Open, Phase::Fast) => {
                self.prior_cwnd = if modulated { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
                Some(Episode::Enter)
            }
            (Phase::Fast | Phase::Timeout, Phase::Open) => Some(Episode::Exit),
            _ => None,
        }
    }

    /// Processes a timeout, which leaves one segment more than is still in flight. Returns the number of bytes that it
    /// declares lost.
    pub fn on_timeout(&mut self, event: &Timeout, path: &Path, modulated: bool) -> Bytes {
        self.mss = path.mss;
        if self.phase != Phase::Timeout {
            self.save_cwnd(modulated);
        }
        self.phase = Phase::Timeout;
        let lost = self.in_flight - event.in_flight;
        self.in_flight = event.in_flight;
        self.cwnd = (event.in_flight + self.mss).as_f64();
        lost
    }

    /// Saves the window (`BBRSaveCwnd`); `modulated` means that recovery or ProbeRTT controls it.
    pub fn save_cwnd(&mut self, modulated: bool) {
        let modulated = modulated || self.phase != Phase::Open;
        self.prior_cwnd = if modulated { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Returns to the last saved window, if it is larger.
    pub const fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Minimum window in bytes.
    #[must_use]
    pub fn min_pipe(&self) -> f64 {
        MIN_PIPE_SEGMENTS * self.mss.as_f64()
    }

    /// Increases the window by the data acknowledged, up to `most` bytes once the pipe has been full.
    pub fn grow(&mut self, sample: &Sample, most: f64) {
        if self.filled {
            self.cwnd = (self.cwnd + sample.newly_acked).min(most);
        } else if self.cwnd < most || sample.total_delivered.as_f64() < self.initial_cwnd {
            self.cwnd += sample.newly_acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
    }

    /// Limits the window to `most` bytes and to the configured maximum.
    pub fn limit_cwnd(&mut self, most: f64) {
        self.cwnd = self.cwnd.min(most).min(self.cap.max(self.mss).as_f64());
    }

    /// Returns the pacing rate and the window.
    #[must_use]
    pub fn control(&self) -> Control {
        let cwnd = Bytes::from_f64(self.cwnd).min(self.cap).max(self.mss);
        let rate = Rate::from_bytes_per_sec(self.pacing_rate as u64);
        let quantum = Some(self.quantum).filter(|quantum| *quantum > Bytes::ZERO);
        let pace = (rate > Rate::ZERO).then_some(Pace { rate, quantum });
        Control { pace, ..Control::window(cwnd) }
    }
}

/// Returns `gain` times the window `cwnd` per round trip, bytes/s.
fn initial_rate(gain: f64, cwnd: f64, srtt: Option<Span>) -> f64 {
    let rtt = srtt.unwrap_or(NOMINAL_RTT).max(Span::from_nanos(1));
    (gain * cwnd / rtt.as_secs_f64()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        Base::new(&BuildParams { mss: Bytes(1448), ..BuildParams::default() })
    }

    #[test]
    fn a_round_ends_with_the_first_segment_sent_in_it() {
        let mut base = base();
        let mut sample = base.without_ack(Time::ZERO);
        let starts = [(0, 10), (0, 20), (5, 30), (10, 40), (39, 50), (40, 60)].map(|(prior, delivered)| {
            (sample.prior_delivered, sample.total_delivered) = (Some(Bytes(prior)), Bytes(delivered));
            base.count_round(&sample);
            base.round_start
        });
        assert_eq!((starts, base.round), ([true, false, false, true, false, true], 3));
        (sample.prior_delivered, sample.total_delivered) = (None, Bytes(70));
        base.count_round(&sample);
        assert!(!base.round_start);
    }

    #[test]
    fn the_first_rate_is_the_initial_window_a_round_trip_times_the_gain() {
        assert!((initial_rate(2.77, 14_480.0, Some(Span::from_millis(100))) - 401_096.0).abs() < 1e-6);
        assert!((initial_rate(2.0, 1000.0, None) - 2e6).abs() < 1e-6);
    }

    #[test]
    fn the_rate_falls_only_once_the_pipe_was_full() {
        let mut base = base();
        base.pacing_rate = 1000.0;
        let mut rate = |gain, bw, filled| {
            base.filled = filled;
            base.set_pacing(gain, bw);
            base.pacing_rate
        };
        assert_eq!(
            [rate(1.0, 500.0, false), rate(1.25, 4000.0, false), rate(0.75, 4000.0, true)],
            [1000.0, 4950.0, 2970.0]
        );
    }

    #[test]
    fn a_quantum_is_a_millisecond_within_bounds() {
        let mut base = base();
        assert_eq!(base.control().pace, None);
        for (rate, quantum) in [(1_000.0, 2896), (10e6, 10_000), (1e9, 65_536)] {
            base.pacing_rate = rate;
            base.set_quantum(2);
            assert_eq!(base.quantum, Bytes(quantum), "{rate}");
        }
    }
}
