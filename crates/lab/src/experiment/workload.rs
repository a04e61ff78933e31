//! Workloads: settings and connections.

use std::ops::Range;
use std::sync::Arc;

use longhaul_link::source::{BoundedPareto, HttpWorkload, Synthetic};
use longhaul_link::spec::value;
use longhaul_link::topology::Duplex;
use longhaul_link::{LinkRate, Random};
use longhaul_sim::{Visit, exchange_of};
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};

use super::prepare::Filling;
use crate::definition::{Fault, Setting, Text, Workload};

/// Maximum number of host pairs of a workload.
const MOST_PAIRS: usize = 10_000;

/// A workload of many short-lived connections.
#[derive(Clone, Debug)]
pub struct WorkloadSetup {
    /// Name that metrics refer to.
    pub name: String,
    /// Kind of exchange.
    pub kind: WorkloadKind,
    /// Mean rate of the responses.
    pub rate: Rate,
    /// The distribution of response sizes.
    pub responses: BoundedPareto,
    /// The configuration of both ends.
    pub config: Arc<Config>,
    /// Indices of the links that they cross.
    pub hops: Range<usize>,
    /// Time of the first arrivals.
    pub start: Span,
    /// Time of the last arrivals.
    pub stop: Span,
    /// The access links of each host pair, on the senders' and on the receivers' side.
    pub pairs: Vec<(Duplex, Duplex)>,
}

/// Kind of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
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
            WorkloadKind::Http => {
                let transfers = HttpWorkload::new(start, self.rate, 1.0, self.responses, arrivals);
                Box::new(transfers.map(|transfer| exchange_of(&transfer)).map(at))
            }
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
