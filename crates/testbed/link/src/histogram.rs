//! Histogram of time spans with a bounded relative error.

use longhaul_units::Span;

/// Buckets per power of two. The width of a bucket is 1/32 of the lower bound of its power of two.
const SUB: u64 = 32;

/// Histogram of spans from one nanosecond to centuries, with a relative error of about 3 %.
///
/// Its memory grows with the longest span recorded: it takes one bucket for a link without queueing, and 900 buckets
/// for queueing delays of seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    longest: Span,
}

impl Histogram {
    /// Records a span.
    #[inline]
    pub fn add(&mut self, span: Span) {
        let bucket = bucket(span.as_nanos());
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.sum += u128::from(span.as_nanos());
        self.longest = self.longest.max(span);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the spans recorded since `earlier`, which must be an earlier state of `self`. The maximum of the
    /// result is approximate, like a quantile.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: usize| earlier.counts.get(bucket).copied().unwrap_or(0);
        let counts: Vec<u64> =
            self.counts.iter().enumerate().map(|(bucket, count)| count.saturating_sub(before(bucket))).collect();
        let last = counts.iter().rposition(|count| *count > 0);
        Self {
            total: self.total.saturating_sub(earlier.total),
            sum: self.sum.saturating_sub(earlier.sum),
            longest: last.map_or(Span::ZERO, |bucket| Span::from_nanos(top(bucket)).min(self.longest)),
            counts,
        }
    }

    /// Returns the number of spans recorded.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Returns whether no span has been recorded.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the longest span, exactly, or zero if there is none.
    pub fn max(&self) -> Span {
        self.longest
    }

    /// Returns the mean, rounded down to a nanosecond, or zero if there is none.
    pub fn mean(&self) -> Span {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the span that a fraction `q` of all spans does not exceed (0.5 for the median), or zero if there is
    /// none. The result is never too small, and at most 1/32 too large.
    pub fn quantile(&self, q: f64) -> Span {
        let rank = ((self.total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(Span::ZERO, |bucket| Span::from_nanos(top(bucket)).min(self.longest))
    }
}

/// Returns the bucket of a span: one for each nanosecond below 32 ns, then 32 for each power of two.
#[inline]
fn bucket(nanos: u64) -> usize {
    let octave = (nanos | 1).ilog2().saturating_sub(SUB.ilog2());
    (u64::from(octave) * SUB + (nanos >> octave)) as usize
}

fn top(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / SUB).saturating_sub(1);
    let within = bucket - octave * SUB;
    ((within + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut last = bucket(0);
        for nanos in (0..100_000).chain((20..60).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1])) {
            let here = bucket(nanos);
            assert!(here >= last, "{nanos}");
            assert!(nanos > 99_999 || here - last <= 1, "{nanos}");
            assert!(top(here) >= nanos && top(here) - nanos <= nanos / 32, "{nanos}: {}", top(here));
            last = here;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.mean(), histogram.max()), (Span::ZERO, Span::ZERO, Span::ZERO));
        let spans: Vec<u64> = (1..=1_000).map(|n| n * n * 1_000).collect();
        for &span in &spans {
            histogram.add(Span::from_nanos(span));
        }
        for (q, index) in [(0.0, 0), (0.5, 499), (0.99, 989), (1.0, 999)] {
            let (got, exact) = (histogram.quantile(q).as_nanos(), spans[index]);
            assert!(got >= exact && got - exact <= exact / 32, "{q}: {got} for {exact}");
        }
        assert_eq!(histogram.max(), Span::from_millis(1_000));
        assert_eq!(histogram.mean().as_nanos(), spans.iter().sum::<u64>() / 1_000);
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.len(), twice.quantile(0.5)), (2_000, histogram.quantile(0.5)));
        assert_eq!(twice.since(&histogram), histogram);
        let mut longer = histogram.clone();
        longer.add(Span::from_nanos(20_000));
        let more = longer.since(&histogram);
        assert_eq!((more.len(), more.mean(), more.quantile(0.5)), (1, Span::from_nanos(20_000), more.max()));
        assert!((20_000..=20_625).contains(&more.max().as_nanos()), "{}", more.max());
    }
}
