//! pathChirp's rules: the gaps of a chirp, its queueing delays, excursions, and the estimate of one chirp.

use longhaul_units::{Bytes, Span};

use crate::statistics::median;
use crate::{Arrived, Planned};

/// Packets of `size` with gaps that shrink by `spread` each, for rates from `low` to at least `high` in bytes a second.
#[must_use]
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

/// The constants of [`chirp_estimate`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExcursionRule {
    /// An excursion ends where the delay is less than its maximum over this, both counted from its start: F, 1 to 100, 3.
    /// The authors' module for ns-2 and their later tool STAB have 3, their tool pathChirp 2.3 has 1.5: then single packets of
    /// others end the last excursion too often, and its start moves up.
    pub fall: f64,
    /// Shorter excursions do not count: L, 1 to 1000 packets, 5.
    pub least: u32,
    /// The least rise that starts an excursion, as a part of its gap: 0 to 0.1, 0.01. Less is the drift of two clocks, or how
    /// late hosts are.
    pub slope: f64,
    /// An excursion lower than so many times the noise of its chirp ([`noise`]) may be noise, too: 0 to 10, 1.5.
    pub noise: f64,
    /// The sender was interrupted where a gap is more than this many times the one before: 1 to 100, 2.
    pub misordered: f64,
}

impl Default for ExcursionRule {
    fn default() -> Self {
        Self { fall: 3.0, least: 5, slope: 0.01, noise: 1.5, misordered: 2.0 }
    }
}

/// The gap between two packets of a chirp that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    /// In seconds, at the sender.
    pub(super) span: f64,
    /// Bytes sent over it, in bytes a second: those of its packets but the first.
    pub(super) rate: f64,
    /// By how much the later packet waits longer, in seconds.
    pub(super) rise: f64,
}

/// The gaps of a chirp, those beside lost and merged packets joined; `None` if it is not valid: fewer than half of the
/// packets or than two count, or the sender was interrupted.
#[must_use]
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

/// By how much delays change from packet to packet where rates are low, in seconds: the median over the first half of the
/// gaps. Of noise that comes evenly from a range, that is 0.29 of the range.
#[must_use]
pub(super) fn noise(gaps: &[Gap]) -> f64 {
    let first = gaps.get(..gaps.len() / 2).unwrap_or_default();
    median(&first.iter().map(|gap| gap.rise.abs()).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The available bandwidth by one chirp, in bytes a second: the mean over its gaps, weighted with their length, of what each
/// says. Delays less than `least` seconds above its start end an excursion in any case.
///
/// In an excursion that ends and is long enough, a gap with a rise says its own rate. All others say the rate at the start of
/// the excursion that does not end or, without one, the last gap's.
#[must_use]
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

/// The packet at which the excursion that starts at `start` is over.
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
