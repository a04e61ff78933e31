//! Time that senders spend in each phase of their congestion controllers, and the segments sent meanwhile.

use std::collections::BTreeMap;

use longhaul_tcp::Info;

/// The first period of a sender in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stay {
    /// Start in seconds.
    pub from: f64,
    /// End in seconds, if it has ended.
    pub to: Option<f64>,
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Probes sent.
    pub probes: u64,
    /// Latest congestion window in bytes.
    pub window: u64,
}

/// The phases of one sender, sampled after each event at its host. Segments sent by an event that starts a phase
/// belong to the new phase: the retransmission on which a recovery starts belongs to the recovery.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// The first period in each phase, by name.
    pub stays: BTreeMap<&'static str, Stay>,
    /// Start of each period in seconds, and its phase, in order.
    pub periods: Vec<(f64, &'static str)>,
    /// Probes answered between the start of the first recovery and the first growth of the window by at least a
    /// segment after that recovery. The answer that causes the growth is included.
    pub answers_to_growth: Option<u64>,
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
    #[must_use]
    pub fn share(&self, phase: &str, from: f64, to: f64) -> Option<f64> {
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
