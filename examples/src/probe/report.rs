//! What `probe` prints.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::cc::estimate::active::RateRange;
use longhaul::units::Span;
use serde::Serialize;

use super::path::Path;
use super::prober::Outcome;
use super::reach::Reached;
use crate::report;

/// All that was measured. What is not known is `None`: `null` in JSON, "unknown" in text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The reflector.
    pub address: String,
    /// Bytes of the largest IP packet that arrived, 1500 at most.
    pub largest_packet: u32,
    /// The least round trip.
    pub base_rtt_us: Option<f64>,
    /// The longest that a packet waited in queues.
    pub queueing_us: Option<f64>,
    /// The delay of a full buffer.
    pub buffer_delay_us: Option<f64>,
    /// Its bytes, at the capacity found.
    pub buffer_bytes: Option<u64>,
    /// The part of the packets that was lost by chance.
    pub random_loss: Option<f64>,
    /// Packets without an answer.
    pub lost: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes of IP packets sent.
    pub bytes: u64,
    /// Each method's.
    pub methods: Vec<Found>,
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
    /// Whether it came to an end by itself, with a result.
    pub converged: bool,
    /// How long it ran.
    pub seconds: f64,
    /// How much to believe it, 0 to 1.
    pub confidence: f64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes of IP packets sent.
    pub bytes: u64,
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
        let bits = longhaul::units::Rate::as_bits_per_sec;
        Self { low: bits(range.low), value: bits(range.value), high: bits(range.high) }
    }
}

impl From<&Outcome> for Found {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { method, estimate, took, packets, bytes } = outcome;
        Self {
            method,
            capacity_bps: estimate.capacity.map(Range::from),
            available_bps: estimate.available.map(Range::from),
            converged: estimate.converged,
            seconds: took.as_secs_f64(),
            confidence: estimate.confidence,
            packets: *packets,
            bytes: *bytes,
        }
    }
}

impl Report {
    /// Puts it together. The buffer's bytes are those at the capacity that is believed most.
    #[must_use]
    pub fn new(address: SocketAddr, reached: &Reached, path: &Path, outcomes: &[Outcome]) -> Self {
        let micros = |span: Span| span.as_nanos() as f64 / 1e3;
        let believed = |a: &&Outcome, b: &&Outcome| a.estimate.confidence.total_cmp(&b.estimate.confidence);
        let best = outcomes.iter().filter(|outcome| outcome.estimate.capacity.is_some()).max_by(believed);
        let capacity = best.and_then(|best| best.estimate.capacity).map(|range| range.value);
        let (packets, bytes) = path.spent();
        Self {
            address: address.to_string(),
            largest_packet: reached.largest,
            base_rtt_us: path.base_rtt().map(micros),
            queueing_us: path.most_queueing().map(micros),
            buffer_delay_us: path.buffer_delay().map(micros),
            buffer_bytes: path.buffer_bytes(capacity).map(|bytes| bytes.0),
            random_loss: path.random_loss(),
            lost: path.lost(),
            packets,
            bytes,
            methods: outcomes.iter().map(Found::from).collect(),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for found in &self.methods {
            writeln!(f, "{found}")?;
        }
        let time = |micros: Option<f64>| micros.map(|us| report::time(Some(Duration::from_secs_f64(us / 1e6))));
        let (packets, lost, bytes) = (self.packets, self.lost, report::size(self.bytes));
        writeln!(f, "path to {}, packets of {} bytes at most", self.address, self.largest_packet)?;
        writeln!(f, "  base RTT         {}", known(time(self.base_rtt_us)))?;
        writeln!(f, "  longest queueing {}", known(time(self.queueing_us)))?;
        writeln!(f, "  buffer, delay    {}", known(time(self.buffer_delay_us)))?;
        writeln!(f, "  buffer, bytes    {}", known(self.buffer_bytes))?;
        writeln!(f, "  random loss      {}", known(self.random_loss.map(|loss| format!("{:.2} %", loss * 100.0))))?;
        writeln!(f, "  spent            {packets} packets, {bytes}; {lost} without an answer")
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (bytes, confidence) = (report::size(self.bytes), self.confidence * 100.0);
        let end = if self.converged { "converged after" } else { "not converged after" };
        writeln!(f, "{}: {end} {:.1} s, {} packets, {bytes}", self.method, self.seconds, self.packets)?;
        writeln!(f, "  capacity         {}", known(self.capacity_bps))?;
        writeln!(f, "  available        {}", known(self.available_bps))?;
        write!(f, "  confidence       {confidence:.0} %")
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(|bits| report::rate(bits as f64));
        write!(f, "{value} ({low} to {high})")
    }
}

fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

/// A line for people who wait.
#[must_use]
pub fn progress(outcome: &Outcome) -> String {
    let found = Found::from(outcome);
    let what = match (found.capacity_bps, found.available_bps) {
        (Some(capacity), _) => format!("capacity {capacity}"),
        (None, Some(available)) => format!("available {available}"),
        (None, None) => "nothing known yet".to_owned(),
    };
    let Found { method, seconds, packets, confidence, .. } = found;
    format!("{method}: {seconds:.0} s, {packets} packets, {what}, confidence {:.0} %", confidence * 100.0)
}
