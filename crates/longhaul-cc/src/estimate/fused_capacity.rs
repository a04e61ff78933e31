//! The capacity of the narrow link, at once and accurately: BE fused with TCPProbe's pairs.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::packet_pair::PairSample;
use super::rate_range::RateRange;
use super::round_rate::Sampler;
use super::{Bandwidth, BandwidthStart, WindowedMax, WindowedMin};
use crate::{Ack, Episode, Path};

mod pairs;

use pairs::Pairs;

/// What is delivered counts as what the path can carry if it came in so many least round trips.
const FLOOR_SPAN: u64 = 4;
/// So many least round trips long.
const FLOOR_WINDOW: u64 = 8;
/// With CapProbe's number of pairs so many of full weight have to agree: one or two may do so by chance.
const LEAST_WEIGHT: f64 = 3.0;
/// With fewer pairs, this part of all: what traffic does to pairs is not the same to half of them.
const MAJORITY: f64 = 0.5;
/// So many pairs in a row that contradict the others, and agree with one another, mean another path.
const UNANIMOUS: u32 = 10;
/// So many mean it even if they don't agree. Where a tenth of the pairs is undistorted, one row in 37,000 of that length has none.
const CONTRADICTING: u32 = 100;

/// What a [`FusedCapacity`] goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedConfig {
    /// The time constant of BE, at least 1 us; 1 s.
    pub tau: Span,
    /// What a single reading may be wrong by: the coarser clock's resolution; 1 us. Two are in each dispersion.
    pub clock: Span,
    /// Dispersions agree that differ by no more than this part, 0 to 0.5, and two readings; 0.05.
    pub share: f64,
    /// Converged when pairs agree with the best that weigh so much, and half as much as all that were seen, above 0; 6.
    pub sure: f64,
    /// Converged with a weight of 3, too, once so many pairs were seen, at least 1; 40, as CapProbe.
    pub least: u32,
    /// Pairs and least round trips are forgotten when they are older; 120 s.
    pub window: Span,
}

impl Default for FusedConfig {
    fn default() -> Self {
        Self {
            tau: Span::from_secs(1),
            clock: Span::from_micros(1),
            share: 0.05,
            sure: 6.0,
            least: 40,
            window: Span::from_secs(120),
        }
    }
}

impl FusedConfig {
    /// Whether two dispersions, the second the one to compare with, stand for one rate.
    fn agree(&self, one: Span, other: Span) -> bool {
        one.max(other) - one.min(other) <= other.mul_f64(self.share) + self.clock * 2
    }
}

/// What a [`FusedCapacity`] knows, in bytes of IP packets a second once a pair has told how large these are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedEstimate {
    /// The capacity, and what it can be if only the best pair's waiting and the clock are to blame. What was delivered in
    /// some round trips bounds it below.
    pub rate: RateRange,
    /// How much of it the pairs say, 0 to 1; BE says the rest.
    pub trust: f64,
    /// Pairs that were looked at since the path last changed.
    pub samples: u32,
    /// Of those that are kept, the ones that agree with the best.
    pub support: u32,
    /// Whether enough pairs agree.
    pub converged: bool,
}

/// BE and TCPProbe in one, which Gerla et al. (PFLDnet 2006, section 3.2 and conclusions) leave to future work: BE knows something
/// after a round trip, but fluctuates; TCPProbe is accurate, but has to wait for a pair that waited nowhere, and for forty pairs to
/// know that it did.
///
/// A pair whose first packet waited for `w` longer than the least round trip of *all* ACKs can be wrong by `w`, so that it weighs
///
/// ```text
/// weight = D / (D + 2 w)        D its dispersion
/// ```
///
/// The pair with the least sum of delays is the best, as in CapProbe, and the weights of those that agree with it are summed.
/// That sum, up to one, is how much of the estimate the pairs say, by the weighted mean of their dispersions; BE says the
/// rest. So one pair that waited nowhere replaces BE at once. Where a standing queue delays every pair, BE is the rate of
/// the link, and stays. In no case is the estimate less than what was delivered over four round trips without a repair, and pairs slower
/// than that are no candidates.
///
/// It has converged when the weight that agrees is 6 and half of what all pairs could weigh, or 3 among forty pairs: CapProbe asks
/// for forty in any case.
///
/// A faster pair that waited less is the best at once. That the path has become slower show ten pairs in a row that contradict the
/// best and agree with one another, or a hundred that contradict it: what was before them is forgotten, the least round trip, too.
///
/// 1.7 kB, no allocation; a pair costs some hundred operations, an ACK without one as much as BE.
#[derive(Clone, Debug)]
pub struct FusedCapacity {
    config: FusedConfig,
    be: Bandwidth,
    delivered: Sampler,
    floor: WindowedMax,
    /// The least round trip.
    least: WindowedMin,
    /// The least since a pair last agreed with the best.
    recent: Span,
    pairs: Pairs,
    /// Payload bytes of a full segment.
    mss: Bytes,
    changes: u32,
}

impl FusedCapacity {
    /// Without samples. A `share` that is no number or negative counts as zero.
    #[must_use]
    pub fn new(config: FusedConfig) -> Self {
        Self {
            config,
            be: Bandwidth::new(config.tau, BandwidthStart::Rise),
            delivered: Sampler::new(Span::ZERO),
            floor: WindowedMax::new(0),
            least: WindowedMin::new(config.window),
            recent: Span::MAX,
            pairs: Pairs::new(Bytes::ZERO),
            mss: Bytes::ZERO,
            changes: 0,
        }
    }

    /// An ACK came: what it delivered, its round trip, and the pair that it completed.
    pub fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        let now = ack.rx_time.unwrap_or(ack.now);
        self.mss = path.mss;
        if let Some(sample) = ack.rtt {
            self.on_rtt(sample.rtt, now);
        }
        self.be.observe(ack, path.latest_rtt);
        if ack.episode == Episode::Enter || ack.ecn.congestion {
            self.be.settle();
        }
        if ack.episode == Episode::None {
            self.on_delivered(ack.delivered, now);
        } else {
            // Under repair an ACK may cover at once what arrived long before.
            self.delivered = Sampler::new(Span::ZERO);
        }
        if let Some(pair) = &ack.pair {
            self.on_pair(pair, now);
        }
    }

    /// A round trip of any segment.
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

    /// A pair was measured at `now`, which never goes back. Whether it is of use: absurd ones change nothing.
    pub fn on_pair(&mut self, sample: &PairSample, now: Time) -> bool {
        if sample.rate().is_none() {
            return false;
        }
        self.on_rtt(sample.first_delay, now);
        if self.pairs.bytes != sample.bytes {
            self.pairs = Pairs::new(sample.bytes);
        }
        self.pairs.forget(now - self.config.window);
        self.pairs.take(sample, now);
        self.follow(now);
        true
    }

    /// Looks whether the path is another.
    fn follow(&mut self, now: Time) {
        if self.pairs.judge_newest(&self.config, self.slowest()) {
            self.recent = Span::MAX;
            return;
        }
        let strays = self.pairs.strays;
        let agreed = strays >= UNANIMOUS && self.pairs.newest_agree(&self.config, UNANIMOUS);
        if agreed || strays >= CONTRADICTING {
            self.pairs.keep_strays();
            self.least = WindowedMin::new(self.config.window);
            self.least.update(now, self.recent);
            self.recent = Span::MAX;
            self.changes = self.changes.saturating_add(1);
        }
    }

    /// What is known as of the newest ACK or pair; `None` before there is anything.
    #[must_use]
    pub fn estimate(&self) -> Option<FusedEstimate> {
        let (quick, floor) = (self.be.rate() * self.overhead(), self.floor());
        let evidence = self.pairs.evidence(&self.config, self.least.get().unwrap_or_default(), self.slowest());
        let bytes = self.pairs.bytes;
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
        let doubt = evidence.waited + self.config.clock * 2;
        let low = over(evidence.dispersion + doubt).max(rate(floor)).min(value);
        let high = over(evidence.dispersion - doubt).max(value);
        let seen = self.pairs.taken;
        let early = self.config.sure.max(f64::from(seen) * MAJORITY);
        let enough = if seen < self.config.least { early } else { LEAST_WEIGHT };
        Some(FusedEstimate {
            rate: RateRange { low, value, high },
            trust,
            samples: self.pairs.taken,
            support: evidence.agreeing,
            converged: evidence.weight >= enough,
        })
    }

    /// The capacity, converged or not; `None` before there is anything.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        self.estimate().map(|estimate| estimate.rate.value)
    }

    /// The same in payload bytes a second, zero before there is anything: comparable with BE.
    #[must_use]
    pub fn payload_rate(&self) -> f64 {
        self.capacity().map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 / self.overhead())
    }

    /// Whether enough pairs agree.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.estimate().is_some_and(|estimate| estimate.converged)
    }

    /// How often the path became another, as pairs that contradicted the others told.
    #[must_use]
    pub const fn changes(&self) -> u32 {
        self.changes
    }

    /// BE, in payload bytes a second.
    #[must_use]
    pub const fn be(&self) -> f64 {
        self.be.rate()
    }

    /// What was delivered, in bytes of IP packets a second.
    fn floor(&self) -> f64 {
        self.floor.get().unwrap_or(0.0) * self.overhead()
    }

    /// The longest dispersion of a pair that is not proved too slow by what was delivered.
    fn slowest(&self) -> Span {
        let floor = self.floor();
        if floor > 0.0 {
            let needs = self.pairs.bytes.as_f64() / floor;
            Span::from_secs_f64(needs * (1.0 + self.config.share)) + self.config.clock * 2
        } else {
            Span::MAX
        }
    }

    /// Bytes of an IP packet over those of its payload; 1 while unknown.
    fn overhead(&self) -> f64 {
        let (packet, payload) = (self.pairs.bytes.as_f64(), self.mss.as_f64());
        if payload > 0.0 && packet > payload { packet / payload } else { 1.0 }
    }
}

impl Default for FusedCapacity {
    fn default() -> Self {
        Self::new(FusedConfig::default())
    }
}

fn rate(bytes: f64) -> Rate {
    Rate::from_bytes_per_sec(bytes.round() as u64)
}

#[cfg(test)]
mod tests;
