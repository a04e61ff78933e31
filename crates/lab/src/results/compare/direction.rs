//! Direction in which a metric is better.

use super::Change;
use crate::definition::{Form, Metric};
use crate::measure::{self, Better};
use crate::rule::Rule;

/// Returns the direction of a metric that is a single measure or its ratio to another cell. Other metrics have none.
pub(super) fn of(metric: &Metric) -> Better {
    match metric.form {
        None | Some(Form::Ratio) => of_expression(metric.value.get_ref()),
        Some(_) => Better::Unknown,
    }
}

fn of_expression(expression: &str) -> Better {
    let Some((name, rest)) = expression.trim().split_once('(') else { return Better::Unknown };
    let is_alone = rest.find(')') == Some(rest.len().saturating_sub(1));
    measure::find(name.trim()).filter(|_| is_alone).map_or(Better::Unknown, |measure| measure.better)
}

/// Classifies a difference by its interval.
pub(super) fn change(better: Better, [low, high]: [f64; 2]) -> Change {
    match better {
        _ if low <= 0.0 && high >= 0.0 => Change::Same,
        Better::Unknown => Change::Changed,
        Better::More if low > 0.0 => Change::Better,
        Better::Less if high < 0.0 => Change::Better,
        Better::More | Better::Less => Change::Worse,
    }
}

/// Returns the distance of values from meeting a rule; less is better. Returns `None` for rules without a distance.
pub(super) fn miss(rule: Rule, ours: &[f64], paper: &[f64]) -> Option<f64> {
    let most = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
    match rule {
        Rule::Exact | Rule::Within(_) | Rule::Near(_) | Rule::WithinDeviations(_) => {
            let of = |(ours, paper): (&f64, &f64)| (ours - paper).abs() / if *paper == 0.0 { 1.0 } else { paper.abs() };
            Some(ours.iter().zip(paper).map(of).sum())
        }
        Rule::AtLeast(_) | Rule::NotBelow(_) => most(&mut ours.iter().map(|ours| -ours)),
        Rule::AtMost(_) => most(&mut ours.iter().copied()),
        Rule::Decreasing(_) | Rule::NotIncreasing => most(&mut ours.windows(2).map(|two| two[1] - two[0])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_measures_have_a_direction() {
        assert_eq!(of_expression("goodput(x)"), Better::More);
        assert_eq!(of_expression(" completion(x) "), Better::Less);
        assert_eq!(of_expression("delay(p95, {from}, 9s)"), Better::Less);
        assert_eq!(of_expression("converged(x)"), Better::Less);
        assert_eq!(of_expression("nothing(x)"), Better::Unknown);
        for text in ["goodput(x) / goodput(y)", "1 - jain(x)", "sent(x, 2s)", "100 * resent(x)", "2", ""] {
            assert_eq!(of_expression(text), Better::Unknown, "{text}");
        }
    }

    #[test]
    fn differences_beyond_chance_are_better_or_worse() {
        assert_eq!(change(Better::More, [1.0, 2.0]), Change::Better);
        assert_eq!(change(Better::More, [-2.0, -1.0]), Change::Worse);
        assert_eq!(change(Better::Less, [-2.0, -1.0]), Change::Better);
        assert_eq!(change(Better::Less, [1.0, 2.0]), Change::Worse);
        assert_eq!(change(Better::Unknown, [1.0, 2.0]), Change::Changed);
        for better in [Better::More, Better::Less, Better::Unknown] {
            assert_eq!(change(better, [-1.0, 2.0]), Change::Same);
            assert_eq!(change(better, [0.0, 0.0]), Change::Same);
        }
    }

    #[test]
    fn values_nearer_to_the_rule_miss_less() {
        for (text, paper, near, far) in [
            ("exact", &[5.0][..], &[5.1][..], &[4.0][..]),
            ("within 10%", &[5.0, 0.0], &[5.1, 0.1], &[5.1, 0.3]),
            ("at least 3", &[], &[3.0], &[2.0]),
            ("at most 3", &[], &[3.0], &[4.0]),
            ("decreasing", &[], &[5.0, 3.0, 1.0], &[5.0, 3.0, 2.0]),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert!(miss(rule, near, paper) < miss(rule, far, paper), "{text}");
        }
    }
}
