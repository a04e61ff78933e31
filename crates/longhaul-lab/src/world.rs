//! One run of a cell in virtual time.

mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use longhaul_sim::{SessionId, SetupError, Sim};
use longhaul_units::{Span, Time};

use crate::experiment::CellSetup;
use crate::measure;
use crate::probing::Probed;
use crate::record::Record;
use crate::watching::{Log, Watcher};

/// What a run left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long it was.
    pub duration: Span,
    /// Which flows bear a name.
    pub flows: BTreeMap<String, Range<usize>>,
    /// What was counted by some times; at least by those that the metrics name.
    samples: BTreeMap<Span, Sample>,
    /// What senders saw, by flow; empty if no metric asks for it.
    pub logs: Vec<Log>,
    /// When flows began.
    pub opened: Vec<Time>,
    /// What tools found of the path.
    pub probes: BTreeMap<String, Probed>,
}

/// What was counted by a time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// By flow.
    pub flows: Vec<FlowSample>,
    /// Packets that came to the shared link, on the way of the data.
    pub offered: f64,
    /// Those of them that it dropped.
    pub dropped: f64,
    /// Bytes of IP packets that it carried.
    pub carried: f64,
}

/// What was counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSample {
    /// Bytes that the receiver's application read.
    pub read: f64,
    /// Bytes of new data sent.
    pub sent: f64,
    /// Segments of data sent, the first time and again.
    pub segments: f64,
    /// Segments sent again.
    pub resent: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
    /// Seconds from connect to the last byte, once it is there.
    pub completion: Option<f64>,
}

impl Outcome {
    /// What was counted by a time: at the latest sample until then.
    pub(crate) fn at(&self, time: Span) -> &Sample {
        static NOTHING: Sample = Sample { flows: Vec::new(), offered: 0.0, dropped: 0.0, carried: 0.0 };
        self.samples.range(..=time).next_back().map_or(&NOTHING, |(_, sample)| sample)
    }
}

/// Runs the cell of that place.
///
/// # Errors
/// If there can be no such network.
pub fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record, SetupError> {
    let mut world = World::new(setup, seed)?;
    let mut samples = BTreeMap::new();
    for time in times(setup) {
        let left = (Time::ZERO + time) - world.sim.now();
        world.sim.run_for(left);
        samples.insert(time, world.sample());
    }
    let outcome = Outcome {
        duration: setup.duration,
        flows: world.ranges.clone(),
        samples,
        logs: world.watchers.iter().map(Watcher::log).collect(),
        opened: world.flows.iter().map(|flow| flow.opened).collect(),
        probes: build::probes(setup, seed)?,
    };
    let values = setup.metrics.iter().map(|metric| metric.value(&|call| measure::value(call, &outcome))).collect();
    let flow_seconds = world.flows.len() as f64 * setup.duration.as_secs_f64();
    Ok(Record { cell, seed, values, series: BTreeMap::new(), flow_seconds, took: 0.0 })
}

/// When to count: each second, and when a metric asks for it. Never, if all metrics are of probes, which have worlds of their own.
fn times(setup: &CellSetup) -> BTreeSet<Span> {
    if setup.calls().all(measure::is_of_probe) {
        return BTreeSet::new();
    }
    let seconds = setup.duration.as_nanos() / 1_000_000_000;
    let named = setup.calls().flat_map(measure::times);
    (0..=seconds).map(Span::from_secs).chain(named).chain([setup.duration]).collect()
}

struct World {
    sim: Sim,
    bottleneck: u32,
    flows: Vec<Watched>,
    /// By flow, if a metric asks for what senders see.
    watchers: Vec<Watcher>,
    ranges: BTreeMap<String, Range<usize>>,
}

/// A flow, and what was last known of its sender while that was there.
struct Watched {
    host: usize,
    sender: SessionId,
    receiver: SessionId,
    opened: Time,
    known: FlowSample,
}

impl World {
    fn sample(&mut self) -> Sample {
        let Self { sim, bottleneck, flows, .. } = self;
        let stats = sim.link(*bottleneck).stats().all();
        Sample {
            flows: flows.iter_mut().map(|flow| flow.sample(sim)).collect(),
            offered: stats.offered as f64,
            dropped: stats.dropped_total() as f64,
            carried: stats.sent_bytes as f64,
        }
    }
}

impl Watched {
    fn sample(&mut self, sim: &Sim) -> FlowSample {
        if let Some(receiver) = sim.find(self.receiver) {
            self.known.read = receiver.read as f64;
            let ended = receiver.read_at.filter(|_| receiver.ended);
            self.known.completion = ended.map(|at| (at - self.opened).as_secs_f64());
        }
        let host = sim.host(self.host);
        if let Some(connection) = sim.find(self.sender).and_then(|sender| host.endpoint.connection(sender.id)) {
            let info = connection.info(sim.now());
            self.known.sent = info.bytes_sent as f64;
            self.known.segments = info.data_segments_out as f64;
            self.known.resent = info.segments_retransmitted as f64;
            self.known.timeouts = info.timeouts as f64;
        }
        self.known
    }
}
