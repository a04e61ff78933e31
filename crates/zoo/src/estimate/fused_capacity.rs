//! Estimator of the bottleneck capacity that is both fast and accurate: BE fused with TCPProbe's pairs.

use longhaul_cc::estimate::{PairSample, RateRange, WindowedMax, WindowedMin};
use longhaul_cc::{Ack, Episode, Path};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::round_rate::Sampler;
use super::{Bandwidth, BandwidthStart};

mod pairs;

use pairs::Pairs;

/// Number of minimum RTTs over which delivered data is measured to prove a rate of the path.
const FLOOR_SPAN: u64 = 4;
/// Window of the lower bound by the delivered rate, in minimum RTTs.
const FLOOR_WINDOW: u64 = 8;
/// Weight of agreeing pairs needed once as many pairs as CapProbe's were seen, because one or two may agree by
/// chance.
const LEAST_WEIGHT: f64 = 3.0;
/// Fraction of all pairs that must agree while there are fewer pairs, because cross traffic does not distort half of
/// the pairs in the same way.
const MAJORITY: f64 = 0.5;
/// Number of consecutive pairs that contradict the others, and agree with one another, after which the path is
/// considered changed.
const UNANIMOUS: u32 = 10;
/// Number of consecutive contradicting pairs after which the path is considered changed even if they do not agree. If a
/// tenth of the pairs is undistorted, one sequence of that length in 37,000 has none.
const CONTRADICTING: u32 = 100;

/// Largest error of a single reading, the resolution of the coarser clock. A dispersion has two readings.
const CLOCK: Span = Span::from_micros(1);
/// Relative difference, in addition to the error of two readings, up to which dispersions agree.
const SHARE: f64 = 0.05;
/// Weight of the pairs that agree with the best one at which the estimate has converged, if it is also at least half of
/// the number of all pairs seen.
const SURE: f64 = 6.0;
/// Number of pairs seen after which [`LEAST_WEIGHT`] is enough, as in CapProbe.
const LEAST: u32 = 40;
/// Lifetime of pairs and minimum RTTs.
const WINDOW: Span = Span::from_secs(120);

/// Returns whether two dispersions correspond to the same rate; `other` is the reference.
fn agree(one: Span, other: Span) -> bool {
    one.max(other) - one.min(other) <= other.mul_f64(SHARE) + CLOCK * 2
}

/// Estimate of a [`FusedCapacity`], in bytes of IP packets per second once a pair has shown their size.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FusedEstimate {
    /// Capacity and its range, if only the queueing of the best pair and the clock cause errors. The lower bound is the
    /// rate delivered over several round trips.
    pub rate: RateRange,
    /// Weight of the pairs in the estimate, 0 to 1; the rest is BE.
    pub trust: f64,
    /// Number of pairs since the last change of the path.
    pub samples: u32,
    /// Number of stored pairs that agree with the best one.
    pub support: u32,
    /// Whether enough pairs agree.
    pub converged: bool,
}

/// Combination of BE and TCPProbe, which Gerla et al. (PFLDnet 2006, section 3.2 and conclusions) suggest as future
/// work. BE has an estimate after one round trip, but fluctuates. TCPProbe is accurate, but has to wait for a pair that
/// was not queued anywhere, and for forty pairs to confirm that it was not.
///
/// The dispersion of a pair whose first packet was queued for `w` (its delay exceeds the minimum RTT of *all* ACKs by
/// `w`) can be wrong by `w`. The weight of a pair is therefore
///
/// ```text
/// weight = D / (D + 2 w)        D its dispersion
/// ```
///
/// As in CapProbe, the pair with the smallest sum of delays is the best. The weights of the pairs that agree with it
/// are summed. That sum, up to one, is the weight of the pairs in the estimate, by the weighted mean of their
/// dispersions; the rest is BE. A single pair without queueing replaces BE at once. If a standing queue delays every
/// pair, BE measures the rate of the link and remains the estimate. The estimate is at least the rate delivered over
/// four round trips outside of recovery, and slower pairs are ignored.
///
/// The estimate converges if the agreeing weight is 6 and half of the maximum weight of all pairs, or 3 with forty
/// pairs or more. CapProbe always needs forty.
///
/// A pair that shows a higher rate and was queued for less time becomes the best one at once. The path is considered
/// slower after ten consecutive pairs that contradict the best one and agree with one another, or after a hundred that
/// contradict it. The earlier pairs and the minimum RTT are then discarded.
///
/// An estimator takes 1.7 kB and does not allocate. Processing a pair takes some hundred operations, and an ACK without
/// a pair as many as in BE.
#[derive(Clone, Debug)]
pub struct FusedCapacity {
    be: Bandwidth,
    delivered: Sampler,
    floor: WindowedMax,
    /// Minimum RTT.
    least: WindowedMin,
    /// Minimum RTT since a pair last agreed with the best one.
    recent: Span,
    pairs: Pairs,
    mss: Bytes,
    changes: u32,
}

impl FusedCapacity {
    /// Creates an estimator without samples. BE has the time constant `tau`, at least 1 us.
    #[must_use]
    pub fn new(tau: Span) -> Self {
        Self {
            be: Bandwidth::new(tau, BandwidthStart::Rise),
            delivered: Sampler::new(Span::ZERO),
            floor: WindowedMax::new(0),
            least: WindowedMin::new(WINDOW),
            recent: Span::MAX,
            pairs: Pairs::new(Bytes::ZERO),
            mss: Bytes::ZERO,
            changes: 0,
        }
    }

    /// Processes an ACK: the data it delivered, its RTT, and the pair that it completed.
    pub fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        let now = ack.rx_time.unwrap_or(ack.now);
        self.mss = path.mss;
        if let Some(sample) = ack.rtt {
            self.on_rtt(sample.rtt, now);
        }
        self.be.observe(ack, path.latest_rtt);
        if ack.episode == Episode::Enter || ack.ecn_echo {
            self.be.settle();
        }
        if ack.episode == Episode::None {
            self.on_delivered(ack.delivered, now);
        } else {
            // In recovery one ACK may cover data that arrived long before.
            self.delivered = Sampler::new(Span::ZERO);
        }
        if let Some(pair) = &ack.pair {
            self.on_pair(pair, now);
        }
    }

    /// Adds the RTT of any segment.
    pub fn on_rtt(&mut self, rtt: Span, now: Time) {
        self.recent = self.recent.min(rtt);
        self.least.update(now, rtt);
    }

    fn on_delivered(&mut self, delivered: Bytes, now: Time) {
        let Some(least) = self.least.get().filter(|_| delivered > Bytes::ZERO) else { return };
        if let Some(sample) = self.delivered.on_ack(now, delivered, Some(least * FLOOR_SPAN)) {
            self.floor.set_window((least * FLOOR_WINDOW).as_nanos());
            self.floor.update(now.as_nanos(), sample);
        }
    }

    /// Adds a pair measured at `now`, which never decreases. Returns whether it was used; invalid samples change
    /// nothing.
    pub fn on_pair(&mut self, sample: &PairSample, now: Time) -> bool {
        if sample.rate().is_none() {
            return false;
        }
        self.on_rtt(sample.first_delay, now);
        if self.pairs.bytes != sample.bytes {
            self.pairs = Pairs::new(sample.bytes);
        }
        self.pairs.forget(now - WINDOW);
        self.pairs.take(sample, now);
        self.follow(now);
        true
    }

    /// Detects a change of the path.
    fn follow(&mut self, now: Time) {
        if self.pairs.judge_newest(self.slowest()) {
            self.recent = Span::MAX;
            return;
        }
        let strays = self.pairs.strays;
        let agreed = strays >= UNANIMOUS && self.pairs.newest_agree(UNANIMOUS);
        if agreed || strays >= CONTRADICTING {
            self.pairs.keep_strays();
            self.least = WindowedMin::new(WINDOW);
            self.least.update(now, self.recent);
            self.recent = Span::MAX;
            self.changes = self.changes.saturating_add(1);
        }
    }

    /// Returns the estimate as of the newest ACK or pair, or `None` before the first.
    #[must_use]
    pub fn estimate(&self) -> Option<FusedEstimate> {
        let (quick, floor) = (self.be.rate() * self.overhead(), self.floor());
        let evidence = self.pairs.evidence(self.least.get().unwrap_or_default(), self.slowest());
        let bytes = self.pairs.bytes;
        // Without a usable pair the estimate is BE alone.
        let Some(evidence) = evidence else {
            let value = rate(quick.max(floor));
            let range = RateRange { low: rate(floor), value, high: Rate::MAX };
            let samples = self.pairs.taken;
            let known = FusedEstimate { rate: range, trust: 0.0, samples, support: 0, converged: false };
            return (value > Rate::ZERO).then_some(known);
        };
        let over = |span| Rate::from_bytes_over(bytes, span);
        let pairs = bytes.as_f64() / evidence.dispersion.as_secs_f64();
        let trust = if quick > 0.0 { evidence.weight.min(1.0) } else { 1.0 };
        let value = rate((trust * pairs + (1.0 - trust) * quick).max(floor));
        // Bound the range by the best pair's queueing delay, the clock resolution, and the delivered rate.
        let doubt = evidence.waited + CLOCK * 2;
        let low = over(evidence.dispersion + doubt).max(rate(floor)).min(value);
        let high = over(evidence.dispersion - doubt).max(value);
        let seen = self.pairs.taken;
        let early = SURE.max(f64::from(seen) * MAJORITY);
        let enough = if seen < LEAST { early } else { LEAST_WEIGHT };
        Some(FusedEstimate {
            rate: RateRange { low, value, high },
            trust,
            samples: self.pairs.taken,
            support: evidence.agreeing,
            converged: evidence.weight >= enough,
        })
    }

    /// Returns the capacity, converged or not, or `None` before the first estimate.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        self.estimate().map(|estimate| estimate.rate.value)
    }

    /// Returns the capacity in payload bytes per second, comparable with BE, or zero before the first estimate.
    #[must_use]
    pub fn payload_rate(&self) -> f64 {
        self.capacity().map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 / self.overhead())
    }

    /// Returns whether enough pairs agree.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.estimate().is_some_and(|estimate| estimate.converged)
    }

    /// Returns how often the path has changed, as shown by pairs that contradicted the others.
    #[must_use]
    pub const fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns BE in payload bytes per second.
    #[must_use]
    pub const fn be(&self) -> f64 {
        self.be.rate()
    }

    /// Returns the delivered rate in bytes of IP packets per second.
    fn floor(&self) -> f64 {
        self.floor.get().unwrap_or(0.0) * self.overhead()
    }

    /// Returns the longest dispersion of a pair that the delivered rate does not prove too slow.
    fn slowest(&self) -> Span {
        let floor = self.floor();
        if floor > 0.0 {
            let needs = self.pairs.bytes.as_f64() / floor;
            Span::from_secs_f64(needs * (1.0 + SHARE)) + CLOCK * 2
        } else {
            Span::MAX
        }
    }

    /// Returns the ratio of an IP packet to its payload, or 1 while unknown.
    fn overhead(&self) -> f64 {
        let (packet, payload) = (self.pairs.bytes.as_f64(), self.mss.as_f64());
        if payload > 0.0 && packet > payload { packet / payload } else { 1.0 }
    }
}

impl Default for FusedCapacity {
    fn default() -> Self {
        Self::new(Span::from_secs(1))
    }
}

fn rate(bytes: f64) -> Rate {
    Rate::from_bytes_per_sec(bytes.round() as u64)
}

#[cfg(test)]
mod tests;
