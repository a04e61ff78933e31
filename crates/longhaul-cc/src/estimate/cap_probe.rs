//! CapProbe: of all packet pairs, believe the one that waited least.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::packet_pair::PairSample;
use super::rate_range::RateRange;

/// What a [`CapProbe`] asks of its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapProbeConfig {
    /// So many samples before anything counts as converged; at least 1. 40 in the published procedure.
    pub least: u32,
    /// What a single delay may be wrong by: the coarser clock's resolution, 0 for one without error. Two readings are in each
    /// sum.
    pub clock: Span,
    /// So much of the dispersion may the least sum exceed the sum of the least delays by, 0 to 0.5. It bounds the error of
    /// the estimate: 0.05 is 5 %.
    pub share: f64,
    /// A minimum is forgotten when it is older than this, or up to half as old: what a route has become shows after that
    /// long.
    pub window: Span,
}

impl Default for CapProbeConfig {
    /// 40 samples, 1 us, 5 %, and two minutes: four times what the published trace needed for its least sum.
    fn default() -> Self {
        Self { least: 40, clock: Span::from_micros(1), share: 0.05, window: Span::from_secs(120) }
    }
}

/// What a [`CapProbe`] knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapProbeEstimate {
    /// The rate of the pair with the least sum of delays, and what it can be if only [`excess`](Self::excess) and the clock
    /// are to blame.
    pub rate: RateRange,
    /// By how much its sum exceeds the sum of the least delays: what its packets waited in all.
    pub excess: Span,
    /// The least sum.
    pub sum: Span,
    /// Samples that were looked at.
    pub samples: u32,
    /// Of those, the ones whose sum is as small as the least, within tolerance.
    pub support: u32,
    /// Whether there are enough samples, and the excess is within tolerance.
    pub converged: bool,
}

/// The filter of CapProbe (Kapoor, Chen, Lao, Gerla, Sanadidi, SIGCOMM 2004): a pair whose dispersion is wrong had to wait
/// with at least one packet, so that the pair with the least sum of delays is the one to believe.
///
/// Its convergence test is that the least sum is the sum of the least delays of each packet: then no packet of that
/// pair waited for longer than the best ever did. If the least delays are those of an idle path, the dispersion is wrong
/// by the excess at most.
///
/// A constant in all delays, such as the offset of a clock, is in both sides of that test and drops out. A drift does not:
/// delays have to be measured by one clock, or its drift taken out of them. All samples need one size; one of
/// another size begins anew. 152 bytes, no allocation, a few comparisons a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapProbe {
    config: CapProbeConfig,
    /// Samples of the last half window or less.
    new: Minima,
    /// Those of the half window before.
    old: Minima,
}

/// The least delays and the best pair of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Minima {
    since: Time,
    first: Span,
    second: Span,
    sum: Span,
    dispersion: Span,
    bytes: Bytes,
    samples: u32,
    support: u32,
}

const EMPTY: Minima = Minima {
    since: Time::ZERO,
    first: Span::MAX,
    second: Span::MAX,
    sum: Span::MAX,
    dispersion: Span::ZERO,
    bytes: Bytes::ZERO,
    samples: 0,
    support: 0,
};

impl CapProbe {
    /// Without samples. A `share` that is no number or negative counts as zero.
    #[must_use]
    pub const fn new(config: CapProbeConfig) -> Self {
        Self { config, new: EMPTY, old: EMPTY }
    }

    /// What it asks of its samples.
    #[must_use]
    pub const fn config(&self) -> &CapProbeConfig {
        &self.config
    }

    /// A clock turned out to be coarser, or finer.
    pub const fn set_clock(&mut self, clock: Span) {
        self.config.clock = clock;
    }

    /// Takes a sample at `now`, which never goes back. Whether it is of use: absurd ones change nothing.
    pub fn on_pair(&mut self, sample: &PairSample, now: Time) -> bool {
        if sample.rate().is_none() {
            return false;
        }
        if self.merged().is_some_and(|minima| minima.bytes != sample.bytes) {
            self.reset();
        }
        self.age(now);
        let tolerance = self.tolerance(sample.dispersion);
        self.new.take(sample, now, tolerance);
        true
    }

    /// Forgets all samples: the route has changed, or the application knows better.
    pub const fn reset(&mut self) {
        (self.new, self.old) = (EMPTY, EMPTY);
    }

    /// What is known as of the newest sample; `None` before there is one.
    #[must_use]
    pub fn estimate(&self) -> Option<CapProbeEstimate> {
        let best = self.merged()?;
        let excess = best.sum.max(best.first + best.second) - (best.first + best.second);
        let doubt = excess + self.config.clock * 2;
        let shortest = best.dispersion - doubt;
        let rate = RateRange {
            low: Rate::from_bytes_over(best.bytes, best.dispersion + doubt),
            value: Rate::from_bytes_over(best.bytes, best.dispersion),
            high: Rate::from_bytes_over(best.bytes, shortest),
        };
        let converged = best.samples >= self.config.least && excess <= self.tolerance(best.dispersion);
        Some(CapProbeEstimate { rate, excess, sum: best.sum, samples: best.samples, support: best.support, converged })
    }

    /// The least delays of a first and of a second packet; `None` before there is a sample.
    #[must_use]
    pub fn least_delays(&self) -> Option<(Span, Span)> {
        self.merged().map(|minima| (minima.first, minima.second))
    }

    /// By how much sums may differ that are as good as equal.
    fn tolerance(&self, dispersion: Span) -> Span {
        self.config.clock * 2 + dispersion.mul_f64(self.config.share)
    }

    /// Drops what is older than the window.
    fn age(&mut self, now: Time) {
        let half = self.config.window / 2;
        let passed = now.since(self.new.since);
        if self.new.samples == 0 || passed < half {
            return;
        }
        self.old = if passed < self.config.window { self.new } else { EMPTY };
        self.new = EMPTY;
    }

    fn merged(&self) -> Option<Minima> {
        let (new, old) = (self.new, self.old);
        match (new.samples, old.samples) {
            (0, 0) => None,
            (_, 0) => Some(new),
            (0, _) => Some(old),
            _ => {
                let (best, other) = if new.sum <= old.sum { (new, old) } else { (old, new) };
                let agrees = other.sum - best.sum <= self.tolerance(best.dispersion);
                Some(Minima {
                    first: new.first.min(old.first),
                    second: new.second.min(old.second),
                    samples: new.samples.saturating_add(old.samples),
                    support: best.support.saturating_add(if agrees { other.support } else { 0 }),
                    ..best
                })
            }
        }
    }
}

impl Default for CapProbe {
    fn default() -> Self {
        Self::new(CapProbeConfig::default())
    }
}

impl Minima {
    fn take(&mut self, sample: &PairSample, now: Time, tolerance: Span) {
        if self.samples == 0 {
            self.since = now;
        }
        self.samples = self.samples.saturating_add(1);
        self.first = self.first.min(sample.first_delay);
        self.second = self.second.min(sample.second_delay);
        let sum = sample.sum();
        if sum < self.sum {
            let agrees = self.sum - sum <= tolerance;
            self.support = if agrees { self.support.saturating_add(1) } else { 1 };
            (self.sum, self.dispersion, self.bytes) = (sum, sample.dispersion, sample.bytes);
        } else if sum - self.sum <= tolerance {
            self.support = self.support.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
