//! How long senders stay in the phases of their congestion control, and what leaves meanwhile.

use std::collections::BTreeMap;

use longhaul_tcp::Info;

/// A sender's first stay in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stay {
    /// When it began, in seconds.
    pub from: f64,
    /// When it ended, in seconds, if it has.
    pub to: Option<f64>,
    /// Segments of data that left, the first time and again.
    pub segments: u64,
    /// Probes that left.
    pub probes: u64,
    /// Bytes of the congestion window, as it last was.
    pub window: u64,
}

/// The phases of one sender, looked at after each event at its host. What an event sends belongs to the phase that it ends in if that is what
/// the event begins, as a loss begins the recovery with the segment that leaves again, and is no longer of the phase that it leaves.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// The first stay in each phase, by its name.
    pub stays: BTreeMap<&'static str, Stay>,
    /// Answers to probes from the first recovery on until the window then first grew by a segment at once, that answer included.
    pub answers_to_growth: Option<u64>,
    /// The phase, and whether it is there for the first time.
    current: Option<(&'static str, bool)>,
    last: Counts,
    /// Probes that had been answered when the first recovery began.
    answered: Option<u64>,
}

/// What was counted by the last event.
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
    /// Takes note of what an event changed, at `at` seconds.
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
