//! One run of a cell in virtual time.

pub(crate) mod build;
mod capture;
mod follow;
mod outcome;
mod packets;
mod record;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use anyhow::{Context, Result};
use longhaul_sim::{PopulationId, Progress, SessionId, Sim};
use longhaul_tcp::{Connection, Info};
use longhaul_units::{Span, Time};

use crate::experiment::{CellSetup, Foreign};
use crate::measure::{self, Asked, Watch};
use crate::record::Record;
use crate::watching::Watcher;
use capture::Captures;
pub(crate) use follow::Stay;
use follow::{Followed, Goal, Starts, WindowGoal};
pub(crate) use outcome::{FlowSample, FlowState, LinkSample, Outcome, Sample};
use packets::Drops;
use record::Recorder;

pub(crate) fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record> {
    let mut world = World::new(setup, cell, seed)?;
    let counted = times(setup);
    let sampled = record::times(&world.recorders, setup.duration);
    let mut samples = BTreeMap::new();
    for time in counted.union(&sampled) {
        world.advance(Time::ZERO + *time);
        world.sim.lacks_port().map_or(Ok(()), Err)?;
        if counted.contains(time) {
            samples.insert(*time, world.sample());
        }
        world.record(*time);
    }
    if let Some(captures) = world.captures.take() {
        captures.finish().with_context(|| format!("captures of cell {cell}, seed {seed}"))?;
    }
    let (outcome, series) = world.end(setup, samples, build::probes(setup, seed)?);
    let values = setup.metrics.iter().map(|metric| metric.value(&|call| measure::value(call, &outcome))).collect();
    let flow_seconds = outcome.begun.len() as f64 * setup.duration.as_secs_f64();
    Ok(Record { cell, seed, values, series, flow_seconds, ..Record::default() })
}

pub(crate) fn asked(setup: &CellSetup) -> impl Iterator<Item = Asked<'_>> {
    setup.calls().filter_map(|call| Asked::read(call).ok())
}

/// Returns the sampling times of the counters: every second, and the times in metrics. If all metrics are about
/// probes and no series are recorded, they are sampled only at the start.
pub(crate) fn times(setup: &CellSetup) -> BTreeSet<Span> {
    if setup.series.is_empty() && asked(setup).all(|asked| asked.measure.watch == Watch::Probe) {
        return BTreeSet::from([Span::ZERO]);
    }
    let seconds = setup.duration.as_nanos() / 1_000_000_000;
    let named = setup.calls().flat_map(measure::times);
    (0..=seconds).map(Span::from_secs).chain(named).chain([setup.duration]).collect()
}

struct World {
    sim: Sim,
    seed: u64,
    /// Ids of the shared links, in the direction of the data.
    links: Vec<u32>,
    flows: Vec<Watched>,
    ranges: BTreeMap<String, Range<usize>>,
    populations: BTreeMap<String, PopulationId>,
    /// One per flow, if a metric needs observations at each ACK.
    watchers: Vec<Watcher>,
    has_states: bool,
    at_node: Vec<Vec<usize>>,
    goals: Vec<Goal>,
    window_goals: Vec<WindowGoal>,
    starts: Vec<Starts>,
    drops: Vec<Rc<RefCell<Drops>>>,
    /// Whether the first drop, at which windows are recorded, is still to come.
    awaits_drop: bool,
    windows_at_drop: Vec<Option<f64>>,
    recorders: Vec<Recorder>,
    captures: Option<Captures>,
}

/// A flow, with the last known state of its sender.
struct Watched {
    pair: [usize; 2],
    /// Transport other than longhaul. Such flows have no sessions.
    foreign: Option<Foreign>,
    /// The sessions of sender and receiver, once they are planned.
    sessions: Option<(SessionId, SessionId)>,
    opened: Option<Time>,
    known: FlowSample,
    state: Option<FlowState>,
    /// Observations after each event at the sender's host, if needed.
    followed: Option<Followed>,
}

impl World {
    fn advance(&mut self, to: Time) {
        while self.has_to_look() {
            let Some(step) = self.sim.step_until(to) else { break };
            self.look(step);
        }
        let left = to - self.sim.now();
        self.sim.run_for(left);
        for link in &self.links {
            self.sim.catch_up(*link);
        }
    }

    fn sample(&mut self) -> Sample {
        let Self { sim, flows, links, .. } = self;
        let mut samples = Vec::with_capacity(flows.len());
        let mut states = Vec::new();
        for flow in flows {
            samples.push(flow.sample(sim));
            if self.has_states {
                flow.state = flow.look(sim).or_else(|| flow.state.take());
                states.push(flow.state.clone());
            }
        }
        let links = links.iter().map(|link| LinkSample::new(sim.link(*link).stats(), sim.now())).collect();
        Sample { flows: samples, states, links }
    }
}

impl Watched {
    /// Returns the sender's connection and its state, or `None` before it is opened and after it has ended.
    fn connection<'a>(&self, sim: &'a Sim) -> Option<(&'a Connection, Info)> {
        let (sender, _) = self.sessions?;
        let host = sim.host(self.pair[0]);
        let connection = host.endpoint.connection(sim.find(sender)?.id)?;
        Some((connection, connection.info(sim.now())))
    }

    fn look(&self, sim: &Sim) -> Option<FlowState> {
        self.connection(sim).map(|(connection, info)| FlowState::new(connection, &info))
    }

    /// Returns the counters of an end of a transport other than longhaul: 0 is the sender, 1 the receiver.
    fn progress(&self, sim: &Sim, end: usize) -> Option<Progress> {
        self.foreign.as_ref()?;
        Some(sim.host(self.pair[end]).agent()?.progress())
    }

    /// Returns the bytes that the receiving application has read, and whether it has read the end of the stream.
    fn read(&self, sim: &Sim) -> (u64, bool) {
        if let Some(progress) = self.progress(sim, 1) {
            return (progress.read, progress.ended_at.is_some());
        }
        let receiver = self.sessions.and_then(|(_, receiver)| sim.find(receiver));
        receiver.map_or((0, false), |receiver| (receiver.read, receiver.ended))
    }

    fn sample(&mut self, sim: &Sim) -> FlowSample {
        if let (Some(sender), Some(receiver)) = (self.progress(sim, 0), self.progress(sim, 1)) {
            let completion = self.opened.zip(receiver.ended_at).map(|(opened, at)| (at - opened).as_secs_f64());
            (self.known.read, self.known.completion) = (receiver.read as f64, completion);
            (self.known.segments, self.known.resent) = (sender.packets as f64, sender.lost as f64);
            return self.known;
        }
        if let (Some((_, receiver)), Some(opened)) = (self.sessions, self.opened)
            && let Some(receiver) = sim.find(receiver)
        {
            self.known.read = receiver.read as f64;
            let ended = receiver.read_at.filter(|_| receiver.ended);
            self.known.completion = ended.map(|at| (at - opened).as_secs_f64());
        }
        if let Some((_, info)) = self.connection(sim) {
            self.known.count(&info);
        } else if let Some(last) = self.sessions.and_then(|(sender, _)| sim.find(sender)?.last.as_ref()) {
            self.known.count(last);
        }
        self.known
    }
}
