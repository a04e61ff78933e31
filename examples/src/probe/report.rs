//! What `probe` prints.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::units::{Rate, Span};
use longhaul_probe::{Estimate, RateRange};
use serde::Serialize;

use super::doubts::Own;
use super::hops::Hops;
use super::path::{Facts, micros};
use crate::report;

/// How often progress is shown.
const SHOWN: Span = Span::from_secs(1);
/// With less confidence nothing counts as converged.
const CONFIDENT: f64 = 0.5;

/// What a method found, and what it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The method.
    pub method: &'static str,
    /// What it knows.
    pub estimate: Estimate,
    /// How long it ran.
    pub took: Span,
    /// When it had converged for good, counted from its beginning.
    pub converged_after: Option<Span>,
    /// The rate at which its own transfer was delivered, if it was one.
    pub delivery: Option<Rate>,
    /// Whether the peer told when segments arrived, if they were segments.
    pub arrival_times: Option<bool>,
    /// What its packets say of the path.
    pub path: Facts,
    /// What this machine did meanwhile.
    pub own: Own,
}

impl Outcome {
    /// Of a method that is no transfer and has not converged.
    #[must_use]
    pub fn new(method: &'static str, estimate: Estimate, took: Span, path: Facts) -> Self {
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

    /// Whether it found a rate, and has any confidence in it.
    #[must_use]
    pub fn learnt(&self) -> bool {
        let Estimate { capacity, available, confidence, .. } = self.estimate;
        confidence > 0.0 && (capacity.is_some() || available.is_some())
    }
}

/// Whether an estimate has converged, and is to be believed.
fn believed(estimate: &Estimate) -> bool {
    estimate.converged && estimate.confidence >= CONFIDENT
}

/// Follows a method: shows every second how it goes, and notes when it converges.
#[derive(Clone, Debug)]
pub struct Watch {
    method: &'static str,
    show_at: Span,
    converged_after: Option<Span>,
}

impl Watch {
    /// A method begins.
    #[must_use]
    pub fn new(method: &'static str) -> Self {
        Self { method, show_at: SHOWN, converged_after: None }
    }

    /// What it knows so long after its beginning, and how many packets it took; when to come back at the latest.
    pub fn follow(&mut self, after: Span, estimate: &Estimate, packets: u64) -> Span {
        self.converged_after = believed(estimate).then(|| self.converged_after.unwrap_or(after));
        if after >= self.show_at {
            self.show_at = after + SHOWN;
            eprintln!("{}", self.line(after, estimate, packets));
        }
        self.show_at
    }

    /// When it had converged for good.
    #[must_use]
    pub fn converged_after(&self) -> Option<Span> {
        self.converged_after
    }

    /// A line for people who wait.
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

/// All that was measured. What is not known is `None`: `null` in JSON, "unknown" in text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The receiver.
    pub address: String,
    /// Bytes of the largest IP packet that arrived, 1500 at most; `None` if no reflector was asked.
    pub largest_packet: Option<u32>,
    /// The direction whose rates were measured: `there`, to the receiver. Nothing is sent for the rate of the way back.
    pub direction: &'static str,
    /// What speaks against the findings, a sentence each.
    pub doubts: Vec<String>,
    /// What all packets together say.
    #[serde(flatten)]
    pub path: Facts,
    /// Each method's.
    pub methods: Vec<Found>,
    /// Where packets queue, if that was asked.
    pub hops: Option<Hops>,
}

/// What one method found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Its name.
    pub method: &'static str,
    /// The capacity, bits of IP packets a second.
    pub capacity_bps: Option<Range>,
    /// What others leave of it.
    pub available_bps: Option<Range>,
    /// What its own transfer had of it.
    pub delivery_bps: Option<u64>,
    /// Whether the peer of the transfer told when segments arrived.
    pub arrival_times: Option<bool>,
    /// Whether its own criterion is met, and the confidence is a half or more.
    pub converged: bool,
    /// Seconds until that was so for good.
    pub converged_after_s: Option<f64>,
    /// How long it ran.
    pub seconds: f64,
    /// How much to believe it, 0 to 1.
    pub confidence: f64,
    /// What its packets say of the path.
    #[serde(flatten)]
    pub path: Facts,
}

/// A rate in bits a second and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// At least.
    pub low: u64,
    /// Most probably.
    pub value: u64,
    /// At most.
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
    /// Puts it together. `path` is what the reflector's answers say; the buffer's bytes are those at the capacity that is
    /// believed most.
    #[must_use]
    pub fn new(
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
        // A transfer fills the buffer and loses what it holds, which is why it is believed in that first.
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
            writeln!(f, "  delivered        {}", report::rate(rate as f64))?;
        }
        writeln!(f, "  confidence       {confidence:.0} %")?;
        write!(f, "{}", self.path)
    }
}

impl Display for Facts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (packets, lost, bytes) = (self.packets, self.lost, report::size(self.bytes));
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
        let [value, low, high] = [self.value, self.low, self.high].map(|bits| report::rate(bits as f64));
        write!(f, "{value} ({low} to {high})")
    }
}

/// Microseconds for people.
pub(super) fn time(micros: f64) -> String {
    report::time(Some(Duration::from_secs_f64(micros.max(0.0) / 1e6)))
}

/// The same, of a span.
pub(super) fn span(span: Span) -> String {
    time(micros(span))
}

pub(super) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(converged: bool, confidence: f64) -> Estimate {
        let mut estimate = Estimate::default();
        (estimate.converged, estimate.confidence) = (converged, confidence);
        estimate
    }

    /// CapProbe calls two runs that agree converged, however few of their pairs support it.
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
            watch.follow(Span::from_secs(second), &estimate(converged, confidence), 1);
            assert_eq!(watch.converged_after(), after.map(Span::from_secs), "{second}");
        }
        let outcome = Outcome::new("capprobe", estimate(true, 0.4), Span::from_secs(3), Facts::default());
        assert!(!Found::from(&outcome).converged);
        assert!(!outcome.learnt(), "no rate");
        let any = Rate::from_bits_per_sec(9_500_000);
        let mut vague = outcome.clone();
        vague.estimate.available = Some(RateRange { low: Rate::default(), value: any, high: any.mul_f64(2.0) });
        assert!(vague.learnt());
        vague.estimate.confidence = 0.0;
        assert!(!vague.learnt(), "anything between nothing and everything");
        assert!(Found::from(&outcome).to_string().starts_with("capprobe: not converged after 3.0 s\n"));
    }

    #[test]
    fn the_names_in_json_are_those_that_the_help_lists() {
        let outcome = Outcome::new("capprobe", estimate(true, 0.9), Span::from_secs(3), Facts::default());
        let report = Report::new(([127, 0, 0, 1], 7).into(), Some(1500), None, &[outcome], Vec::new(), None);
        let json: serde_json::Value = serde_json::from_str(&report::json_line(&report)).unwrap();
        let help = <super::super::options::Options as clap::CommandFactory>::command().render_help().to_string();
        let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        for name in [names(&json), names(&json["methods"][0])].concat() {
            assert!(help.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
