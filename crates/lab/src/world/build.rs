//! Construction of hosts, links, and the schedule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_cc::SavedPath;
use longhaul_link::topology::{Duplex, Row, row};
use longhaul_link::{NetworkError, Random};
use longhaul_probe::sim::Probing;
use longhaul_sim::{Epoch, Plan, PopulationId, Setup, SetupError, Sim};
use longhaul_tcp::{Config, PathCache, PathMetrics};
use longhaul_units::{Rate, Span, Time};

use super::capture::Captures;
use super::follow::{Followed, Goal, Phases, Starts, WindowGoal};
use super::packets::{DataPackets, DropHook, Drops, Sequences};
use super::record::Recorder;
use super::{FlowSample, Watched, World, asked};
use crate::experiment::{CellSetup, FlowSetup, Foreign, TrafficSetup};
use crate::measure::{Asked, Watch};
use crate::probing;
use crate::series::What;
use crate::stack::{self, Transfer};
use crate::watching::Watcher;

/// Random streams from here upwards belong to the experiment; lower ones belong to links.
const STREAMS: u64 = 1 << 63;
/// Random streams of cross traffic: one per source and direction, from here upwards.
pub(crate) const TRAFFIC_STREAMS: u64 = STREAMS + (1 << 32);

impl World {
    pub(super) fn new(setup: &CellSetup, cell: usize, seed: u64) -> Result<Self, SetupError> {
        let Network { mut sim, pairs, links, watchers } = network(setup, seed)?;
        let (of_others, of_workloads) = pairs.split_at(pairs.len() - workload_pairs(setup).count());
        let (of_flows, of_traffic) = of_others.split_at(of_others.len() - setup.traffic.len());
        for ((number, traffic), pair) in (0u64..).zip(&setup.traffic).zip(of_traffic) {
            add_traffic(&mut sim, traffic, *pair, seed, TRAFFIC_STREAMS + 2 * number);
        }
        let populations = add_workloads(&mut sim, setup, of_workloads, seed);
        let mut world = Self {
            at_node: vec![Vec::new(); 2 * pairs.len() + links.len() + 1],
            sim,
            seed,
            links,
            flows: Vec::new(),
            ranges: BTreeMap::new(),
            populations,
            watchers,
            has_states: false,
            goals: Vec::new(),
            window_goals: Vec::new(),
            starts: Vec::new(),
            drops: Vec::new(),
            awaits_drop: false,
            windows_at_drop: Vec::new(),
            recorders: Vec::new(),
            captures: setup.captures.as_ref().map(|dir| Captures::new(dir, cell, seed)),
        };
        world.add_flows(setup, of_flows);
        world.add_recorders(setup, seed);
        world.watch(setup);
        world.plan_all(setup, seed);
        Ok(world)
    }

    fn add_flows(&mut self, setup: &CellSetup, pairs: &[[usize; 2]]) {
        let first = first_pairs(setup);
        for (flow, first) in setup.flows.iter().zip(first) {
            let begin = self.flows.len();
            for pair in &pairs[first..first + flow.count as usize] {
                for node in pair {
                    self.at_node[*node].push(self.flows.len());
                }
                let known = FlowSample::default();
                let foreign = flow.foreign.clone();
                let flow =
                    Watched { pair: *pair, foreign, sessions: None, opened: None, known, state: None, followed: None };
                self.flows.push(flow);
            }
            self.ranges.insert(flow.name.clone(), begin..self.flows.len());
        }
    }

    fn range(&self, name: &str) -> Range<usize> {
        self.ranges.get(name).cloned().unwrap_or(0..0)
    }

    fn watch(&mut self, setup: &CellSetup) {
        for Asked { measure, flows, bytes, times, .. } in asked(setup) {
            let range = flows.first().map_or(0..0, |name| self.range(name));
            match measure.watch {
                Watch::Nothing | Watch::Acks | Watch::Probe => {}
                Watch::State => self.has_states = true,
                Watch::Rtt => self.follow(range),
                Watch::Bytes => self.goals.push(Goal { flows: range, bytes, reached: None, data: [0; 2] }),
                Watch::Data => {
                    self.goals.push(Goal { flows: range, bytes, reached: None, data: [0; 2] });
                    self.watch_drops();
                    self.drops[0].borrow_mut().data.get_or_insert_with(DataPackets::default);
                }
                Watch::Window => {
                    let since = times.first().copied().unwrap_or_default();
                    self.window_goals.push(WindowGoal { flows: range.clone(), bytes, since, reached: None });
                    self.follow(range);
                }
                Watch::Drops => self.watch_drops(),
                Watch::FirstDrop => {
                    self.watch_drops();
                    self.awaits_drop = true;
                }
                Watch::Phases => self.follow_phases(range),
                Watch::Reduction => {
                    self.watch_drops();
                    self.follow(range);
                }
            }
        }
    }

    fn follow(&mut self, range: Range<usize>) {
        for flow in &mut self.flows[range] {
            flow.followed.get_or_insert_with(Followed::default);
        }
    }

    fn follow_phases(&mut self, range: Range<usize>) {
        self.follow(range.clone());
        for followed in self.flows[range].iter_mut().filter_map(|flow| flow.followed.as_mut()) {
            followed.phases.get_or_insert_with(Phases::default);
        }
    }

    fn watch_drops(&mut self) {
        for link in &self.links[self.drops.len()..] {
            let drops = Rc::new(RefCell::new(Drops::default()));
            self.sim.set_hook(*link, DropHook(Rc::clone(&drops)));
            self.drops.push(drops);
        }
    }

    fn add_recorders(&mut self, setup: &CellSetup, seed: u64) {
        for series in setup.series.iter().filter(|series| series.has(seed)) {
            let range = self.range(&series.flows);
            if series.what.is_of_sender_events() {
                self.follow(range.clone());
            }
            if series.what == What::Drops {
                self.watch_drops();
                self.drops.iter().for_each(|drops| drops.borrow_mut().all = Some(Vec::new()));
            }
            self.recorders.push(Recorder::new(series.clone(), range));
        }
    }

    fn plan_all(&mut self, setup: &CellSetup, seed: u64) {
        let each = setup.flows.iter().flat_map(|flow| (0..flow.count).map(move |nth| (flow, nth)));
        for (number, (flow, nth)) in each.enumerate() {
            let later = start(flow, nth, number, seed);
            let (bytes, reads_after) = (flow.bytes, flow.reads_after);
            match flow.after.and_then(|before| setup.flows.get(before)) {
                Some(before) => {
                    let after = self.range(&before.name);
                    self.starts.push(Starts { after, flow: number, later, bytes, reads_after });
                }
                None => self.plan(number, Time::ZERO + later, bytes, reads_after),
            }
        }
    }

    /// Schedules the start of a flow at a time that is not in the past.
    pub(super) fn plan(&mut self, number: usize, at: Time, bytes: u64, reads_after: Span) {
        let Some(flow) = self.flows.get_mut(number) else { return };
        let [from, to] = flow.pair;
        if let Some(captures) = &mut self.captures {
            captures.packets(&mut self.sim, number, from, flow.foreign.is_some());
        }
        if let Some(Foreign::Stack(stack, congestion)) = &flow.foreign {
            flow.opened = Some(at);
            let addresses = [from, to].map(|node| self.sim.host(node).address);
            let mut transfer = Transfer::new(congestion, addresses, at);
            (transfer.bytes, transfer.seed) = (bytes, self.seed.wrapping_add((number as u64) << 32));
            let qlog = self.captures.as_ref().map(|captures| captures.path(number, "sqlog"));
            transfer.qlog = qlog.as_deref();
            let agents = stack::find(stack).map(|stack| stack.connect(&transfer));
            agents.into_iter().for_each(|agents| self.sim.place_agents([from, to], agents));
            return;
        }
        let mut sink = Plan::sink().zeros();
        sink.read_from = at + reads_after;
        let (sender, receiver) = self.sim.open_at(at, from, to, Plan::bulk(bytes).zeros(), sink);
        if let Some(captures) = &mut self.captures {
            captures.events(&mut self.sim, number, sender);
        }
        (flow.sessions, flow.opened) = (Some((sender, receiver)), Some(at));
        let of_packets =
            |recorder: &&mut Recorder| recorder.setup.what.is_of_packets() && recorder.flows.start == number;
        let mut recorders = self.recorders.iter_mut().filter(of_packets).peekable();
        if recorders.peek().is_some() {
            let seen = Rc::new(RefCell::new(Sequences::new(from, at)));
            self.sim.add_tap(Rc::clone(&seen));
            recorders.for_each(|recorder| recorder.packets = Some(Rc::clone(&seen)));
        }
    }
}

struct Network {
    sim: Sim,
    /// The nodes of each host pair: of flows, then of cross traffic, then of workloads.
    pairs: Vec<[usize; 2]>,
    links: Vec<u32>,
    watchers: Vec<Watcher>,
}

fn network(setup: &CellSetup, seed: u64) -> Result<Network, SetupError> {
    let with_hosts = setup.flows.iter().filter(|flow| flow.hosts.is_none());
    let each = || with_hosts.clone().flat_map(|flow| (0..flow.count).map(move |_| flow));
    let of_flows = each().map(|flow| (&flow.hops, &flow.left, &flow.right));
    let of_traffic = setup.traffic.iter().map(|traffic| (&traffic.hops, &traffic.left, &traffic.right));
    let of_workloads = workload_pairs(setup).map(|(hops, (left, right))| (hops, left, right));
    let all = of_flows.chain(of_traffic).chain(of_workloads);
    let left = all.clone().map(|(hops, left, _)| (hops.start, left.clone()));
    let right = all.map(|(hops, _, right)| (hops.end, right.clone()));
    let Row { topology, left, right, links } = row(setup.links.clone(), left, right);
    let mut hosts = Setup::new(seed, topology);
    for (flow, node) in each().zip(&left).chain(each().zip(&right)) {
        let host = &mut hosts.hosts[*node as usize];
        (host.config, host.timer_tick) = (Arc::clone(&flow.config), flow.tick);
    }
    for (flow, node) in each().zip(&right).filter(|(flow, _)| !flow.receive_hold.is_zero()) {
        hosts.hosts[*node as usize].receive_hold = Some(flow.receive_hold);
    }
    configure_workloads(setup, &mut hosts, &left);
    configure_workloads(setup, &mut hosts, &right);
    let is_watched = asked(setup).any(|asked| asked.measure.watch == Watch::Acks);
    let of_pair: Vec<Watcher> = if is_watched { each().map(|_| Watcher::default()).collect() } else { Vec::new() };
    for ((watcher, flow), node) in of_pair.iter().zip(each()).zip(&left) {
        hosts.hosts[*node as usize].config = Arc::new(watcher.watch(&flow.config, flow.arrival_times));
    }
    for ((_, node), remote) in each().zip(&left).zip(&right).filter(|((flow, _), _)| flow.knows_path) {
        let remote = hosts.hosts[*remote as usize].address.ip();
        let host = &mut hosts.hosts[*node as usize];
        host.config = Arc::new(with_known_path(&host.config, setup.bottleneck(), remote));
    }
    let firsts = setup.flows.iter().zip(first_pairs(setup));
    let places = firsts.flat_map(|(flow, first)| first..first + flow.count as usize);
    Ok(Network {
        sim: Sim::try_new(hosts)?,
        pairs: left.iter().zip(&right).map(|(left, right)| [*left as usize, *right as usize]).collect(),
        links: links.iter().map(|(there, _)| *there).collect(),
        watchers: places.filter_map(|place| of_pair.get(place).cloned()).collect(),
    })
}

/// Returns settings with the metrics that a connection to `remote` would leave after it has filled the path.
fn with_known_path(config: &Config, path: &Duplex, remote: IpAddr) -> Config {
    let (rate, rtt) = (path.there.rate_at(Time::ZERO).unwrap_or(Rate::ZERO), path.there.delay + path.back.delay);
    let mut known = PathMetrics::default();
    known.saved = Some(SavedPath::new(rate.bytes_in(rtt), rate, rtt));
    let cache = PathCache::default();
    cache.seed(Time::ZERO, remote, &config.congestion.name(), &known);
    let mut config = config.clone();
    config.path_cache = Some(cache);
    config
}

/// Runs the probes of the cell, with the same cross traffic, and returns their results.
pub(super) fn probes(setup: &CellSetup, seed: u64) -> Result<BTreeMap<String, Probing>, SetupError> {
    let at_bottleneck = |error| NetworkError::Link { number: 0, from: 0, to: 1, error };
    Ok(probing::run(setup, seed, TRAFFIC_STREAMS).map_err(at_bottleneck)?)
}

/// Returns the index of the first host pair of the flows of each name.
fn first_pairs(setup: &CellSetup) -> Vec<usize> {
    let (mut first, mut next) = (Vec::new(), 0);
    for flow in &setup.flows {
        match flow.hosts.and_then(|other| first.get(other).copied()) {
            Some(shared) => first.push(shared),
            None => {
                first.push(next);
                next += flow.count as usize;
            }
        }
    }
    first
}

/// Returns the start time of a flow, relative to the run or to the end of the flows that it follows. `nth` is its
/// index in its group, `number` its index among all flows.
pub(crate) fn start(flow: &FlowSetup, nth: u32, number: usize, seed: u64) -> Span {
    flow.start + flow.apart * u64::from(nth) + spread(flow, Random::new(seed, STREAMS + number as u64))
}

fn spread(flow: &FlowSetup, mut random: Random) -> Span {
    if flow.spread.is_zero() { Span::ZERO } else { random.span(flow.spread) }
}

fn add_traffic(sim: &mut Sim, traffic: &TrafficSetup, [left, right]: [usize; 2], seed: u64, stream: u64) {
    if traffic.rate == Rate::ZERO {
        return;
    }
    for (way, (from, to)) in [(left, right), (right, left)].into_iter().enumerate() {
        if traffic.ways[way] {
            let source = traffic.source(seed, stream + way as u64);
            sim.add_marked_traffic(from, to, source, Time::ZERO + traffic.stop, traffic.ecn, traffic.dscp);
        }
    }
}

/// Random streams of workloads: one for arrival times and one for hosts each.
const WORKLOAD_STREAMS: u64 = (1 << 63) + (1 << 33);

/// Returns the host pairs of all workloads: the shared links that they use, and their access links.
fn workload_pairs(setup: &CellSetup) -> impl Iterator<Item = (&Range<usize>, &(Duplex, Duplex))> + Clone {
    setup.workloads.iter().flat_map(|workload| workload.pairs.iter().map(|pair| (&workload.hops, pair)))
}

/// Configures the hosts of workloads, which are the last of these nodes.
fn configure_workloads(setup: &CellSetup, hosts: &mut Setup, nodes: &[u32]) {
    let configs = setup.workloads.iter().flat_map(|workload| workload.pairs.iter().map(|_| &workload.config));
    let of_workloads = nodes.iter().skip(nodes.len() - workload_pairs(setup).count());
    for (config, node) in configs.zip(of_workloads) {
        hosts.hosts[*node as usize].config = Arc::clone(config);
    }
}

/// Schedules the connections of the workloads between the last of these host pairs.
fn add_workloads(sim: &mut Sim, setup: &CellSetup, pairs: &[[usize; 2]], seed: u64) -> BTreeMap<String, PopulationId> {
    let mut rest = pairs;
    let streams = (WORKLOAD_STREAMS..).step_by(2);
    let mut populations = BTreeMap::new();
    for (workload, stream) in setup.workloads.iter().zip(streams) {
        let (own, others) = rest.split_at(workload.pairs.len());
        rest = others;
        if workload.rate == Rate::ZERO {
            continue;
        }
        let random = [stream, stream + 1].map(|stream| Random::new(seed, stream));
        let population = sim.add_population(workload.visits(own.to_vec(), random), Time::ZERO + workload.stop);
        populations.insert(workload.name.clone(), population);
    }
    populations
}

pub(super) fn epochs(sim: &Sim, populations: &BTreeMap<String, PopulationId>) -> BTreeMap<String, Vec<Epoch>> {
    populations.iter().map(|(name, population)| (name.clone(), sim.epochs(*population))).collect()
}
