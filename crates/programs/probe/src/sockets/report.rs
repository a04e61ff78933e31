//! Report of a measurement, as text and for JSON.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use longhaul_link::text;
use longhaul_units::{Rate, Span};
use serde::Serialize;

use super::doubts::Own;
use super::hops::Hops;
use super::path::Facts;
use super::{Note, Progress};
use crate::{Estimate, RateRange};

const SHOWN: Span = Span::from_secs(1);
/// Minimum confidence of a converged estimate.
pub(super) const CONFIDENT: f64 = 0.5;

/// Result and cost of one method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Name of the method.
    pub method: &'static str,
    /// Final estimate.
    pub estimate: Estimate,
    /// Duration.
    pub took: Span,
    /// Time from the start until the method had converged permanently.
    pub converged_after: Option<Span>,
    /// Delivery rate, if the method is a transfer.
    pub(super) delivery: Option<Rate>,
    /// Whether the peer reported arrival times, if the method is a transfer.
    pub(super) arrival_times: Option<bool>,
    /// Properties of the path according to the method's packets.
    pub path: Facts,
    pub(super) own: Own,
}

impl Outcome {
    pub(super) fn new(method: &'static str, estimate: Estimate, took: Span, path: Facts) -> Self {
        Self {
            method,
            estimate,
            took,
            converged_after: None,
            delivery: None,
            arrival_times: None,
            path,
            own: Own::default(),
        }
    }
}

fn believed(estimate: &Estimate) -> bool {
    estimate.converged && estimate.confidence >= CONFIDENT
}

/// Observer of a running method: reports progress every second, and records when the method converges.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    method: &'static str,
    show_at: Span,
    pub(super) converged_after: Option<Span>,
}

impl Watch {
    pub(super) fn new(method: &'static str) -> Self {
        Self { method, show_at: SHOWN, converged_after: None }
    }

    /// Takes the estimate and the number of packets at `after` from the start. Returns the time at which the next
    /// progress report is due.
    pub(super) fn follow(&mut self, after: Span, estimate: &Estimate, packets: u64, progress: Progress<'_>) -> Span {
        self.converged_after = believed(estimate).then(|| self.converged_after.unwrap_or(after));
        if after >= self.show_at {
            self.show_at = after + SHOWN;
            progress(Note::Progress, &self.line(after, estimate, packets));
        }
        self.show_at
    }

    fn line(&self, after: Span, estimate: &Estimate, packets: u64) -> String {
        let what = match (estimate.capacity, estimate.available) {
            (Some(capacity), _) => format!("capacity {}", Range::from(capacity)),
            (None, Some(available)) => format!("available {}", Range::from(available)),
            (None, None) => "nothing known yet".to_owned(),
        };
        let (method, seconds, confidence) = (self.method, after.as_secs_f64(), estimate.confidence * 100.0);
        format!("{method}: {seconds:.0} s, {packets} packets, {what}, confidence {confidence:.0} %")
    }
}

/// Results of a whole measurement. Unknown values are `None`: `null` in JSON, "unknown" in text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Address of the receiver.
    pub address: String,
    /// Bytes of the largest IP packet that arrived, at most 1500; `None` without a reflector.
    pub largest_packet: Option<u32>,
    /// Direction of the measured rates: `there`, to the receiver. The return path is not measured.
    pub direction: &'static str,
    /// Doubts about the results, one sentence each.
    pub doubts: Vec<String>,
    /// Properties of the path according to all packets.
    #[serde(flatten)]
    pub path: Facts,
    /// Results of each method.
    pub methods: Vec<Found>,
    /// Queueing delays along the path, if requested.
    pub hops: Option<Hops>,
}

/// Results of one method in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Found {
    /// Name of the method.
    pub method: &'static str,
    /// Capacity in bits of IP packets per second.
    pub capacity_bps: Option<Range>,
    /// Available bandwidth in bits of IP packets per second.
    pub available_bps: Option<Range>,
    /// Delivery rate of the method's own transfer in bits of IP packets per second.
    pub delivery_bps: Option<u64>,
    /// Whether the peer of the transfer reported arrival times.
    pub arrival_times: Option<bool>,
    /// Whether the method's own criterion is met with a confidence of at least 0.5.
    pub converged: bool,
    /// Time in seconds until the method had converged permanently.
    pub converged_after_s: Option<f64>,
    /// Duration in seconds.
    pub seconds: f64,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Properties of the path according to the packets of the method.
    #[serde(flatten)]
    pub path: Facts,
}

/// A rate in bits per second with its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Range {
    /// Lower end.
    pub low: u64,
    /// Best single value.
    pub value: u64,
    /// Upper end.
    pub high: u64,
}

impl From<RateRange> for Range {
    fn from(range: RateRange) -> Self {
        let bits = Rate::as_bits_per_sec;
        Self { low: bits(range.low), value: bits(range.value), high: bits(range.high) }
    }
}

impl From<&Outcome> for Found {
    fn from(outcome: &Outcome) -> Self {
        let estimate = &outcome.estimate;
        Self {
            method: outcome.method,
            capacity_bps: estimate.capacity.map(Range::from),
            available_bps: estimate.available.map(Range::from),
            delivery_bps: outcome.delivery.map(Rate::as_bits_per_sec),
            arrival_times: outcome.arrival_times,
            converged: believed(estimate),
            converged_after_s: outcome.converged_after.map(Span::as_secs_f64),
            seconds: outcome.took.as_secs_f64(),
            confidence: estimate.confidence,
            path: outcome.path.clone(),
        }
    }
}

impl Report {
    /// Description of the JSON object for help texts: its names and their units.
    pub const JSON: &str = "\
\"address\"; \"largest_packet\" in bytes (null if tcpprobe was the only method); \"direction\" (\"there\": whose rates these
are); \"doubts\" (sentences: what speaks against the findings); what all packets together say of
the path; \"methods\", each with \"method\", \"capacity_bps\" and \"available_bps\" (\"low\", \"value\", \"high\"),
\"delivery_bps\" and \"arrival_times\" (tcpprobe's: what it delivered, and whether the peer told when), \"converged\",
\"converged_after_s\", \"seconds\", \"confidence\" (0 to 1), and what its own packets say of the path; \"hops\" with
--hops: \"queue_at\" (the TTL, null if nowhere), \"loaded\", \"hops\", each with \"ttl\", \"address\", \"sent\",
\"answered\", \"base_rtt_us\", \"queueing_us\". The path is \"base_rtt_us\", \"queueing_us\", \"buffer_delay_us\",
\"buffer_bytes\", \"random_loss\" (0 to 1), \"lost\", \"packets\", \"bytes\". null is unknown.";

    /// Returns whether the measurement found a hop, or a rate with a confidence above 0.
    pub fn found_anything(&self) -> bool {
        let found =
            |found: &Found| found.confidence > 0.0 && (found.capacity_bps.is_some() || found.available_bps.is_some());
        self.hops.is_some() || self.methods.iter().any(found)
    }

    /// Combines the results. `path` contains the properties measured with the reflector's answers. The size of the
    /// buffer is computed from the capacity with the highest confidence.
    pub(super) fn new(
        address: SocketAddr,
        largest_packet: Option<u32>,
        path: Option<&super::path::Path>,
        outcomes: &[Outcome],
        doubts: Vec<String>,
        hops: Option<Hops>,
    ) -> Self {
        let confidence = |a: &&Outcome, b: &&Outcome| a.estimate.confidence.total_cmp(&b.estimate.confidence);
        let best = outcomes.iter().filter(|outcome| outcome.estimate.capacity.is_some()).max_by(confidence);
        let capacity = best.and_then(|best| best.estimate.capacity).map(|range| range.value);
        let asked = path.map(|path| path.facts(capacity)).unwrap_or_default();
        // A transfer fills the buffer and loses packets there, so that its view of the buffer takes precedence.
        let transfers = outcomes.iter().filter(|outcome| outcome.arrival_times.is_some());
        let path = transfers.fold(asked, |path, transfer| transfer.path.and(&path));
        Self {
            address: address.to_string(),
            largest_packet,
            direction: "there",
            doubts,
            path,
            methods: outcomes.iter().map(Found::from).collect(),
            hops,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for found in &self.methods {
            writeln!(f, "{found}")?;
        }
        if let Some(hops) = &self.hops {
            write!(f, "{hops}")?;
        }
        for doubt in &self.doubts {
            writeln!(f, "doubt: {doubt}")?;
        }
        match self.largest_packet {
            Some(bytes) => writeln!(f, "path to {}, packets of {bytes} bytes at most", self.address)?,
            None => writeln!(f, "path to {}", self.address)?,
        }
        writeln!(f, "{}", self.path)?;
        writeln!(f, "rates are those of the way there, round trips and losses those of both ways")
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (method, seconds, confidence) = (self.method, self.seconds, self.confidence * 100.0);
        match self.converged_after_s {
            Some(after) => writeln!(f, "{method}: converged after {after:.1} s of {seconds:.1} s")?,
            None => writeln!(f, "{method}: not converged after {seconds:.1} s")?,
        }
        writeln!(f, "  capacity         {}", known(self.capacity_bps))?;
        writeln!(f, "  available        {}", known(self.available_bps))?;
        if let Some(rate) = self.delivery_bps {
            writeln!(f, "  delivered        {}", text::rate(rate as f64))?;
        }
        writeln!(f, "  confidence       {confidence:.0} %")?;
        write!(f, "{}", self.path)
    }
}

impl Display for Facts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (packets, lost, bytes) = (self.packets, self.lost, text::size(self.bytes));
        writeln!(f, "  base RTT         {}", known(self.base_rtt_us.map(time)))?;
        writeln!(f, "  longest queueing {}", known(self.queueing_us.map(time)))?;
        writeln!(f, "  buffer, delay    {}", known(self.buffer_delay_us.map(time)))?;
        writeln!(f, "  buffer, bytes    {}", known(self.buffer_bytes))?;
        writeln!(f, "  random loss      {}", known(self.random_loss.map(|loss| format!("{:.2} %", loss * 100.0))))?;
        write!(f, "  spent            {packets} packets, {bytes}; {lost} lost")
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(|rate| text::rate(rate as f64));
        write!(f, "{value} ({low} to {high})")
    }
}

/// A span in microseconds, the unit of times in reports.
pub(super) fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// A time in microseconds as text. The unit is chosen after rounding to nanoseconds.
pub(super) fn time(micros: f64) -> String {
    text::time(Span::from_nanos((micros.max(0.0) * 1e3).round() as u64))
}

pub(super) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

impl Report {
    /// Returns what was found in a sentence or two. If results contradict each other, or this machine was too busy to
    /// measure, the sentence says so instead of a rate.
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
    use super::*;

    fn estimate(converged: bool, confidence: f64) -> Estimate {
        let mut estimate = Estimate::default();
        (estimate.converged, estimate.confidence) = (converged, confidence);
        estimate
    }

    /// CapProbe has converged when two runs agree, however few of their pairs support the result.
    #[test]
    fn without_confidence_nothing_has_converged() {
        let mut watch = Watch::new("capprobe");
        for (second, converged, confidence, after) in [
            (1, true, 0.49, None),
            (2, true, 0.5, Some(2)),
            (3, true, 0.4, None),
            (4, true, 0.9, Some(4)),
            (5, true, 0.9, Some(4)),
        ] {
            watch.follow(Span::from_secs(second), &estimate(converged, confidence), 1, &|_, _| {});
            assert_eq!(watch.converged_after, after.map(Span::from_secs), "{second}");
        }
        let outcome = Outcome::new("capprobe", estimate(true, 0.4), Span::from_secs(3), Facts::default());
        assert!(!Found::from(&outcome).converged);
        let found_anything = |outcome: &Outcome| {
            let outcomes = std::slice::from_ref(outcome);
            Report::new(([127, 0, 0, 1], 7).into(), None, None, outcomes, Vec::new(), None).found_anything()
        };
        assert!(!found_anything(&outcome), "no rate");
        let any = Rate::from_bits_per_sec(9_500_000);
        let mut vague = outcome.clone();
        vague.estimate.available = Some(RateRange { low: Rate::default(), value: any, high: any.mul_f64(2.0) });
        assert!(found_anything(&vague));
        vague.estimate.confidence = 0.0;
        assert!(!found_anything(&vague), "no confidence");
        assert!(Found::from(&outcome).to_string().starts_with("capprobe: not converged after 3.0 s\n"));
    }

    #[test]
    fn the_description_lists_all_names_in_json() {
        let outcome = Outcome::new("capprobe", estimate(true, 0.9), Span::from_secs(3), Facts::default());
        let report = Report::new(([127, 0, 0, 1], 7).into(), Some(1500), None, &[outcome], Vec::new(), None);
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        for name in [names(&json), names(&json["methods"][0])].concat() {
            assert!(Report::JSON.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}

#[cfg(test)]
mod verdict_tests {
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
