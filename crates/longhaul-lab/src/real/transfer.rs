//! A run: the relay, its flows, and what is counted while they go on.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use longhaul_link::Histogram;
use longhaul_link::spec::{Direction, Path};
use longhaul_linkem::log::Logs;
use longhaul_linkem::relay::{Counts, Options, Running};
use longhaul_sys::linux::run_first;
use longhaul_units::Span;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use super::flow::{Flow, sleep_until};
use super::machine::{Meter, peak_memory};
use super::{Effort, Run, untold};
use crate::experiment::CellSetup;
use crate::measure::{self, Watch};
use crate::record::Record;
use crate::stopwatch::Stopwatch;
use crate::world::{self, Outcome, Sample, build};

/// Runs a cell that fits. All sockets are on a thread of their own, which goes before all others if it may, as the relay's does.
pub(super) fn run(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    let work = || {
        // Whoever may not shares the processors with everybody else.
        let _ = run_first();
        run_here(setup, cell, seed)
    };
    thread::scope(|scope| scope.spawn(work).join()).ok().context("the thread of the sockets failed")?
}

fn run_here(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = LocalSet::new().block_on(&runtime, transfer(setup, cell, seed));
    // What is still under way has nobody to arrive at.
    runtime.shutdown_background();
    run
}

async fn transfer(setup: &CellSetup, cell: usize, seed: u64) -> Result<Run> {
    let (flows, ranges) = flows(setup, seed);
    let listeners = flows.iter().map(Flow::listen).collect::<std::io::Result<Vec<_>>>()?;
    let relay = relay(setup, seed, &listeners)?;
    let meter = Meter::start();
    let all = Rc::new(All { clock: Stopwatch::start(), goals: goals(setup, &ranges), flows, over: Notify::new() });
    for (number, (listener, to)) in listeners.into_iter().zip(relay.local_addrs().to_vec()).enumerate() {
        all.begin(number, listener, to);
    }
    let (samples, last) = all.samples(setup).await;
    let [seconds, processor] = meter.seconds();
    let memory = peak_memory();
    let (engine, counts) = relay.stop()?;
    let mut outcome = all.outcome(setup, ranges, samples);
    let link = engine.stats(Direction::Up).clone();
    let sum = link.all();
    let end = Sample {
        offered: sum.offered as f64,
        dropped: sum.dropped_total() as f64,
        carried: sum.sent_bytes as f64,
        waited: link.byte_seconds(engine.now()),
        link,
        ..last
    };
    outcome.samples.insert(setup.duration, end);
    let lateness = engine.lateness().quantile(0.99).as_secs_f64();
    let starved = all.flows.iter().map(|flow| flow.starved.get()).fold(0.0, f64::max);
    let (lost, failures) = (all.lost(counts), all.failures());
    let effort = Effort { seconds, processor, memory, lateness, lost, starved, failures };
    let flow_seconds = outcome.begun.len() as f64 * setup.duration.as_secs_f64();
    let record =
        Record { cell, seed, values: values(setup, &outcome), flow_seconds, took: seconds, ..Record::default() };
    Ok(Run { record: record.finite(), effort })
}

fn values(setup: &CellSetup, outcome: &Outcome) -> Vec<Option<f64>> {
    let told = setup.metrics.iter().map(|metric| untold(setup, metric).is_none().then_some(metric));
    told.map(|metric| metric?.value(&|call| measure::value(call, outcome))).collect()
}

/// The flows, and which bear a name.
fn flows(setup: &CellSetup, seed: u64) -> (Vec<Flow>, BTreeMap<String, Range<usize>>) {
    let (mut flows, mut ranges) = (Vec::new(), BTreeMap::new());
    for flow in &setup.flows {
        let begin = flows.len();
        for nth in 0..flow.count {
            let start = build::start(flow, nth, flows.len(), seed);
            flows.push(Flow::new(Arc::clone(&flow.config), flow.bytes, start, flow.reads_after));
        }
        ranges.insert(flow.name.clone(), begin..flows.len());
    }
    (flows, ranges)
}

/// The shared link, with a pair for each flow: behind a relay nobody could tell them apart by their addresses.
fn relay(setup: &CellSetup, seed: u64, listeners: &[longhaul::TcpListener]) -> Result<Running> {
    let mut options: Option<Options> = None;
    for listener in listeners {
        let (listen, to) = (([127, 0, 0, 1], 0).into(), listener.local_addr()?);
        options = Some(options.map_or_else(|| Options::new(listen, to), |options| options.and(listen, to)));
    }
    let options = options.context("no flows")?;
    Running::start(&options, &Path { link: setup.bottleneck.clone(), seed }, Logs::default())
}

/// An amount of data that flows of a name are to have read.
struct Goal {
    flows: Range<usize>,
    bytes: u64,
    /// Seconds from the first beginning until then.
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

/// All flows while they go on.
struct All {
    clock: Stopwatch,
    flows: Vec<Flow>,
    goals: Vec<Goal>,
    /// Told when a flow may have been the last to end.
    over: Notify,
}

impl All {
    fn begin(self: &Rc<Self>, number: usize, listener: longhaul::TcpListener, to: std::net::SocketAddr) {
        let all = Rc::clone(self);
        spawn_local(async move {
            let flow = &all.flows[number];
            let hear = || all.look_for_goals(number);
            if let Err(error) = flow.receive(all.clock, listener, hear).await {
                flow.fail(&error);
            }
            all.over.notify_one();
        });
        let all = Rc::clone(self);
        spawn_local(async move {
            let flow = &all.flows[number];
            if let Err(error) = flow.send(all.clock, to).await {
                flow.fail(&error);
            }
            all.over.notify_one();
        });
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
        self.flows.iter().all(Flow::is_over)
    }

    /// Samples at the times that there are, until all flows have ended; from then on nothing changes. The last one, too.
    async fn samples(&self, setup: &CellSetup) -> (BTreeMap<Span, Sample>, Sample) {
        let times = world::times(setup);
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
        Sample { flows, states, ..Sample::default() }
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
            bottleneck: setup.bottleneck.there.clone(),
            flows,
            begun: self.flows.iter().map(begun).collect(),
            rtts: vec![Histogram::default(); self.flows.len()],
            reached: self.goals.iter().filter_map(reached).collect(),
            first_drops: HashMap::new(),
            windows_at_drop: none(),
            reductions: vec![None; self.flows.len()],
            phases: Vec::new(),
            logs: Vec::new(),
            epochs: BTreeMap::new(),
            probes: BTreeMap::new(),
            samples,
        }
    }

    /// Datagrams that were lost beside the link.
    fn lost(&self, counts: Counts) -> u64 {
        let Counts { refused, missed, unsent, .. } = counts;
        refused + missed + unsent + self.flows.iter().map(Flow::lost).sum::<u64>()
    }

    fn failures(&self) -> Vec<String> {
        self.flows.iter().filter_map(|flow| flow.failure.borrow().clone()).collect()
    }
}
