//! Requirements of lines.

use crate::random;

/// A requirement: `at least X`, `at most X` or `X to Y`. With `of NAME, ...`, the numbers are shares of the best value
/// of these controllers, which is the largest or, for `at most`, the smallest. With `from NAME, ...`, they bound the
/// whole interval of the difference from that value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    low: f64,
    high: f64,
    of: Of,
    others: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Number,
    Share,
    Difference,
}

impl Bar {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let forms = "at least 3, 0.4 to 0.6, at most 0.5 of cubic, or at least -0.05 from bbr, cubic";
            format!("{text:?} is not a bar; write {forms}")
        };
        let of = [(" of ", Of::Share), (" from ", Of::Difference)];
        let found = of.into_iter().find_map(|(word, of)| Some((text.split_once(word)?, of)));
        let ((bound, others), of) = found.unwrap_or(((text, ""), Of::Number));
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong);
        let (low, high) = match bound.split_whitespace().collect::<Vec<_>>()[..] {
            ["at", "least", low] => (number(low)?, f64::INFINITY),
            ["at", "most", high] => (f64::NEG_INFINITY, number(high)?),
            [low, "to", high] => (number(low)?, number(high)?),
            _ => return Err(wrong()),
        };
        let others =
            random::names(others).into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        Ok(Self { low, high, of, others: others.collect() })
    }

    /// Returns whether the bar applies to values instead of intervals.
    pub(super) fn is_of_values(&self) -> bool {
        self.of != Of::Difference
    }

    /// Returns whether a controller meets the bar. `None` means that a value is missing, that the bar refers to this
    /// controller, or that it refers to a controller that is not on the card. `difference` returns the interval of the
    /// difference from another controller.
    pub(super) fn meets(
        &self,
        nth: usize,
        names: &[String],
        values: &[Option<f64>],
        difference: impl FnOnce(usize) -> Option<[f64; 2]>,
    ) -> Option<bool> {
        let value = values[nth]?;
        let places = self.others.iter().map(|other| names.iter().position(|name| name == other));
        let others = places.map(|place| Some((place?, values[place?]?))).collect::<Option<Vec<_>>>()?;
        if others.iter().any(|(place, _)| *place == nth) {
            return None;
        }
        let is_upper = self.low.is_infinite();
        let best = others.into_iter().max_by(
            |(_, one), (_, other)| {
                if is_upper { other.total_cmp(one) } else { one.total_cmp(other) }
            },
        );
        let ([low, high], factor) = match self.of {
            Of::Number => ([value; 2], 1.0),
            Of::Share => ([value; 2], best?.1),
            Of::Difference => (difference(best?.0)?, 1.0),
        };
        Some(low >= self.low * factor && high <= self.high * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_numbers_shares_and_differences() {
        let names = ["new", "bbr", "cubic"].map(str::to_owned);
        let meets = |text: &str, value: f64| {
            let values = [Some(value), Some(10.0), Some(20.0)];
            let difference = |other: usize| Some([value - values[other]? - 1.0, value - values[other]? + 1.0]);
            Bar::parse(text).unwrap().meets(0, &names, &values, difference)
        };
        for (text, met, missed) in [
            ("at least 0.95", 0.95, 0.94),
            ("at most 2", 2.0, 2.1),
            ("0.4 to 0.6", 0.4, 0.7),
            ("at least 0.5 of cubic", 10.0, 9.9),
            ("at least 0.9 of bbr, cubic", 18.1, 17.9),
            ("at least -3 from bbr, cubic", 18.0, 17.9),
        ] {
            assert_eq!((meets(text, met), meets(text, missed)), (Some(true), Some(false)), "{text}");
        }
        assert_eq!((meets("at least 1 of new", 1.0), meets("at least 1 of copa", 1.0)), (None, None));
        for wrong in ["", "at least", "at most x", "more than 3", "at least 3 than cubic"] {
            assert!(Bar::parse(wrong).unwrap_err().contains("is not a bar"), "{wrong}");
        }
    }
}
