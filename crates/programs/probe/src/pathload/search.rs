//! Pathload's bisection: the next rate after each verdict, and its end.

use longhaul_link::statistics::mean;

use super::rules::Verdict;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    rate: f64,
    /// Fraction of the fleet's streams that supports the verdict.
    share: f64,
}

/// Range of rates in bytes per second, and the grey rates within it.
///
/// `verdicts` fleets must confirm each end of the range before the search ends. A bisection never returns to a rate, so
/// without this rule a single fleet misled by scheduling delays of the hosts would fix the end of a narrow but wrong
/// range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    pub(super) resolution: f64,
    pub(super) grey_resolution: f64,
    /// Highest rate at which the sender can send.
    pub(super) most: f64,
    /// Number of verdicts that confirm an end.
    pub(super) verdicts: u32,
    /// Lowest and highest grey rate.
    pub(super) grey: Option<(f64, f64)>,
    below: Vec<Bound>,
    above: Vec<Bound>,
}

impl Search {
    /// A search without bounds, in which one verdict confirms an end.
    pub(super) fn new(resolution: f64, grey_resolution: f64, most: f64) -> Self {
        Self { resolution, grey_resolution, most, verdicts: 1, grey: None, below: Vec::new(), above: Vec::new() }
    }

    /// Highest rate known to be below the available bandwidth; 0 if there is none.
    pub(super) fn low(&self) -> f64 {
        self.below.iter().map(|bound| bound.rate).fold(0.0, f64::max)
    }

    /// Lowest rate known to be above the available bandwidth.
    pub(super) fn high(&self) -> Option<f64> {
        self.above.iter().map(|bound| bound.rate).min_by(f64::total_cmp)
    }

    /// Takes the verdict of a fleet at `rate`, supported by the fraction `share` of its streams. Older verdicts that
    /// contradict it are removed: either the cross traffic has changed, or they were wrong.
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

    /// Fraction of streams, 0 to 1, that supports the less supported end of the range.
    pub(super) fn support(&self) -> f64 {
        let of = |bounds: &[Bound], end: f64| {
            let shares: Vec<f64> = bounds.iter().filter(|bound| bound.rate == end).map(|bound| bound.share).collect();
            mean(&shares).unwrap_or(0.0)
        };
        self.high().map_or(0.0, |high| of(&self.above, high)).min(of(&self.below, self.low()))
    }

    /// Returns whether the range, or its part outside the grey rates, is within the resolution, and both ends are
    /// confirmed.
    pub(super) fn converged(&self) -> bool {
        self.is_narrow() && self.unconfirmed().is_none()
    }

    fn is_narrow(&self) -> bool {
        let (low, Some(high)) = (self.low(), self.high()) else { return false };
        let rest_is_small = |(grey_low, grey_high): (f64, f64)| {
            high - grey_high <= self.grey_resolution && grey_low - low <= self.grey_resolution
        };
        high - low <= self.resolution || self.grey.is_some_and(rest_is_small)
    }

    /// Returns an end of the range that too few fleets have confirmed, the upper end first, because the search may
    /// continue upwards from there.
    fn unconfirmed(&self) -> Option<f64> {
        let few = |bounds: &[Bound], end: f64| {
            (bounds.iter().filter(|bound| bound.rate == end).count() as u64) < u64::from(self.verdicts)
        };
        let high = self.high().filter(|high| few(&self.above, *high));
        high.or_else(|| Some(self.low()).filter(|low| *low > 0.0 && few(&self.below, *low)))
    }

    /// Returns the next rate, or `None` if the range is within the resolution or if even the highest rate is not above
    /// the available bandwidth.
    pub(super) fn next(&self) -> Option<f64> {
        let low = self.low();
        let Some(high) = self.high() else {
            let reached = self.grey.map_or(low, |(_, grey)| grey.max(low));
            return (reached < self.most).then(|| (reached * 2.0).min(self.most));
        };
        if self.is_narrow() {
            return self.unconfirmed();
        }
        let (low, high) = match self.grey {
            Some((grey_low, grey_high)) if grey_low - low > high - grey_high => (low, grey_low),
            Some((_, grey_high)) => (grey_high, high),
            None => (low, high),
        };
        Some(f64::midpoint(low, high))
    }
}
