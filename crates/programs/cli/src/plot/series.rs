//! Values over time in bounded memory.

use longhaul_plot::path::thinned;

/// Maximum number of buckets. Beyond it, neighbours are merged.
const BUCKETS: usize = 1024;
/// Initial width of a bucket in seconds.
const WIDTH: f64 = 1e-3;
/// Maximum number of points. Beyond it, points that cannot be distinguished are removed.
const POINTS: usize = 1 << 16;

/// A sum over time, such as a number of bytes, in buckets of equal width.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    width: f64,
    sums: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) sum: f64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { width: WIDTH, sums: Vec::new() }
    }
}

impl Buckets {
    /// Adds to the bucket at `time`, which is finite and not negative.
    pub(super) fn add(&mut self, time: f64, amount: f64) {
        while time / self.width >= BUCKETS as f64 {
            self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.width *= 2.0;
        }
        let bucket = (time / self.width) as usize;
        if self.sums.len() <= bucket {
            self.sums.resize(bucket + 1, 0.0);
        }
        if let Some(sum) = self.sums.get_mut(bucket) {
            *sum += amount;
        }
    }

    /// Distributes an amount evenly over an interval of time.
    pub(super) fn spread(&mut self, from: f64, to: f64, amount: f64) {
        // The last bucket determines the width of all.
        self.add(to, 0.0);
        if to <= from {
            return self.add(to, amount);
        }
        let mut at = from;
        while at < to {
            let edge = ((at / self.width).floor() + 1.0) * self.width;
            // Rounding may leave no progress at the end.
            let end = if edge > at { edge.min(to) } else { to };
            self.add(at, amount * (end - at) / (to - from));
            at = end;
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// Returns bins that are at least `width` wide and cover the time up to `end`.
    pub(super) fn bins(&self, width: f64, end: f64) -> Vec<Bin> {
        let each = ((width / self.width).ceil() as usize).clamp(1, BUCKETS);
        let bin = |(nth, sums): (usize, &[f64])| {
            // A bin ends exactly where the next one begins.
            let [from, to] = [nth, nth + 1].map(|nth| (nth * each) as f64 * self.width);
            Bin { from, to, sum: sums.iter().sum() }
        };
        let mut bins: Vec<Bin> = self.sums.chunks(each).enumerate().map(bin).collect();
        // The last bin ends at `end`. If less than half of it is left, it is merged into the previous one.
        let last = bins.pop_if(|last| end - last.from < 0.5 * (last.to - last.from)).filter(|_| !bins.is_empty());
        let sum = last.map_or(0.0, |last| last.sum);
        if let Some(last) = bins.last_mut() {
            (last.to, last.sum) = (end, last.sum + sum);
        }
        bins
    }
}

/// A value over time. If there are many points, only those that are visible are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Points(Vec<(f64, f64)>);

impl Points {
    /// Adds a point. Times must not decrease.
    pub(super) fn push(&mut self, time: f64, value: f64) {
        if value.is_finite() {
            self.0.push((time, value));
        }
        if self.0.len() >= POINTS {
            self.0 = thinned(&self.0, 1);
        }
    }

    /// Returns the values as steps up to `end`. Each value holds until the next.
    pub(super) fn steps(&self, end: f64) -> Vec<(f64, f64)> {
        let next = self.0.iter().skip(1).map(|(time, _)| *time).chain([end]);
        self.0.iter().zip(next).flat_map(|((from, value), to)| [(*from, *value), (to, *value)]).collect()
    }

    pub(super) fn get(&self) -> &[(f64, f64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_kept_while_buckets_get_wider() {
        let mut buckets = Buckets::default();
        for nth in 0..100_000 {
            buckets.add(f64::from(nth) * 1e-2, 2.0);
        }
        assert!((buckets.total() - 200_000.0).abs() < 1e-6);
        assert!(buckets.sums.len() <= BUCKETS);
        let bins = buckets.bins(100.0, 1000.0);
        assert_eq!((bins[0].from, bins.last().unwrap().to, bins.len()), (0.0, 1000.0, 10), "{bins:?}");
        // Evenly: 200 per second.
        for Bin { from, to, sum } in bins {
            assert!((sum / (to - from) - 200.0).abs() < 5.0, "{from} {sum}");
        }
        buckets.add(1e300, 1.0);
        assert!(buckets.sums.len() <= BUCKETS && (buckets.total() - 200_001.0).abs() < 1e-6);
    }

    #[test]
    fn an_amount_is_spread_over_its_range() {
        let mut buckets = Buckets::default();
        buckets.spread(0.0105, 0.0205, 10.0);
        buckets.spread(5.0, 5.0, 1.0);
        assert!((buckets.total() - 11.0).abs() < 1e-9);
        let mut buckets = Buckets::default();
        buckets.spread(0.0105, 0.0205, 10.0);
        for (bucket, wanted) in [(9, 0.0), (10, 0.5), (11, 1.0), (19, 1.0), (20, 0.5)] {
            assert!((buckets.sums[bucket] - wanted).abs() < 1e-9, "{bucket}: {}", buckets.sums[bucket]);
        }
    }

    /// With bins of 0.25 s up to 1.05 s, the rest of 0.05 s belongs to the fourth bin.
    #[test]
    fn a_short_rest_makes_no_bin() {
        let mut buckets = Buckets::default();
        for nth in 0..=1050 {
            buckets.add(f64::from(nth) * 1e-3, 1.0);
        }
        let bins = buckets.bins(0.25, 1.05);
        let total: f64 = bins.iter().map(|bin| bin.sum).sum();
        assert_eq!((bins.len(), bins[3].to, total), (4, 1.05, 1051.0), "{bins:?}");
        assert!(bins.iter().all(|bin| (bin.sum / (bin.to - bin.from) - 1000.0).abs() < 20.0), "{bins:?}");
        // All data at one instant.
        let mut one = Buckets::default();
        one.add(0.0, 7.0);
        assert_eq!(one.bins(0.1, 0.0), []);
    }

    #[test]
    fn many_points_keep_their_extremes() {
        let mut points = Points::default();
        for nth in 0..1_000_000 {
            points.push(f64::from(nth), if nth == 123_456 { 9.0 } else { f64::from(nth % 3) });
        }
        points.push(1e6, f64::NAN);
        assert!(points.get().len() < POINTS);
        assert!(points.get().contains(&(123_456.0, 9.0)));
        let mut two = Points::default();
        two.push(0.0, 5.0);
        two.push(1.0, 7.0);
        assert_eq!(two.steps(3.0), [(0.0, 5.0), (1.0, 5.0), (1.0, 7.0), (3.0, 7.0)]);
        assert_eq!((points.get()[0], *points.get().last().unwrap()), ((0.0, 0.0), (999_999.0, 0.0)));
    }
}
