//! A run in real time: the relay, its flows, and the sampling of counters.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::thread;

use anyhow::{Context, Result};
use longhaul_link::Histogram;
use longhaul_sys::linux::run_first;
use longhaul_units::Span;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use super::flow::{Flow, Hosts, Plan, sleep_until};
use super::machine::{Meter, Usage, peak_memory};
use super::network::{Ended, Network};
use super::socket::{Listener, Socket};
use super::traffic::{self, CrossTraffic};
use super::{Effort, Run, series, untold};
use crate::experiment::CellSetup;
use crate::measure::{self, Watch};
use crate::record::Record;
use crate::stopwatch::Stopwatch;
use crate::world::{self, LinkSample, Outcome, Sample, build};

/// Runs a cell on a new thread that owns all sockets. Like the relay's thread, it has a real-time priority if
/// permitted.
pub(super) fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    let work = || {
        // Without permission, the thread competes with all others.
        let _ = run_first();
        run_here(setup, cell, seed)
    };
    thread::scope(|scope| scope.spawn(work).join()).ok().context("the thread of the sockets failed")?
}

fn run_here(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = LocalSet::new().block_on(&runtime, transfer(setup, cell, seed));
    // Data in flight has no receiver left.
    runtime.shutdown_background();
    run
}

async fn transfer(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    // Sockets: receivers listen first, because the emulated link needs their addresses.
    let (flows, ranges) = flows(setup, seed);
    let mut network = Network::new(setup, seed)?;
    let outside = network.outside();
    let listeners = flows.iter().map(|flow| flow.listen(outside)).collect::<std::io::Result<Vec<_>>>()?;
    let traffic = traffic::all(setup)?;
    let addresses = network.connect(receivers(&listeners, &traffic)?)?;
    let (to_flows, to_traffic) = addresses.split_at(flows.len());
    let sockets = flows.iter().map(|flow| flow.socket(&network)).collect::<std::io::Result<Vec<_>>>()?;
    // Measurement starts with the transfers and traffic.
    let meter = Meter::start();
    let clock = Stopwatch::start();
    let goes_on = !traffic.is_empty();
    let all = All { clock, goals: goals(setup, &ranges), flows, goes_on, over: Notify::new(), ended: Notify::new() };
    let all = Rc::new(all);
    let traffic = traffic::Running::start(traffic, to_traffic, clock, seed)?;
    for (number, (ends, to)) in listeners.into_iter().zip(sockets).zip(to_flows.to_vec()).enumerate() {
        all.begin(number, ends, to);
    }
    // The run lasts until its duration is over, or all flows have ended.
    let (samples, last) = all.samples(setup).await;
    // Resources are read before the network is torn down.
    let Usage { seconds, processor_seconds, ends_processor_seconds, waited_seconds } = meter.usage();
    let memory_bytes = peak_memory();
    let (traffic_lateness, unsent) = traffic.stop()?;
    let Ended { link, lateness, lost } = network.stop()?;
    // The link's final counters belong to the end of the run.
    let mut outcome = all.outcome(setup, ranges, samples);
    let end = Sample { links: vec![link], ..last };
    outcome.samples.insert(setup.duration, end);
    let effort = Effort {
        seconds,
        processor_seconds,
        ends_processor_seconds,
        read_bytes: all.flows.iter().map(|flow| flow.read.get()).sum(),
        memory_bytes,
        lateness_seconds: lateness.max(traffic_lateness),
        lost_datagrams: lost + unsent + all.flows.iter().map(Flow::lost).sum::<u64>(),
        waited_seconds,
        starved_seconds: all.flows.iter().map(|flow| flow.starved.get()).fold(0.0, f64::max),
        failures: all.failures(),
    };
    let flow_seconds = outcome.begun.len() as f64 * setup.duration.as_secs_f64();
    let record = Record {
        cell,
        seed,
        values: values(setup, &outcome),
        series: if setup.real_time { series::recorded(setup, seed, &outcome) } else { BTreeMap::new() },
        flow_seconds,
        took: seconds,
        ..Record::default()
    };
    Ok(Run { record: record.finite(), effort })
}

fn values(setup: &CellSetup, outcome: &Outcome) -> Vec<Option<f64>> {
    let told = setup.metrics.iter().map(|metric| untold(setup, metric).is_none().then_some(metric));
    told.map(|metric| metric?.value(&|call| measure::value(call, outcome))).collect()
}

/// Creates the flows, and returns them with the indices of each name.
fn flows(setup: &CellSetup, seed: u64) -> (Vec<Flow>, BTreeMap<String, Range<usize>>) {
    let (mut flows, mut ranges) = (Vec::<Flow>::new(), BTreeMap::<_, Range<usize>>::new());
    for flow in &setup.flows {
        let begin = flows.len();
        let of = |place: Option<usize>| ranges.get(&setup.flows.get(place?)?.name).cloned();
        let (after, with) = (of(flow.after), of(flow.hosts));
        for nth in 0..flow.count {
            let shared = with.as_ref().and_then(|with| flows.get(with.start + nth as usize));
            let hosts = shared.map_or_else(|| Hosts::new(&flow.config), |other| other.plan.hosts.clone());
            let start = build::start(flow, nth, flows.len(), seed);
            let (kernel, reads_after) = (flow.kernel.clone(), flow.reads_after);
            let (bytes, messages) = (flow.bytes, flow.messages);
            let plan = Plan { hosts, kernel, bytes, messages, start, reads_after, after: after.clone() };
            flows.push(Flow::new(plan));
        }
        ranges.insert(flow.name.clone(), begin..flows.len());
    }
    (flows, ranges)
}

/// Returns the addresses of the receivers of the flows, and then of cross traffic.
fn receivers(listeners: &[Listener], traffic: &[CrossTraffic]) -> std::io::Result<Vec<SocketAddr>> {
    let flows = listeners.iter().map(Listener::local_addr);
    flows.chain(traffic.iter().map(CrossTraffic::address)).collect()
}

/// A number of bytes that flows of a name must read in total.
struct Goal {
    flows: Range<usize>,
    bytes: u64,
    /// Seconds from the first start of these flows until it is reached.
    reached: RefCell<Option<f64>>,
}

fn goals(setup: &CellSetup, ranges: &BTreeMap<String, Range<usize>>) -> Vec<Goal> {
    let asked = world::asked(setup).filter(|asked| asked.measure.watch == Watch::Bytes);
    let goal = |asked: measure::Asked<'_>| {
        let flows = ranges.get(*asked.flows.first()?)?.clone();
        Some(Goal { flows, bytes: asked.bytes, reached: RefCell::default() })
    };
    asked.filter_map(goal).collect()
}

/// All flows during the run.
struct All {
    clock: Stopwatch,
    flows: Vec<Flow>,
    goals: Vec<Goal>,
    /// Whether cross traffic continues after all flows have ended.
    goes_on: bool,
    /// Notified when a flow ends, which may be the last one.
    over: Notify,
    /// Notified when a flow has been read to its end, for flows that wait for it.
    ended: Notify,
}

impl All {
    fn begin(self: &Rc<Self>, number: usize, (listener, socket): (Listener, Socket), to: SocketAddr) {
        let all = Rc::clone(self);
        spawn_local(async move {
            let flow = &all.flows[number];
            let hear = || all.look_for_goals(number);
            if let Err(error) = flow.receive(all.clock, listener, hear).await {
                flow.fail(&error);
            }
            all.ended.notify_waiters();
            all.over.notify_one();
        });
        let all = Rc::clone(self);
        spawn_local(async move {
            let flow = &all.flows[number];
            let from = all.turn(number).await;
            if let Err(error) = flow.send(all.clock, from, socket, to).await {
                flow.fail(&error);
            }
            all.over.notify_one();
        });
    }

    /// Waits until a flow may start, and returns that time in seconds: 0, or the end of the flows that it follows.
    async fn turn(&self, number: usize) -> f64 {
        let Some(after) = self.flows[number].plan.after.clone() else { return 0.0 };
        loop {
            let ended = self.ended.notified();
            if self.flows[after.clone()].iter().all(|flow| flow.has_ended.get()) {
                return self.clock.seconds();
            }
            ended.await;
        }
    }

    fn look_for_goals(&self, number: usize) {
        for goal in self.goals.iter().filter(|goal| goal.flows.contains(&number) && goal.reached.borrow().is_none()) {
            let flows = &self.flows[goal.flows.clone()];
            if flows.iter().map(|flow| flow.read.get()).sum::<u64>() >= goal.bytes {
                let opened = flows.iter().filter_map(|flow| flow.opened.get()).min_by(f64::total_cmp);
                goal.reached.replace(opened.map(|opened| self.clock.seconds() - opened));
            }
        }
    }

    fn is_over(&self) -> bool {
        !self.goes_on && self.flows.iter().all(Flow::is_over)
    }

    /// Takes samples at all sampling times. If all flows have ended and nothing can change, the rest are taken at
    /// once. Returns them with a final sample.
    async fn samples(&self, setup: &CellSetup) -> (BTreeMap<Span, Sample>, Sample) {
        let times: BTreeSet<Span> = world::times(setup).into_iter().chain(series::times(setup)).collect();
        let mut samples = BTreeMap::new();
        for time in &times {
            let at = time.as_secs_f64();
            while !self.is_over() && self.clock.seconds() < at {
                tokio::select! {
                    () = sleep_until(self.clock, at) => {}
                    () = self.over.notified() => {}
                }
            }
            samples.insert(*time, self.sample());
        }
        (samples, self.sample())
    }

    fn sample(&self) -> Sample {
        let (flows, states) = self.flows.iter().map(Flow::sample).unzip();
        Sample { flows, states, links: vec![LinkSample::default()] }
    }

    fn outcome(
        &self,
        setup: &CellSetup,
        flows: BTreeMap<String, Range<usize>>,
        samples: BTreeMap<Span, Sample>,
    ) -> Outcome {
        let none = || vec![None; self.flows.len()];
        let reached = |goal: &Goal| Some(((goal.flows.start, goal.bytes), (*goal.reached.borrow())?));
        let begun = |flow: &Flow| flow.opened.get().map(|opened| Span::from_nanos((opened * 1e9) as u64));
        Outcome {
            duration: setup.duration,
            links: vec![setup.bottleneck().there.clone()],
            flows,
            begun: self.flows.iter().map(begun).collect(),
            rtts: vec![Histogram::default(); self.flows.len()],
            messages: self.flows.iter().map(|flow| flow.message_delays.borrow().clone()).collect(),
            reached: self.goals.iter().filter_map(reached).collect(),
            data: BTreeMap::new(),
            windows_reached: BTreeMap::new(),
            first_drops: vec![HashMap::new()],
            windows_at_drop: none(),
            reductions: vec![None; self.flows.len()],
            phases: Vec::new(),
            logs: Vec::new(),
            epochs: BTreeMap::new(),
            probes: BTreeMap::new(),
            samples,
        }
    }

    fn failures(&self) -> Vec<String> {
        self.flows.iter().filter_map(|flow| flow.failure.borrow().clone()).collect()
    }
}
