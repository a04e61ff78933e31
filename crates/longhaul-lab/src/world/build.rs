//! Hosts, links and what begins when.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use longhaul_link::topology::{Dumbbell, dumbbell};
use longhaul_link::{NetworkError, Random};
use longhaul_sim::{Plan, Setup, SetupError, Sim};
use longhaul_units::{Rate, Span, Time};

use super::{FlowSample, Watched, World};
use crate::experiment::{CellSetup, FlowSetup, TrafficSetup};
use crate::probing::Probed;
use crate::watching::Watcher;
use crate::{measure, probing};

/// Random sequences from here on are the experiment's own; those of links are below.
const STREAMS: u64 = 1 << 63;
/// And those of cross traffic from here on: a sequence for each way.
const TRAFFIC_STREAMS: u64 = STREAMS + (1 << 32);

impl World {
    pub(super) fn new(setup: &CellSetup, seed: u64) -> Result<Self, SetupError> {
        let each = || setup.flows.iter().flat_map(|flow| (0..flow.count).map(move |nth| (flow, nth)));
        let left = each().map(|(flow, _)| &flow.left).chain(setup.traffic.iter().map(|traffic| &traffic.left));
        let right = each().map(|(flow, _)| &flow.right).chain(setup.traffic.iter().map(|traffic| &traffic.right));
        let Dumbbell { topology, left, right, bottleneck } =
            dumbbell(setup.bottleneck.clone(), left.cloned(), right.cloned());
        let mut hosts = Setup::new(seed, topology);
        let (is_watched, mut watchers) = (setup.calls().any(measure::is_watched), Vec::new());
        for ((flow, _), (left, right)) in each().zip(left.iter().zip(&right)) {
            hosts.hosts[*left as usize].config = Arc::clone(&flow.config);
            if is_watched {
                let watcher = Watcher::default();
                hosts.hosts[*left as usize].config = Arc::new(watcher.watch(&flow.config));
                watchers.push(watcher);
            }
            hosts.hosts[*right as usize].config = Arc::clone(&flow.config);
        }
        let mut sim = Sim::try_new(hosts)?;
        let pairs: Vec<[usize; 2]> =
            left.iter().zip(&right).map(|(left, right)| [*left as usize, *right as usize]).collect();
        let (of_flows, of_traffic) = pairs.split_at(pairs.len() - setup.traffic.len());
        for ((number, traffic), pair) in (0u64..).zip(&setup.traffic).zip(of_traffic) {
            add_traffic(&mut sim, traffic, *pair, seed, TRAFFIC_STREAMS + 2 * number);
        }
        let mut flows = Vec::new();
        let mut ranges: BTreeMap<String, Range<usize>> = BTreeMap::new();
        for (((flow, nth), pair), number) in each().zip(of_flows).zip(0u64..) {
            let later = spread(flow, Random::new(seed, STREAMS + number));
            flows.push(open(&mut sim, flow, *pair, flow.start + flow.apart * u64::from(nth) + later));
            let range = ranges.entry(flow.name.clone()).or_insert(flows.len() - 1..flows.len());
            range.end = flows.len();
        }
        Ok(Self { sim, bottleneck: bottleneck.0, flows, watchers, ranges })
    }
}

/// What the cell's tools find, beside the same cross traffic.
pub(super) fn probes(setup: &CellSetup, seed: u64) -> Result<BTreeMap<String, Probed>, SetupError> {
    let at_bottleneck = |error| NetworkError::Link { number: 0, from: 0, to: 1, error };
    Ok(probing::run(setup, seed, TRAFFIC_STREAMS).map_err(at_bottleneck)?)
}

/// How much later than it is told to a flow begins.
fn spread(flow: &FlowSetup, mut random: Random) -> Span {
    if flow.spread.is_zero() { Span::ZERO } else { random.span(flow.spread) }
}

fn open(sim: &mut Sim, flow: &FlowSetup, [host, to]: [usize; 2], at: Span) -> Watched {
    let opened = Time::ZERO + at;
    let mut sink = Plan::sink().zeros();
    sink.read_from = opened + flow.reads_after;
    let (sender, receiver) = sim.open_at(opened, host, to, Plan::bulk(flow.bytes).zeros(), sink);
    Watched { host, sender, receiver, opened, known: FlowSample::default() }
}

fn add_traffic(sim: &mut Sim, traffic: &TrafficSetup, [left, right]: [usize; 2], seed: u64, stream: u64) {
    if traffic.rate == Rate::ZERO {
        return;
    }
    for (way, (from, to)) in [(left, right), (right, left)].into_iter().enumerate() {
        if traffic.ways[way] {
            let source = traffic.source(Random::new(seed, stream + way as u64));
            sim.add_marked_traffic(from, to, source, Time::ZERO + traffic.stop, traffic.ecn, traffic.dscp);
        }
    }
}
