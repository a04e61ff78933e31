//! Rules of Pathrate: the rate of a train, the width of bins, local modes and their merit, ADR.

use longhaul_link::statistics::{mean, median, sorted};
use longhaul_units::{Rate, Span};

use crate::options::options;
use crate::{Arrived, RateRange};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    /// Rate in bytes per second: the bytes after the first packet, divided by the time from the first to the last
    /// arrival.
    Rate(f64),
    /// A packet is missing, or fewer than two were sent.
    Lossy,
    /// The dispersion is too short for the clock, or the receiver merged the first or last packet with others.
    Ignored,
}

/// Returns the sample of a train. A train with a dispersion of less than `least` is ignored.
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

options! {
    /// Constants of the width of bins.
    pub(crate) struct BinRule {
        /// Width of a bin relative to the range from the 10th to the 90th percentile.
        part: f64 = 0.125;
        /// Range in bytes per second below which it is narrow.
        narrow: f64 = 125_000.0;
        /// Width of a bin relative to a narrow range.
        narrow_part: f64 = 0.25;
        /// Width of a bin for equal rates in bytes per second.
        flat: f64 = 2.5e6;
        /// Upper bound of the mode's width relative to the median.
        flat_part: f64 = 0.25;
    }
}

/// Returns the width of a bin for these rates in bytes per second.
pub(super) fn bin_width(rates: &[f64], rule: &BinRule) -> f64 {
    let sorted = sorted(rates.iter().copied());
    // The published width is that of a range between two of the rates, so quantiles are not interpolated.
    let last = sorted.len().saturating_sub(1) as f64;
    let at = |part: f64| sorted.get((last * part).round() as usize).copied().unwrap_or(0.0);
    let (range, middle) = (at(0.9) - at(0.1), at(0.5));
    // Clocks with a resolution of 1 ns leave a small range between equal rates.
    if range <= middle * 1e-4 {
        rule.flat.min(rule.flat_part * middle)
    } else if range < rule.narrow {
        rule.narrow_part * range
    } else {
        rule.part * range
    }
}

/// Returns the rates without the `drop` smallest and the `drop` largest in ascending order, or all rates if there are
/// too few.
pub(super) fn trimmed(rates: &[f64], drop: usize) -> Vec<f64> {
    let sorted = sorted(rates.iter().copied());
    let kept = sorted.get(drop..sorted.len().saturating_sub(drop)).filter(|kept| !kept.is_empty());
    kept.map_or_else(|| sorted.clone(), <[f64]>::to_vec)
}

/// Pearson's kurtosis m4 / m2^2, which is 3 for a normal distribution. For equal values it is their number, the upper
/// bound of the kurtosis of a sample of that size.
fn kurtosis(values: &[f64]) -> f64 {
    let Some(mean) = mean(values) else { return 0.0 };
    let count = values.len() as f64;
    let moment = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count;
    let spread = moment(2);
    // Rounding errors leave a small spread between equal values.
    if spread <= (mean * 1e-9).powi(2) { count } else { moment(4) / (spread * spread) }
}

/// Asymptotic dispersion rate: the mean without the `drop` smallest and the `drop` largest rates.
pub(super) fn adr(rates: &[f64], drop: usize) -> Option<f64> {
    mean(&trimmed(rates, drop))
}

options! {
    /// Constants of the search for local modes.
    pub(crate) struct ModeRule {
        /// Maximum excess of a bin over the previous one, relative to the latter, up to which the bell continues.
        noise: f64 = 0.1;
        /// Minimum fraction of all samples in the bin of a mode. A bin has at least two samples.
        least_part: f64 = 0.02;
    }
}

/// A local mode: a bin with more samples than its neighbours, and the bell of decreasing bins around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mode {
    pub(super) centre: f64,
    /// Median of the samples in the bin.
    pub(super) value: f64,
    pub(super) width: f64,
    pub(super) share: f64,
    pub(super) kurtosis: f64,
}

impl Mode {
    /// Figure of merit, high for narrow and peaked bells with many samples in their bin.
    pub(super) fn merit(&self) -> f64 {
        self.kurtosis * self.share
    }

    pub(super) fn high(&self) -> f64 {
        self.centre + self.width / 2.0
    }

    pub(super) fn range(&self) -> RateRange {
        around(self.value, (self.centre - self.width / 2.0, self.high()))
    }
}

/// Returns the local modes of `rates` with bins of `width`, fullest first.
///
/// The fullest bin at any position is a mode. Its bell extends to both sides, bin by bin, as long as the number of
/// samples per bin does not increase again. The search continues without the samples of that bell.
pub(super) fn modes(rates: &[f64], width: f64, rule: &ModeRule) -> Vec<Mode> {
    let mut left = sorted(rates.iter().copied());
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

pub(super) fn best(modes: impl IntoIterator<Item = Mode>) -> Option<Mode> {
    modes.into_iter().max_by(|one, other| one.merit().total_cmp(&other.merit()))
}

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

/// Returns a rate with a range that includes it; negative rates become zero.
pub(crate) fn around(value: f64, (low, high): (f64, f64)) -> RateRange {
    let rate = |bytes: f64| Rate::from_bytes_per_sec(bytes.round() as u64);
    RateRange { low: rate(low.min(value)), value: rate(value), high: rate(high.max(value)) }
}

/// Arrivals of a long train under interrupt coalescence, which come in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bursts {
    /// Fraction of gaps between arrivals that are back to back: merged, or below a quarter of the mean gap.
    pub(crate) back_to_back: f64,
    /// Bytes of all bursts but the first, divided by the time from the first burst to the last, in bytes per second:
    /// the packets of a burst arrived after the previous burst.
    pub(crate) rate: Option<f64>,
}

/// Returns the bursts of a train without its lost packets. Gaps below `part` of the mean gap are back to back.
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
