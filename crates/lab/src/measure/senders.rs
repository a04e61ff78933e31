//! Measures of the observations of senders at each ACK.

use std::collections::BTreeMap;

use longhaul_link::statistics::{mean, median, population_deviation};
use longhaul_units::{Span, Time};

use super::{Measure, Part, Value, Watch, ratio};
use crate::measure::mbps;
use crate::watching::{Log, Loss};

/// Congestion levels up to which the buffer counts as empty, and from which it counts as full.
const IDLE: f64 = 0.1;
const CONGESTED: f64 = 0.95;
/// Histogram bins of RTT samples per bin of the overlap, which is 1 ms wide.
const BIN: u64 = 10;

const fn measure(usage: &'static str, value: Value) -> Measure {
    super::measure(usage, value).watches(Watch::Acks)
}

pub(super) const ALL: &[Measure] = &[
    measure("losses(FLOWS[, FROM][, TO])", |part| {
        Some(part.losses().filter(|(_, loss)| part.has(loss.at)).count() as f64)
    })
    .less(),
    measure("lost-within(FLOWS, LEAST, MOST)", |part| {
        let rtts: Vec<_> = part.losses().map(|(_, loss)| loss.rtt).collect();
        let within = rtts.iter().filter(|rtt| (part.from..=part.to).contains(*rtt)).count();
        ratio(100.0 * within as f64, rtts.len() as f64)
    }),
    measure("rtt-within(FLOWS, LEAST, MOST)", |part| {
        let [from, to] = [part.from, part.to].map(|span| span.as_micros() / 100);
        let rtts = part.rtts(1);
        let within = rtts.range(from..=to).map(|(_, count)| count).sum::<f64>() + 0.0;
        ratio(100.0 * within, rtts.values().sum())
    }),
    measure("rtt-least(FLOWS)", |part| part.rtts(1).keys().next().map(|class| *class as f64 * 0.1)),
    measure("rtt-most(FLOWS)", |part| part.rtts(1).keys().next_back().map(|class| *class as f64 * 0.1)),
    measure("rtt-overlap(FLOWS)", |part| {
        let before = part.losses().map(|(_, loss)| (loss.rtt.as_micros() / 1000, 1.0));
        overlap(&shares(before), &shares(part.rtts(BIN)))
    }),
    measure("buffer-delay(FLOWS)", |part| {
        let delays = part.logs().filter_map(|log| log.buffer.delay());
        mean(&delays.map(|delay| delay.as_secs_f64() * 1e3).collect::<Vec<_>>())
    }),
    measure("random-loss(FLOWS)", |part| mean(&part.logs().map(|log| 100.0 * log.rate.random()).collect::<Vec<_>>())),
    measure("cut-idle(FLOWS[, FROM][, TO])", |part| part.cut(|level| level <= IDLE)),
    measure("cut-congested(FLOWS[, FROM][, TO])", |part| part.cut(|level| level >= CONGESTED)),
    measure("pair-capacity(FLOWS)", |part| {
        let rates = part.logs().filter_map(|log| log.probe.capacity());
        mean(&rates.map(|rate| rate.as_bits_per_sec() as f64 * 1e-6).collect::<Vec<_>>())
    }),
    measure("pair-converged(FLOWS)", |part| {
        let range = part.flows();
        let logs = part.outcome.logs.get(range.clone())?.iter().zip(&part.outcome.begun[range]);
        let stood =
            |(log, begun): (&Log, &Option<Span>)| Some((log.stood_at()? - (Time::ZERO + (*begun)?)).as_secs_f64());
        let each: Option<Vec<f64>> = logs.map(stood).collect();
        mean(&each?)
    })
    .less(),
    measure("pair-median(FLOWS)", |part| {
        mean(&part.logs().filter_map(|log| log.pairs.median().map(mbps)).collect::<Vec<_>>())
    }),
    measure("fused-capacity(FLOWS)", |part| {
        mean(&part.logs().filter_map(|log| log.fused.capacity().map(mbps)).collect::<Vec<_>>())
    }),
    measure("fused-converged(FLOWS)", |part| {
        mean(&part.logs().map(|log| f64::from(u8::from(log.fused.converged()))).collect::<Vec<_>>())
    }),
    measure("estimate-mean(FLOWS, NAME[, FROM][, TO])", |part| mean(&part.estimates())),
    measure("estimate-deviation(FLOWS, NAME[, FROM][, TO])", |part| {
        let values = part.estimates();
        ratio(100.0 * population_deviation(&values)?, mean(&values)?)
    })
    .less(),
    measure("estimate-steps(FLOWS, NAME[, FROM][, TO])", |part| {
        let each = part.estimates_each();
        let steps = each.iter().flat_map(|values| values.windows(2).map(|two| (two[1] - two[0]).abs()));
        ratio(100.0 * mean(&steps.collect::<Vec<_>>())?, mean(&each.concat())?)
    }),
];

impl<'a> Part<'a> {
    fn logs(&self) -> impl Iterator<Item = &'a Log> {
        self.outcome.logs.get(self.flows()).unwrap_or_default().iter()
    }

    fn losses(&self) -> impl Iterator<Item = (&'a Log, &'a Loss)> {
        self.logs().flat_map(|log| log.losses.iter().map(move |loss| (log, loss)))
    }

    fn has(&self, at: Time) -> bool {
        (self.from..self.to).contains(&(at - Time::ZERO))
    }

    /// Returns the number of RTT samples per histogram bin, or per `bin` of them.
    fn rtts(&self, bin: u64) -> BTreeMap<u64, f64> {
        let mut all = BTreeMap::new();
        for (class, count) in self.logs().flat_map(|log| &log.rtts) {
            *all.entry(class / bin).or_insert(0.0) += *count as f64;
        }
        all
    }

    fn cut(&self, is_meant: impl Fn(f64) -> bool) -> Option<f64> {
        let meant = self.losses().map(|(_, loss)| loss).filter(|loss| self.has(loss.at));
        let cuts = meant.filter(|loss| loss.level.is_some_and(&is_meant)).filter_map(Loss::cut);
        median(&cuts.collect::<Vec<_>>())
    }

    fn estimates_each(&self) -> Vec<Vec<f64>> {
        let of = |log: &'a Log| log.estimates.get(self.asked.estimate).map(Vec::as_slice).unwrap_or_default();
        let within = |samples: &'a [(Time, f64)]| samples.iter().filter(|(at, _)| self.has(*at));
        self.logs().map(|log| within(of(log)).map(|(_, value)| *value).collect()).collect()
    }

    fn estimates(&self) -> Vec<f64> {
        self.estimates_each().concat()
    }
}

fn shares(counts: impl IntoIterator<Item = (u64, f64)>) -> BTreeMap<u64, f64> {
    let mut bins = BTreeMap::new();
    for (bin, count) in counts {
        *bins.entry(bin).or_insert(0.0) += count;
    }
    let whole: f64 = bins.values().sum();
    bins.values_mut().for_each(|count| *count /= whole);
    bins
}

/// Returns the overlap of two distributions in percent, or `None` if one is empty.
fn overlap(one: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>) -> Option<f64> {
    let common = one.iter().filter_map(|(bin, share)| other.get(bin).map(|other| share.min(*other)));
    (!one.is_empty() && !other.is_empty()).then(|| 100.0 * common.sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_is_what_two_distributions_share() {
        let bins = |counts: &[(u64, f64)]| shares(counts.to_vec());
        let all = bins(&[(133, 6.0), (134, 2.0), (148, 2.0)]);
        assert_eq!(overlap(&all, &all), Some(100.0));
        assert_eq!(overlap(&bins(&[(150, 3.0)]), &all), Some(0.0));
        let half = overlap(&bins(&[(148, 1.0), (133, 1.0)]), &all).unwrap();
        assert!((half - 70.0).abs() < 1e-9, "the lesser of 0.5 and 0.6, and of 0.5 and 0.2: {half}");
        assert_eq!(overlap(&bins(&[]), &all), None);
    }
}
