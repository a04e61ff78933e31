//! Observations after each event.

use std::ops::Range;

use longhaul_link::Histogram;
use longhaul_sim::Step;
use longhaul_tcp::Info;
use longhaul_units::{Span, Time};

use super::World;
use super::phases::Phases;
use super::record::Recorder;
use crate::series::What;

/// A number of bytes that flows of a name must read in total.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) flows: Range<usize>,
    pub(super) bytes: u64,
    /// Seconds from the first start of these flows until it is reached.
    pub(super) reached: Option<f64>,
    /// Numbers of data packets offered to the first shared link, and dropped, until then.
    pub(super) data: [u64; 2],
}

/// A total that the congestion windows of the flows of a name must reach, in bytes.
#[derive(Clone, Debug)]
pub(super) struct WindowGoal {
    pub(super) flows: Range<usize>,
    pub(super) bytes: u64,
    pub(super) since: Span,
    /// Seconds from `since` until it is reached.
    pub(super) reached: Option<f64>,
}

/// A flow that begins when others have ended.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    pub(super) after: Range<usize>,
    pub(super) flow: usize,
    /// Delay after their end.
    pub(super) later: Span,
    pub(super) bytes: u64,
    pub(super) reads_after: Span,
}

/// Observations of a sender so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    /// Its RTT samples.
    pub(super) rtts: Histogram,
    /// Start of its first recovery in seconds, and the number of packets dropped before.
    pub(super) reduction: Option<(f64, f64)>,
    /// The phases that it has been in, if they are observed.
    pub(super) phases: Option<Phases>,
    samples: u64,
    latest: Option<Span>,
    recoveries: u64,
}

impl Followed {
    /// Records the changes since the last event. Returns the new RTT sample, and the latest sample before a recovery
    /// that has just begun.
    fn note(&mut self, at: f64, info: &Info, dropped: u64) -> [Option<Span>; 2] {
        let before = self.latest.filter(|_| info.recoveries > self.recoveries);
        let rtt = info.latest_rtt.filter(|_| info.rtt_samples > self.samples);
        rtt.into_iter().for_each(|rtt| self.rtts.add(rtt));
        if info.recoveries > 0 && self.reduction.is_none() {
            self.reduction = Some((at, dropped as f64));
        }
        self.phases.iter_mut().for_each(|phases| phases.note(at, info));
        (self.samples, self.latest, self.recoveries) = (info.rtt_samples, info.latest_rtt, info.recoveries);
        [rtt, before]
    }
}

impl World {
    /// Returns whether any observation after each event is still needed.
    pub(super) fn has_to_look(&self) -> bool {
        self.awaits_drop
            || !self.starts.is_empty()
            || self.goals.iter().any(|goal| goal.reached.is_none())
            || self.flows.iter().any(|flow| flow.followed.is_some())
    }

    pub(super) fn look(&mut self, step: Step) {
        self.look_for_drop();
        let (Step::Packet(node) | Step::Timer(node) | Step::Session(node) | Step::Opened(node)) = step else { return };
        for place in 0..self.at_node.get(node).map_or(0, Vec::len) {
            let flow = self.at_node[node][place];
            if self.flows[flow].pair[0] == node {
                self.look_at_sender(flow);
            } else {
                self.look_at_receiver(flow);
            }
        }
    }

    /// Returns the number of packets dropped at the shared links, if drops are observed.
    fn dropped(&self) -> u64 {
        self.drops.iter().map(|drops| drops.borrow().count).sum()
    }

    /// Returns the numbers of data packets offered to the first shared link, and dropped, if they are observed.
    pub(super) fn data(&self) -> [u64; 2] {
        let first = self.drops.first().and_then(|drops| drops.borrow().data.as_ref().map(|data| data.counts));
        first.unwrap_or_default()
    }

    fn look_for_drop(&mut self) {
        if self.awaits_drop && self.dropped() > 0 {
            self.awaits_drop = false;
            let window = |flow: &super::Watched| flow.look(&self.sim).map(|state| state.cwnd);
            self.windows_at_drop = self.flows.iter().map(window).collect();
        }
    }

    fn look_at_sender(&mut self, number: usize) {
        let dropped = self.dropped();
        let flow = &mut self.flows[number];
        if flow.followed.is_none() {
            return;
        }
        let Some((_, info)) = flow.connection(&self.sim) else { return };
        let at = seconds(self.sim.now());
        let Some(followed) = &mut flow.followed else { return };
        let [rtt, before] = followed.note(at, &info, dropped);
        for (what, span) in [(What::Rtt, rtt), (What::RttBeforeLoss, before)] {
            let Some(span) = span else { continue };
            let of_flow = |recorder: &&mut Recorder| recorder.setup.what == what && recorder.flows.contains(&number);
            self.recorders.iter_mut().filter(of_flow).for_each(|recorder| recorder.add(at, span.as_secs_f64()));
        }
        self.look_at_windows(number);
    }

    fn look_at_windows(&mut self, number: usize) {
        let Self { window_goals, flows, sim, .. } = self;
        let now = sim.now() - Time::ZERO;
        let is_open =
            |goal: &&mut WindowGoal| goal.reached.is_none() && goal.since <= now && goal.flows.contains(&number);
        for goal in window_goals.iter_mut().filter(is_open) {
            let windows =
                flows[goal.flows.clone()].iter().filter_map(|flow| Some(flow.connection(sim)?.1.cwnd.as_f64()));
            if windows.sum::<f64>() >= goal.bytes as f64 {
                goal.reached = Some((now - goal.since).as_secs_f64());
            }
        }
    }

    fn look_at_receiver(&mut self, number: usize) {
        let now = self.sim.now();
        let data = self.data();
        let Self { goals, flows, sim, .. } = self;
        for goal in goals.iter_mut().filter(|goal| goal.reached.is_none() && goal.flows.contains(&number)) {
            let flows = &flows[goal.flows.clone()];
            if flows.iter().map(|flow| flow.read(sim).0).sum::<u64>() >= goal.bytes {
                let begun = flows.iter().filter_map(|flow| flow.opened).min();
                goal.reached = begun.map(|begun| (now - begun).as_secs_f64());
                goal.data = data;
            }
        }
        if self.starts.iter().any(|start| start.after.contains(&number)) {
            self.start_those_after();
        }
    }

    fn start_those_after(&mut self) {
        let Self { starts, flows, sim, .. } = self;
        let has_ended = |start: &Starts| flows[start.after.clone()].iter().all(|flow| flow.read(sim).1);
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(starts).into_iter().partition(has_ended);
        self.starts = waiting;
        for start in ready {
            let at = self.sim.now() + start.later;
            self.plan(start.flow, at, start.bytes, start.reads_after);
        }
    }
}

fn seconds(at: Time) -> f64 {
    (at - Time::ZERO).as_secs_f64()
}
