//! Packet pair: two packets sent back to back leave the narrow link separated by the transmission time of the second.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::newest::Newest;

/// Measurement of a pair of packets, or of a train.
///
/// The delays only distinguish pairs that were queued from pairs that were not. A constant, such as the offset of a
/// receiver's clock, may be added to both, if it is the same for all samples that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PairSample {
    /// Time from the transmission of the first packet to its arrival, or to the arrival of its ACK.
    pub first_delay: Span,
    /// The same delay for the second packet, or for the last packet of a train.
    pub second_delay: Span,
    /// Time between the two arrivals. Zero is invalid, because no link is infinitely fast.
    pub dispersion: Span,
    /// Number of bytes that arrived in the dispersion: those of the second packet, or of all packets of a train but the
    /// first.
    pub bytes: Bytes,
    /// Whether receive offload merged the two packets, so that the dispersion is not that of the path.
    pub coalesced: bool,
}

impl PairSample {
    /// Returns the sample of two packets, each given as send time and arrival time on one clock. Returns `None` if
    /// the second did not arrive after the first, or one arrived before it was sent.
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

    /// Returns the rate of the dispersion, or `None` if the sample is invalid: no bytes, no dispersion, or merged.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let is_sound = !self.coalesced && !self.dispersion.is_zero() && self.bytes > Bytes::ZERO;
        is_sound.then(|| Rate::from_bytes_over(self.bytes, self.dispersion))
    }

    /// Returns the sum of both delays, which is least for a pair that was not queued.
    #[must_use]
    pub fn sum(&self) -> Span {
        self.first_delay + self.second_delay
    }
}

/// Number of samples that [`PacketPair`] keeps.
const KEPT: usize = 64;

/// Classic estimate of a path's capacity, from the rates of the newest 64 pairs.
///
/// Distorted pairs have different errors. Cross traffic between the two packets increases the dispersion, so that the
/// rate is too low. If the first packet is queued at a link after the narrow one, the second catches up, and the rate
/// is too high. Undistorted pairs all agree, so that the capacity is a mode of the rates, but often not the largest
/// one (Dovrolis, Ramanathan, Moore, INFOCOM 2001). The median is correct only while less than half of the pairs are
/// distorted in either direction. [`CapProbe`](super::cap_probe::CapProbe) uses the delays instead.
#[derive(Clone, Debug, Default)]
pub struct PacketPair {
    rates: Newest<Rate, KEPT>,
    dropped: u64,
}

impl PacketPair {
    /// Adds a sample, or counts it as dropped if it is invalid.
    pub fn on_pair(&mut self, sample: &PairSample) {
        match sample.rate() {
            Some(rate) => self.rates.push(rate),
            None => self.dropped = self.dropped.saturating_add(1),
        }
    }

    /// Returns the number of samples on which the estimates are based, at most 64.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.rates.len()
    }

    /// Returns the number of invalid samples.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the median of the rates; for an even number, the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> Option<Rate> {
        let (sorted, len) = self.sorted();
        let (low, high) = (sorted.get(len.checked_sub(1)? / 2)?, sorted.get(len / 2)?);
        Some(mean(&[*low, *high]))
    }

    /// Returns the mode of the rates: the mean of the largest group that fits into a bin whose width is `width` (such
    /// as 0.1) times its lower end. Of equally full bins, the lowest is used. Each bin starts at a sample, so that no
    /// group is cut by a fixed edge.
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

    /// Returns the rates in ascending order and their number.
    fn sorted(&self) -> ([Rate; KEPT], usize) {
        let (mut rates, len) = (self.rates.copied(), self.rates.len());
        if let Some(used) = rates.get_mut(..len) {
            used.sort_unstable();
        }
        (rates, len)
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
        let mut pairs = PacketPair::default();
        for mbit in mbits {
            pairs.on_pair(&of_rate(*mbit));
        }
        pairs
    }

    /// 12,000 bits in 150 us are 80 Mb/s, and so are nine times as many in 1350 us.
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
        assert_eq!((PacketPair::default().median(), PacketPair::default().mode(0.1)), (None, None));
    }

    /// The mode finds the link if a majority of expanded pairs lowers the median. A larger group of compressed pairs
    /// misleads the mode. Both faults are known.
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
        /// Compared with a sort of the newest 64 rates.
        #[test]
        fn the_median_is_that_of_the_newest(mbits in prop::collection::vec(1_u64..1000, 1..200)) {
            let mut newest: Vec<u64> = mbits.iter().rev().take(64).map(|m| of_rate(*m).rate().unwrap().as_bytes_per_sec()).collect();
            newest.sort_unstable();
            let middle = (newest[(newest.len() - 1) / 2] + newest[newest.len() / 2]) / 2;
            prop_assert_eq!(estimator(&mbits).median().unwrap().as_bytes_per_sec(), middle);
        }
    }
}
