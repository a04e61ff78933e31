//! Selection of the loss reports in a congestion period that reduce the rate: the first one, and some of the others at
//! random, so that flows that share a bottleneck do not all decrease at once.

use longhaul_cc::TxId;

/// Number of reports per period that may reduce the rate (the library: 0.875^5 is a half).
const MOST: u32 = 5;

/// Effect of a loss report on the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossResponse {
    /// Starts a period: reduce the rate and store the previous one.
    First,
    Further,
    /// Ignore the report, because the rate was already reduced in this period.
    Ignore,
}

/// Counter of the reports in a congestion period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    seed: u64,
    /// Newest segment at the last decrease; losses of earlier segments belong to the same period (`LastDecSeq`).
    lowered: Option<TxId>,
    /// Number of reports in this period, and the average number per period.
    reports: u32,
    average: f64,
    /// Every report whose number is a multiple of this reduces the rate (`DecRandom`).
    every: u32,
    /// Number of reports seen in this period; only the first ones may reduce the rate.
    seen: u32,
}

impl Losses {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, every: 1, ..Self::default() }
    }

    /// Returns whether the loss of `oldest` and later segments starts a period.
    pub(super) fn is_new(&self, oldest: TxId) -> bool {
        self.lowered.is_none_or(|lowered| oldest > lowered)
    }

    /// Processes a report, which starts a period if `anew` is true. `newest` is the newest segment sent.
    pub(super) fn on_report(&mut self, anew: bool, newest: TxId) -> LossResponse {
        if anew {
            self.average = (self.average * 0.875 + f64::from(self.reports) * 0.125).ceil();
            (self.reports, self.seen) = (1, 1);
            self.lowered = Some(newest);
            self.every = ((self.average * fraction(self.seed ^ newest.0)).ceil() as u32).max(1);
            return LossResponse::First;
        }
        let early = self.seen < MOST;
        self.seen = self.seen.saturating_add(1);
        if !early {
            return LossResponse::Ignore;
        }
        self.reports = self.reports.saturating_add(1);
        if !self.reports.is_multiple_of(self.every) {
            return LossResponse::Ignore;
        }
        self.lowered = Some(newest);
        LossResponse::Further
    }
}

/// Returns a number from 0 to 1, uniformly distributed over `key`s (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
fn fraction(key: u64) -> f64 {
    let mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_spread_evenly() {
        let fractions: Vec<f64> = (0..10_000).map(fraction).collect();
        let mean = fractions.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let below = |part: f64| fractions.iter().filter(|one| **one < part).count();
        assert!((below(0.1) as f64 - 1000.0).abs() < 100.0 && below(1.0) == 10_000, "{}", below(0.1));
    }

    /// By a comment of the library, five further decreases by an eighth halve the rate, which is enough for one
    /// period.
    #[test]
    fn a_period_lowers_the_rate_five_times_at_most() {
        let mut losses = Losses::new(0);
        assert!(losses.is_new(TxId(0)));
        assert_eq!(losses.on_report(true, TxId(100)), LossResponse::First);
        assert!(!losses.is_new(TxId(100)) && losses.is_new(TxId(101)));
        let further: Vec<_> = (0..20).map(|_| losses.on_report(false, TxId(100))).collect();
        assert_eq!(further.iter().filter(|one| **one == LossResponse::Further).count(), 4);
        assert!(further[4..].iter().all(|one| *one == LossResponse::Ignore));
    }

    /// If periods have many reports, only the first one and some of the others lower the rate; at least one in the
    /// average number of reports does. Other seeds select other reports.
    #[test]
    fn the_longer_periods_are_the_fewer_reports_count() {
        let run = |seed| {
            let mut losses = Losses::new(seed);
            let mut further = Vec::new();
            for period in 0..200_u64 {
                losses.on_report(true, TxId(period * 1000));
                let now =
                    (0..40).filter(|_| losses.on_report(false, TxId(period * 1000)) == LossResponse::Further).count();
                further.push(now);
            }
            further
        };
        let counts = run(0);
        assert_eq!(counts[0], 4);
        let later: usize = counts[100..].iter().sum();
        assert!(later > 20 && later < 250, "{later} in 100 periods");
        assert_ne!(run(0), run(1));
        assert_eq!(run(1), run(1));
    }
}
