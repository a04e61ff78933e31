//! Measures that compare flows.

use longhaul_units::statistics::{jain, mean};
use longhaul_units::{Span, math};

use super::part::{Part, ratio};
use super::{ANY, Better, Measure, Parameter, Watch};
use Parameter::Flows;

/// Number of seconds for which the shares must stay nearly equal.
const STEADY: usize = 5;
/// Maximum difference of each share from one half: 20 % of a half.
const NEAR: f64 = 0.1;
/// Minimum share of a flow, relative to the mean, so that a flow without any goodput has a finite distance.
const STARVED: f64 = 0.001;

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "jain",
        parameters: &[Flows, ANY],
        usage: "jain(FLOWS[, FROM][, TO])",
        about: "Jain's fairness index of the flows' goodput (RFC 5166, section 2.3.1): the square of the sum, \
               divided by n times the sum of squares",
        better: Better::More,
        watch: Watch::Nothing,
        value: |part| jain(&part.each(|flow| flow.read)),
    },
    Measure {
        name: "share",
        parameters: &[Flows, Flows, ANY],
        usage: "share(FLOWS, FLOWS[, FROM][, TO])",
        about: "mean goodput of the first flows, divided by the sum of both means: from 0 to 1, where 0.5 is equal",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| {
            let of = |nth| mean(&part.each_of(nth, |flow| flow.read));
            let (first, second) = (of(0)?, of(1)?);
            ratio(first, first + second)
        },
    },
    Measure {
        name: "unfairness",
        parameters: &[Flows, Flows, ANY],
        usage: "unfairness(FLOWS, FLOWS[, FROM][, TO])",
        about: "distance of the worst flow of both names from an equal share: the largest magnitude of ln(x / \
               mean) over the goodput x of each flow, where mean is that of all. 0 is fair, and half or twice \
               the mean is 0.69. Values of x count as at least 0.001 of the mean. Both names may be the same",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let second =
                if part.flows_of(1) == part.flows_of(0) { Vec::new() } else { part.each_of(1, |flow| flow.read) };
            unfairness(&[part.each_of(0, |flow| flow.read), second].concat())
        },
    },
    Measure {
        name: "convergence",
        parameters: &[Flows, Flows],
        usage: "convergence(FLOWS, FLOWS)",
        about: "seconds from the start of the last flow of both names until their shares, as in `share`, in \
               the goodput per second are between 0.4 and 0.6 and stay there for five seconds (RFC 5166, \
               section 2.3.3, with delta 0.2); undefined if they never do",
        better: Better::Less,
        watch: Watch::Nothing,
        value: converged,
    },
];

fn unfairness(each: &[f64]) -> Option<f64> {
    let mean = mean(each).filter(|mean| *mean > 0.0)?;
    let distance = |goodput: &f64| math::ln((goodput / mean).max(STARVED)).abs();
    each.iter().map(distance).max_by(f64::total_cmp)
}

fn converged(part: &Part<'_>) -> Option<f64> {
    let begun = [0, 1].map(|nth| part.outcome.begun.get(part.flows_of(nth)).map(|all| all.iter().copied().max()));
    let [Some(Some(Some(first))), Some(Some(Some(second)))] = begun else { return None };
    let later = first.max(second);
    let of = |nth| part.each_second_of(nth, later).into_iter().map(move |mbps| (mbps, part.flows_of(nth).len() as f64));
    let shares: Vec<Option<f64>> = of(0)
        .zip(of(1))
        .map(|((first, few), (second, many))| ratio(first / few, first / few + second / many))
        .collect();
    let whole = Span::from_secs(later.as_nanos().div_ceil(1_000_000_000));
    steady_from(&shares).map(|second| second as f64 + (whole - later).as_secs_f64())
}

/// Returns the first second of a long enough period with nearly equal shares.
fn steady_from(shares: &[Option<f64>]) -> Option<usize> {
    let is_near = |share: &Option<f64>| share.is_some_and(|share| (share - 0.5).abs() <= NEAR + 1e-12);
    shares.windows(STEADY).position(|window| window.iter().all(is_near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_flow_counts_whether_it_has_too_little_or_too_much() {
        assert_eq!(unfairness(&[5.0, 5.0]), Some(0.0));
        let near = |each: &[f64], expected: f64| (unfairness(each).unwrap() - expected).abs() < 1e-9;
        // Means of 1 and 2: half of the mean, and three times the mean.
        assert!(near(&[0.5, 1.5], 2f64.ln()) && near(&[6.0, 1.0, 1.0, 1.0, 1.0], 3f64.ln()));
        // A flow without goodput counts as 0.001 of the mean.
        assert!(near(&[0.0, 2.0], 1000f64.ln()));
        assert_eq!((unfairness(&[0.0, 0.0]), unfairness(&[])), (None, None));
    }

    #[test]
    fn shares_have_to_stay_equal() {
        let from = |shares: &[f64]| steady_from(&shares.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(from(&[0.1, 0.3, 0.4, 0.6, 0.5, 0.5, 0.45, 0.9]), Some(2));
        assert_eq!(from(&[0.5, 0.5, 0.5, 0.5, 0.39, 0.5, 0.5, 0.5, 0.5]), None);
        assert_eq!(steady_from(&[None; 9]), None);
    }
}
