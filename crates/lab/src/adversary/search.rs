//! Evolution of sequences: the best of all so far are the parents of each generation.

use anyhow::Result;
use longhaul_link::Random;

use super::sequence::{Budget, HALF, MOST_STEPS, Sequence, Step};

/// Number of sequences that survive a generation.
const PARENTS: usize = 8;
/// Number of new sequences per generation.
const CHILDREN: usize = 16;

/// Searches for the sequence with the smallest value, and returns the best ones, sorted. `evaluate` returns the value
/// of each sequence; `tell` receives the number of evaluated sequences and the smallest value.
pub(super) fn search(
    budget: Budget,
    evaluations: usize,
    seed: u64,
    mut evaluate: impl FnMut(&[Sequence]) -> Result<Vec<f64>>,
    mut tell: impl FnMut(usize, f64),
) -> Result<Vec<Sequence>> {
    let mut random = Random::new(seed, 0);
    let mut parents: Vec<(f64, Sequence)> = Vec::new();
    let (mut children, mut tried) = (patterns(budget), 0);
    while tried < evaluations {
        children.truncate(evaluations - tried);
        tried += children.len();
        let values = evaluate(&children)?;
        parents.extend(values.into_iter().zip(children));
        // The sort is stable, so that the older of equal sequences is kept.
        parents.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        parents.truncate(PARENTS);
        tell(tried, parents[0].0);
        children = (0..CHILDREN).map(|_| child(&parents, budget, &mut random)).collect();
    }
    Ok(parents.into_iter().map(|(_, sequence)| sequence).collect())
}

/// Returns the first generation: constant values, a first packet with a lower delay, and waves.
fn patterns(budget: Budget) -> Vec<Sequence> {
    let quiet = Step { lasts: 1, delays: [0; 3], loss: 0 };
    let delay = |way: usize| {
        let mut delays = [0; 3];
        delays[way] = budget.delay;
        Step { delays, ..quiet }
    };
    let lossy = |step: Step| Step { loss: budget.burst(), ..step };
    let mut all = Vec::new();
    for step in [delay(0), delay(1), delay(2), lossy(quiet), lossy(delay(0)), lossy(delay(2))] {
        all.push(vec![step]);
        // The base RTT is measured by the first packets or by occasional packets. Losses occur in bursts or throughout.
        let other = if step.delays == quiet.delays { quiet } else { Step { delays: quiet.delays, ..step } };
        for (before, after) in [(1, HALF as u64), (2, 2), (2, 8), (2, 14), (2, 40), (2, 200), (8, 2), (20, 20)] {
            all.push(vec![Step { lasts: before, ..other }, Step { lasts: after, ..step }]);
        }
    }
    all.into_iter().map(|steps| Sequence(steps).fit(budget)).collect()
}

/// Returns a child of one or two of the parents, with a preference for the first ones.
fn child(parents: &[(f64, Sequence)], budget: Budget, random: &mut Random) -> Sequence {
    let parent = |random: &mut Random| {
        let rank = random.below(parents.len() as u64).min(random.below(parents.len() as u64));
        parents[rank as usize].1.clone()
    };
    let Sequence(mut steps) = parent(random);
    if random.chance(0.3) {
        let Sequence(other) = parent(random);
        let (from, to) = range(&other, random);
        let at = random.below(steps.len() as u64 + 1) as usize;
        steps.splice(at..(at + to - from).min(steps.len()), other[from..to].iter().copied());
    }
    for _ in 0..=random.below(3) {
        mutate(&mut steps, budget, random);
    }
    Sequence(steps).fit(budget)
}

/// Repeats or removes some steps, or changes one of their values.
fn mutate(steps: &mut Vec<Step>, budget: Budget, random: &mut Random) {
    let (from, to) = range(steps, random);
    match random.below(10) {
        0 if steps.len() <= MOST_STEPS / 2 => steps.extend_from_within(..),
        0 | 1 => {
            let copy = steps[from..to].to_vec();
            drop(steps.splice(to..to, copy));
        }
        2 if to - from < steps.len() => drop(steps.drain(from..to)),
        2 => steps.rotate_left(1),
        3 | 4 => {
            let factor = 0.4 + 2.1 * random.unit();
            steps[from..to].iter_mut().for_each(|step| step.lasts = (step.lasts as f64 * factor).round() as u64);
        }
        5 => {
            let loss = level(budget.burst(), random);
            steps[from..to].iter_mut().for_each(|step| step.loss = loss);
        }
        _ => {
            let (way, delay) = (random.below(3) as usize, level(budget.delay, random));
            steps[from..to].iter_mut().for_each(|step| step.delays[way] = delay);
        }
    }
}

/// Returns a value up to a maximum: often zero or the maximum.
fn level(most: u64, random: &mut Random) -> u64 {
    match random.below(3) {
        0 => 0,
        1 => most,
        _ => most * random.below(20) / 20,
    }
}

/// Returns a range of steps that is not empty and mostly short.
fn range(steps: &[Step], random: &mut Random) -> (usize, usize) {
    let from = random.below(steps.len() as u64) as usize;
    let length = 1 + random.geometric(0.4) as usize;
    (from, (from + length).min(steps.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { delay: 20_000, loss: 200 };

    /// Extra delay of data for a fifth of the time, and the most loss: a sequence of at least two steps, which is not
    /// among the patterns.
    fn distance(sequence: &Sequence) -> f64 {
        let Sequence(steps) = sequence;
        let part = |of: &dyn Fn(&Step) -> f64| {
            steps.iter().map(|step| of(step) * step.lasts as f64).sum::<f64>()
                / steps.iter().map(|step| step.lasts as f64).sum::<f64>()
        };
        let (delay, loss) = (part(&|step| step.delays[0] as f64 / 20_000.0), part(&|step| step.loss as f64 / 200.0));
        (delay - 0.2).abs() + (1.0 - loss).abs()
    }

    fn found(evaluations: usize, seed: u64) -> Vec<Sequence> {
        let evaluate = |sequences: &[Sequence]| Ok(sequences.iter().map(distance).collect());
        search(BUDGET, evaluations, seed, evaluate, |_, _| ()).unwrap()
    }

    #[test]
    fn the_best_sequence_is_found_whatever_the_seed() {
        for seed in 1..=5 {
            let [few, many] = [1, 1_000].map(|evaluations| distance(&found(evaluations, seed)[0]));
            assert!(few > 0.5 && many < 0.02, "{seed}: {few} {many}");
        }
    }

    #[test]
    fn the_same_seed_finds_the_same() {
        assert_eq!(found(300, 7), found(300, 7));
        assert_ne!(found(300, 7), found(300, 8));
    }

    #[test]
    fn no_sequence_exceeds_the_budget() {
        let mut tried = 0;
        let mut evaluate = |sequences: &[Sequence]| {
            for sequence in sequences {
                let Sequence(steps) = sequence;
                tried += 1;
                assert!((1..=MOST_STEPS).contains(&steps.len()));
                assert!(steps.iter().all(|step| step.delays.iter().sum::<u64>() <= 20_000 && step.loss <= 1_000));
                assert!(sequence.lost() <= 200 * HALF as u64);
            }
            // The longest sequences with the most of everything win.
            let all = |step: &Step| step.lasts * (1 + step.loss + step.delays.iter().sum::<u64>());
            Ok(sequences.iter().map(|Sequence(steps)| -(steps.iter().map(all).sum::<u64>() as f64)).collect())
        };
        search(BUDGET, 2_000, 3, &mut evaluate, |_, _| ()).unwrap();
        assert_eq!(tried, 2_000);
    }
}
