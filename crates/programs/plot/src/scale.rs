//! Mapping of values to coordinates.

use crate::ticks;

/// A linear or logarithmic mapping of a range of values to a range of coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Value at `from`.
    pub low: f64,
    /// Value at `to`.
    pub high: f64,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
    /// Coordinate of `low`.
    pub from: f64,
    /// Coordinate of `high`.
    pub to: f64,
}

impl Scale {
    /// Returns the coordinate of a value, or `None` if it is not finite, or not positive on a logarithmic scale.
    pub fn place(&self, value: f64) -> Option<f64> {
        let share = if self.is_log {
            (value > 0.0).then(|| (value / self.low).ln() / (self.high / self.low).ln())?
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let place = self.from + share * (self.to - self.from);
        place.is_finite().then_some(place)
    }
}

/// Returns the minimum and the maximum of the finite values. A logarithmic scale ignores values that are not
/// positive.
pub fn extent(values: impl Iterator<Item = f64>, is_log: bool) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && (!is_log || *value > 0.0)).fold(None, |extent, value| match extent {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// Returns a range that contains the values and ends at ticks, and the step between ticks. With `zero`, the range
/// contains 0.
pub fn round(extent: Option<(f64, f64)>, zero: bool, about: usize) -> (f64, f64, f64) {
    let (mut low, mut high) = extent.unwrap_or((0.0, 1.0));
    if zero {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    if low == high {
        let wide = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
        (low, high) = if zero && low == 0.0 { (0.0, wide) } else { (low - wide, high + wide) };
    }
    let step = ticks::step(high - low, about);
    let (first, last) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
    if first.is_finite() && last.is_finite() && first < last { (first, last, step) } else { (0.0, 1.0, 0.2) }
}

/// Returns a logarithmic range that contains the values: full decades if their ratio is at least 30, otherwise steps
/// of 1, 2 and 5.
pub fn round_log(extent: Option<(f64, f64)>) -> (f64, f64) {
    let (low, high) = extent.unwrap_or((1.0, 10.0));
    if high / low >= 30.0 {
        return (10f64.powf((low.log10() + 1e-9).floor()), 10f64.powf((high.log10() - 1e-9).ceil()));
    }
    let one_two_five = |value: f64, up: bool| {
        let power = 10f64.powf(value.log10().floor());
        let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0].map(|times| times * power);
        let near = 1.0 + 1e-9;
        if up {
            steps.into_iter().find(|step| *step * near >= value)
        } else {
            steps.into_iter().rev().find(|step| *step <= value * near)
        }
    };
    let range = (one_two_five(low, false).unwrap_or(low), one_two_five(high, true).unwrap_or(high));
    if range.0 < range.1 { range } else { (range.0 / 2.0, range.1 * 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_closed_form() {
        let straight = Scale { low: -1.0, high: 3.0, is_log: false, from: 300.0, to: 20.0 };
        for (value, place) in [(-1.0, 300.0), (3.0, 20.0), (0.0, 230.0), (1.0, 160.0)] {
            assert_eq!(straight.place(value), Some(place));
        }
        let log = Scale { low: 1e-6, high: 1e-2, is_log: true, from: 0.0, to: 400.0 };
        for (value, place) in [(1e-6, 0.0), (1e-4, 200.0), (1e-2, 400.0), (1e-5, 100.0)] {
            assert!((log.place(value).unwrap() - place).abs() < 1e-9);
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(log.place(value), None);
        }
        assert_eq!(Scale { low: 1.0, high: 1.0, ..straight }.place(1.0), None);
    }

    #[test]
    fn ranges_by_a_table() {
        for (extent, zero, wanted) in [
            (Some((4.71, 49.43)), true, (0.0, 50.0, 10.0)),
            (Some((4.71, 49.43)), false, (0.0, 50.0, 10.0)),
            (Some((101.0, 104.0)), false, (101.0, 104.0, 0.5)),
            (Some((-3.0, 5.0)), true, (-4.0, 6.0, 2.0)),
            (Some((5.0, 5.0)), false, (2.0, 8.0, 1.0)),
            (Some((0.0, 0.0)), true, (0.0, 1.0, 0.2)),
            (None, true, (0.0, 1.0, 0.2)),
        ] {
            assert_eq!(round(extent, zero, 5), wanted, "{extent:?}");
        }
        let near = |got: (f64, f64), wanted: (f64, f64)| {
            assert!((got.0 / wanted.0 - 1.0).abs() < 1e-9 && (got.1 / wanted.1 - 1.0).abs() < 1e-9, "{got:?}");
        };
        near(round_log(Some((1e-6, 1e-2))), (1e-6, 1e-2));
        near(round_log(Some((3.0, 400.0))), (1.0, 1000.0));
        near(round_log(Some((3.0, 8.0))), (2.0, 10.0));
        near(round_log(Some((10.0, 10.0))), (5.0, 20.0));
    }
}
