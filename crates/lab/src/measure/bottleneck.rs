//! Measures of the shared links, in the direction of the data.

use longhaul_link::{Cause, LinkConfig, LinkStats};
use longhaul_units::{Bytes, Span, Time};

use super::{Losses, Measure, Part, Watch, less, measure, more, percent, ratio};
use crate::world::LinkSample;

pub(super) const MEASURES: &[Measure] = &[
    more("carried([link-N, ][FROM, ][TO])", |part| Some(carried(part) * 8e-6 / part.seconds())),
    more("utilisation([link-N, ][FROM, ][TO])", |part| {
        percent(carried(part), capacity(&part.outcome.links[part.asked.link], part.from, part.to)?)
    }),
    less("dropped([link-N, ][FROM, ][TO])", |part| {
        let (from, to) = ends(part);
        percent(to.dropped - from.dropped, to.offered - from.offered)
    }),
    measure("lost([link-N, ][normal, | low, ][CAUSE, ...][FROM, ][TO])", |part| {
        let (from, to) = losses(part);
        percent(to.0 - from.0, to.1 - from.1)
    }),
    measure("drops([link-N, ][normal, | low, ][CAUSE, ...][FROM, ][TO])", |part| {
        let (from, to) = losses(part);
        Some(to.0 - from.0)
    }),
    measure("packets([link-N, ][normal, | low, ][FROM, ][TO])", |part| {
        let (from, to) = losses(part);
        Some(to.1 - from.1)
    }),
    measure("first-drop([link-N, ][CAUSE, ...])", |part| {
        let drops =
            part.outcome.first_drops[part.asked.link].iter().filter(|(cause, _)| part.asked.losses.counts(**cause));
        drops.map(|(_, at)| *at).min_by(f64::total_cmp)
    })
    .watches(Watch::Drops),
    less("delay([link-N, ]QUANTILE[, FROM][, TO])", |part| {
        let (from, to) = ends(part);
        let waited = to.stats.all().sojourn;
        let waited = if part.from.is_zero() { waited } else { waited.since(&from.stats.all().sojourn) };
        part.asked.quantile.seconds(&waited).map(|seconds| seconds * 1e3)
    }),
    less("queue-mean([link-N, ][FROM, ][TO])", |part| {
        let (from, to) = ends(part);
        ratio(to.waited - from.waited, part.seconds())
    }),
    less("queue-max([link-N, ][TO])", |part| Some(ends(part).1.stats.max_bytes as f64)),
];

fn ends<'a>(part: &Part<'a>) -> (&'a LinkSample, &'a LinkSample) {
    let (from, to) = part.ends();
    (&from.links[part.asked.link], &to.links[part.asked.link])
}

fn carried(part: &Part<'_>) -> f64 {
    let (from, to) = ends(part);
    to.carried - from.carried
}

/// Returns the packets lost and offered, at the start and at the end of the part.
fn losses(part: &Part<'_>) -> ((f64, f64), (f64, f64)) {
    let (from, to) = ends(part);
    (lost(&from.stats, &part.asked.losses), lost(&to.stats, &part.asked.losses))
}

fn lost(link: &LinkStats, losses: &Losses) -> (f64, f64) {
    let mut sum = (0, 0);
    for class in losses.classes() {
        let of_class = link.class(class);
        let causes = Cause::ALL.into_iter().filter(|cause| losses.counts(*cause));
        sum.0 += causes.map(|cause| of_class.dropped(cause)).sum::<u64>();
        sum.1 += of_class.offered;
    }
    (sum.0 as f64, sum.1 as f64)
}

/// Returns the bytes that a link can carry in an interval at its rate, or `None` if it has no rate.
fn capacity(config: &LinkConfig, from: Span, to: Span) -> Option<f64> {
    let (from, to) = (Time::ZERO + from, Time::ZERO + to);
    let steps = config.steps.iter().map(|step| step.at).filter(|at| (from..to).contains(at));
    let mut ends: Vec<Time> = std::iter::once(from).chain(steps).chain([to]).collect();
    ends.dedup();
    let bytes = |two: &[Time]| {
        let Bytes(bytes) = config.rate_at(two[0])?.bytes_in(two[1] - two[0]);
        Some(bytes as f64)
    };
    ends.windows(2).map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_link::Step;
    use longhaul_units::Rate;

    #[test]
    fn capacity_follows_the_steps_of_the_rate() {
        let second = |n| Time::ZERO + Span::from_secs(n);
        let mut link = LinkConfig::new(Rate::from_bytes_per_sec(1000), Span::ZERO);
        let step = |at, rate| Step { at: second(at), rate: Some(Rate::from_bytes_per_sec(rate)), delay: None };
        link.steps = vec![step(2, 5000), step(4, 100)];
        let between = |from, to| capacity(&link, Span::from_secs(from), Span::from_secs(to));
        assert_eq!(between(0, 2), Some(2000.0));
        assert_eq!(between(1, 5), Some(11_100.0));
        assert_eq!(capacity(&LinkConfig::delay(Span::ZERO), Span::ZERO, Span::from_secs(1)), None);
    }
}
