//! Cross traffic and workloads: settings, packet sources and connections.

use std::ops::Range;
use std::sync::Arc;

use longhaul_link::source::{BoundedPareto, Durations, HttpWorkload, Source, Synthetic};
use longhaul_link::spec::value;
use longhaul_link::topology::Duplex;
use longhaul_link::{Ecn, LinkRate, Random, dscp};
use longhaul_sim::Visit;
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};

use super::prepare::Filling;
use crate::definition::{Fault, Setting, Text, Traffic, Workload};

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
    /// Whether they travel in the direction of the flows' data, and whether in the opposite one.
    pub(crate) ways: [bool; 2],
    pub(crate) hops: Range<usize>,
    /// Number of the random stream, unless it is one of its own.
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
    /// Returns the source of the packets. What the setup leaves open is drawn from `stream`, unless it names another.
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
        let count = self.number::<u32>(&traffic.count, "traffic.count")?.unwrap_or(1);
        if count == 0 || count > MOST_SOURCES {
            let what = format!("{count} is not within 1 to {MOST_SOURCES}");
            return Err(self.beside(&traffic.name, "traffic.count", what));
        }
        let apart = self.optional(&traffic.apart, |text| self.span(text, "traffic.apart"))?;
        let first = self.source(traffic, links)?;
        let nth = |number: u32| TrafficSetup { start: first.start + apart * u64::from(number), ..first.clone() };
        Ok((0..count).map(nth).collect())
    }

    fn source(self, traffic: &Traffic, links: usize) -> Result<TrafficSetup, Fault> {
        let span = |text, field| self.optional(text, |text| self.span(text, field));
        let access = |text, field| self.optional(text, |text| self.link(text, field));
        let packet = self.read(&traffic.packet, "traffic.packet", |text| {
            let size = value::size(text).map_err(|error| error.to_string())?;
            let fits = (LEAST..=MOST).contains(&size);
            u32::try_from(size).ok().filter(|_| fits).ok_or_else(|| format!("{size} is not within {LEAST} to {MOST}"))
        })?;
        let start = span(&traffic.start, "traffic.start")?;
        let stop = traffic.stop.as_ref().map(|text| self.span(text, "traffic.stop")).transpose()?;
        if let (Some(stop), Some(text)) = (stop, &traffic.stop)
            && stop <= start
        {
            return Err(self.fault(text, "traffic.stop", "it ends before it begins"));
        }
        Ok(TrafficSetup {
            name: traffic.name.get_ref().clone(),
            kind: self.kind(traffic)?,
            rate: self.read(&traffic.rate, "traffic.rate", value::rate)?,
            packet,
            ways: match &traffic.way {
                None => [true, false],
                Some(way) => self.read(way, "traffic.way", |text| match text {
                    "there" => Ok([true, false]),
                    "back" => Ok([false, true]),
                    "both" => Ok([true, true]),
                    _ => Err(format!("{text:?} is not a direction; there are: there, back, both")),
                })?,
            },
            hops: self.hops(&traffic.hops, "traffic.hops", links)?,
            stream: self.number(&traffic.stream, "traffic.stream")?,
            phase: traffic.phase.as_ref().map(|text| self.span(text, "traffic.phase")).transpose()?,
            start,
            stop: stop.unwrap_or(Span::MAX),
            left: access(&traffic.left, "traffic.left")?,
            right: access(&traffic.right, "traffic.right")?,
            ecn: if self.switch(&traffic.ecn, "traffic.ecn")? == Some(true) { Ecn::Ect0 } else { Ecn::NotEct },
            dscp: traffic.dscp.as_ref().map_or(Ok(dscp::DEFAULT), |Setting(text)| self.codepoint(text))?,
        })
    }

    fn codepoint(self, text: &Text) -> Result<u8, Fault> {
        self.read(text, "traffic.dscp", |text| {
            let known = value::whole(text, "DiffServ codepoint").map_err(|error| error.to_string())?;
            if known < 64 { Ok(known) } else { Err(format!("{known} is not within 0 to 63")) }
        })
    }

    fn kind(self, traffic: &Traffic) -> Result<TrafficKind, Fault> {
        let kind = self.read(&traffic.kind, "traffic.kind", |text| Ok::<_, String>(text.to_owned()))?;
        let shape = traffic.shape.as_ref().map(|Setting(text)| text);
        let bursts = [traffic.on.as_ref(), traffic.off.as_ref(), shape];
        if kind == "on-off" {
            return self.bursts(traffic);
        }
        if let Some(text) = bursts.into_iter().flatten().next() {
            return Err(self.fault(text, "traffic.on", format!("{kind} has no bursts and pauses")));
        }
        match kind.as_str() {
            "cbr" => Ok(TrafficKind::Cbr),
            "poisson" => Ok(TrafficKind::Poisson),
            _ => Err(self.fault(
                &traffic.kind,
                "traffic.kind",
                format!("{kind:?} is not a kind; there are: cbr, poisson, on-off"),
            )),
        }
    }

    fn bursts(self, traffic: &Traffic) -> Result<TrafficKind, Fault> {
        let (Some(on), Some(off)) = (&traffic.on, &traffic.off) else {
            return Err(self.fault(&traffic.kind, "traffic.kind", "on-off needs `on` and `off`, their mean lengths"));
        };
        let length = |text| {
            let span = self.span(text, "traffic.on")?;
            if span.is_zero() { Err(self.fault(text, "traffic.on", "must be longer than 0 s")) } else { Ok(span) }
        };
        let (on, off) = (length(on)?, length(off)?);
        let durations = traffic.shape.as_ref().map_or(Ok(Durations::Exponential), |Setting(text)| {
            self.read(text, "traffic.shape", |text| {
                let shape = value::number(text).map_err(|error| error.to_string())?;
                if shape > 1.0 { Ok(Durations::Pareto(shape)) } else { Err(format!("{shape} is not above 1")) }
            })
        })?;
        Ok(TrafficKind::OnOff(on, off, durations))
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
        let start = self.optional(&workload.start, |text| self.span(text, "workloads.start"))?;
        let stop = workload.stop.as_ref().map(|text| self.span(text, "workloads.stop")).transpose()?;
        if let (Some(stop), Some(text)) = (stop, &workload.stop)
            && stop <= start
        {
            return Err(self.fault(text, "workloads.stop", "it ends before it begins"));
        }
        let hops = self.hops(&workload.hops, "workloads.hops", links.len())?;
        let LinkRate::Constant(rate) = links[hops.start].there.rate else {
            return Err(self.fault(&workload.load, "workloads.load", "the bottleneck has no constant --rate"));
        };
        let of_flows = |fault: Fault| Fault { field: fault.field.replacen("flows", "workloads", 1), ..fault };
        Ok(WorkloadSetup {
            name: workload.name.get_ref().clone(),
            kind: self.read(&workload.kind, "workloads.kind", |text| match text {
                "http" => Ok(WorkloadKind::Http),
                "vectors" => Ok(WorkloadKind::Vectors),
                _ => Err(format!("{text:?} is not a kind; there are: http, vectors")),
            })?,
            rate: rate.mul_f64(self.read(&workload.load, "workloads.load", value::share)?),
            responses: match &workload.response {
                None => BoundedPareto::http_responses(),
                Some(text) => {
                    let bytes = self.read(text, "workloads.response", value::size)?;
                    if bytes == 0 {
                        return Err(self.fault(text, "workloads.response", "must be larger than 0 bytes"));
                    }
                    BoundedPareto::new(bytes as f64, bytes as f64, 1.1)
                }
            },
            config: Arc::new(self.config(&workload.congestion, &workload.tcp).map_err(of_flows)?),
            hops,
            start,
            stop: stop.unwrap_or(Span::MAX),
            pairs: self.pairs(workload)?,
        })
    }

    fn pairs(self, workload: &Workload) -> Result<Vec<(Duplex, Duplex)>, Fault> {
        let count = workload.pairs.as_ref().map_or(Ok(1), |Setting(text)| {
            self.read(text, "workloads.pairs", |text| value::whole::<usize>(text, "number of pairs"))
        })?;
        let links = |texts: &[Text], field: &str| -> Result<Vec<Duplex>, Fault> {
            let links = texts.iter().map(|text| self.link(text, field)).collect::<Result<Vec<_>, _>>()?;
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
