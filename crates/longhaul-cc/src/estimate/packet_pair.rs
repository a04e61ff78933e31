//! Packet pair: two packets sent back to back leave the narrow link as far apart as it takes to send the second.

use longhaul_units::{Bytes, Rate, Span, Time};

/// What a pair of packets, or a train, met on its way.
///
/// The delays only serve to tell pairs that had to wait from those that had not: a constant may be added to both, as the
/// offset of a receiver's clock is. All samples that are compared need the same constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairSample {
    /// From when the first packet was sent until it arrived, or until its ACK did.
    pub first_delay: Span,
    /// Likewise for the second packet, and for the last one of a train.
    pub second_delay: Span,
    /// How far apart the two arrived. Zero is absurd: no link is infinitely fast.
    pub dispersion: Span,
    /// Bytes that arrived in the dispersion: the second packet's, for a train those of all packets but the first.
    pub bytes: Bytes,
    /// Whether the receiver's offload merged the two, so that the dispersion is not the path's.
    pub coalesced: bool,
}

impl PairSample {
    /// The sample of two packets of which is known when each was sent and when it arrived, on one clock. `None` if the
    /// second did not arrive after the first, or one arrived before it was sent.
    #[must_use]
    pub fn of(first: (Time, Time), second: (Time, Time), bytes: Bytes) -> Option<Self> {
        let causal = first.0 <= first.1 && second.0 <= second.1 && first.1 < second.1;
        causal.then(|| Self {
            first_delay: first.1.since(first.0),
            second_delay: second.1.since(second.0),
            dispersion: second.1.since(first.1),
            bytes,
            coalesced: false,
        })
    }

    /// The rate that the dispersion stands for; `None` if the sample is absurd: no bytes or no dispersion, or merged.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let is_sound = !self.coalesced && !self.dispersion.is_zero() && self.bytes > Bytes::ZERO;
        is_sound.then(|| Rate::from_bytes_over(self.bytes, self.dispersion))
    }

    /// The sum of both delays: least for a pair that waited nowhere.
    #[must_use]
    pub fn sum(&self) -> Span {
        self.first_delay + self.second_delay
    }
}

/// How many samples [`PacketPair`] remembers.
const KEPT: usize = 64;

/// The classic estimate of a path's capacity, from the rates of the newest 64 pairs.
///
/// Each distorted pair is wrong in its own way. Cross traffic between the two packets widens the gap: the rate is too low.
/// A first packet that waits behind others on a link after the narrow one lets the second catch up: the rate is too high.
/// Undistorted pairs all agree, so that the capacity is a mode of the rates, but often not the largest one (Dovrolis,
/// Ramanathan, Moore, INFOCOM 2001), and the median is only right while less than half the pairs are distorted to
/// either side. [`CapProbe`](super::CapProbe) looks at the delays instead.
#[derive(Clone, Copy, Debug)]
pub struct PacketPair {
    rates: [Rate; KEPT],
    len: usize,
    next: usize,
    dropped: u64,
}

impl PacketPair {
    /// Without samples.
    #[must_use]
    pub const fn new() -> Self {
        Self { rates: [Rate::ZERO; KEPT], len: 0, next: 0, dropped: 0 }
    }

    /// Takes a sample, and counts it as dropped if it is absurd.
    pub fn on_pair(&mut self, sample: &PairSample) {
        match (sample.rate(), self.rates.get_mut(self.next)) {
            (Some(rate), Some(slot)) => {
                *slot = rate;
                self.next = (self.next + 1) % KEPT;
                self.len = (self.len + 1).min(KEPT);
            }
            _ => self.dropped = self.dropped.saturating_add(1),
        }
    }

    /// Samples that the estimates rest on, at most 64.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.len
    }

    /// Absurd samples.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The median of the rates: of an even number, the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> Option<Rate> {
        let (sorted, len) = self.sorted();
        let (low, high) = (sorted.get(len.checked_sub(1)? / 2)?, sorted.get(len / 2)?);
        Some(mean(&[*low, *high]))
    }

    /// The mode of the rates: the mean of the most rates that fit into a bin which is wide as `width` (such as 0.1) times its
    /// lower end. Of equally full bins the lowest counts. Bins lie wherever samples do, so that none is cut by an edge.
    #[must_use]
    pub fn mode(&self, width: f64) -> Option<Rate> {
        let (sorted, len) = self.sorted();
        let rates = sorted.get(..len)?;
        let bin = |start: usize| {
            let from = rates.get(start..)?;
            let edge = from.first()?.mul_f64(1.0 + width.max(0.0));
            from.get(..from.partition_point(|rate| *rate <= edge))
        };
        let bins = (0..len).filter_map(bin);
        bins.reduce(|best, bin| if bin.len() > best.len() { bin } else { best }).map(mean)
    }

    /// The rates in ascending order at the beginning, and how many there are.
    fn sorted(&self) -> ([Rate; KEPT], usize) {
        let mut rates = self.rates;
        if let Some(used) = rates.get_mut(..self.len) {
            used.sort_unstable();
        }
        (rates, self.len)
    }
}

impl Default for PacketPair {
    fn default() -> Self {
        Self::new()
    }
}

fn mean(rates: &[Rate]) -> Rate {
    let sum: u128 = rates.iter().map(|rate| u128::from(rate.as_bytes_per_sec())).sum();
    let mean = sum.checked_div(rates.len() as u128).unwrap_or(0);
    Rate::from_bytes_per_sec(u64::try_from(mean).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn of_rate(mbit: u64) -> PairSample {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        PairSample { dispersion: rate.time_for(Bytes(1500)), bytes: Bytes(1500), ..PairSample::default() }
    }

    fn estimator(mbits: &[u64]) -> PacketPair {
        let mut pairs = PacketPair::new();
        for mbit in mbits {
            pairs.on_pair(&of_rate(*mbit));
        }
        pairs
    }

    /// 12,000 bits in 150 us are 80 Mb/s; nine of them in 1350 us too.
    #[test]
    fn the_rate_is_bytes_over_dispersion() {
        let pair = PairSample::of((at(0), at(5_000_000)), (at(10_000), at(5_150_000)), Bytes(1500)).unwrap();
        assert_eq!(pair.rate(), Some(Rate::from_bits_per_sec(80_000_000)));
        assert_eq!((pair.first_delay.as_micros(), pair.second_delay.as_micros()), (5000, 5140));
        assert_eq!(pair.sum(), Span::from_micros(10_140));
        let train = PairSample::of((at(0), at(5_000_000)), (at(10_000), at(6_350_000)), Bytes(9 * 1500)).unwrap();
        assert_eq!(train.rate(), Some(Rate::from_bits_per_sec(80_000_000)));
    }

    #[test]
    fn absurd_samples_are_no_samples() {
        assert_eq!(PairSample::of((at(0), at(10)), (at(1), at(10)), Bytes(1)), None, "at the same time");
        assert_eq!(PairSample::of((at(0), at(10)), (at(1), at(9)), Bytes(1)), None, "second before first");
        assert_eq!(PairSample::of((at(11), at(10)), (at(12), at(20)), Bytes(1)), None, "before it was sent");
        let mut pairs = estimator(&[10]);
        pairs.on_pair(&PairSample { dispersion: Span::ZERO, ..of_rate(10) });
        pairs.on_pair(&PairSample { coalesced: true, ..of_rate(10) });
        pairs.on_pair(&PairSample { bytes: Bytes::ZERO, ..of_rate(10) });
        assert_eq!((pairs.samples(), pairs.dropped()), (1, 3));
        assert_eq!((PacketPair::new().median(), PacketPair::new().mode(0.1)), (None, None));
    }

    /// The mode finds the link where the median falls for a majority of expanded pairs, and a larger group of compressed
    /// ones misleads the mode: both are known faults.
    #[test]
    fn median_and_mode_have_their_faults() {
        let close = |rate: Option<Rate>, mbit: f64| (rate.unwrap().as_bits_per_sec() as f64 / 1e6 - mbit).abs() < 0.01;
        let expanded = estimator(&[20, 30, 40, 50, 60, 80, 80, 80, 80]);
        assert!(close(expanded.median(), 60.0) && close(expanded.mode(0.1), 80.0));
        let compressed = estimator(&[40, 80, 80, 100, 100, 100]);
        assert!(close(compressed.median(), 90.0) && close(compressed.mode(0.1), 100.0));
        assert!(close(estimator(&[98, 100, 102, 80, 85]).mode(0.05), 100.0), "a bin's mean");
    }

    proptest! {
        /// Against a sort of the newest 64.
        #[test]
        fn the_median_is_that_of_the_newest(mbits in prop::collection::vec(1_u64..1000, 1..200)) {
            let mut newest: Vec<u64> = mbits.iter().rev().take(64).map(|m| of_rate(*m).rate().unwrap().as_bytes_per_sec()).collect();
            newest.sort_unstable();
            let middle = (newest[(newest.len() - 1) / 2] + newest[newest.len() / 2]) / 2;
            prop_assert_eq!(estimator(&mbits).median().unwrap().as_bytes_per_sec(), middle);
        }
    }
}
