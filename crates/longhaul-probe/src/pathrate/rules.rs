//! Pathrate's rules over samples: the rate of a train, the width of a bin, local modes and their merit, ADR.

use longhaul_units::{Rate, Span};

use crate::statistics::{kurtosis, mean, median, quantile, sorted};
use crate::{Arrived, RateRange};

/// What a train says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    /// Its rate in bytes a second: the bytes after the first packet over the time from the first to the last arrival.
    Rate(f64),
    /// A packet is missing, or fewer than two were sent.
    Lossy,
    /// It was too close together for the clock, or the receiver merged its first or last packet with others.
    Ignored,
}

/// The sample of a train; one that lasts less than `least` at the receiver is ignored.
#[must_use]
pub(super) fn train_rate(packets: &[Option<Arrived>], least: Span) -> Sample {
    let Some(whole) = packets.iter().copied().collect::<Option<Vec<Arrived>>>() else { return Sample::Lossy };
    let [first, rest @ ..] = whole.as_slice() else { return Sample::Lossy };
    let Some(last) = rest.last() else { return Sample::Lossy };
    let span = last.arrived_at.since(first.arrived_at);
    if span.is_zero() || span < least || first.coalesced || last.coalesced {
        return Sample::Ignored;
    }
    Sample::Rate(rest.iter().map(|packet| packet.size.as_f64()).sum::<f64>() / span.as_secs_f64())
}

/// The constants of [`bin_width`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BinRule {
    /// The part of the range from the 10th to the 90th percentile that a bin is wide: 0.01 to 1, 0.125.
    pub part: f64,
    /// Ranges under this many bytes a second are narrow: 0 to 1e9, 125,000 (1 Mb/s).
    pub narrow: f64,
    /// The part of a narrow range that a bin is wide: 0.01 to 1, 0.25.
    pub narrow_part: f64,
    /// The width in bytes a second where there is no range: 1 to 1e12, 2.5e6 (20 Mb/s).
    pub flat: f64,
    /// At most this part of the median, where there is no range: 0.001 to 1, 0.25.
    pub flat_part: f64,
}

impl Default for BinRule {
    fn default() -> Self {
        Self { part: 0.125, narrow: 125_000.0, narrow_part: 0.25, flat: 2.5e6, flat_part: 0.25 }
    }
}

/// The width of a bin for these rates, in bytes a second.
#[must_use]
pub(super) fn bin_width(rates: &[f64], rule: &BinRule) -> f64 {
    let sorted = sorted(rates.to_vec());
    let at = |part: f64| quantile(&sorted, part).unwrap_or(0.0);
    let (range, middle) = (at(0.9) - at(0.1), at(0.5));
    // Clocks with a step of a nanosecond leave a little range between equal rates.
    if range <= middle * 1e-4 {
        rule.flat.min(rule.flat_part * middle)
    } else if range < rule.narrow {
        rule.narrow_part * range
    } else {
        rule.part * range
    }
}

/// Without the `drop` smallest and the `drop` largest, in ascending order. Too few to drop so many: all of them.
#[must_use]
pub(super) fn trimmed(rates: &[f64], drop: usize) -> Vec<f64> {
    let sorted = sorted(rates.to_vec());
    let kept = sorted.get(drop..sorted.len().saturating_sub(drop)).filter(|kept| !kept.is_empty());
    kept.map_or_else(|| sorted.clone(), <[f64]>::to_vec)
}

/// The asymptotic dispersion rate: the mean without the `drop` smallest and the `drop` largest.
#[must_use]
pub(super) fn adr(rates: &[f64], drop: usize) -> Option<f64> {
    mean(&trimmed(rates, drop))
}

/// The constants of [`modes`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModeRule {
    /// A bin may hold so much more than the last, as a part of it, before the bell ends: 0 to 1, 0.1.
    pub noise: f64,
    /// The least part of all samples in a mode's bin: 0 to 1, 0.02. At least two samples in any case.
    pub least_part: f64,
}

impl Default for ModeRule {
    fn default() -> Self {
        Self { noise: 0.1, least_part: 0.02 }
    }
}

/// A local mode: a bin that is fuller than those beside it, and the bell of falling bins around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mode {
    /// The middle of the bin.
    pub(super) centre: f64,
    /// The median of the samples in the bin.
    pub(super) value: f64,
    /// The width of the bin.
    pub(super) width: f64,
    /// The part of all samples that the bin holds, 0 to 1.
    pub(super) share: f64,
    /// The kurtosis of the samples in the bell.
    pub(super) kurtosis: f64,
}

impl Mode {
    /// The figure of merit: narrow and peaked bells with many samples in their bin.
    #[must_use]
    pub(super) fn merit(&self) -> f64 {
        self.kurtosis * self.share
    }

    /// The bin's upper edge.
    #[must_use]
    pub(super) fn high(&self) -> f64 {
        self.centre + self.width / 2.0
    }

    /// The bin, around its median.
    #[must_use]
    pub(super) fn range(&self) -> RateRange {
        around(self.value, (self.centre - self.width / 2.0, self.high()))
    }
}

/// The local modes of `rates` with bins of `width`, the fullest first.
///
/// The fullest bin, wherever it begins, is a mode; its bell goes on to both sides, bin by bin, while they do not fill up
/// again. Without the samples of that bell the next mode is looked for.
#[must_use]
pub(super) fn modes(rates: &[f64], width: f64, rule: &ModeRule) -> Vec<Mode> {
    let mut left = sorted(rates.to_vec());
    let all = left.len() as f64;
    let least = (all * rule.least_part).max(2.0);
    let mut found = Vec::new();
    while let Some((start, count)) = fullest(&left, width).filter(|(_, count)| *count as f64 >= least) {
        let (from, to) = bell(&left, (start, count), width, rule.noise);
        let bin = left.get(start..start + count).unwrap_or_default();
        let (Some(low), Some(high), Some(value)) = (bin.first(), bin.last(), median(bin)) else { break };
        found.push(Mode {
            centre: f64::midpoint(*low, *high),
            value,
            width,
            share: count as f64 / all,
            kurtosis: kurtosis(left.get(from..to).unwrap_or_default()),
        });
        left.drain(from..to);
    }
    found
}

/// The mode of the highest merit.
#[must_use]
pub(super) fn best(modes: impl IntoIterator<Item = Mode>) -> Option<Mode> {
    modes.into_iter().max_by(|one, other| one.merit().total_cmp(&other.merit()))
}

/// Where the fullest bin begins, and how many it holds: the lowest of equals.
fn fullest(sorted: &[f64], width: f64) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    let mut end = 0;
    for (start, low) in sorted.iter().enumerate() {
        while sorted.get(end).is_some_and(|value| *value <= low + width) {
            end += 1;
        }
        if best.is_none_or(|(_, count)| end - start > count) {
            best = Some((start, end - start));
        }
    }
    best
}

/// First and one past the last of the samples in the bell around a bin.
fn bell(sorted: &[f64], (start, count): (usize, usize), width: f64, noise: f64) -> (usize, usize) {
    let (mut from, mut to) = (start, start + count);
    let edge = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let (mut low, mut high) = (edge(from), edge(to - 1));
    let mut last = count;
    loop {
        let more = sorted.iter().skip(to).take_while(|value| **value <= high + width).count();
        if more == 0 || more as f64 > last as f64 * (1.0 + noise) {
            break;
        }
        (to, high, last) = (to + more, high + width, more);
    }
    last = count;
    loop {
        let more = sorted.iter().take(from).rev().take_while(|value| **value >= low - width).count();
        if more == 0 || more as f64 > last as f64 * (1.0 + noise) {
            break;
        }
        (from, low, last) = (from - more, low - width, more);
    }
    (from, to)
}

/// A rate with a range that holds it; nothing is below zero.
pub(super) fn around(value: f64, (low, high): (f64, f64)) -> RateRange {
    let rate = |bytes: f64| Rate::from_bytes_per_sec(bytes.round() as u64);
    RateRange { low: rate(low.min(value)), value: rate(value), high: rate(high.max(value)) }
}

/// The arrivals of a long train under interrupt coalescence: bursts that are handed over together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bursts {
    /// The part of the gaps between arrivals that are back to back: merged, or under a quarter of the mean gap.
    pub(crate) back_to_back: f64,
    /// Bytes of all bursts but the first, over the time from the first burst to the last, in bytes a second. What a burst
    /// brings has come since the burst before.
    pub(crate) rate: Option<f64>,
}

/// The bursts of a train; packets that were lost are left out. `part` of the mean gap is back to back.
#[must_use]
pub(crate) fn bursts(packets: &[Option<Arrived>], part: f64) -> Bursts {
    let arrived: Vec<Arrived> = packets.iter().copied().flatten().collect();
    let gaps = arrived.len().saturating_sub(1);
    let (Some(first), Some(last)) = (arrived.first(), arrived.last()) else {
        return Bursts { back_to_back: 0.0, rate: None };
    };
    let whole = last.arrived_at.since(first.arrived_at).as_secs_f64();
    let short = part * whole / gaps.max(1) as f64;
    let (mut together, mut begins, mut bytes) = (0_usize, first.arrived_at, 0.0);
    let mut later = false;
    for pair in arrived.windows(2) {
        let [before, packet] = pair else { continue };
        if packet.coalesced || packet.arrived_at.since(before.arrived_at).as_secs_f64() <= short {
            together += 1;
        } else {
            (begins, later) = (packet.arrived_at, true);
        }
        bytes += if later { packet.size.as_f64() } else { 0.0 };
    }
    let span = begins.since(first.arrived_at).as_secs_f64();
    Bursts {
        back_to_back: if gaps == 0 { 0.0 } else { together as f64 / gaps as f64 },
        rate: (span > 0.0).then(|| bytes / span),
    }
}

#[cfg(test)]
mod tests;
