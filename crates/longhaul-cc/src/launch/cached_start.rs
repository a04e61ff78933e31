//! TCP Fast Start (Padmanabhan, Katz, Globecom 1998): the first flight is what an earlier connection came to, at a priority that
//! routers drop before others, so that a stale memory harms nobody else.

use longhaul_units::{Bytes, Rate, Time};

use super::probing_start::DSCP_OPTION;
use super::{accounted_for, bound};
use crate::compose::{Launch, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Stage, Window};
use crate::describe::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{Ack, Demands, Needs, Pace, Path, SavedPath, SavedPathUse, SegmentKind, Sent, initial_window};

/// Fast Start in the registry. FAST's slow start has its name.
pub(crate) static ENTRY: Entry = Entry {
    name: "cached-start",
    slot: Slot::Launch,
    summary: "TCP Fast Start: from the handshake on, what an earlier connection came to, paced, at low priority",
    reference: "Padmanabhan, Katz, Globecom 1998 (numbers reconstructed)",
    options: Options::OPTIONS,
    tested: &["cached-start+cubic", "cached-start+new-reno", "cached-start+slow-start+westwood"],
    safety: Safety::Shared,
    make: Make::Launch(|values| {
        let Options { max_window, dscp } = Options::from_values(values);
        Box::new(CachedStart::new(max_window, dscp))
    }),
};

crate::options! {
    /// The options of `cached-start`.
    struct Options {
        max_window: Bytes [bound] =
            OptionSpec::int("max-window", 0, 1 << 30, 0, "the largest first flight, KiB; 0: no bound"),
        dscp: u8 = DSCP_OPTION,
    }
}

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Over, or not begun.
    Idle,
    /// The flight leaves.
    Sending,
    /// Some of it was lost, and is repaired.
    Repairing,
}

/// Fast Start.
#[derive(Clone, Debug)]
pub struct CachedStart {
    max_window: Bytes,
    dscp: u8,
    saved: Option<SavedPath>,
    made: SavedPathUse,
    phase: Phase,
    pace: Option<Rate>,
    /// Bytes of the flight, of those delivered, and lost.
    sent: Bytes,
    delivered: Bytes,
    lost: Bytes,
    /// As far as the window grows during the repair: what had come through when the first loss showed.
    ceiling: f64,
}

impl CachedStart {
    /// The launch; it does nothing until it is told of a path.
    #[must_use]
    pub const fn new(max_window: Bytes, dscp: u8) -> Self {
        let zero = Bytes::ZERO;
        Self {
            max_window,
            dscp,
            saved: None,
            made: SavedPathUse::Unused,
            phase: Phase::Idle,
            pace: None,
            sent: zero,
            delivered: zero,
            lost: zero,
            ceiling: 0.0,
        }
    }

    fn over(&mut self) -> LaunchStep {
        (self.phase, self.pace) = (Phase::Idle, None);
        LaunchStep::Done
    }

    /// What there was of the flight has arrived. If that is all of it the path holds it, and congestion avoidance follows; of a
    /// part that is all one knows, and quick growth leads on to what was remembered.
    fn arrived(&mut self, path: &Path, window: &mut Window) -> LaunchStep {
        window.ssthresh = window.ssthresh.min(window.cwnd);
        if self.delivered.as_f64() < window.cwnd {
            let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
            window.cwnd = window.cwnd.min(self.sent.as_f64().max(initial));
        }
        self.over()
    }

    /// Repaired. If most of the flight was lost, the memory was of another path, and it is as if there had been none.
    fn repaired(&mut self, path: &Path, window: &mut Window) -> LaunchStep {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        if self.lost * 2 > self.sent {
            *window = Window::new(initial);
        } else {
            let held = self.sent.as_f64() - self.lost.as_f64();
            window.cwnd = (held / 2.0).max(initial);
            window.ssthresh = window.cwnd;
        }
        self.over()
    }
}

impl Stage for CachedStart {
    fn needs(&self) -> Needs {
        let preferred = Demands { saved_path: true, pacing: true, whole_window: true, ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind == SegmentKind::Data && self.phase == Phase::Sending {
            self.sent += sent.bytes;
        }
    }

    fn overlay(&self) -> Overlay {
        let pace = self.pace.map(|rate| Pace { rate, quantum: None });
        Overlay { pace, dscp: if self.phase == Phase::Sending { self.dscp } else { 0 }, ..Overlay::default() }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "handshake",
            Phase::Sending => "fast-start",
            Phase::Repairing => "recovery",
        }
    }
}

impl Launch for CachedStart {
    fn recall(&mut self, saved: SavedPath) {
        self.saved = Some(saved);
    }

    fn saved_path_use(&self) -> SavedPathUse {
        self.made
    }

    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        let saved = self.saved.take().filter(|_| opening == Opening::Connection);
        let Some((saved, rtt)) = saved.zip(path.handshake_rtt) else { return self.over() };
        let flight = saved.rate.bytes_in(rtt).min(saved.window).min(self.max_window).min(path.peer_window).as_f64();
        if !saved.may_be(rtt) {
            self.made = SavedPathUse::OtherPath;
            return self.over();
        }
        if flight <= window.cwnd {
            return self.over();
        }
        self.made = SavedPathUse::Used;
        window.cwnd = flight;
        self.pace = Some(Rate::from_bytes_over(Bytes::from_f64(flight), rtt));
        self.phase = Phase::Sending;
        LaunchStep::Stay
    }

    /// The window stays while the flight is on its way; the ACK clock takes over as soon as it ticks.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        self.delivered += ack.delivered;
        self.lost += ack.newly_lost;
        match self.phase {
            Phase::Idle => LaunchStep::Done,
            Phase::Sending if self.delivered.as_f64() < window.cwnd && ack.in_flight > Bytes::ZERO => LaunchStep::Stay,
            Phase::Sending => self.arrived(path, window),
            Phase::Repairing if !accounted_for(ack, self.delivered, self.sent) => {
                window.cwnd = (window.cwnd + ack.delivered.as_f64()).min(self.ceiling.max(window.cwnd));
                LaunchStep::Stay
            }
            Phase::Repairing => self.repaired(path, window),
        }
    }

    /// A loss in the flight: what was lost goes again from the initial window on, which grows as in slow start. A mark is answered
    /// alike, until all of the flight has arrived.
    fn on_loss(&mut self, loss: &Loss<'_>, path: &Path, window: &mut Window) -> LaunchVerdict {
        if self.phase == Phase::Idle {
            return LaunchVerdict::Delegate;
        }
        self.delivered += loss.ack.delivered;
        self.lost += loss.ack.newly_lost;
        if self.phase == Phase::Sending {
            self.ceiling = self.delivered.as_f64();
        }
        (self.phase, self.pace) = (Phase::Repairing, None);
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        window.cwnd = initial.min(window.cwnd);
        window.ssthresh = window.ssthresh.max(window.cwnd);
        LaunchVerdict::Handled
    }

    /// What came through before the timer fired is what the path holds at least; the law would judge by a window that says nothing.
    fn threshold_after_timeout(&self, path: &Path) -> Option<f64> {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        (self.phase != Phase::Idle).then(|| (self.delivered.as_f64() / 2.0).max(initial))
    }

    fn abort(&mut self) {
        self.over();
    }
}

#[cfg(test)]
mod tests;
