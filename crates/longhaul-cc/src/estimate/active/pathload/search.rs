//! Pathload's search: the next rate after each verdict, and when it ends.

use super::rules::Verdict;

/// The range of rates in bytes a second, and the grey rates in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The resolution of the range.
    pub resolution: f64,
    /// The resolution of the grey rates' ends.
    pub grey_resolution: f64,
    /// The highest rate that can be sent.
    pub most: f64,
    /// The highest rate known to be below what is available; 0 while there is none.
    pub low: f64,
    /// The lowest rate known to be above.
    pub high: Option<f64>,
    /// The lowest and the highest grey rate.
    pub grey: Option<(f64, f64)>,
}

impl Search {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(resolution: f64, grey_resolution: f64, most: f64) -> Self {
        Self { resolution, grey_resolution, most, low: 0.0, high: None, grey: None }
    }

    /// A fleet of `rate` has spoken. Older verdicts that contradict it are forgotten: traffic has changed.
    pub fn learn(&mut self, rate: f64, verdict: Verdict) {
        match verdict {
            Verdict::Above => {
                self.high = Some(rate);
                self.low = if self.low < rate { self.low } else { 0.0 };
                self.grey = self.grey.filter(|(low, _)| *low < rate).map(|(low, high)| (low, high.min(rate)));
            }
            Verdict::Below => {
                self.low = rate;
                self.high = self.high.filter(|high| *high > rate);
                self.grey = self.grey.filter(|(_, high)| *high > rate).map(|(low, high)| (low.max(rate), high));
            }
            Verdict::Grey => {
                let (low, high) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((low.min(rate), high.max(rate)));
            }
            Verdict::Again => {}
        }
    }

    /// Whether the range, or what is left of it beside the grey rates, is small enough.
    #[must_use]
    pub fn converged(&self) -> bool {
        let Some(high) = self.high else { return false };
        let done_beside = |(grey_low, grey_high): (f64, f64)| {
            high - grey_high <= self.grey_resolution && grey_low - self.low <= self.grey_resolution
        };
        high - self.low <= self.resolution || self.grey.is_some_and(done_beside)
    }

    /// The next rate; `None` when the range is small enough, or when even the highest rate is not above.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        let Some(high) = self.high else {
            let reached = self.grey.map_or(self.low, |(_, grey)| grey.max(self.low));
            return (reached < self.most).then(|| (reached * 2.0).min(self.most));
        };
        if self.converged() {
            return None;
        }
        let (low, high) = match self.grey {
            Some((grey_low, grey_high)) if grey_low - self.low > high - grey_high => (self.low, grey_low),
            Some((_, grey_high)) => (grey_high, high),
            None => (self.low, high),
        };
        Some(f64::midpoint(low, high))
    }
}
