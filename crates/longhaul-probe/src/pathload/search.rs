//! Pathload's search: the next rate after each verdict, and when it ends.

use super::rules::Verdict;
use crate::statistics::mean;

/// A verdict that bounds the range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    rate: f64,
    /// The part of the fleet that said so.
    share: f64,
}

/// The range of rates in bytes a second, and the grey rates in it.
///
/// An end of the range must be found `verdicts` times before the search is over: a bisection never comes back to a rate, so
/// that one fleet which is misled, by what the hosts do while it is under way, would be the end of a narrow range that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    /// The resolution of the range.
    pub(super) resolution: f64,
    /// The resolution of the grey rates' ends.
    pub(super) grey_resolution: f64,
    /// The highest rate that can be sent.
    pub(super) most: f64,
    /// So many verdicts make an end.
    pub(super) verdicts: u32,
    /// The lowest and the highest grey rate.
    pub(super) grey: Option<(f64, f64)>,
    /// Rates that were found to be below what is available, and above.
    below: Vec<Bound>,
    above: Vec<Bound>,
}

impl Search {
    /// Nothing is known yet. One verdict makes an end.
    #[must_use]
    pub(super) fn new(resolution: f64, grey_resolution: f64, most: f64) -> Self {
        Self { resolution, grey_resolution, most, verdicts: 1, grey: None, below: Vec::new(), above: Vec::new() }
    }

    /// The highest rate known to be below what is available; 0 while there is none.
    #[must_use]
    pub(super) fn low(&self) -> f64 {
        self.below.iter().map(|bound| bound.rate).fold(0.0, f64::max)
    }

    /// The lowest rate known to be above.
    #[must_use]
    pub(super) fn high(&self) -> Option<f64> {
        self.above.iter().map(|bound| bound.rate).min_by(f64::total_cmp)
    }

    /// A fleet of `rate` has spoken, and `share` of it has said that. Older verdicts that contradict it are forgotten: traffic
    /// has changed, or they were wrong.
    pub(super) fn learn(&mut self, rate: f64, verdict: Verdict, share: f64) {
        if verdict == Verdict::Again {
            return;
        }
        self.below.retain(|bound| bound.rate < rate || (bound.rate == rate && verdict == Verdict::Below));
        self.above.retain(|bound| bound.rate > rate || (bound.rate == rate && verdict == Verdict::Above));
        match verdict {
            Verdict::Above => {
                self.above.push(Bound { rate, share });
                self.grey = self.grey.filter(|(low, _)| *low < rate).map(|(low, high)| (low, high.min(rate)));
            }
            Verdict::Below => {
                self.below.push(Bound { rate, share });
                self.grey = self.grey.filter(|(_, high)| *high > rate).map(|(low, high)| (low.max(rate), high));
            }
            Verdict::Grey => {
                let (low, high) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((low.min(rate), high.max(rate)));
            }
            Verdict::Again => {}
        }
    }

    /// The part of their fleets, 0 to 1, that stands for the end of the range for which fewer streams do.
    #[must_use]
    pub(super) fn support(&self) -> f64 {
        let of = |bounds: &[Bound], end: f64| {
            let shares: Vec<f64> = bounds.iter().filter(|bound| bound.rate == end).map(|bound| bound.share).collect();
            mean(&shares).unwrap_or(0.0)
        };
        self.high().map_or(0.0, |high| of(&self.above, high)).min(of(&self.below, self.low()))
    }

    /// Whether the range, or what is left of it beside the grey rates, is small enough, and both its ends are sure.
    #[must_use]
    pub(super) fn converged(&self) -> bool {
        self.is_narrow() && self.unsure().is_none()
    }

    fn is_narrow(&self) -> bool {
        let (low, Some(high)) = (self.low(), self.high()) else { return false };
        let done_beside = |(grey_low, grey_high): (f64, f64)| {
            high - grey_high <= self.grey_resolution && grey_low - low <= self.grey_resolution
        };
        high - low <= self.resolution || self.grey.is_some_and(done_beside)
    }

    /// An end of the range that too few fleets stand for: the upper one first, since from there it may go on upwards.
    fn unsure(&self) -> Option<f64> {
        let few = |bounds: &[Bound], end: f64| {
            (bounds.iter().filter(|bound| bound.rate == end).count() as u64) < u64::from(self.verdicts)
        };
        let high = self.high().filter(|high| few(&self.above, *high));
        high.or_else(|| Some(self.low()).filter(|low| *low > 0.0 && few(&self.below, *low)))
    }

    /// The next rate; `None` when the range is small enough, or when even the highest rate is not above.
    #[must_use]
    pub(super) fn next(&self) -> Option<f64> {
        let low = self.low();
        let Some(high) = self.high() else {
            let reached = self.grey.map_or(low, |(_, grey)| grey.max(low));
            return (reached < self.most).then(|| (reached * 2.0).min(self.most));
        };
        if self.is_narrow() {
            return self.unsure();
        }
        let (low, high) = match self.grey {
            Some((grey_low, grey_high)) if grey_low - low > high - grey_high => (low, grey_low),
            Some((_, grey_high)) => (grey_high, high),
            None => (low, high),
        };
        Some(f64::midpoint(low, high))
    }
}
