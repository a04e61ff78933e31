//! BBR (bottleneck bandwidth and round-trip propagation time): monolithic controllers that send at the rate at which
//! the path delivers, and keep little more in flight than that rate needs.
//!
//! [`v3`] is version 3 (draft-ietf-ccwg-bbr). Version 1 is in another crate, and has the same [`Base`]. Both measure
//! the delivery rate and the smallest RTT, probe for bandwidth by sending faster for a while, and occasionally empty
//! the queue to measure the propagation delay. Version 3 also limits its rate and window by the loss that it causes.
//!
//! Neither version specifies a response to congestion marks, so neither sends its segments as ECN-capable.
#![expect(missing_docs, reason = "no part of the public interface")]

mod aggregation;
mod app_limit;
mod full_pipe;
mod pacing;
mod probe_rtt;
mod random;
mod recovery;
mod rounds;
mod sample;
pub(crate) mod v3;

pub use self::{recovery::Turn, sample::Sample};

use self::aggregation::Aggregation;
use self::app_limit::AppLimit;
use self::full_pipe::FullPipe;
use self::pacing::Pacing;
use self::probe_rtt::Hold;
use self::random::Random;
use self::recovery::{Phase, Recovery};
use self::rounds::Rounds;

use longhaul_units::{Bytes, Span, Time};

use crate::{Ack, BuildParams, Control, Episode, Path, SegmentKind, SendLimit, Sent, Timeout, initial_window};

/// Minimum time for which ProbeRTT keeps little in flight, long enough for flows that share a bottleneck to
/// overlap.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Validity period of the smallest RTT.
pub const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// Minimum window, in segments, that keeps data flowing to a receiver that acknowledges every second segment.
const MIN_PIPE_SEGMENTS: f64 = 4.0;

/// State that both versions have, and what both do with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Base {
    pub mss: Bytes,
    cap: Bytes,
    /// `C.cwnd` and `C.InitialCwnd`, bytes.
    pub cwnd: f64,
    pub initial_cwnd: f64,
    /// `BBR.full_bw_reached`: the pipe has been full once.
    pub filled: bool,
    pipe: FullPipe,
    pub rounds: Rounds,
    aggregation: Aggregation,
    app_limit: AppLimit,
    pub pacing: Pacing,
    random: Random,
    recovery: Recovery,
    hold: Hold,
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
            rounds: Rounds::default(),
            aggregation: Aggregation::new(Time::ZERO),
            app_limit: AppLimit::default(),
            pacing: Pacing::unset(),
            random: Random::default(),
            recovery: Recovery::default(),
            hold: Hold::default(),
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
        self.pacing = Pacing::initial(gain, cwnd, path.srtt);
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

    /// Processes an ACK, and returns what it says.
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
        if !self.pipe.is_full() && self.rounds.start && !sample.app_limited {
            self.pipe.on_round(bw);
            self.filled |= self.pipe.is_full();
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

    /// Begins ProbeRTT.
    pub fn begin_probe_rtt(&mut self) {
        self.hold = Hold::default();
    }

    /// Processes an ACK in ProbeRTT (`BBRHandleProbeRTT`), where up to `least` bytes in flight count as little. Samples
    /// of these rounds do not show the bandwidth. Returns whether a round trip with little in flight is over.
    pub fn hold_probe_rtt(&mut self, sample: &Sample, least: f64) -> bool {
        self.app_limit.mark(sample.total_delivered, self.in_flight);
        self.hold.on_ack(sample, least, &mut self.rounds)
    }

    /// Returns whether ProbeRTT has lasted long enough at `now`.
    #[must_use]
    pub fn has_probed_rtt(&self, now: Time) -> bool {
        self.hold.is_over(now)
    }

    /// Processes a spurious recovery episode, because of which the full pipe may have been found too early.
    pub fn on_spurious(&mut self) {
        self.restore_cwnd();
        self.recovery.phase = Phase::Open;
        self.pipe = FullPipe::default();
    }

    /// Returns the change of the recovery by `episode`. At its beginning the window is saved, which is `modulated` if
    /// ProbeRTT controls it.
    pub fn turn(&mut self, episode: Episode, modulated: bool) -> Turn {
        let turn = self.recovery.follow(episode);
        if turn == Turn::Enter {
            self.recovery.save(self.cwnd, modulated);
        }
        turn
    }

    /// Processes a timeout, which leaves one segment more than is still in flight. Returns the bytes that it declares
    /// lost.
    pub fn on_timeout(&mut self, event: &Timeout, path: &Path, modulated: bool) -> Bytes {
        self.mss = path.mss;
        if self.recovery.phase != Phase::Timeout {
            self.save_cwnd(modulated);
        }
        self.recovery.phase = Phase::Timeout;
        let lost = self.in_flight - event.in_flight;
        self.in_flight = event.in_flight;
        self.cwnd = (event.in_flight + self.mss).as_f64();
        lost
    }

    /// Saves the window (`BBRSaveCwnd`), which is `modulated` if ProbeRTT controls it.
    pub fn save_cwnd(&mut self, modulated: bool) {
        self.recovery.save(self.cwnd, modulated || self.recovery.phase != Phase::Open);
    }

    /// Returns to the last saved window, if it is larger.
    pub const fn restore_cwnd(&mut self) {
        self.cwnd = self.recovery.restored(self.cwnd);
    }

    /// Minimum window in bytes.
    #[must_use]
    pub fn min_pipe(&self) -> f64 {
        MIN_PIPE_SEGMENTS * self.mss.as_f64()
    }

    /// Increases the window by the data acknowledged, up to `most` bytes once the pipe was full.
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
        Control { pace: self.pacing.pace(), ..Control::window(cwnd) }
    }
}
