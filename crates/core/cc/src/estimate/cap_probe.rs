//! CapProbe: of all packet pairs, the one with the smallest delay shows the capacity.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::packet_pair::PairSample;
use super::rate_range::RateRange;

/// Configuration of a [`CapProbe`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CapProbeConfig {
    /// Number of samples needed for convergence, at least 1; 40 in the published procedure.
    pub least: u32,
    /// Largest error of a single delay: the resolution of the coarser clock, or 0 for an exact one. Each sum has two
    /// readings.
    pub clock: Span,
    /// Fraction of the dispersion by which the smallest sum may exceed the sum of the smallest delays, 0 to 0.5. It
    /// bounds the error of the estimate: 0.05 is 5 %.
    pub share: f64,
    /// Lifetime of a minimum, which may also expire up to half earlier. A longer route is detected after that time.
    pub window: Span,
}

impl Default for CapProbeConfig {
    /// Returns 40 samples, 1 us, 5 %, and two minutes, which is four times the time that the published trace needed for
    /// its smallest sum.
    fn default() -> Self {
        Self { least: 40, clock: Span::from_micros(1), share: 0.05, window: Span::from_secs(120) }
    }
}

/// Estimate of a [`CapProbe`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CapProbeEstimate {
    /// Rate of the pair with the smallest sum of delays, and its range if only [`excess`](Self::excess) and the clock
    /// cause errors.
    pub rate: RateRange,
    /// Difference between its sum and the sum of the smallest delays: the total queueing delay of both packets.
    pub excess: Span,
    /// Smallest sum of delays.
    pub sum: Span,
    /// Number of samples used.
    pub samples: u32,
    /// Number of samples whose sum equals the smallest one within tolerance.
    pub support: u32,
    /// Whether there are enough samples and the excess is within tolerance.
    pub converged: bool,
}

/// Filter of CapProbe (Kapoor, Chen, Lao, Gerla, Sanadidi, SIGCOMM 2004). If the dispersion of a pair is wrong, at
/// least one of its packets was queued, so that the pair with the smallest sum of delays is the most reliable one.
///
/// The estimate converges if the smallest sum equals the sum of the smallest delays of each packet. In that case, no
/// packet of that pair was queued for longer than the best packets. If the smallest delays are those of an idle path,
/// the error of the dispersion is at most the excess.
///
/// A constant in all delays, such as the offset of a clock, appears on both sides of that test and cancels out. A drift
/// does not: the delays have to be measured by one clock, or be corrected for drift. All samples have the same size; a
/// sample of another size restarts the filter. A filter has 152 bytes, makes no allocations, and costs a few
/// comparisons per sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapProbe {
    config: CapProbeConfig,
    new: Minima,
    old: Minima,
}

/// Smallest delays and best pair of a period.
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
    /// Creates a filter without samples. A `share` that is negative or not a number counts as zero.
    #[must_use]
    pub const fn new(config: CapProbeConfig) -> Self {
        Self { config, new: EMPTY, old: EMPTY }
    }

    /// Adds a sample at `now`, which never decreases. Returns whether it was used; invalid samples change nothing.
    pub fn on_pair(&mut self, sample: &PairSample, now: Time) -> bool {
        if sample.rate().is_none() {
            return false;
        }
        if self.merged().is_some_and(|minima| minima.bytes != sample.bytes) {
            (self.new, self.old) = (EMPTY, EMPTY);
        }
        self.age(now);
        let tolerance = self.tolerance(sample.dispersion);
        self.new.take(sample, now, tolerance);
        true
    }

    /// Returns the estimate as of the newest sample, or `None` before the first.
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

    /// Returns the difference up to which two sums count as equal.
    fn tolerance(&self, dispersion: Span) -> Span {
        self.config.clock * 2 + dispersion.mul_f64(self.config.share)
    }

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
