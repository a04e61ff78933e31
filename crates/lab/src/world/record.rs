//! Recording of series during a run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use longhaul_link::statistics;
use longhaul_probe::sim::Probing;
use longhaul_units::{Span, Time};

use super::packets::Sequences;
use super::{FlowState, Outcome, Sample, World};
use crate::experiment::CellSetup;
use crate::series::{SeriesSetup, What};
use crate::watching::Watcher;

/// Seconds since the start of the run, and values.
type Points = Vec<(f64, f64)>;

pub(super) struct Recorder {
    pub(super) setup: SeriesSetup,
    pub(super) flows: Range<usize>,
    points: Points,
    /// Total bytes read at the last sample, and its time.
    last: (f64, Span),
    pub(super) packets: Option<Rc<RefCell<Sequences>>>,
}

pub(super) fn times(recorders: &[Recorder], duration: Span) -> BTreeSet<Span> {
    let sampled = recorders.iter().map(|recorder| &recorder.setup).filter(|setup| !setup.what.is_by_event());
    sampled.flat_map(|setup| setup.times(duration)).collect()
}

impl Recorder {
    pub(super) fn new(setup: SeriesSetup, flows: Range<usize>) -> Self {
        Self { setup, flows, points: Points::new(), last: (0.0, Span::ZERO), packets: None }
    }

    fn is_due(&self, time: Span) -> bool {
        !self.setup.what.is_by_event() && time.as_nanos().is_multiple_of(self.setup.interval().as_nanos())
    }

    /// Adds a point, unless it is too soon after the last one.
    pub(super) fn add(&mut self, at: f64, value: f64) {
        let least = self.setup.every.as_secs_f64();
        if self.points.last().is_none_or(|(last, _)| at - last >= least) {
            self.points.push((at, value));
        }
    }

    /// Completes the series with the observed packets or drops.
    fn end(mut self, drops: &[(f64, f64)]) -> (String, Points) {
        let seen = match (self.setup.what, &self.packets) {
            (What::Drops, _) => drops.to_vec(),
            (What::Segments, Some(packets)) => packets.borrow().segments.clone(),
            (What::Resent, Some(packets)) => packets.borrow().resent.clone(),
            (What::Acks, Some(packets)) => packets.borrow().acks.clone(),
            _ => Points::new(),
        };
        seen.into_iter().for_each(|(at, value)| self.add(at, value));
        (self.setup.name, self.points)
    }
}

impl World {
    pub(super) fn record(&mut self, time: Span) {
        for number in 0..self.recorders.len() {
            if self.recorders[number].is_due(time) {
                let value = self.value(number, time);
                self.recorders[number].points.extend(value.map(|value| (time.as_secs_f64(), value)));
            }
        }
    }

    fn value(&mut self, number: usize, time: Span) -> Option<f64> {
        let Self { sim, flows, links, recorders, .. } = self;
        let recorder = &mut recorders[number];
        let flows = &flows[recorder.flows.clone()];
        let states = || -> Vec<FlowState> { flows.iter().filter_map(|flow| flow.look(sim)).collect() };
        let read = || -> f64 { flows.iter().map(|flow| flow.read(sim).0 as f64).sum() };
        match recorder.setup.what {
            What::Queue => Some(sim.link(links[recorder.setup.link]).backlog().1 as f64),
            What::Read => Some(read()),
            What::Goodput => {
                let (before, since) = std::mem::replace(&mut recorder.last, (read(), time));
                let passed = (time - since).as_secs_f64();
                (passed > 0.0).then(|| (recorder.last.0 - before) * 8e-6 / passed)
            }
            What::InFlight => Some(states().iter().map(|state| state.in_flight).sum()),
            What::Rate => sum(states().iter().filter_map(|state| state.estimate("delivery-rate"))),
            What::Window => mean(states().iter().map(|state| state.cwnd)),
            What::Threshold => mean(states().iter().filter_map(|state| state.ssthresh)),
            What::Srtt => mean(states().iter().filter_map(|state| state.srtt)),
            What::Estimate => mean(states().iter().filter_map(|state| state.estimate(&recorder.setup.estimate))),
            _ => None,
        }
    }

    pub(super) fn end(
        self,
        setup: &CellSetup,
        samples: BTreeMap<Span, Sample>,
        probes: BTreeMap<String, Probing>,
    ) -> (Outcome, BTreeMap<String, Points>) {
        // Drops per link, and the series that contain them.
        let dropped = |link: usize| self.drops.get(link).map(|drops| drops.borrow().clone()).unwrap_or_default();
        let first_drops = (0..self.links.len()).map(|link| dropped(link).first).collect();
        let end = |recorder: Recorder| {
            let drops = dropped(recorder.setup.link).all.unwrap_or_default();
            recorder.end(&drops)
        };
        // A goal contains the packet counts at the time when it was reached, or at the end of the run.
        let all_data = self.data();
        let data = |goal: &super::Goal| {
            let counts = if goal.reached.is_some() { goal.data } else { all_data };
            ((goal.flows.start, goal.bytes), counts.map(|count| count as f64))
        };
        let data = self.goals.iter().map(data).collect();
        // Values per flow, and the times at which goals were reached.
        let series = self.recorders.into_iter().map(end).collect();
        let of_goal = |goal: super::Goal| Some(((goal.flows.start, goal.bytes), goal.reached?));
        let of_window = |goal: super::WindowGoal| Some(((goal.flows.start, goal.bytes, goal.since), goal.reached?));
        let begun = |flow: &super::Watched| flow.opened.map(|opened| opened - Time::ZERO);
        let followed = || self.flows.iter().map(|flow| flow.followed.clone().unwrap_or_default());
        // All measures read this outcome.
        let outcome = Outcome {
            duration: setup.duration,
            links: setup.links.iter().map(|link| link.there.clone()).collect(),
            epochs: super::build::epochs(&self.sim, &self.populations),
            flows: self.ranges,
            begun: self.flows.iter().map(begun).collect(),
            rtts: followed().map(|followed| followed.rtts).collect(),
            messages: Vec::new(),
            reached: self.goals.into_iter().filter_map(of_goal).collect(),
            data,
            windows_reached: self.window_goals.into_iter().filter_map(of_window).collect(),
            first_drops,
            windows_at_drop: self.windows_at_drop,
            reductions: followed().map(|followed| followed.reduction).collect(),
            phases: followed().map(|followed| followed.phases.unwrap_or_default()).collect(),
            logs: self.watchers.iter().map(Watcher::log).collect(),
            probes,
            samples,
        };
        (outcome, series)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    statistics::mean(&values.collect::<Vec<_>>())
}

fn sum(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum())
}
