//! A run in real time: the relay, its flows, and the sampling of counters.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::{fs, thread};

use anyhow::{Context, Result};
use longhaul_link::Histogram;
use longhaul_sys::linux::run_first;
use longhaul_units::Span;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use super::flow::{Flow, Hosts, Listener, Plan, Socket, sleep_until};
use super::network::{Ended, Network};
use super::traffic::{self, CrossTraffic};
use super::{Effort, Run, untold};
use crate::experiment::CellSetup;
use crate::measure::{self, Watch};
use crate::record::Record;
use crate::series::{SeriesSetup, What};
use crate::stopwatch::{ProcessorTime, Stopwatch, processor_seconds};
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
    // Data in flight no longer has a receiver.
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
    let effort = meter.effort();
    let (traffic_lateness, unsent) = traffic.stop()?;
    let Ended { link, lateness, lost } = network.stop()?;
    // The link's final counters belong to the end of the run.
    let mut outcome = all.outcome(setup, ranges, samples);
    let end = Sample { links: vec![link], ..last };
    outcome.samples.insert(setup.duration, end);
    let effort = Effort {
        read_bytes: all.flows.iter().map(|flow| flow.read.get()).sum(),
        lateness_seconds: lateness.max(traffic_lateness),
        lost_datagrams: lost + unsent + all.flows.iter().map(Flow::lost).sum::<u64>(),
        starved_seconds: all.flows.iter().map(|flow| flow.starved.get()).fold(0.0, f64::max),
        failures: all.failures(),
        ..effort
    };
    let flow_seconds = outcome.begun.len() as f64 * setup.duration.as_secs_f64();
    let record = Record {
        cell,
        seed,
        values: values(setup, &outcome),
        series: if setup.real_time { recorded(setup, seed, &outcome) } else { BTreeMap::new() },
        flow_seconds,
        took: effort.seconds,
        ..Record::default()
    };
    Ok(Run { record: record.finite(), effort })
}

fn values(setup: &CellSetup, outcome: &Outcome) -> Vec<Option<f64>> {
    let told = setup.metrics.iter().map(|metric| untold(setup, metric).is_none().then_some(metric));
    told.map(|metric| metric?.value(&|call| measure::value(call, outcome))).collect()
}

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
            let (foreign, reads_after) = (flow.foreign.clone(), flow.reads_after);
            let (bytes, messages) = (flow.bytes, flow.messages);
            let plan = Plan { hosts, foreign, bytes, messages, start, reads_after, after: after.clone() };
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

struct Goal {
    flows: Range<usize>,
    bytes: u64,
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

struct All {
    clock: Stopwatch,
    flows: Vec<Flow>,
    goals: Vec<Goal>,
    /// Whether cross traffic continues after all flows have ended.
    goes_on: bool,
    /// Notified when a flow ends, so that the end of the last flow is noticed.
    over: Notify,
    /// Notified when a flow has been read to its end, for flows that wait for it.
    ended: Notify,
}

impl All {
    fn begin(self: &Rc<Self>, number: usize, (listener, socket): (Listener, Option<Socket>), to: SocketAddr) {
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

    /// Waits until a flow may start, and returns the time in seconds: 0, or the end of the preceding flows.
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
        let of_series = setup.series.iter().flat_map(|series| series.times(setup.duration));
        let times: BTreeSet<Span> = world::times(setup).into_iter().chain(of_series).collect();
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
            first_drops: vec![HashMap::new()],
            windows_at_drop: vec![None; self.flows.len()],
            reductions: vec![None; self.flows.len()],
            samples,
            ..Outcome::default()
        }
    }

    fn failures(&self) -> Vec<String> {
        self.flows.iter().filter_map(|flow| flow.failure.borrow().clone()).collect()
    }
}

pub(super) fn recorded(setup: &CellSetup, seed: u64, outcome: &Outcome) -> BTreeMap<String, Vec<(f64, f64)>> {
    let wanted = setup.series.iter().filter(|series| seed <= series.runs);
    wanted.map(|series| (series.name.clone(), points(series, outcome))).collect()
}

fn points(series: &SeriesSetup, outcome: &Outcome) -> Vec<(f64, f64)> {
    let flows = outcome.flows.get(&series.flows).cloned().unwrap_or(0..0);
    let read = |time| outcome.at(time).flows.get(flows.clone()).into_iter().flatten().map(|flow| flow.read).sum();
    let times = series.times(outcome.duration);
    let read: Vec<(f64, f64)> = times.map(|time| (time.as_secs_f64(), read(time))).collect();
    if series.what == What::Read {
        return read;
    }
    let rate = |two: &[(f64, f64)]| (two[1].0, (two[1].1 - two[0].1) * 8e-6 / (two[1].0 - two[0].0));
    read.windows(2).map(rate).collect()
}

pub(super) struct Meter {
    clock: Stopwatch,
    processor: f64,
    here: ProcessorTime,
    waited: f64,
}

impl Meter {
    pub(super) fn start() -> Self {
        // Without permission to reset the peak memory, it includes earlier runs (proc_pid_clear_refs(5)).
        let _ = fs::write("/proc/self/clear_refs", "5");
        let (processor, waited) = (processor_seconds(), waited_seconds());
        Self { clock: Stopwatch::start(), processor, here: ProcessorTime::start(), waited }
    }

    /// Returns the resources used so far by the process, and by this thread, which runs both ends.
    pub(super) fn effort(&self) -> Effort {
        Effort {
            seconds: self.clock.seconds(),
            processor_seconds: processor_seconds() - self.processor,
            ends_processor_seconds: self.here.seconds(),
            waited_seconds: waited_seconds() - self.waited,
            memory_bytes: peak_memory(),
            ..Effort::default()
        }
    }
}

/// Returns the seconds for which this thread waited for a processor: the second number of schedstat (Linux,
/// Documentation/scheduler/sched-stats.rst), or 0 if the kernel does not count.
fn waited_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().nth(1).and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or(0.0, |nanos| nanos * 1e-9)
}

/// Returns the peak memory of the process in bytes (proc_pid_status(5)).
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
