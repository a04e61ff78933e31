//! Measures of the shared links, in the direction of the data.

use longhaul_link::{Cause, LinkConfig, LinkStats};
use longhaul_units::{Bytes, Span, Time};

use super::part::{Part, percent, ratio};
use super::{ANY, Better, Losses, Measure, Parameter, Watch};
use crate::world::LinkSample;

const LOSSES: &[Parameter] = &[Parameter::Link, Parameter::CausesAndClasses, ANY];
const PART: &[Parameter] = &[Parameter::Link, ANY];

pub(super) const MEASURES: &[Measure] = &[
    Measure {
        name: "carried",
        parameters: PART,
        usage: "carried([link-N, ][FROM, ][TO])",
        about: "rate of the IP packets that the shared link carried, including those that it then lost at \
               random, Mb/s",
        better: Better::More,
        watch: Watch::Nothing,
        value: |part| Some(carried(part) * 8e-6 / part.seconds()),
    },
    Measure {
        name: "utilisation",
        parameters: PART,
        usage: "utilisation([link-N, ][FROM, ][TO])",
        about: "`carried` in percent of the link's rate; overhead that the link adds is not counted (RFC 5166, \
               section 2.1.1); undefined for a link without a rate",
        better: Better::More,
        watch: Watch::Nothing,
        value: |part| percent(carried(part), capacity(&part.outcome.links[part.asked.link], part.from, part.to)?),
    },
    Measure {
        name: "dropped",
        parameters: PART,
        usage: "dropped([link-N, ][FROM, ][TO])",
        about: "packets that the shared link dropped for any cause, percent of the packets offered",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = ends(part);
            percent(to.dropped - from.dropped, to.offered - from.offered)
        },
    },
    Measure {
        name: "lost",
        parameters: LOSSES,
        usage: "lost([link-N, ][normal, | low, ][CAUSE, ...][FROM, ][TO])",
        about: "packets dropped as in `dropped`, for these causes; with a priority, only packets of normal or \
               of low priority. Causes: queue-full, pushed-out, low-priority, aqm, policed, random, corrupted, \
               outage, too-long, ttl-expired",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = losses(part);
            percent(to.0 - from.0, to.1 - from.1)
        },
    },
    Measure {
        name: "drops",
        parameters: LOSSES,
        usage: "drops([link-N, ][normal, | low, ][CAUSE, ...][FROM, ][TO])",
        about: "number of packets dropped, with the arguments of `lost`",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = losses(part);
            Some(to.0 - from.0)
        },
    },
    Measure {
        name: "packets",
        parameters: &[Parameter::Link, Parameter::CausesAndClasses, ANY],
        usage: "packets([link-N, ][normal, | low, ][FROM, ][TO])",
        about: "number of packets offered to the shared link, with a priority as in `lost`",
        better: Better::Unknown,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = losses(part);
            Some(to.1 - from.1)
        },
    },
    Measure {
        name: "first-drop",
        parameters: &[Parameter::Link, Parameter::Causes],
        usage: "first-drop([link-N, ][CAUSE, ...])",
        about: "seconds until the shared link first drops a packet for one of these causes, or for any if none \
               is given; undefined if it never does",
        better: Better::Unknown,
        watch: Watch::Drops,
        value: |part| {
            let drops =
                part.outcome.first_drops[part.asked.link].iter().filter(|(cause, _)| part.asked.losses.counts(**cause));
            drops.map(|(_, at)| *at).min_by(f64::total_cmp)
        },
    },
    Measure {
        name: "delay",
        parameters: &[Parameter::Link, Parameter::Quantile, ANY],
        usage: "delay([link-N, ]QUANTILE[, FROM][, TO])",
        about: "milliseconds that packets waited until the shared link began to transmit them; quantiles are \
               accurate to 1/32",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = ends(part);
            let waited = to.stats.all().sojourn;
            let waited = if part.from.is_zero() { waited } else { waited.since(&from.stats.all().sojourn) };
            part.asked.quantile.seconds(&waited).map(|seconds| seconds * 1e3)
        },
    },
    Measure {
        name: "queue-mean",
        parameters: PART,
        usage: "queue-mean([link-N, ][FROM, ][TO])",
        about: "bytes queued at the shared link, mean over time",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| {
            let (from, to) = ends(part);
            ratio(to.waited - from.waited, part.seconds())
        },
    },
    Measure {
        name: "queue-max",
        parameters: &[Parameter::Link, Parameter::Times(&[0, 1])],
        usage: "queue-max([link-N, ][TO])",
        about: "maximum number of bytes queued at the shared link until then, including a packet that passes \
               through an empty queue",
        better: Better::Less,
        watch: Watch::Nothing,
        value: |part| Some(ends(part).1.stats.max_bytes as f64),
    },
];

/// Returns the counters of the selected link at the start and the end of the part.
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

/// Returns the packets lost and offered.
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
