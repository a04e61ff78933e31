//! Requirements of lines.

use super::{Drawn, Sample, best};

/// A requirement: `at least X`, `at most X`, with `of NAME, ...` for a share of the best of these controllers, or with
/// `from NAME, ...` for the difference from that one, of which the whole interval has to meet it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    is_least: bool,
    number: f64,
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
            format!("{text:?} is not a bar; write at least 3, at most 0.5 of cubic, or at least -0.05 from bbr, cubic")
        };
        let (bound, others, of) = if let Some((bound, others)) = text.split_once(" of ") {
            (bound, others, Of::Share)
        } else if let Some((bound, others)) = text.split_once(" from ") {
            (bound, others, Of::Difference)
        } else {
            (text, "", Of::Number)
        };
        let (is_least, number) = match bound.split_whitespace().collect::<Vec<_>>()[..] {
            ["at", "least", number] => (true, number),
            ["at", "most", number] => (false, number),
            _ => return Err(wrong()),
        };
        let number = number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong)?;
        let others = if others.is_empty() { Vec::new() } else { crate::random::names(others) };
        let others = others.iter().map(|name| name.trim().to_owned()).collect();
        Ok(Self { is_least, number, of, others })
    }

    /// Returns whether a column meets the bar, or `None` if it lacks a value, is one of those that the bar refers to, or
    /// if these are not all on the card.
    pub(super) fn meets(&self, column: &Drawn, all: &[Drawn], sign: f64, sample: &Sample) -> Option<bool> {
        let value = column.column.value?;
        let find = |name: &String| all.iter().find(|other| other.column.controller == *name);
        let others: Vec<&Drawn> = self.others.iter().map(find).collect::<Option<_>>()?;
        if others.iter().any(|other| std::ptr::eq(*other, column)) {
            return None;
        }
        let base = || best(others.iter().filter_map(|other| other.column.value), sign);
        let (value, bound) = match self.of {
            Of::Number => (value, self.number),
            Of::Share => (value, self.number * base()?),
            Of::Difference => {
                let base = base()?;
                let [low, high] =
                    column.minus(others.iter().find(|other| other.column.value == Some(base))?, sample).1?;
                (if self.is_least { low } else { high }, self.number)
            }
        };
        Some(if self.is_least { value >= bound } else { value <= bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_numbers_shares_and_differences() {
        let bar = |is_least, number, of, others: &[&str]| {
            Ok(Bar { is_least, number, of, others: others.iter().map(|name| (*name).to_owned()).collect() })
        };
        assert_eq!(Bar::parse("at least 0.95"), bar(true, 0.95, Of::Number, &[]));
        assert_eq!(Bar::parse("at most 0.5 of cubic"), bar(false, 0.5, Of::Share, &["cubic"]));
        assert_eq!(Bar::parse("at least -0.05 from bbr, cubic"), bar(true, -0.05, Of::Difference, &["bbr", "cubic"]));
        for wrong in ["", "at least", "at most x", "more than 3", "at least 3 than cubic"] {
            assert!(Bar::parse(wrong).unwrap_err().contains("is not a bar"), "{wrong}");
        }
    }
}
