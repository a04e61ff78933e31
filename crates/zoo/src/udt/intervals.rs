//! UDT's rate estimate from the last 16 intervals, without the intervals far from the median.

/// Number of intervals kept, for both the arrival rate and the capacity (draft-gg-udt-03, section 4.1 and the
/// library).
const KEPT: usize = 16;
/// Factor relative to the median above and below which intervals are ignored (draft-gg-udt-03).
const FAR: f64 = 8.0;
/// Minimum number of remaining intervals for a valid rate (draft-gg-udt-03: more than eight).
const LEAST: u32 = 9;

/// Last intervals in seconds per byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    kept: [f64; KEPT],
    count: usize,
}

impl Intervals {
    pub(super) fn add(&mut self, seconds_a_byte: f64) {
        if !seconds_a_byte.is_finite() {
            return;
        }
        self.kept.rotate_right(1);
        self.kept[0] = seconds_a_byte;
        self.count = (self.count + 1).min(KEPT);
    }

    /// Returns the rate in bytes/s: the inverse of the mean of the intervals near the median.
    pub(super) fn speed(&self) -> Option<f64> {
        let mut sorted = self.kept;
        let known = sorted.get_mut(..self.count)?;
        known.sort_unstable_by(f64::total_cmp);
        let median = *known.get(known.len() / 2)?;
        let near = known.iter().filter(|interval| (median / FAR..=median * FAR).contains(*interval));
        let (sum, count) = near.fold((0.0, 0), |(sum, count), interval| (sum + interval, count + 1));
        (count >= LEAST && sum > 0.0).then(|| f64::from(count) / sum)
    }
}

/// Moving average in which the newest value has a weight of one eighth, as in UDT's smoothing of its receiver's
/// reports; the first value initialises it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Smooth(Option<f64>);

impl Smooth {
    pub(super) fn add(&mut self, value: f64) {
        self.0 = Some(self.0.map_or(value, |old| old * 0.875 + value * 0.125));
    }

    pub(super) const fn get(&self) -> Option<f64> {
        self.0
    }
}
