//! Rules of pathChirp: the gaps of a chirp, its queueing delays, excursions, and the estimate of one chirp.

use longhaul_link::statistics::median;
use longhaul_units::{Bytes, Span};

use crate::options::options;
use crate::{Arrived, Planned};

/// Plans a chirp: packets of `size` bytes whose rate (size divided by gap) grows by the factor `spread` per packet, from
/// `low` to at least `high`, in bytes per second.
pub(super) fn chirp((low, high): (f64, f64), size: Bytes, spread: f64) -> Vec<Planned> {
    let steps = ((high / low).ln() / spread.ln()).ceil().clamp(1.0, 10_000.0) as i32;
    let first = size.as_f64() / low;
    let mut at = 0.0;
    let mut packets = vec![Planned { at: Span::ZERO, size }];
    for step in 0..=steps {
        at += first / spread.powi(step);
        packets.push(Planned { at: Span::from_secs_f64(at), size });
    }
    packets
}

options! {
    /// Constants of the estimate of one chirp.
    pub(crate) struct ExcursionRule {
        /// Decrease factor F: an excursion ends where the delay is less than its maximum divided by F, both relative to
        /// the delay at its start. The authors' module for ns-2 and their later tool STAB use 3. Their tool pathChirp
        /// 2.3 uses 1.5, with which single packets of cross traffic end the last excursion too often, so that its start
        /// is too late.
        fall: f64 = 3.0;
        /// Busy period threshold L: minimum number of packets of an excursion.
        least: u32 = 5;
        /// Smallest rise of the delay that starts an excursion, relative to its gap. Smaller rises are clock drift or
        /// scheduling delays.
        slope: f64 = 0.01;
        /// Minimum height of an excursion that cannot be noise, relative to the median change of delays at the low
        /// rates of the chirp.
        noise: f64 = 1.5;
        /// Ratio of a gap to the previous one at which the sender counts as interrupted.
        misordered: f64 = 2.0;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    /// Length in seconds at the sender.
    pub(super) span: f64,
    /// Rate over the gap in bytes per second, excluding its first packet.
    pub(super) rate: f64,
    /// Difference of the two queueing delays in seconds.
    pub(super) rise: f64,
}

/// Returns the gaps of a chirp. The gaps next to lost and merged packets are joined. The result is `None` if the chirp
/// is invalid: fewer than two or fewer than half of its packets are usable, or the sender was interrupted.
pub(super) fn gaps(packets: &[Option<Arrived>], rule: &ExcursionRule) -> Option<Vec<Gap>> {
    let counting: Vec<(usize, Arrived)> =
        packets.iter().enumerate().filter_map(|(n, p)| Some((n, p.filter(|p| !p.coalesced)?))).collect();
    if counting.len() < 2 || counting.len() * 2 < packets.len() {
        return None;
    }
    let mut gaps: Vec<Gap> = Vec::new();
    let mut before_each = f64::INFINITY;
    for pair in counting.windows(2) {
        let [(n, before), (m, packet)] = pair else { continue };
        let span = packet.sent_at.since(before.sent_at).as_secs_f64();
        let joined = (m - n) as f64;
        if span <= 0.0 || span / joined > before_each * rule.misordered {
            return None;
        }
        before_each = span / joined;
        let arrivals = i128::from(packet.arrived_at.as_nanos()) - i128::from(before.arrived_at.as_nanos());
        let rise = arrivals as f64 * 1e-9 - span;
        gaps.push(Gap { span, rate: joined * packet.size.as_f64() / span, rise });
    }
    Some(gaps)
}

/// Noise of the delays in seconds: the median of their changes over the first half of the gaps, whose rates are low.
/// For uniformly distributed noise it is 0.29 times the width of the distribution.
pub(super) fn noise(gaps: &[Gap]) -> f64 {
    let first = gaps.get(..gaps.len() / 2).unwrap_or_default();
    median(&first.iter().map(|gap| gap.rise.abs()).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Returns the estimate of one chirp in bytes per second: the mean of a rate per gap, weighted by the length of the
/// gaps. An excursion also ends where the delay is less than `least` seconds above that at its start.
///
/// In an excursion that ends and is long enough, a gap with a rising delay contributes its own rate. All other gaps
/// contribute the rate at the start of the excursion that does not end or, if there is none, the rate of the last gap.
pub(super) fn chirp_estimate(gaps: &[Gap], least: f64, rule: &ExcursionRule) -> Option<f64> {
    let mut waits = vec![0.0];
    for gap in gaps {
        waits.push(waits.last().unwrap_or(&0.0) + gap.rise);
    }
    let mut own = vec![false; gaps.len()];
    let mut turn = gaps.last()?.rate;
    let mut start = 0;
    while let Some(gap) = gaps.get(start) {
        if gap.rise <= rule.slope * gap.span {
            start += 1;
            continue;
        }
        let Some(end) = end_of_excursion(&waits, start, least, rule.fall) else {
            turn = gap.rate;
            break;
        };
        if end - start >= rule.least as usize {
            for (own, gap) in own.iter_mut().zip(gaps).take(end).skip(start) {
                *own = gap.rise >= 0.0;
            }
        }
        start = end;
    }
    let whole: f64 = gaps.iter().map(|gap| gap.span).sum();
    let sum: f64 = gaps.iter().zip(own).map(|(gap, own)| gap.span * if own { gap.rate } else { turn }).sum();
    (whole > 0.0).then(|| sum / whole)
}

fn end_of_excursion(waits: &[f64], start: usize, least: f64, fall: f64) -> Option<usize> {
    let origin = waits.get(start)?;
    let mut most = 0.0_f64;
    for (at, wait) in waits.iter().enumerate().skip(start + 1) {
        most = most.max(wait - origin);
        if wait - origin < (most / fall).max(least) {
            return Some(at);
        }
    }
    None
}
