//! Capacity of the bottleneck from the gaps between segments that were sent together, by the receiver's clock.

use longhaul_units::{Span, Time};

use crate::estimate::{Neighbours, Newest};
use crate::{Ack, AckedSegment};

const GAPS: usize = 64;
/// Number of newest gaps that determine the capacity by themselves if most of them agree, so that a change of the
/// link's rate is followed within a few round trips.
const NEWEST: usize = 12;
/// Minimum number of the newest gaps that must agree.
const AGREEING: usize = 9;
/// Maximum deviation of gaps that agree from their median, as a fraction.
const ALIKE: f64 = 0.1;
/// Minimum number of gaps for an estimate.
const LEAST: usize = 8;
/// If more than one in this many gaps is zero, the peer's clock is too coarse.
const COARSE: usize = 8;
/// If receive offload merged more than one in this many of the newest 64 segments with others, the gaps of those that
/// were not merged are longer than on the path: a network card holds a segment to wait for others, and merges segments
/// with shorter gaps.
const MERGED: u32 = 8;
/// An estimate is valid for this long after the newest gap.
const VALID: Span = Span::from_secs(10);
/// Half of all gaps must be within this factor of the median. On links that delay packets at random, or deliver them in
/// bunches, this is not the case, and there is no estimate.
const SPREAD: f64 = 1.5;
/// Maximum jitter as a multiple of the difference between the ninth decile and the median of all gaps. The difference
/// of two delays that are uniformly distributed in an interval has its ninth decile at 0.55 of the interval.
const JITTER: f64 = 2.0;
/// If more than one in this many gaps is shorter than this part of their mean, late segments hold up others, and long
/// gaps between these are rare.
const HELD_UP: (usize, f64) = (4, 0.125);

/// Rates of the newest gaps.
///
/// A FIFO queue does not separate neighbouring segments that were sent together, regardless of the flows that fill it.
/// Their gap shows the rate of the bottleneck, whereas the flow's own delivery rate is only a share of it.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    neighbours: Neighbours,
    /// Rates in bytes per second.
    rates: Newest<f64, GAPS>,
    newest: Time,
    /// The estimate at the end of the last round trip.
    rate: Option<f64>,
    /// Whether there are gaps, but they disagree.
    pub(crate) is_scattered: bool,
    /// Whether the newest segments with an arrival time were merged, one bit each.
    merged: u64,
}

impl Capacity {
    /// Processes the segments that an ACK delivered.
    pub fn on_ack(&mut self, ack: &Ack<'_>) {
        for segment in ack.acked {
            self.note(ack.now, segment);
        }
        if ack.round_start {
            self.rate = self.estimate(ack.now);
            self.is_scattered = self.rate.is_none() && self.is_known(ack.now);
        }
    }

    fn note(&mut self, now: Time, segment: &AckedSegment) {
        if segment.arrival.is_some() {
            self.merged = self.merged << 1 | u64::from(segment.arrival_coalesced);
        }
        if let Some(gap) = self.neighbours.gap(segment) {
            // A gap of zero is infinitely fast.
            self.rates.push(segment.bytes.as_f64() / gap.as_secs_f64());
            self.newest = now;
        }
    }

    /// Forgets all gaps.
    pub fn clear(&mut self) {
        self.rates.clear();
        (self.neighbours, self.rate, self.is_scattered) = (Neighbours::default(), None, false);
        self.merged = 0;
    }

    /// Returns the payload rate of the bottleneck in bytes per second, as of the beginning of this round trip.
    pub const fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Returns the upper limit of the jitter of the forward path in seconds, if the gaps show it, for segments of `mss`
    /// bytes.
    ///
    /// Two segments that were sent together meet the same queue, so that its variation does not change their gap.
    pub fn most_jitter(&self, now: Time, mss: f64) -> Option<f64> {
        if !self.is_known(now) {
            return None;
        }
        let count = self.rates.len();
        let mut gaps = [0.0; GAPS];
        gaps.iter_mut().zip(self.rates.iter()).for_each(|(gap, rate)| *gap = mss / rate);
        let known = gaps.get_mut(..count).unwrap_or_default();
        known.sort_unstable_by(f64::total_cmp);
        let mean = known.iter().sum::<f64>() / count as f64;
        // A gap of zero is shorter than any fraction of the mean.
        let held_up = known.iter().filter(|gap| **gap <= HELD_UP.1 * mean).count();
        let (median, long) = (known[count / 2], known[count - 1 - (count - 1) / 10]);
        (held_up <= count / HELD_UP.0).then_some(JITTER * (long - median))
    }

    /// Returns whether there are enough gaps, recent ones, and few segments were merged.
    fn is_known(&self, now: Time) -> bool {
        let is_merged = self.merged.count_ones() * MERGED > u64::BITS;
        self.rates.len() >= LEAST && now.since(self.newest) <= VALID && !is_merged
    }

    fn estimate(&self, now: Time) -> Option<f64> {
        if !self.is_known(now) {
            return None;
        }
        let count = self.rates.len();
        if self.rates.iter().filter(|rate| rate.is_infinite()).count() > count / COARSE {
            return None;
        }
        // The newest gaps decide if they agree.
        if count >= NEWEST {
            let mut newest = [0.0; NEWEST];
            newest.iter_mut().zip(self.rates.iter()).for_each(|(to, rate)| *to = rate);
            newest.sort_unstable_by(f64::total_cmp);
            let median = newest[NEWEST / 2];
            let alike = newest.iter().filter(|rate| (**rate / median - 1.0).abs() <= ALIKE).count();
            if alike >= AGREEING {
                return Some(median);
            }
        }
        // Otherwise, use the median of all gaps, if at least half of them are close to it.
        let mut all = self.rates.copied();
        let known = all.get_mut(..count).unwrap_or_default();
        known.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| known[(known.len() - 1) * quarter / 4];
        let (low, median, high) = (at(1), at(2), at(3));
        (high <= median * SPREAD && low * SPREAD >= median).then_some(median)
    }
}
