//! What speaks against a finding: a machine that was busy elsewhere, another finding, or a width that no clock tells.

use longhaul::units::{Bytes, Rate, Span};
use longhaul_link::Histogram;
use longhaul_probe::RateRange;

use super::report::Outcome;
use crate::report;

/// What was done later than this at the 99th percentile was done by a machine that was busy elsewhere: the bound that the link
/// emulator has for itself.
const TOO_LATE: Span = Span::from_millis(1);
/// What a timer of the runtime is late by at most without anybody's fault.
const TICK: Span = Span::from_millis(1);
/// The part of a transfer for which its sender may have been without a processor.
const STARVED: f64 = 0.01;
/// A capacity above this part of the rate at which this machine sends packets back to back may be the machine's.
const OWN_RATE: f64 = 0.5;
/// Two rates whose ranges have nothing in common exclude each other if they differ by this factor: methods differ by less.
const FACTOR: f64 = 1.25;
/// What a delivered or available rate may exceed a capacity by.
const ABOVE: f64 = 1.1;
/// What is doubted is believed this much at most: not enough to have converged.
const DOUBTED: f64 = 0.3;
/// No rate is known better than to this part of it ...
const FINEST: f64 = 0.01;
/// ... or to this part of the time that a full packet takes.
const CLOCK: Span = Span::from_micros(1);
/// A full packet.
const PACKET: Bytes = Bytes(1500);

/// What the machine that measures did itself.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// How much later than planned packets left, or a transfer was looked at.
    pub lateness: Histogram,
    /// How long packets that were to leave back to back were apart, each as if it had 1500 bytes.
    pub apart: Histogram,
    /// The part of a transfer for which its sender had no processor.
    pub starved: f64,
}

impl Own {
    /// A packet was to leave at a time and left so much later; if it was to leave with the one before, so long after that one.
    pub fn on_sent(&mut self, late: Span, apart: Option<Span>, size: u32) {
        self.lateness.add(late);
        if let Some(apart) = apart {
            self.apart.add(apart.mul_f64(PACKET.as_f64() / f64::from(size.max(1))));
        }
    }

    /// A timer of the runtime, whose ticks are milliseconds, was so much late.
    pub fn on_timer(&mut self, late: Span) {
        self.lateness.add(late - TICK);
    }

    /// Why what this machine measured is in doubt, given the capacity that it found.
    fn doubt(&self, capacity: Option<RateRange>) -> Option<String> {
        let late = self.lateness.quantile(0.99);
        if !self.lateness.is_empty() && late > TOO_LATE {
            let late = super::report::span(late);
            return Some(format!("this machine was busy: one time in a hundred it was {late} late or more"));
        }
        if self.starved > STARVED {
            let share = self.starved * 100.0;
            return Some(format!("this machine was busy: its sender had no processor for {share:.0} % of the time"));
        }
        let apart = (!self.apart.is_empty()).then(|| self.apart.quantile(0.5)).filter(|apart| !apart.is_zero())?;
        let own = Rate::from_bytes_over(PACKET, apart);
        let found = capacity?.value;
        (number(found) > OWN_RATE * number(own)).then(|| {
            format!(
                "this machine sends packets back to back at {} itself: the {} may be its own",
                in_words(own),
                in_words(found)
            )
        })
    }
}

/// Lowers the confidence in outcomes that something speaks against, and gives each range the width that clocks leave; what speaks against
/// them, a sentence each.
pub fn cast(outcomes: &mut [Outcome]) -> Vec<String> {
    let mut doubts = Vec::new();
    for outcome in outcomes.iter_mut() {
        let estimate = &mut outcome.estimate;
        estimate.capacity = estimate.capacity.map(widened);
        estimate.available = estimate.available.map(widened);
        if let Some(doubt) = outcome.own.doubt(outcome.estimate.capacity) {
            doubts.push(format!("{}: {doubt}", outcome.method));
            cap(outcome);
        }
    }
    let mut doubted = vec![false; outcomes.len()];
    for (one, first) in outcomes.iter().enumerate() {
        let capacity = first.estimate.capacity;
        for (other, second) in outcomes.iter().enumerate() {
            let (names, rates) = ([first.method, second.method], [capacity, second.estimate.capacity]);
            if let ([name, beside], [Some(a), Some(b)]) = (names, rates)
                && one < other
                && exclude(a, b)
            {
                let (a, b) = (in_words(a.value), in_words(b.value));
                doubts.push(format!("the capacities of {name}, {a}, and {beside}, {b}, exclude each other"));
                (doubted[one], doubted[other]) = (true, true);
            }
            let Some(range) = capacity else { continue };
            let available = second.estimate.available.map(|range| range.low);
            for (rate, what) in [(second.delivery, "delivered"), (available, "found available")] {
                if let Some(rate) = rate.filter(|rate| number(*rate) > ABOVE * number(range.high)) {
                    let (name, beside) = (first.method, second.method);
                    let (found, rate) = (in_words(range.value), in_words(rate));
                    doubts.push(format!("{beside} {what} {rate}, more than the capacity of {name}, {found}"));
                    doubted[one] = true;
                    // What was delivered is a fact, what is available an estimate.
                    doubted[other] |= what != "delivered";
                }
            }
        }
    }
    outcomes.iter_mut().zip(doubted).filter(|(_, doubted)| *doubted).for_each(|(outcome, _)| cap(outcome));
    doubts
}

fn cap(outcome: &mut Outcome) {
    outcome.estimate.confidence = outcome.estimate.confidence.min(DOUBTED);
    outcome.converged_after = None;
}

fn exclude(a: RateRange, b: RateRange) -> bool {
    let (less, more) = if a.value <= b.value { (a, b) } else { (b, a) };
    less.high < more.low && number(less.value) * FACTOR < number(more.value)
}

/// The same with at least the width that is left by a clock and by what a method averages over.
fn widened(range: RateRange) -> RateRange {
    let clock = CLOCK.as_secs_f64() / range.value.time_for(PACKET).as_secs_f64().max(1e-12);
    let part = FINEST.max(clock).min(1.0);
    RateRange {
        low: range.low.min(range.value.mul_f64(1.0 - part)),
        value: range.value,
        high: range.high.max(range.value.mul_f64(1.0 + part)),
    }
}

fn number(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64
}

fn in_words(rate: Rate) -> String {
    report::rate(rate.as_bits_per_sec() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::path::Facts;
    use longhaul_probe::Estimate;

    fn mega(rate: f64) -> Rate {
        Rate::from_bits_per_sec((rate * 1e6) as u64)
    }

    fn exactly(rate: f64) -> RateRange {
        RateRange { low: mega(rate), value: mega(rate), high: mega(rate) }
    }

    /// What says that it has converged, with all confidence, and an interval of no width.
    fn sure(method: &'static str, capacity: Option<f64>, available: Option<f64>) -> Outcome {
        let mut estimate = Estimate::default();
        (estimate.converged, estimate.confidence) = (true, 1.0);
        (estimate.capacity, estimate.available) = (capacity.map(exactly), available.map(exactly));
        let took = Span::from_secs(5);
        Outcome { converged_after: Some(took), ..Outcome::new(method, estimate, took, Facts::default()) }
    }

    fn confidences(outcomes: &[Outcome]) -> Vec<f64> {
        outcomes.iter().map(|outcome| outcome.estimate.confidence).collect()
    }

    /// What a busy machine said of a link of 300 Mb/s.
    #[test]
    fn methods_that_exclude_each_other_are_not_believed() {
        let mut outcomes = [
            sure("capprobe", Some(138.0), None),
            sure("pathrate", Some(34.8), None),
            sure("tcpprobe", Some(2060.0), None),
        ];
        let doubts = cast(&mut outcomes);
        assert_eq!(doubts.len(), 3);
        assert_eq!(doubts[0], "the capacities of capprobe, 138.0 Mb/s, and pathrate, 34.8 Mb/s, exclude each other");
        assert_eq!(confidences(&outcomes), [DOUBTED; 3]);
        assert!(outcomes.iter().all(|outcome| outcome.converged_after.is_none()));
        let mut two = [sure("capprobe", Some(300.0), None), sure("pathrate", Some(280.0), None)];
        assert!(cast(&mut two).is_empty() && confidences(&two) == [1.0; 2], "methods differ by as much");
    }

    #[test]
    fn more_than_the_capacity_is_delivered_by_none() {
        let mut outcomes = [sure("capprobe", Some(138.0), None), sure("tcpprobe", Some(300.0), None)];
        outcomes[1].delivery = Some(mega(290.0));
        let doubts = cast(&mut outcomes);
        assert!(
            doubts
                .contains(&"tcpprobe delivered 290.0 Mb/s, more than the capacity of capprobe, 138.0 Mb/s".to_owned()),
            "{doubts:?}"
        );
        let mut alone = [sure("tcpprobe", Some(100.0), None)];
        alone[0].delivery = Some(mega(120.0));
        assert_eq!((cast(&mut alone).len(), confidences(&alone)), (1, vec![DOUBTED]));
        let mut available = [sure("capprobe", Some(100.0), None), sure("pathload", None, Some(150.0))];
        assert_eq!((cast(&mut available).len(), confidences(&available)), (1, vec![DOUBTED; 2]));
        let mut fitting = [sure("capprobe", Some(100.0), None), sure("pathload", None, Some(95.0))];
        fitting[0].delivery = Some(mega(99.0));
        assert!(cast(&mut fitting).is_empty());
    }

    /// A microsecond of the 40 that a packet of 1500 bytes takes at 300 Mb/s, and a hundredth at 1 Mb/s.
    #[test]
    fn no_interval_is_without_width() {
        let mut outcomes = [sure("capprobe", Some(300.0), None), sure("pathload", None, Some(1.0))];
        cast(&mut outcomes);
        let fast = outcomes[0].estimate.capacity.unwrap();
        let megas = |rate: Rate| rate.as_bits_per_sec() as f64 / 1e6;
        assert!((megas(fast.low) - 292.5).abs() < 0.1 && (megas(fast.high) - 307.5).abs() < 0.1, "{fast:?}");
        let slow = outcomes[1].estimate.available.unwrap();
        assert!((megas(slow.low) - 0.99).abs() < 0.001 && (megas(slow.high) - 1.01).abs() < 0.001, "{slow:?}");
        let wide = RateRange { low: mega(1.0), value: mega(5.0), high: mega(9.0) };
        assert_eq!(widened(wide), wide);
    }

    #[test]
    fn a_machine_that_is_busy_doubts_itself() {
        let of = |own: Own, capacity| {
            let mut outcomes = [Outcome { own, ..sure("capprobe", Some(capacity), None) }];
            (cast(&mut outcomes), outcomes[0].estimate.confidence)
        };
        let mut late = Own::default();
        (0..90).for_each(|_| late.on_sent(Span::from_micros(5), None, 900));
        assert_eq!(of(late.clone(), 300.0), (Vec::new(), 1.0));
        (0..10).for_each(|_| late.on_sent(Span::from_millis(4), None, 900));
        let (doubts, confidence) = of(late, 300.0);
        assert!(
            doubts[0].starts_with("capprobe: this machine was busy: one time in a hundred it was 4."),
            "{doubts:?}"
        );
        assert_eq!(confidence, DOUBTED);
        let starved = Own { starved: 0.05, ..Own::default() };
        assert_eq!(
            of(starved, 20.0).0,
            ["capprobe: this machine was busy: its sender had no processor for 5 % of the time"]
        );
        // 900 bytes each 12 us are 1500 each 20 us, 600 Mb/s.
        let mut slow = Own::default();
        (0..100).for_each(|_| slow.on_sent(Span::ZERO, Some(Span::from_micros(12)), 900));
        assert_eq!(of(slow.clone(), 290.0).1, 1.0);
        let (doubts, confidence) = of(slow, 500.0);
        assert!(doubts[0].starts_with("capprobe: this machine sends packets back to back at "), "{doubts:?}");
        assert_eq!(confidence, DOUBTED);
    }
}
