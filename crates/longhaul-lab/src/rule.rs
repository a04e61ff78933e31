//! When a row is reproduced.

use serde::Serialize;

/// How a measured value is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `exact`: it is the paper's.
    Exact,
    /// `within X%`: it differs from the paper's by at most so much of it.
    Within(f64),
    /// `within X`: it differs from the paper's by at most so much.
    Near(f64),
    /// `at least X`: whatever the paper's is.
    AtLeast(f64),
    /// `at most X`
    AtMost(f64),
    /// `decreasing` or `decreasing by X%`: each value is at least so much more than the next, in the row's order.
    Decreasing(f64),
    /// `not-increasing`: no value is less than the next.
    NotIncreasing,
    /// `equal`: all values are one.
    Equal,
}

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is as the paper says.
    Reproduced,
    /// It is not.
    NotReproduced,
    /// It cannot be measured.
    NotReproducible,
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What there is to be written, if it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let percent = |text: &str| text.strip_suffix('%').and_then(number).filter(|percent| *percent >= 0.0);
        let rule = match words[..] {
            ["exact"] => Some(Self::Exact),
            ["within", share] if share.ends_with('%') => percent(share).map(|percent| Self::Within(percent / 100.0)),
            ["within", most] => number(most).filter(|most| *most >= 0.0).map(Self::Near),
            ["at", "least", least] => number(least).map(Self::AtLeast),
            ["at", "most", most] => number(most).map(Self::AtMost),
            ["decreasing"] => Some(Self::Decreasing(0.0)),
            ["not-increasing"] => Some(Self::NotIncreasing),
            ["equal"] => Some(Self::Equal),
            ["decreasing", "by", share] => percent(share).map(|percent| Self::Decreasing(percent / 100.0)),
            _ => None,
        };
        rule.ok_or_else(|| {
            format!("{text:?} is no rule; write exact, within 10%, within 0.5, at least 3, at most 3, decreasing, decreasing by 5%, \
                 not-increasing or equal")
        })
    }

    /// Whether it compares values along an axis.
    #[must_use]
    pub const fn compares(self) -> bool {
        matches!(self, Self::Decreasing(_) | Self::NotIncreasing | Self::Equal)
    }

    /// Whether it needs the paper's value.
    #[must_use]
    pub const fn needs_paper(self) -> bool {
        matches!(self, Self::Exact | Self::Within(_) | Self::Near(_))
    }

    /// Whether these values, of which each has been measured, keep it.
    #[must_use]
    pub fn holds(self, ours: &[f64], paper: &[f64]) -> bool {
        let pairs = || ours.iter().zip(paper);
        if ours.is_empty() || (self.needs_paper() && ours.len() != paper.len()) {
            return false;
        }
        match self {
            Self::Exact => ours == paper,
            Self::Within(share) => pairs().all(|(ours, paper)| (ours - paper).abs() <= share * paper.abs()),
            Self::Near(most) => pairs().all(|(ours, paper)| (ours - paper).abs() <= most),
            Self::AtLeast(least) => ours.iter().all(|ours| *ours >= least),
            Self::AtMost(most) => ours.iter().all(|ours| *ours <= most),
            Self::Decreasing(share) => ours.windows(2).all(|two| two[0] > two[1] * (1.0 + share)),
            Self::NotIncreasing => ours.windows(2).all(|two| two[0] >= two[1]),
            Self::Equal => ours.windows(2).all(|two| two[0] == two[1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_hold_and_fail() {
        for (text, paper, holds, fails) in [
            ("exact", &[5.0][..], &[5.0][..], &[5.1][..]),
            ("within 10%", &[50.0], &[45.0], &[44.9]),
            ("within 0.5", &[50.0], &[50.5], &[49.4]),
            ("at least 3", &[], &[3.0], &[2.9]),
            ("at most 3", &[], &[3.0], &[3.1]),
            ("decreasing", &[], &[3.0, 2.0, 1.0], &[3.0, 3.0, 1.0]),
            ("not-increasing", &[], &[3.0, 3.0, 1.0], &[3.0, 1.0, 2.0]),
            ("equal", &[], &[3.0, 3.0], &[3.0, 2.0]),
            ("decreasing by 50%", &[], &[3.1, 2.0, 1.0], &[2.9, 2.0, 1.0]),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert!(rule.holds(holds, paper), "{text}");
            assert!(!rule.holds(fails, paper), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_told() {
        for text in ["", "nearly", "within", "within -5%", "within ten", "at least", "decreasing by 5", "at most NaN"] {
            assert!(Rule::parse(text).unwrap_err().contains("is no rule; write exact, "), "{text}");
        }
    }
}
