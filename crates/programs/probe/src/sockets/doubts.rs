//! Doubts about results: a busy machine, results that contradict each other, ranges narrower than a clock can resolve.

use longhaul_link::Histogram;
use longhaul_link::text;
use longhaul_units::{Bytes, Rate, Span};

use super::report::Outcome;
use crate::RateRange;

/// Bound on the 99th percentile of lateness, above which the machine counts as busy. The link emulator uses the same
/// bound.
const TOO_LATE: Span = Span::from_millis(1);
/// Resolution of the runtime's timers.
const TICK: Span = Span::from_millis(1);
/// Largest fraction of a transfer for which its sender may be ready but not scheduled.
const STARVED: f64 = 0.01;
/// Fraction of the rate at which this machine sends packets back to back. A larger capacity may be that of the machine.
const OWN_RATE: f64 = 0.5;
/// Ratio above which two rates with disjoint ranges contradict each other. Differences between methods are smaller.
const FACTOR: f64 = 1.25;
/// Largest ratio of a delivered or available rate to the capacity.
const ABOVE: f64 = 1.1;
/// Upper bound of the confidence in a doubted result. It is too low for convergence.
const DOUBTED: f64 = 0.3;
/// Finest relative resolution of any rate.
const FINEST: f64 = 0.01;
/// Resolution of clocks, relative to the transmission time of a full packet.
const CLOCK: Span = Span::from_micros(1);
const PACKET: Bytes = Bytes(1500);

#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// Delay of departures after their planned times, or of the timer during a transfer.
    pub(super) lateness: Histogram,
    /// Time between packets that should be sent back to back, scaled to packets of 1500 bytes.
    pub(super) apart: Histogram,
    /// Fraction of a transfer for which its sender was ready but not scheduled.
    pub(super) starved: f64,
}

impl Own {
    /// Takes the lateness of a packet and, if it should follow the previous packet back to back, the time between the
    /// two.
    pub(super) fn on_sent(&mut self, late: Span, apart: Option<Span>, size: u32) {
        self.lateness.add(late);
        if let Some(apart) = apart {
            self.apart.add(apart.mul_f64(PACKET.as_f64() / f64::from(size.max(1))));
        }
    }

    pub(super) fn on_timer(&mut self, late: Span) {
        self.lateness.add(late - TICK);
    }

    /// Returns the reason why results of this machine are in doubt, given the measured capacity.
    fn doubt(&self, capacity: Option<RateRange>) -> Option<String> {
        let late = self.lateness.quantile(0.99);
        if !self.lateness.is_empty() && late > TOO_LATE {
            let late = text::time(late);
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

/// Lowers the confidence in doubtful outcomes, widens each range to the resolution of clocks, and returns one sentence
/// per doubt.
pub(super) fn cast(outcomes: &mut [Outcome]) -> Vec<String> {
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
                    // The delivered rate is a measurement, the available bandwidth an estimate.
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

/// Widens a range to at least the resolution of a clock and of the averages of a method.
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
    text::rate(rate.as_bits_per_sec() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;
    use crate::sockets::path::Facts;

    fn mega(rate: f64) -> Rate {
        Rate::from_bits_per_sec((rate * 1e6) as u64)
    }

    fn exactly(rate: f64) -> RateRange {
        RateRange { low: mega(rate), value: mega(rate), high: mega(rate) }
    }

    /// A converged outcome with full confidence and a range of width 0.
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

    /// Results of a busy machine for a link of 300 Mb/s.
    #[test]
    fn methods_that_exclude_each_other_are_not_believed() {
        let mut outcomes = [
            sure("capprobe", Some(138.0), None),
            sure("pathrate", Some(34.8), None),
            sure("tcpprobe", Some(2060.0), None),
        ];
        let doubts = cast(&mut outcomes);
        assert_eq!(doubts.len(), 3);
        assert_eq!(doubts[0], "the capacities of capprobe, 138 Mb/s, and pathrate, 34.8 Mb/s, exclude each other");
        assert_eq!(confidences(&outcomes), [DOUBTED; 3]);
        assert!(outcomes.iter().all(|outcome| outcome.converged_after.is_none()));
        let mut two = [sure("capprobe", Some(300.0), None), sure("pathrate", Some(280.0), None)];
        assert!(cast(&mut two).is_empty() && confidences(&two) == [1.0; 2], "methods differ by less than the factor");
    }

    #[test]
    fn more_than_the_capacity_is_delivered_by_none() {
        let mut outcomes = [sure("capprobe", Some(138.0), None), sure("tcpprobe", Some(300.0), None)];
        outcomes[1].delivery = Some(mega(290.0));
        let doubts = cast(&mut outcomes);
        assert!(
            doubts.contains(&"tcpprobe delivered 290 Mb/s, more than the capacity of capprobe, 138 Mb/s".to_owned()),
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

    /// 1 us of the 40 us that a packet of 1500 bytes takes at 300 Mb/s, and 1 % at 1 Mb/s.
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
        // 900 bytes every 12 us are 1500 bytes every 20 us, which is 600 Mb/s.
        let mut slow = Own::default();
        (0..100).for_each(|_| slow.on_sent(Span::ZERO, Some(Span::from_micros(12)), 900));
        assert_eq!(of(slow.clone(), 290.0).1, 1.0);
        let (doubts, confidence) = of(slow, 500.0);
        assert!(doubts[0].starts_with("capprobe: this machine sends packets back to back at "), "{doubts:?}");
        assert_eq!(confidence, DOUBTED);
    }
}
