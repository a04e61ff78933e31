//! HyStart as in Linux's CUBIC (Ha, Rhee): slow start that ends when an ACK train is as long as the RTT, or when the
//! RTT increases.

use longhaul_cc::compose::{AckLimit, IW_OPTION, L_OPTION, Reason, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path, initial_window};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Window below which the detectors are off, in segments (Linux, `hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// Maximum gap between two ACKs of a train (Linux, `hystart_ack_delta_us`).
const ACK_DELTA: Span = Span::from_millis(2);
/// Divisor of the minimum RTT that yields the RTT increase at which the delay detector ends slow start (Linux,
/// `tcp_cubic.c`, `hystart_update`).
const DELAY_DIVISOR: u64 = 8;
/// Bounds of the RTT increase at which the delay detector ends slow start (Linux, `HYSTART_DELAY_MIN` and `_MAX`).
const MIN_DELAY: Span = Span::from_millis(4);
const MAX_DELAY: Span = Span::from_millis(16);
/// Number of RTT samples of a round before the comparison (Linux, `HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// Maximum ACK delay that the sender's own batches cause (Linux, `hystart_ack_delay`).
const MAX_ACK_DELAY: Span = Span::from_millis(1);
/// Size in bytes of four segmentation-offload batches of maximum size (`gso_max_size`), for which Linux makes an
/// allowance (`hystart_ack_delay`).
const BATCHES: Bytes = Bytes(4 * 65_536);
/// Pacing rate in slow start in windows per round trip, in Linux (`tcp_pacing_ss_ratio`) and the default of this
/// transport.
const PACING_GAIN: f64 = 2.0;

pub(crate) static ENTRY: Entry = Entry::slow_start("hystart", |values| Box::new(HyStart::from_values(values)))
    .described(
        "slow start that ends when the ACK train or the RTT becomes long",
        "Ha, Rhee, Taming the elephants: new TCP slow start, Computer Networks 55(9), 2011; Linux",
    )
    .with_options(HyStart::OPTIONS)
    .tested_in(&["hystart+cubic", "hystart+new-reno", "hystart(detect=delay,l=1)+cubic"])
    .internet_safe();

longhaul_cc::options! {
    /// Detectors that may end slow start.
    pub(crate) enum Detect {
        /// Either of the following two.
        Both = "both",
        AckTrain = "ack-train",
        /// Increase of the RTT.
        Delay = "delay",
    }
}

longhaul_cc::options! {
    /// HyStart: slow start with two detectors. After one of them has ended it, this is standard slow start until a
    /// timeout.
    pub(crate) struct HyStart {
        initial_segments: u32 = IW_OPTION,
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        detect: Detect = OptionSpec::choice("detect", Detect::NAMES, "signal that ends slow start"),
        detector: Detector => Detector::default(),
        found: bool => false,
    }
}

/// A HyStart round: it ends when more is delivered than was in flight when it began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    /// Total of delivered bytes above which the next round begins.
    end: Bytes,
    start: Time,
    /// Time of the last ACK of the train that began with the round.
    last_ack: Time,
    min: Option<Span>,
    samples: u32,
}

/// The two detectors of HyStart, evaluated round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Detector {
    /// Whether rounds are also counted while the window is too small for the detectors.
    always: bool,
    round: Option<Round>,
    /// Minimum RTT since the detector began.
    pub(super) least: Option<Span>,
}

impl Detector {
    /// Returns a detector that counts rounds from the first ACK of the connection on, as the SUSS kernel patch does.
    pub(super) const fn from_the_first_ack() -> Self {
        Self { always: true, round: None, least: None }
    }

    /// Processes an ACK with the RTT sample `rtt`. `wide` states whether the window is large enough for the detectors.
    pub(super) fn observe(&mut self, ack: &Ack<'_>, rtt: Span, wide: bool) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if !wide && !self.always {
            return;
        }
        if self.round.is_none_or(|round| ack.total_delivered > round.end) {
            let now = arrival(ack);
            let end = ack.total_delivered + ack.in_flight;
            self.round = Some(Round { end, start: now, last_ack: now, min: None, samples: 0 });
        }
        if let Some(round) = self.round.as_mut().filter(|_| wide) {
            round.min = Some(round.min.map_or(rtt, |min| min.min(rtt)));
        }
    }

    /// Returns whether a window of `cwnd` bytes is large enough for the detectors.
    pub(super) fn is_wide(&self, cwnd: f64, mss: Bytes) -> bool {
        cwnd >= (mss * LOW_WINDOW).as_f64()
    }

    pub(super) fn round_least(&self) -> Option<Span> {
        self.round.and_then(|round| round.min)
    }

    /// Returns the length of this round's ACK train, if this ACK belongs to the train.
    pub(super) fn train(&mut self, ack: &Ack<'_>) -> Option<Span> {
        let now = arrival(ack);
        let round = self.round.as_mut()?;
        if now.since(round.last_ack) > ACK_DELTA {
            return None;
        }
        round.last_ack = now;
        Some(now.since(round.start))
    }

    /// Returns whether the RTTs of this round show a queue. The first [`SAMPLES`] samples of a round
    /// are only counted; comparison begins with the next one.
    pub(super) fn delayed(&mut self) -> bool {
        let (Some(round), Some(least)) = (&mut self.round, self.least) else {
            return false;
        };
        if round.samples < SAMPLES {
            round.samples += 1;
            return false;
        }
        let threshold = (least / DELAY_DIVISOR).clamp(MIN_DELAY, MAX_DELAY);
        round.min.is_some_and(|min| min > least + threshold)
    }

    /// Returns the maximum train length that does not end slow start: the minimum RTT plus the allowance for the
    /// sender's batches, or half of that if the sender does not pace.
    fn longest_train(&self, cwnd: f64, paced: bool) -> Option<Span> {
        let longest = self.least? + ack_delay(cwnd, self.least?);
        Some(if paced { longest } else { longest / 2 })
    }

    /// Returns whether the detectors of `detect` end slow start with this ACK, for a window of `cwnd` bytes.
    pub(super) fn ends(&mut self, detect: Detect, ack: &Ack<'_>, cwnd: f64, paced: bool) -> bool {
        let long = detect != Detect::Delay
            && self.train(ack).is_some_and(|train| self.longest_train(cwnd, paced).is_some_and(|most| train > most));
        let delayed = detect != Detect::AckTrain && self.delayed();
        long || delayed
    }
}

/// Returns the arrival time of an ACK, for intervals between ACKs.
pub(super) fn arrival(ack: &Ack<'_>) -> Time {
    ack.rx_time.unwrap_or(ack.now)
}

/// Returns the allowance for segments that the sender transmits in batches: the duration of four batches at the pacing
/// rate of slow start, at most 1 ms.
pub(super) fn ack_delay(cwnd: f64, rtt: Span) -> Span {
    let pace = Rate::from_bytes_over(Bytes::from_f64(cwnd * PACING_GAIN), rtt);
    if pace == Rate::ZERO { Span::ZERO } else { pace.time_for(BATCHES).min(MAX_ACK_DELAY) }
}

impl Stage for HyStart {}

impl SlowStart for HyStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn begin(&mut self, reason: Reason, _path: &Path, _window: &Window) {
        if matches!(reason, Reason::NoLoss | Reason::Timeout) {
            self.detector = Detector::default();
            self.found = false;
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let watched = if self.found { None } else { ack.rtt };
        if let Some(sample) = watched {
            let wide = self.detector.is_wide(window.cwnd, path.mss);
            self.detector.observe(ack, sample.rtt, wide);
            if wide && self.detector.ends(self.detect, ack, window.cwnd, path.paced) {
                self.found = true;
                window.ssthresh = window.cwnd;
                return Step::Done;
            }
        }
        raise(window, self.limit.apply(grow, ack, path))
    }
}

#[cfg(test)]
mod tests;
