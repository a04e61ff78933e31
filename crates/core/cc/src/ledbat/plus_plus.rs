//! LEDBAT++'s congestion avoidance: an additive increase scaled by the gain per round trip below the target delay, a
//! multiplicative decrease above it, and slowdowns in which the delay of the empty path is measured (draft, sections
//! 4.1, 4.2, 4.4).

use longhaul_units::{Bytes, Span, Time};

use super::gauge::{DELAY, Gauge};
use super::{DelaySource, TARGET};
use crate::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Stage, Target, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Needs, Path};

/// Fraction of the window that is kept after a loss (RFC 6817, section 2.4.2).
const BETA: f64 = 0.5;
/// Window of a slowdown, and the minimum window in general, in segments (draft, section 4.4; RFC 6817: MIN_CWND).
const LEAST_SEGMENTS: f64 = 2.0;
/// Number of round trips between the end of the first slow start and the first slowdown (draft, section 4.4).
const FIRST_ROUNDS: u64 = 2;
/// Number of round trips for which a slowdown holds the minimum window (draft, section 4.4).
const FROZEN_ROUNDS: u64 = 2;
/// Time between two slowdowns, as a multiple of the duration of the last one, so that slowdowns take at most a tenth of
/// the time (draft, section 4.4).
const INTERVAL: u64 = 9;

pub(crate) static ENTRY: Entry =
    Entry::avoidance("ledbat-plus-plus", |values| Box::new(LedbatPlusPlus::new(Options::from_values(values))))
        .described(
            "yields to all other flows at 60 ms of queueing delay; slows down periodically to measure the base delay",
            "draft-irtf-iccrg-ledbat-plus-plus-06, RFC 6817",
        )
        .with_options(Options::OPTIONS)
        .tested_in(&[
            "ledbat-plus-plus",
            "slow-start+ledbat-plus-plus(target=5,decrease=0.5,slowdown=off)",
            "ledbat-start(delay=auto)+ledbat-plus-plus(delay=auto)",
        ])
        .internet_safe();

crate::options! {
    pub(super) struct Options {
        target: Span [Span::from_millis] = TARGET,
        /// The draft's Constant.
        decrease: f64 =
            OptionSpec::float("decrease", 0.01, 10.0, 1.0, "weight of the excess delay in the decrease"),
        slowdown: bool = OptionSpec::flag("slowdown", true, "slow down for a tenth of the time to measure the base delay"),
        delay: DelaySource = DELAY,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Slowdown {
    /// The first slow start has not ended.
    Never,
    /// The next slowdown is due at this time.
    Due(Time),
    /// The window is held at its minimum.
    Frozen { began: Time, until: Time },
    /// Slow start returns to the window before the slowdown.
    Ramp { began: Time },
}

#[derive(Clone, Debug)]
pub(crate) struct LedbatPlusPlus {
    options: Options,
    /// Inverse of the target, per second.
    per_second: f64,
    delays: Gauge,
    /// Base delay and the gain computed from it, cached because the base seldom changes.
    gain: (Option<Span>, f64),
    slowdown: Slowdown,
}

impl LedbatPlusPlus {
    pub(super) fn new(options: Options) -> Self {
        let (per_second, delays) = (1.0 / options.target.as_secs_f64(), Gauge::of(options.delay));
        Self { options, per_second, delays, gain: (None, 1.0), slowdown: Slowdown::Never }
    }

    /// Returns the change in segments per round trip at a window of `segments`.
    fn change(&mut self, segments: f64) -> f64 {
        let base = self.delays.base();
        if self.gain.0 != base {
            self.gain = (base, self.delays.gain(self.options.target));
        }
        let (_, gain) = self.gain;
        let excess = self.delays.queueing() * self.per_second - 1.0;
        if excess < 0.0 { gain } else { (gain - self.options.decrease * segments * excess).max(-segments / 2.0) }
    }

    /// Applies the share of one ACK in the change per round trip.
    fn adjust(&mut self, ack: &Ack<'_>, grow: Bytes, mss: f64, window: &mut Window) {
        let change = self.change(window.cwnd / mss) * mss;
        let counted = if change > 0.0 { grow } else { ack.delivered };
        window.cwnd += change * (counted.as_f64() / window.cwnd).min(1.0);
        window.cwnd = window.cwnd.max(LEAST_SEGMENTS * mss);
    }

    /// Returns whether a slowdown is due. The window has to be used, so that the flow has a queue of its own to
    /// drain.
    fn is_due(&self, ack: &Ack<'_>) -> bool {
        self.options.slowdown && ack.cwnd_limited && matches!(self.slowdown, Slowdown::Due(due) if ack.now >= due)
    }

    fn freeze(&mut self, now: Time, path: &Path, window: &mut Window) {
        let least = LEAST_SEGMENTS * path.mss.as_f64();
        window.ssthresh = window.cwnd;
        window.cwnd = window.cwnd.min(least);
        self.slowdown = Slowdown::Frozen { began: now, until: now + rounds(path, FROZEN_ROUNDS) };
    }
}

/// Returns the duration of `count` smoothed round trips.
fn rounds(path: &Path, count: u64) -> Span {
    path.srtt.unwrap_or(Span::ZERO) * count
}

impl Stage for LedbatPlusPlus {
    fn needs(&self) -> Needs {
        self.delays.needs()
    }

    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.delays.observe(ack);
        true
    }

    fn phase(&self) -> &'static str {
        if matches!(self.slowdown, Slowdown::Frozen { .. }) { "slowdown" } else { "congestion-avoidance" }
    }
}

impl CongestionAvoidance for LedbatPlusPlus {
    fn begin(&mut self, handoff: &Handoff, path: &Path, _window: &mut Window) {
        self.slowdown = match self.slowdown {
            Slowdown::Never => Slowdown::Due(handoff.now + rounds(path, FIRST_ROUNDS)),
            Slowdown::Frozen { began, .. } | Slowdown::Ramp { began } => {
                Slowdown::Due(handoff.now + handoff.now.since(began) * INTERVAL)
            }
            due @ Slowdown::Due(_) => due,
        };
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        match self.slowdown {
            Slowdown::Frozen { began, until } if ack.now >= until => {
                self.slowdown = Slowdown::Ramp { began };
                return AvoidanceStep::Grow;
            }
            Slowdown::Frozen { .. } => {}
            _ if self.is_due(ack) => self.freeze(ack.now, path, window),
            _ => self.adjust(ack, grow, path.mss.as_f64(), window),
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, BETA, path.mss)
    }
}
