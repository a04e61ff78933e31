//! Cross traffic and workloads: settings, packet sources and connections.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use longhaul_link::source::{BoundedPareto, Durations, HttpWorkload, Source, Synthetic};
use longhaul_link::spec::value;
use longhaul_link::topology::Duplex;
use longhaul_link::{Ecn, LinkRate, Random, dscp};
use longhaul_sim::Visit;
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};

use super::prepare::{Filling, counted, link, number, switch};
use crate::definition::{Fault, Text, Traffic, Workload};

/// Minimum size of an IP packet in bytes: the IPv4 and UDP headers.
const LEAST: u64 = 28;
const MOST: u64 = 65_535;
/// Maximum number of sources per name.
const MOST_SOURCES: u32 = 1000;

/// Packets of one size that cross the bottleneck and do not react to congestion.
#[derive(Clone, Debug)]
pub(crate) struct TrafficSetup {
    pub(crate) name: String,
    pub(crate) kind: TrafficKind,
    /// Rate of IP packets.
    pub(crate) rate: Rate,
    /// Size of an IP packet in bytes.
    pub(crate) packet: u32,
    /// Whether packets are sent in the direction of the flows' data, and whether in the opposite direction.
    pub(crate) ways: [bool; 2],
    pub(crate) hops: Range<usize>,
    /// Number of the random stream, unless it is a separate one.
    pub(crate) stream: Option<u64>,
    /// Time of the first packet after the start, for constant intervals, unless it is random.
    pub(crate) phase: Option<Span>,
    pub(crate) start: Span,
    pub(crate) stop: Span,
    /// Access link of the host on the senders' side; `there` leads away from the host.
    pub(crate) left: Duplex,
    /// Access link of the host on the receivers' side; `there` leads away from the host.
    pub(crate) right: Duplex,
    pub(crate) ecn: Ecn,
    pub(crate) dscp: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TrafficKind {
    /// Constant intervals, starting at a random time within the first interval.
    Cbr,
    /// Exponentially distributed intervals.
    Poisson,
    /// Constant intervals in bursts, separated by pauses: mean burst, mean pause, and their distribution.
    OnOff(Span, Span, Durations),
}

impl TrafficSetup {
    /// Returns the source of the packets. Values that the setup leaves open are drawn from `stream`, unless it names
    /// another stream.
    pub(crate) fn source(&self, seed: u64, stream: u64) -> Source {
        let mut random = Random::new(seed, self.stream.unwrap_or(stream));
        let start = Time::ZERO + self.start;
        match self.kind {
            TrafficKind::Cbr => {
                let apart = self.rate.time_for(Bytes(u64::from(self.packet)));
                let phase = self.phase.unwrap_or_else(|| apart.mul_f64(random.unit()));
                Source::cbr(start + phase, self.rate, self.packet)
            }
            TrafficKind::Poisson => Source::poisson(start, self.rate, self.packet, random),
            TrafficKind::OnOff(on, off, durations) => {
                Source::on_off(start, self.rate, self.packet, (on, off), durations, random)
            }
        }
    }
}

impl Filling<'_> {
    pub(super) fn traffic(self, traffic: &Traffic, links: usize) -> Result<Vec<TrafficSetup>, Fault> {
        let count = self.or(1, &traffic.count, "traffic.count", |text| counted(text, 1..=MOST_SOURCES))?;
        let apart = self.or(Span::ZERO, &traffic.apart, "traffic.apart", value::span)?;
        let first = self.source(traffic, links)?;
        let nth = |number: u32| TrafficSetup { start: first.start + apart * u64::from(number), ..first.clone() };
        Ok((0..count).map(nth).collect())
    }

    fn source(self, traffic: &Traffic, links: usize) -> Result<TrafficSetup, Fault> {
        let packet = |text: &str| {
            let size = value::size(text).map_err(|error| error.to_string())?;
            let fits = (LEAST..=MOST).contains(&size);
            u32::try_from(size).ok().filter(|_| fits).ok_or_else(|| format!("{size} is not within {LEAST} to {MOST}"))
        };
        let ways = |text: &str| match text {
            "there" => Ok([true, false]),
            "back" => Ok([false, true]),
            "both" => Ok([true, true]),
            _ => Err(format!("{text:?} is not a direction; there are: there, back, both")),
        };
        let codepoint = |text: &str| {
            let known = value::whole(text, "DiffServ codepoint").map_err(|error| error.to_string())?;
            if known < 64 { Ok(known) } else { Err(format!("{known} is not within 0 to 63")) }
        };
        let start = self.or(Span::ZERO, &traffic.start, "traffic.start", value::span)?;
        let is_capable = self.or(false, &traffic.ecn, "traffic.ecn", switch)?;
        Ok(TrafficSetup {
            name: traffic.name.get_ref().clone(),
            kind: self.kind(traffic)?,
            rate: self.read(&traffic.rate, "traffic.rate", value::rate)?,
            packet: self.read(&traffic.packet, "traffic.packet", packet)?,
            ways: self.or([true, false], &traffic.way, "traffic.way", ways)?,
            hops: self.hops(&traffic.hops, "traffic.hops", links)?,
            stream: self.given(&traffic.stream, "traffic.stream", number)?,
            phase: self.given(&traffic.phase, "traffic.phase", value::span)?,
            start,
            stop: self.stop(&traffic.stop, "traffic.stop", start)?,
            left: self.or(Duplex::default(), &traffic.left, "traffic.left", link)?,
            right: self.or(Duplex::default(), &traffic.right, "traffic.right", link)?,
            ecn: if is_capable { Ecn::Ect0 } else { Ecn::NotEct },
            dscp: self.or(dscp::DEFAULT, &traffic.dscp, "traffic.dscp", codepoint)?,
        })
    }

    fn stop(self, stop: &Option<Text>, field: &str, start: Span) -> Result<Span, Fault> {
        let later = |text: &str| match value::span(text) {
            Ok(stop) if stop <= start => Err("it ends before it begins".to_owned()),
            stop => stop.map_err(|error| error.to_string()),
        };
        self.or(Span::MAX, stop, field, later)
    }

    fn kind(self, traffic: &Traffic) -> Result<TrafficKind, Fault> {
        let kind = self.read(&traffic.kind, "traffic.kind", String::from_str)?;
        if kind == "on-off" {
            return self.bursts(traffic);
        }
        if let Some(text) = [&traffic.on, &traffic.off, &traffic.shape].into_iter().flatten().next() {
            return Err(self.fault(text, "traffic.on", format!("{kind} has no bursts and pauses")));
        }
        match kind.as_str() {
            "cbr" => Ok(TrafficKind::Cbr),
            "poisson" => Ok(TrafficKind::Poisson),
            _ => {
                let what = format!("{kind:?} is not a kind; there are: cbr, poisson, on-off");
                Err(self.fault(&traffic.kind, "traffic.kind", what))
            }
        }
    }

    fn bursts(self, traffic: &Traffic) -> Result<TrafficKind, Fault> {
        let (Some(on), Some(off)) = (&traffic.on, &traffic.off) else {
            return Err(self.fault(&traffic.kind, "traffic.kind", "on-off needs `on` and `off`, their mean lengths"));
        };
        let length = |text: &str| match value::span(text) {
            Ok(Span::ZERO) => Err("must be longer than 0 s".to_owned()),
            length => length.map_err(|error| error.to_string()),
        };
        let durations = |text: &str| {
            let shape = value::number(text).map_err(|error| error.to_string())?;
            if shape > 1.0 { Ok(Durations::Pareto(shape)) } else { Err(format!("{shape} is not above 1")) }
        };
        let [on, off] = [on, off].map(|text| self.read(text, "traffic.on", length));
        Ok(TrafficKind::OnOff(on?, off?, self.or(Durations::Exponential, &traffic.shape, "traffic.shape", durations)?))
    }
}

const MOST_PAIRS: usize = 10_000;

/// A workload of many short-lived connections.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadSetup {
    pub(crate) name: String,
    pub(crate) kind: WorkloadKind,
    /// Mean rate of the responses.
    pub(crate) rate: Rate,
    pub(crate) responses: BoundedPareto,
    pub(crate) config: Arc<Config>,
    pub(crate) hops: Range<usize>,
    /// Time of the first arrivals.
    pub(crate) start: Span,
    /// Time of the last arrivals.
    pub(crate) stop: Span,
    /// The access links of each host pair, on the senders' and on the receivers' side.
    pub(crate) pairs: Vec<(Duplex, Duplex)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    /// One request of 350 bytes and its response.
    Http,
    /// A geometrically distributed number of requests and responses, separated by think time.
    Vectors,
}

impl WorkloadSetup {
    /// Returns the connections. `pairs` contains the nodes of each host pair, the senders' side first. Arrival times
    /// and hosts do not depend on the outcome of earlier connections.
    pub(crate) fn visits(&self, pairs: Vec<[usize; 2]>, random: [Random; 2]) -> Box<dyn Iterator<Item = Visit>> {
        let [arrivals, mut places] = random;
        let start = Time::ZERO + self.start;
        let at = move |vector| {
            let place = places.below(pairs.len() as u64) as usize;
            let [from, to] = pairs.get(place).copied().unwrap_or_default();
            (to, from, vector)
        };
        match self.kind {
            WorkloadKind::Http => Box::new(HttpWorkload::new(start, self.rate, 1.0, self.responses, arrivals).map(at)),
            WorkloadKind::Vectors => {
                let mut vectors = Synthetic::web(start, Span::ZERO, arrivals);
                let bytes = vectors.mean_epochs * self.responses.mean();
                vectors.mean_gap = self.rate.time_for(Bytes(bytes.round() as u64));
                vectors.responses = self.responses;
                Box::new(vectors.map(at))
            }
        }
    }
}

impl Filling<'_> {
    pub(super) fn workload(self, workload: &Workload, links: &[Duplex]) -> Result<WorkloadSetup, Fault> {
        let start = self.or(Span::ZERO, &workload.start, "workloads.start", value::span)?;
        let hops = self.hops(&workload.hops, "workloads.hops", links.len())?;
        let LinkRate::Constant(rate) = links[hops.start].there.rate else {
            return Err(self.fault(&workload.load, "workloads.load", "the bottleneck has no constant --rate"));
        };
        let kind = |text: &str| match text {
            "http" => Ok(WorkloadKind::Http),
            "vectors" => Ok(WorkloadKind::Vectors),
            _ => Err(format!("{text:?} is not a kind; there are: http, vectors")),
        };
        let responses = |text: &str| match value::size(text).map_err(|error| error.to_string())? {
            0 => Err("must be larger than 0 bytes".to_owned()),
            bytes => Ok(BoundedPareto::new(bytes as f64, bytes as f64, 1.1)),
        };
        let usual = BoundedPareto::http_responses();
        let of_flows = |fault: Fault| Fault { field: fault.field.replacen("flows", "workloads", 1), ..fault };
        let mut settings = self.settings(&workload.host, &workload.tcp).map_err(of_flows)?;
        let config = settings.config(&workload.congestion).map_err(of_flows)?;
        settings.end().map_err(of_flows)?;
        Ok(WorkloadSetup {
            name: workload.name.get_ref().clone(),
            kind: self.read(&workload.kind, "workloads.kind", kind)?,
            rate: rate.mul_f64(self.read(&workload.load, "workloads.load", value::share)?),
            responses: self.or(usual, &workload.response, "workloads.response", responses)?,
            config: Arc::new(config),
            hops,
            start,
            stop: self.stop(&workload.stop, "workloads.stop", start)?,
            pairs: self.pairs(workload)?,
        })
    }

    fn pairs(self, workload: &Workload) -> Result<Vec<(Duplex, Duplex)>, Fault> {
        let count =
            self.or(1, &workload.pairs, "workloads.pairs", |text| value::whole::<usize>(text, "number of pairs"))?;
        let links = |texts: &[Text], field: &str| -> Result<Vec<Duplex>, Fault> {
            let links = texts.iter().map(|text| self.read(text, field, link)).collect::<Result<Vec<_>, _>>()?;
            Ok(if links.is_empty() { vec![Duplex::default()] } else { links })
        };
        let left = links(&workload.left, "workloads.left")?;
        let right = links(&workload.right, "workloads.right")?;
        let all = count.saturating_mul(left.len() * right.len());
        if all == 0 || all > MOST_PAIRS {
            let what = format!("{all} pairs of hosts are not within 1 to {MOST_PAIRS}");
            return Err(self.beside(&workload.name, "workloads.pairs", what));
        }
        let paths = left.iter().flat_map(|left| right.iter().map(move |right| (left.clone(), right.clone())));
        Ok((0..count).flat_map(|_| paths.clone()).collect())
    }
}
