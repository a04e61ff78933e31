//! Rules that decide whether a row is reproduced.

use longhaul_units::named;
use serde::{Deserialize, Serialize};

use crate::stats;

/// A rule that compares measured values with the paper's or with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `exact`: the value equals the paper's.
    Exact,
    /// `within X%`: the value differs from the paper's by at most this fraction of the paper's.
    Within(f64),
    /// `within X`: the value differs from the paper's by at most this much.
    Near(f64),
    /// `within factor X`: the value is at most X times the paper's, and at least the paper's divided by X.
    Factor(f64),
    /// `binomial of N within X`: the value is a share within the 95 % interval of the paper's share of N runs (Clopper
    /// and Pearson), and differs from it by at most this.
    Binomial(u32, f64),
    /// `within X deviations`: the value differs from the paper's by at most this multiple of the row's `deviation`.
    WithinDeviations(f64),
    /// `not below by X deviations`: the value is below the paper's by at most this multiple of the row's `deviation`.
    NotBelow(f64),
    /// `at least X`: the value is at least this. The paper's value is ignored.
    AtLeast(f64),
    /// `at most X`: the value is at most this. The paper's value is ignored.
    AtMost(f64),
    /// `decreasing` or `decreasing by X%`: in the row's order, each value exceeds the next one by more than this
    /// fraction of the next one.
    Decreasing(f64),
    /// `decreasing by X% to Y%`: each value exceeds the next one, by a fraction of the next one in this range.
    DecreasingWithin(f64, f64),
    /// `not-increasing`: no value is less than the next one.
    NotIncreasing,
    /// `equal`: all values are equal.
    Equal,
    /// `above by X to Y`: each value exceeds the next one by at least X and at most Y.
    Above(f64, f64),
    /// `alike within X%`: no value differs from the mean of all by more than this fraction of the mean.
    Alike(f64),
    /// `alike within X%, not ahead`: the same, and no value exceeds the first one by more than this fraction of it.
    NotAhead(f64),
}

named! {
    /// Result of a row.
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict, ALL {
        /// The rule holds.
        Reproduced = "reproduced",
        /// The runs are too few to decide whether the rule holds: the 95 % interval of a value or a difference contains
        /// the rule's bound.
        Undecided = "undecided",
        /// The rule does not hold, or a value is missing.
        NotReproduced = "not-reproduced",
        /// The row cannot be measured.
        NotReproducible = "not-reproducible",
    }
}

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Returns the list of valid rules if the text is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let count = |text: &str| number(text).filter(|number| *number >= 0.0);
        let percent = |text: &str| text.strip_suffix('%').and_then(number).filter(|percent| *percent >= 0.0);
        let rule = match words[..] {
            ["exact"] => Some(Self::Exact),
            ["within", share] if share.ends_with('%') => percent(share).map(|percent| Self::Within(percent / 100.0)),
            ["within", "factor", most] => number(most).filter(|most| *most >= 1.0).map(Self::Factor),
            ["binomial", "of", runs, "within", most] => match (runs.parse::<u32>(), count(most)) {
                (Ok(runs @ 1..=1000), Some(most)) => Some(Self::Binomial(runs, most)),
                _ => None,
            },
            ["within", most] => count(most).map(Self::Near),
            ["within", most, "deviations"] => count(most).map(Self::WithinDeviations),
            ["not", "below", "by", most, "deviations"] => count(most).map(Self::NotBelow),
            ["at", "least", least] => number(least).map(Self::AtLeast),
            ["at", "most", most] => number(most).map(Self::AtMost),
            ["decreasing"] => Some(Self::Decreasing(0.0)),
            ["not-increasing"] => Some(Self::NotIncreasing),
            ["equal"] => Some(Self::Equal),
            ["above", "by", least, "to", most] => match (number(least), number(most)) {
                (Some(least), Some(most)) if least <= most => Some(Self::Above(least, most)),
                _ => None,
            },
            ["alike", "within", share] => percent(share).map(|percent| Self::Alike(percent / 100.0)),
            ["alike", "within", share, "not", "ahead"] => {
                share.strip_suffix(',').and_then(percent).map(|percent| Self::NotAhead(percent / 100.0))
            }
            ["decreasing", "by", least, "to", most] => match (percent(least), percent(most)) {
                (Some(least), Some(most)) if least <= most => Some(Self::DecreasingWithin(least / 100.0, most / 100.0)),
                _ => None,
            },
            ["decreasing", "by", share] => percent(share).map(|percent| Self::Decreasing(percent / 100.0)),
            _ => None,
        };
        rule.ok_or_else(|| {
            format!("{text:?} is not a rule; write exact, within 10%, within 0.5, within factor 1.25, binomial of 90 within 0.1, \
                 within 2 deviations, not below by 2 deviations, at least 3, at most 3, decreasing, decreasing by 5%, \
                 decreasing by 0% to 10%, above by 0 to 1, not-increasing, equal, alike within 5% or alike \
                 within 5%, not ahead")
        })
    }

    /// Returns whether the rule compares values along an axis.
    #[must_use]
    pub const fn compares(self) -> bool {
        matches!(self, Self::Equal) || self.has_margins()
    }

    /// Returns whether the rule has [`Rule::margins`].
    pub(crate) const fn has_margins(self) -> bool {
        matches!(
            self,
            Self::Decreasing(_)
                | Self::DecreasingWithin(..)
                | Self::Above(..)
                | Self::NotIncreasing
                | Self::Alike(_)
                | Self::NotAhead(_)
        )
    }

    /// Returns whether the rule holds with margins of 0.
    pub(crate) const fn holds_if_equal(self) -> bool {
        !matches!(self, Self::Decreasing(_) | Self::DecreasingWithin(..))
    }

    /// Returns whether the rule needs the paper's value.
    #[must_use]
    pub const fn needs_paper(self) -> bool {
        let by_value =
            matches!(self, Self::Exact | Self::Within(_) | Self::Near(_) | Self::Factor(_) | Self::Binomial(..));
        by_value || self.needs_deviation()
    }

    /// Returns whether the rule needs the paper's standard deviation.
    #[must_use]
    pub const fn needs_deviation(self) -> bool {
        matches!(self, Self::WithinDeviations(_) | Self::NotBelow(_))
    }

    /// Returns whether the rule holds for these values, all of which have been measured. `deviations` are the paper's
    /// standard deviations of the values, or one for all.
    #[must_use]
    pub fn holds(self, ours: &[f64], paper: &[f64], deviations: &[f64]) -> bool {
        let pairs = || ours.iter().zip(paper);
        let spread = || pairs().zip(deviations.iter().cycle());
        let missing = (self.needs_paper() && ours.len() != paper.len())
            || (self.needs_deviation() && ![1, ours.len()].contains(&deviations.len()));
        if ours.is_empty() || missing {
            return false;
        }
        match self {
            Self::Exact => ours == paper,
            Self::Within(share) => pairs().all(|(ours, paper)| (ours - paper).abs() <= share * paper.abs()),
            Self::Near(most) => pairs().all(|(ours, paper)| (ours - paper).abs() <= most),
            Self::Factor(most) => pairs().all(|(ours, paper)| (paper / most..=paper * most).contains(ours)),
            Self::Binomial(runs, most) => pairs().all(|(ours, paper)| {
                let [low, high] = stats::binomial_interval((paper * f64::from(runs)).round() as u32, runs);
                (low..=high).contains(ours) && (ours - paper).abs() <= most
            }),
            Self::WithinDeviations(most) => spread().all(|((ours, paper), one)| (ours - paper).abs() <= most * one),
            Self::NotBelow(most) => spread().all(|((ours, paper), one)| paper - ours <= most * one),
            Self::AtLeast(least) => ours.iter().all(|ours| *ours >= least),
            Self::AtMost(most) => ours.iter().all(|ours| *ours <= most),
            Self::Equal => ours.windows(2).all(|two| two[0] == two[1]),
            Self::Decreasing(_) => self.margins(ours).iter().all(|margin| *margin > 0.0),
            Self::DecreasingWithin(..) => {
                self.margins(ours).iter().all(|margin| *margin >= 0.0) && ours.windows(2).all(|two| two[0] > two[1])
            }
            Self::Above(..) | Self::NotIncreasing | Self::Alike(_) | Self::NotAhead(_) => {
                self.margins(ours).iter().all(|margin| *margin >= 0.0)
            }
        }
    }

    /// Returns whether values in these intervals may meet a rule that does not compare them, or miss it. `binomial` is
    /// itself a test of chance, which has no bound to cross.
    pub(crate) fn is_crossed(self, intervals: &[[f64; 2]], paper: &[f64], deviations: &[f64]) -> bool {
        let crosses = |(nth, [low, high]): (usize, &[f64; 2])| -> [bool; 2] {
            let one = |all: &[f64]| all.get(nth).or(all.first()).copied();
            let (paper, deviation) = (one(paper), one(deviations));
            let holds = |value: f64| self.holds(&[value], paper.as_slice(), deviation.as_slice());
            let has_paper = self.needs_paper() && paper.is_some_and(|paper| (*low..=*high).contains(&paper));
            [holds(*low) && holds(*high), holds(*low) || holds(*high) || has_paper]
        };
        let each: Vec<[bool; 2]> = intervals.iter().enumerate().map(crosses).collect();
        let (holds, may_hold) = (each.iter().all(|[holds, _]| *holds), each.iter().all(|[_, may]| *may));
        !matches!(self, Self::Binomial(..)) && may_hold && !holds
    }

    /// Returns the range in which a rule holds for the ratio of our value to the paper's, or of the first of two values to
    /// the second one. Returns `None` for rules that no ratio decides.
    pub(crate) fn range(self, ours: &[f64], paper: &[f64], deviations: &[f64]) -> Option<[f64; 2]> {
        let relative = |most: f64| paper.first().map(|paper| most / paper.abs());
        let deviation = || deviations.first().copied();
        Some(match self {
            Self::Exact | Self::Equal => [1.0; 2],
            Self::Within(share) => [1.0 - share, 1.0 + share],
            Self::Near(most) => [1.0 - relative(most)?, 1.0 + relative(most)?],
            Self::Factor(most) => [1.0 / most, most],
            Self::Binomial(runs, _) => {
                let share = paper.first()?;
                stats::binomial_interval((share * f64::from(runs)).round() as u32, runs).map(|end| end / share)
            }
            Self::WithinDeviations(most) => {
                let part = relative(most * deviation()?)?;
                [1.0 - part, 1.0 + part]
            }
            Self::NotBelow(most) => [1.0 - relative(most * deviation()?)?, f64::INFINITY],
            Self::AtLeast(least) => [relative(least)?, f64::INFINITY],
            Self::AtMost(most) => [0.0, relative(most)?],
            Self::Decreasing(share) => [1.0 + share, f64::INFINITY],
            Self::DecreasingWithin(least, most) => [1.0 + least, 1.0 + most],
            Self::NotIncreasing => [1.0, f64::INFINITY],
            Self::Alike(share) if share < 1.0 => [(1.0 - share) / (1.0 + share), (1.0 + share) / (1.0 - share)],
            Self::Above(least, most) => {
                let second = ours.get(1)?;
                [1.0 + least / second, 1.0 + most / second]
            }
            Self::Alike(_) | Self::NotAhead(_) => return None,
        })
    }

    /// Returns the margin by which these values meet each condition of a rule that compares them; it is negative if
    /// they miss the condition. For `decreasing`, these are the differences. Other rules, and `equal`, which requires
    /// identity, have no margins.
    pub(crate) fn margins(self, ours: &[f64]) -> Vec<f64> {
        let each = |of: &dyn Fn(f64, f64) -> Vec<f64>| ours.windows(2).flat_map(|two| of(two[0], two[1])).collect();
        match self {
            Self::Decreasing(share) => each(&|one, next| vec![one - next - share * next.abs()]),
            Self::DecreasingWithin(least, most) => {
                each(&|one, next| vec![one - next - least * next.abs(), next + most * next.abs() - one])
            }
            Self::Above(least, most) => each(&|one, next| vec![one - next - least, most - (one - next)]),
            Self::NotIncreasing => each(&|one, next| vec![one - next]),
            Self::Alike(share) => {
                let mean = ours.iter().sum::<f64>() / ours.len() as f64;
                ours.iter().map(|ours| share * mean.abs() - (ours - mean).abs()).collect()
            }
            Self::NotAhead(share) => {
                let most = |first: &f64| first + share * first.abs();
                let ahead = ours.iter().skip(1).zip(ours.first().map(most).into_iter().cycle());
                let ahead = ahead.map(|(ours, most)| most - ours);
                Self::Alike(share).margins(ours).into_iter().chain(ahead).collect()
            }
            _ => Vec::new(),
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
            ("within factor 1.25", &[2.0], &[1.6], &[1.59]),
            ("within factor 1.25", &[2.0], &[2.5], &[2.51]),
            // The interval of 6 in 90 runs is 0.025 to 0.139, and that of 38 in 60 is 0.499 to 0.754.
            ("binomial of 90 within 0.1", &[0.0667], &[0.13], &[0.0]),
            ("binomial of 90 within 0.1", &[0.0667], &[0.026], &[0.14]),
            ("binomial of 60 within 0.1", &[0.6333], &[0.73], &[0.74]),
            ("at least 3", &[], &[3.0], &[2.9]),
            ("at most 3", &[], &[3.0], &[3.1]),
            ("decreasing", &[], &[3.0, 2.0, 1.0], &[3.0, 3.0, 1.0]),
            ("not-increasing", &[], &[3.0, 3.0, 1.0], &[3.0, 1.0, 2.0]),
            ("equal", &[], &[3.0, 3.0], &[3.0, 2.0]),
            ("decreasing by 0% to 10%", &[], &[1.09, 1.0], &[1.11, 1.0]),
            ("decreasing by 0% to 10%", &[], &[1.09, 1.0], &[1.0, 1.0]),
            ("decreasing by 50%", &[], &[3.1, 2.0, 1.0], &[2.9, 2.0, 1.0]),
            ("decreasing by 900%", &[], &[10.1, 1.0], &[9.9, 1.0]),
            ("decreasing by 50%", &[], &[-0.9, -2.0], &[-1.1, -2.0]),
            ("decreasing by 5%", &[], &[1.0, 0.0, -1.0], &[-1.0, -0.99]),
            ("within 2 deviations", &[50.0], &[51.0], &[51.1]),
            ("within 2 deviations", &[50.0, 7.0], &[49.0, 8.0], &[49.0, 8.1]),
            ("not below by 2 deviations", &[0.97], &[1.0], &[-0.1]),
            ("not below by 2 deviations", &[50.0, 7.0], &[90.0, 6.0], &[49.0, 5.9]),
            ("above by 0.5 to 1", &[], &[3.0, 2.0, 1.5], &[3.0, 1.9]),
            ("above by 0.5 to 1", &[], &[3.0, 2.0], &[3.0, 2.6]),
            ("alike within 5%", &[], &[95.0, 105.0, 100.0], &[94.0, 106.0, 100.0]),
            ("alike within 10%, not ahead", &[], &[100.0, 110.0, 90.0], &[96.0, 106.0, 100.0]),
            ("alike within 10%, not ahead", &[], &[110.0, 91.0], &[111.0, 90.0]),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert!(rule.holds(holds, paper, &[0.5]), "{text}");
            assert!(!rule.holds(fails, paper, &[0.5]), "{text}");
        }
    }

    #[test]
    fn intervals_that_contain_a_bound_are_crossed() {
        for (text, intervals, is_crossed) in [
            ("at most 50", &[[44.0, 57.0]][..], true),
            ("at most 50", &[[44.0, 50.0]], false),
            ("at most 50", &[[50.1, 57.0]], false),
            ("at least 50", &[[44.0, 57.0]], true),
            ("within 20%", &[[11.0, 13.9]], true),
            ("within 20%", &[[8.0, 13.0]], true),
            ("within 20%", &[[8.0, 12.0]], false),
            ("within 20%", &[[13.0, 14.0]], false),
            ("exact", &[[10.0, 10.0]], false),
            ("exact", &[[10.0, 11.0]], true),
            ("within 2 deviations", &[[9.5, 10.5], [18.0, 21.5]], true),
            // One value that is outside for certain decides.
            ("within 2 deviations", &[[9.5, 11.5], [18.0, 18.5]], false),
            ("not below by 2 deviations", &[[8.5, 11.5], [20.0, 22.0]], true),
            ("binomial of 90 within 0.1", &[[9.0, 11.0]], false),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert_eq!(rule.is_crossed(intervals, &[10.0, 20.0], &[0.5]), is_crossed, "{text}: {intervals:?}");
        }
    }

    #[test]
    fn each_value_has_its_deviation_or_all_have_one() {
        let rule = Rule::parse("within 2 deviations").unwrap();
        assert!(rule.holds(&[50.0, 7.1], &[52.0, 7.0], &[1.0, 0.1]));
        assert!(!rule.holds(&[52.0, 9.0], &[52.0, 7.0], &[1.0, 0.1]));
        for deviations in [&[][..], &[9.0, 9.0, 9.0][..]] {
            assert!(!rule.holds(&[52.0, 7.0], &[52.0, 7.0], deviations), "{deviations:?}");
        }
    }

    #[test]
    fn invalid_rules_are_reported() {
        for text in [
            "",
            "nearly",
            "within",
            "within -5%",
            "within ten",
            "within factor 0.5",
            "binomial of 0 within 0.1",
            "binomial of 90",
            "decreasing by 10% to 0%",
            "at least",
            "decreasing by 5",
            "at most NaN",
            "within -1 deviations",
            "alike within 5",
            "above by 1 to 0",
        ] {
            assert!(Rule::parse(text).unwrap_err().contains("is not a rule; write exact, "), "{text}");
        }
    }
}
