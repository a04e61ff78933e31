//! Observations after each event.

use std::collections::BTreeMap;
use std::ops::Range;

use longhaul_link::Histogram;
use longhaul_sim::Step;
use longhaul_tcp::Info;
use longhaul_units::{Span, Time};

use super::World;
use super::record::Recorder;
use crate::series::What;

/// A number of bytes that flows of a name must read in total.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) flows: Range<usize>,
    pub(super) bytes: u64,
    /// Seconds from the first start of these flows until the number of bytes is reached.
    pub(super) reached: Option<f64>,
    /// Numbers of data packets offered to the first shared link, and dropped, until the goal is reached.
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

/// A flow that begins when other flows have ended.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    pub(super) after: Range<usize>,
    pub(super) flow: usize,
    /// Delay after the end of the other flows.
    pub(super) later: Span,
    pub(super) bytes: u64,
    pub(super) reads_after: Span,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    pub(super) rtts: Histogram,
    /// Start of its first recovery in seconds, and the number of packets dropped before.
    pub(super) reduction: Option<(f64, f64)>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stay {
    /// Start in seconds.
    pub(crate) from: f64,
    /// End in seconds, if it has ended.
    pub(crate) to: Option<f64>,
    /// Number of data segments sent, including retransmissions.
    pub(crate) segments: u64,
    pub(crate) probes: u64,
    /// Latest congestion window in bytes.
    pub(crate) window: u64,
}

/// The phases of one sender, sampled after each event at its host. Segments sent by an event that starts a phase
/// belong to the new phase: the retransmission on which a recovery starts belongs to the recovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phases {
    /// The first period in each phase, by name.
    pub(crate) stays: BTreeMap<&'static str, Stay>,
    /// Start of each period in seconds, and its phase, in order.
    pub(crate) periods: Vec<(f64, &'static str)>,
    /// Probes answered between the start of the first recovery and the first growth of the window by at least a
    /// segment after that recovery. The answer that causes the growth is included.
    pub(crate) answers_to_growth: Option<u64>,
    /// The current phase, and whether this is its first period.
    current: Option<(&'static str, bool)>,
    last: Counts,
    /// Number of probes answered when the first recovery began.
    answered: Option<u64>,
}

/// Counters after the last event.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    segments: u64,
    probes: u64,
    answers: u64,
    window: u64,
}

impl Counts {
    fn new(info: &Info) -> Self {
        let probes = info.probes.unwrap_or_default();
        Self { segments: info.data_segments_out, probes: probes.sent, answers: probes.acked, window: info.cwnd.0 }
    }
}

impl Phases {
    /// Returns the share of the time between two times, in seconds, that the sender spends in a phase. The time before
    /// the first event counts as none of the phases, and the last phase lasts until the end.
    pub(crate) fn share(&self, phase: &str, from: f64, to: f64) -> Option<f64> {
        let ends = self.periods.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        let within = |((begun, name), end): (&(f64, &'static str), f64)| match *name == phase {
            true => (end.min(to) - begun.max(from)).max(0.0),
            false => 0.0,
        };
        let time: f64 = self.periods.iter().zip(ends).map(within).sum();
        (to > from).then(|| time / (to - from))
    }

    /// Records the changes of an event at `at` seconds.
    pub(super) fn note(&mut self, at: f64, info: &Info) {
        let now = Counts::new(info);
        self.stay(at, info.phase, now);
        self.growth(info, now);
        self.last = now;
    }

    fn stay(&mut self, at: f64, phase: &'static str, now: Counts) {
        let is_other = self.current.is_none_or(|(current, _)| current != phase);
        if is_other {
            if let Some((left, true)) = self.current
                && let Some(stay) = self.stays.get_mut(left)
            {
                stay.to = Some(at);
            }
            self.current = Some((phase, !self.stays.contains_key(phase)));
            self.periods.push((at, phase));
        }
        if let Some((_, true)) = self.current {
            let stay = self.stays.entry(phase).or_insert(Stay { from: at, ..Stay::default() });
            stay.segments += now.segments - self.last.segments;
            stay.probes += now.probes - self.last.probes;
            stay.window = now.window;
        }
    }

    fn growth(&mut self, info: &Info, now: Counts) {
        if info.recoveries == 0 {
            return;
        }
        let answered = *self.answered.get_or_insert(self.last.answers);
        let grows = now.window >= self.last.window + u64::from(info.mss);
        if grows && info.phase != "recovery" && self.answers_to_growth.is_none() {
            self.answers_to_growth = Some(now.answers - answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_time_by_hand() {
        let phases = Phases { periods: vec![(1.0, "a"), (3.0, "b"), (4.0, "a"), (9.0, "c")], ..Phases::default() };
        let share = |phase, from, to| phases.share(phase, from, to).unwrap();
        assert_eq!(share("a", 0.0, 10.0), 0.7);
        assert_eq!(share("a", 2.0, 6.0), 0.75);
        assert_eq!((share("c", 0.0, 20.0), share("c", 0.0, 9.0)), (0.55, 0.0));
        assert_eq!((share("other", 0.0, 9.0), phases.share("a", 5.0, 5.0)), (0.0, None));
        assert_eq!(Phases::default().share("a", 0.0, 1.0), Some(0.0));
    }
}
