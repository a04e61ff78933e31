//! The results in a sentence.

use longhaul_link::text;

use super::report::{CONFIDENT, Found, Range, Report};

impl Report {
    /// Returns the results in one or two sentences. If results contradict each other, or this machine was too busy to
    /// measure, the sentence states this instead of a rate.
    pub fn verdict(&self) -> String {
        let rates = if let Some(doubt) = self.doubts.first() {
            format!("No rate can be relied on: {doubt}.")
        } else {
            self.rates()
        };
        let path = &self.path;
        let loss = match path.random_loss {
            Some(loss) => Some(format!("{:.1} % lost", loss * 100.0)),
            None => (path.packets > 0).then(|| format!("{} of {} packets lost", path.lost, path.packets)),
        };
        let facts = [
            path.base_rtt_us.map(|micros| match micros / 1e3 {
                millis if millis < 9.95 => format!("{millis:.1} ms"),
                millis => format!("{millis:.0} ms"),
            }),
            loss,
            path.buffer_bytes.map(|bytes| format!("room for {} in its queue", text::size(bytes))),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        if facts.is_empty() { rates } else { format!("{rates} {}.", facts.join(", ")) }
    }

    fn rates(&self) -> String {
        let capacity = self.best(|found| found.capacity_bps);
        let available = self.best(|found| found.available_bps);
        let sure = |found: Option<(&Found, String)>| found.is_none_or(|(found, _)| found.confidence >= CONFIDENT);
        let verb = if sure(capacity.clone()) { "carries" } else { "may carry" };
        let free = if sure(available.clone()) { "are free" } else { "may be free" };
        match (capacity, available) {
            (Some((_, rate)), None) => format!("The path {verb} {rate}."),
            (Some((_, rate)), Some((_, part))) => format!("The path {verb} {rate}; {part} of it {free}."),
            (None, Some((_, part))) => format!("{part} of the path {free}."),
            (None, None) => "No rate was found.".to_owned(),
        }
    }

    /// Returns the method with the highest confidence in a rate, and the rate.
    fn best(&self, rate: impl Fn(&Found) -> Option<Range>) -> Option<(&Found, String)> {
        let found = self.methods.iter().filter(|found| found.confidence > 0.0);
        let rates = found.filter_map(|found| Some((found, text::rate(rate(found)?.value as f64))));
        rates.max_by(|(a, _), (b, _)| a.confidence.total_cmp(&b.confidence))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Rate, Span};

    use super::super::path::Facts;
    use super::super::report::Outcome;
    use super::*;
    use crate::{Estimate, RateRange};

    fn outcome(method: &'static str, capacity: Option<u64>, available: Option<u64>, confidence: f64) -> Outcome {
        let exactly = |megabits: u64| {
            let rate = Rate::from_bits_per_sec(megabits * 1_000_000);
            RateRange { low: rate, value: rate, high: rate }
        };
        let mut estimate = Estimate::default();
        (estimate.converged, estimate.confidence) = (true, confidence);
        (estimate.capacity, estimate.available) = (capacity.map(exactly), available.map(exactly));
        Outcome::new(method, estimate, Span::from_secs(5), Facts::default())
    }

    fn verdict(outcomes: &[Outcome], path: Facts) -> String {
        let mut outcomes = outcomes.to_vec();
        let doubts = super::super::doubts::cast(&mut outcomes);
        let mut report = Report::new(([127, 0, 0, 1], 7).into(), None, None, &outcomes, doubts, None);
        report.path = path;
        report.verdict()
    }

    #[test]
    fn a_sentence_says_what_was_found() {
        let mut path = Facts::default();
        (path.base_rtt_us, path.random_loss, path.buffer_bytes) = (Some(600e3), Some(0.001), Some(1_500_000));
        let capacity = outcome("capprobe", Some(20), None, 0.9);
        let both = [capacity.clone(), outcome("pathload", None, Some(14), 0.6)];
        assert_eq!(
            verdict(&both, path),
            "The path carries 20.0 Mb/s; 14.0 Mb/s of it are free. 600 ms, 0.1 % lost, room for 1.5 MB in its queue."
        );
        let mut short = Facts::default();
        (short.lost, short.packets) = (1, 200);
        assert_eq!(verdict(&[capacity], short), "The path carries 20.0 Mb/s. 1 of 200 packets lost.");
        let guess = [outcome("capprobe", Some(20), None, 0.4), outcome("pathrate", Some(21), None, 0.3)];
        assert_eq!(verdict(&guess, Facts::default()), "The path may carry 20.0 Mb/s.");
        assert_eq!(verdict(&[], Facts::default()), "No rate was found.");
    }

    #[test]
    fn results_that_contradict_each_other_are_no_number() {
        let outcomes = [outcome("capprobe", Some(138), None, 0.9), outcome("pathrate", Some(35), None, 0.9)];
        assert_eq!(
            verdict(&outcomes, Facts::default()),
            "No rate can be relied on: the capacities of capprobe, 138 Mb/s, and pathrate, 35.0 Mb/s, exclude each other."
        );
    }
}
