//! Measures of the flows of one name or of two, of the phases of their senders, and of workloads.

use longhaul_link::statistics::{jain, mean, population_deviation};
use longhaul_sim::Epoch;
use longhaul_units::{Span, Time, math};

use super::{Measure, Part, Watch, less, measure, more, percent, ratio};
use crate::world::Stay;

pub(super) const MEASURES: &[Measure] = &[
    more("goodput(FLOWS[, FROM][, TO])", |part| Some(part.sum(|flow| flow.read) * 8e-6 / part.seconds())),
    measure("sent(FLOWS[, FROM][, TO])", |part| Some(part.sum(|flow| flow.sent))),
    less("completion(FLOWS)", |part| {
        let flows = &part.outcome.at(part.to).flows[part.flows()];
        mean(&flows.iter().map(|flow| flow.completion).collect::<Option<Vec<f64>>>()?)
    }),
    less("time-to(FLOWS, BYTES)", |part| part.outcome.reached.get(&(part.flows().start, part.asked.bytes)).copied())
        .watches(Watch::Bytes),
    less("message-delay(FLOWS, QUANTILE)", |part| {
        let delays = part.outcome.messages.get(part.flows())?.concat();
        part.asked.quantile.of(delays).map(|delay| delay * 1e3)
    }),
    measure("data-packets(FLOWS, BYTES)", |part| data(part).map(|[offered, _]| offered)).watches(Watch::Data),
    less("data-drops(FLOWS, BYTES)", |part| data(part).map(|[_, dropped]| dropped)).watches(Watch::Data),
    less("resent(FLOWS[, FROM][, TO])", |part| percent(part.sum(|flow| flow.resent), part.sum(|flow| flow.segments))),
    less("acks-received(FLOWS[, FROM][, TO])", |part| {
        percent(part.sum(|flow| flow.acks), part.sum(|flow| flow.segments))
    }),
    less("resent-bytes(FLOWS[, FROM][, TO])", |part| {
        percent(part.sum(|flow| flow.sent_again), part.sum(|flow| flow.sent + flow.sent_again))
    }),
    less("spurious(FLOWS[, FROM][, TO])", |part| {
        let known = part.outcome.at(part.to).flows[part.flows()].iter().all(|flow| flow.has_sack);
        let share = percent(part.sum(|flow| flow.dsacks), part.sum(|flow| flow.resent));
        known.then(|| share.unwrap_or_default())
    }),
    measure("undone(FLOWS[, FROM][, TO])", |part| {
        percent(part.sum(|flow| flow.undone), part.sum(|flow| flow.recoveries))
    }),
    less("timeouts(FLOWS[, FROM][, TO])", |part| Some(part.sum(|flow| flow.timeouts))),
    less("probe-overhead(FLOWS[, FROM][, TO])", |part| {
        percent(part.sum(|flow| flow.probes), part.sum(|flow| flow.sent + flow.sent_again))
    }),
    less("deviation(FLOWS)", |part| population_deviation(&part.each_second_of(0, part.from))),
    less("oscillation(FLOWS[, FROM])", |part| {
        let each = part.each_second_of(0, part.since());
        ratio(population_deviation(&each)?, mean(&each)?)
    }),
    less("settled(FLOWS)", |part| {
        let each = part.each_second_of(0, part.from);
        let end = mean(each.get(each.len().checked_sub(10)?..)?)?;
        each.iter().position(|mbps| *mbps >= 0.9 * end).map(|second| (second + 1) as f64)
    }),
    less("rtt(FLOWS, QUANTILE)", |part| {
        let mut all = longhaul_link::Histogram::default();
        part.outcome.rtts.get(part.flows())?.iter().for_each(|rtts| all.merge(rtts));
        part.asked.quantile.seconds(&all).map(|seconds| seconds * 1e3)
    })
    .watches(Watch::Rtt),
    measure("cwnd(FLOWS[, TIME])", |part| part.mean_state(|state| Some(state.cwnd))).watches(Watch::State),
    less("time-to-window(FLOWS, BYTES, FROM)", |part| {
        let goal = (part.flows().start, part.asked.bytes, part.since());
        part.outcome.windows_reached.get(&goal).copied()
    })
    .watches(Watch::Window),
    measure("estimate(FLOWS, NAME[, TIME])", |part| part.mean_state(|state| state.estimate(part.asked.estimate)))
        .watches(Watch::State),
    more("estimate-known(FLOWS, NAME[, FROM][, TO])", |part| {
        let all = part.estimates_by_second();
        percent(all.iter().flatten().count() as f64, all.len() as f64)
    })
    .watches(Watch::State),
    measure("estimate-quantile(FLOWS, NAME, QUANTILE[, FROM][, TO])", |part| {
        part.asked.quantile.of(part.estimates_by_second().into_iter().flatten().collect())
    })
    .watches(Watch::State),
    measure("correlation(FLOWS, NAME[, FROM][, TO])", |part| {
        let pairs = part.each_second_of(0, part.from).into_iter().zip(part.estimates_by_second());
        let pairs: Vec<(f64, f64)> = pairs.filter_map(|(mbps, estimate)| Some((mbps, estimate?))).collect();
        correlation(&pairs).filter(|_| part.flows().len() == 1)
    })
    .watches(Watch::State),
    measure("cwnd-at-first-drop(FLOWS)", |part| {
        mean(&part.outcome.windows_at_drop.get(part.flows())?.iter().flatten().copied().collect::<Vec<_>>())
    })
    .watches(Watch::FirstDrop),
    less("overshoot(FLOWS)", first_reduction).watches(Watch::Reduction),
    more("jain(FLOWS[, FROM][, TO])", |part| jain(&part.each_of(0, |flow| flow.read))),
    measure("share(FLOWS, FLOWS[, FROM][, TO])", |part| {
        let of = |nth| mean(&part.each_of(nth, |flow| flow.read));
        let (first, second) = (of(0)?, of(1)?);
        ratio(first, first + second)
    }),
    less("unfairness(FLOWS, FLOWS[, FROM][, TO])", |part| {
        let second = if part.flows_of(1) == part.flows_of(0) { Vec::new() } else { part.each_of(1, |flow| flow.read) };
        unfairness(&[part.each_of(0, |flow| flow.read), second].concat())
    }),
    less("convergence(FLOWS, FLOWS)", converged),
    measure("phase-time(FLOWS, PHASE)", |part| part.mean_stay(|stay| Some(stay.to? - stay.from)))
        .watches(Watch::Phases),
    measure("phase-share(FLOWS, PHASE[, FROM][, TO])", |part| {
        let each = part.outcome.phases.get(part.flows())?.iter();
        let [from, to] = [part.from, part.to].map(Span::as_secs_f64);
        mean(&each.map(|phases| phases.share(part.asked.phase, from, to)).collect::<Option<Vec<f64>>>()?)
    })
    .watches(Watch::Phases),
    measure("phase-segments(FLOWS, PHASE)", |part| part.mean_stay(|stay| Some(stay.segments as f64)))
        .watches(Watch::Phases),
    measure("phase-probes(FLOWS, PHASE)", |part| part.mean_stay(|stay| Some(stay.probes as f64)))
        .watches(Watch::Phases),
    measure("phase-window(FLOWS, PHASE)", |part| part.mean_stay(|stay| Some(stay.window as f64)))
        .watches(Watch::Phases),
    measure("answers-to-growth(FLOWS)", |part| {
        let each = part.outcome.phases.get(part.flows())?.iter();
        mean(&each.map(|phases| Some(phases.answers_to_growth? as f64)).collect::<Option<Vec<f64>>>()?)
    })
    .watches(Watch::Phases),
    less("epoch(WORKLOAD, QUANTILE[, FROM_BYTES, TO_BYTES][, FROM][, TO])", |part| {
        part.asked.quantile.of(part.epochs().filter_map(seconds).collect())
    }),
    more("epochs(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])", |part| {
        Some(part.epochs().filter_map(seconds).count() as f64)
    }),
    less("unfinished(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])", |part| {
        Some(part.epochs().filter(|epoch| epoch.ended.is_none()).count() as f64)
    }),
    measure("offered(WORKLOAD[, FROM_BYTES, TO_BYTES][, FROM][, TO])", |part| {
        Some(part.epochs().map(|epoch| epoch.response as f64).sum::<f64>() * 8e-6 / part.seconds())
    }),
];

/// Returns Pearson's correlation coefficient, or `None` if one of the values does not vary.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let middles = (mean(&first)?, mean(&second)?);
    let products = pairs.iter().map(|(one, other)| (one - middles.0) * (other - middles.1));
    let covariance = mean(&products.collect::<Vec<f64>>())?;
    ratio(covariance, population_deviation(&first)? * population_deviation(&second)?)
}

fn data(part: &Part<'_>) -> Option<[f64; 2]> {
    part.outcome.data.get(&(part.flows().start, part.asked.bytes)).copied()
}

fn first_reduction(part: &Part<'_>) -> Option<f64> {
    let first = part.outcome.reductions.get(part.flows())?.iter().flatten();
    first.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, dropped)| *dropped)
}

/// Number of seconds for which the shares must stay nearly equal.
const STEADY: usize = 5;
/// Maximum difference of each share from one half: 20 % of a half.
const NEAR: f64 = 0.1;
/// Minimum share of a flow, relative to the mean, so that a flow without any goodput has a finite distance.
const STARVED: f64 = 0.001;

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

impl Part<'_> {
    fn mean_stay(&self, what: impl Fn(&Stay) -> Option<f64>) -> Option<f64> {
        let each = self.outcome.phases.get(self.flows())?.iter();
        mean(&each.map(|phases| what(phases.stays.get(self.asked.phase)?)).collect::<Option<Vec<f64>>>()?)
    }
}

fn seconds(epoch: &Epoch) -> Option<f64> {
    Some((epoch.ended? - epoch.began).as_secs_f64())
}

impl Part<'_> {
    fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        let [least, most] = self.asked.sizes.unwrap_or([0, u64::MAX]);
        let (from, to) = (Time::ZERO + self.from, Time::ZERO + self.to);
        let all = self.outcome.epochs.get(self.asked.workload).into_iter().flatten();
        all.filter(move |epoch| (least..most).contains(&epoch.response) && (from..=to).contains(&epoch.began))
    }
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
    fn correlations_by_hand() {
        assert_eq!(correlation(&[(1.0, 6.0), (2.0, 4.0), (3.0, 2.0)]), Some(-1.0));
        // The covariance is 2 / 3, and the variances are 2 / 3 and 14 / 9 (by hand).
        let one = correlation(&[(1.0, 2.0), (2.0, 5.0), (3.0, 4.0)]).unwrap();
        assert!((one - (3.0_f64 / 7.0).sqrt()).abs() < 1e-12, "{one}");
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 2.0)]), None, "one of them is constant");
        assert_eq!(correlation(&[]), None);
    }

    #[test]
    fn shares_have_to_stay_equal() {
        let from = |shares: &[f64]| steady_from(&shares.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(from(&[0.1, 0.3, 0.4, 0.6, 0.5, 0.5, 0.45, 0.9]), Some(2));
        assert_eq!(from(&[0.5, 0.5, 0.5, 0.5, 0.39, 0.5, 0.5, 0.5, 0.5]), None);
        assert_eq!(steady_from(&[None; 9]), None);
    }
}
