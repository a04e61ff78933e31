//! Careful Resume (RFC 9959): after the first flight is acknowledged, half of an earlier connection's window is sent
//! within one round trip, and the window then becomes the amount that ACKs validate.

use longhaul_units::{Bytes, Rate, Time};

use super::{accounted_for, bound};
use crate::compose::{LossEvent, Opening, Overlay, Stage, StageEvent, Startup, StartupResponse, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Demands, Needs, Pace, Path, SavedPath, SavedPathUse, SegmentKind, Sent, Timeout, initial_window};

pub(crate) static ENTRY: Entry =
    Entry::startup("careful-resume", |values| Box::new(CarefulResume::from_values(values)))
        .described("jumps after one RTT to half of the window that an earlier connection validated", "RFC 9959")
        .with_options(CarefulResume::OPTIONS)
        .tested_in(&["careful-resume+cubic", "careful-resume+new-reno"])
        .internet_safe();

/// Divisor of the RTT that yields the time over which the initial window is paced. The window is sent quickly, because
/// nothing can be decided before its last segment is acknowledged; RFC 6928 does not require pacing at all.
const INITIAL_SPREAD: u64 = 8;

crate::options! {
    /// Careful Resume, which does nothing without a saved path.
    pub(crate) struct CarefulResume {
        max_jump: Bytes [bound] = OptionSpec::int("max-jump", 0, 1 << 30, 0, "maximum jump, KiB; 0: unlimited"),
        /// Fraction of the validated `PipeSize` that becomes the threshold after a Safe Retreat, 0.5 to 1 (RFC 9959,
        /// section 3.6).
        beta: f64 = OptionSpec::float(
            "beta", 0.5, 1.0, 0.5,
            "fraction of the validated window that a retreat sets as the threshold",
        ),
        saved: Option<SavedPath> => None,
        made: SavedPathUse => SavedPathUse::Unused,
        phase: Phase => Phase::Normal,
        /// New data sent so far, in bytes.
        sent: Bytes => Bytes::ZERO,
        /// New data that was sent before the first ACK arrived.
        initial: Option<Bytes> => None,
        /// Total of new data sent when the jump began, and when it ended.
        before: Bytes => Bytes::ZERO,
        after: Bytes => Bytes::ZERO,
        /// Bytes in flight after the last ACK of the Unvalidated phase, and the new data sent since.
        in_flight: Bytes => Bytes::ZERO,
        /// `PipeSize`: bytes that the path has been shown to hold.
        pipe: f64 => 0.0,
        pace: Option<Rate> => None,
    }
}

/// Phases of RFC 9959, section 3. In the Normal phase, other stages control the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Normal,
    Reconnaissance,
    /// Time at which the phase ends at the latest.
    Unvalidated(Time),
    Validating,
    SafeRetreat,
}

impl CarefulResume {
    fn over(&mut self) -> Step {
        (self.phase, self.pace) = (Phase::Normal, None);
        Step::Done
    }

    /// Reconnaissance: slow start from the initial window, until that window is acknowledged and transmission is
    /// limited by the congestion window.
    fn reconnoitre(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        grow(ack, window);
        self.pace = None;
        let initial = *self.initial.get_or_insert(self.sent);
        if ack.total_delivered < initial || !ack.cwnd_limited {
            return Step::Stay;
        }
        let Some((saved, rtt)) = self.saved.take().zip(path.min_rtt) else { return self.over() };
        let jump = (saved.window / 2).min(self.max_jump).min(path.peer_window).as_f64();
        if !saved.may_be(rtt) {
            self.made = SavedPathUse::OtherPath;
            return self.over();
        }
        if jump <= window.cwnd {
            return self.over();
        }
        self.made = SavedPathUse::Used;
        self.pipe = ack.in_flight.as_f64();
        self.in_flight = ack.in_flight;
        self.before = self.sent;
        window.cwnd = jump;
        // Slow start ends at the window that the path carried before.
        window.ssthresh = window.ssthresh.min(saved.window.as_f64());
        let current = path.latest_rtt.unwrap_or(rtt).max(rtt);
        self.pace = Some(Rate::from_bytes_over(Bytes::from_f64(jump), current));
        self.phase = Phase::Unvalidated(ack.now + current);
        Step::Stay
    }

    /// Ends the jump. The window becomes the bytes in flight, which have to be validated if they are more than
    /// `PipeSize`.
    fn end_jump(&mut self, path: &Path, window: &mut Window) -> Step {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        let flight = self.in_flight.as_f64();
        self.pace = None;
        if flight < initial || flight <= self.pipe {
            window.cwnd = self.pipe.max(initial);
            return self.over();
        }
        window.cwnd = flight;
        self.after = self.sent;
        self.phase = Phase::Validating;
        Step::Stay
    }

    fn on_unvalidated_ack(&mut self, until: Time, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.pipe += ack.delivered.as_f64();
        self.in_flight = ack.in_flight;
        let first = ack.total_delivered > self.before;
        let full = (ack.in_flight + path.mss).as_f64() > window.cwnd;
        if first || full || ack.now >= until { self.end_jump(path, window) } else { Step::Stay }
    }

    /// Safe Retreat: the window does not grow until the last segment of the jump is acknowledged (RFC 9959, section
    /// 3.6).
    fn on_retreat_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.pipe += ack.delivered.as_f64();
        if !accounted_for(ack, ack.total_delivered, self.after) {
            return Step::Stay;
        }
        window.ssthresh = (self.pipe * self.beta).max(2.0 * path.mss.as_f64());
        window.cwnd = window.cwnd.min(window.ssthresh);
        self.over()
    }
}

/// Increases the window as in slow start.
fn grow(ack: &Ack<'_>, window: &mut Window) {
    if ack.cwnd_limited && window.below_threshold() {
        window.cwnd = (window.cwnd + ack.delivered.as_f64()).min(window.ssthresh);
    }
}

impl Stage for CarefulResume {
    fn needs(&self) -> Needs {
        let preferred = Demands { saved_path: true, pacing: true, ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    fn on_event(&mut self, event: &StageEvent, _path: &Path) {
        if let StageEvent::SavedPath(saved) = *event {
            self.saved = Some(saved);
        }
    }

    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind == SegmentKind::Data && self.phase != Phase::Normal {
            self.sent += sent.bytes;
            self.in_flight += sent.bytes;
        }
    }

    fn next_tick(&self) -> Option<Time> {
        match self.phase {
            Phase::Unvalidated(until) => Some(until),
            _ => None,
        }
    }

    fn overlay(&self) -> Overlay {
        let pace = self.pace.map(|rate| Pace { rate, quantum: None });
        Overlay { pace, ..Overlay::default() }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Normal => "handshake",
            Phase::Reconnaissance => "reconnaissance",
            Phase::Unvalidated(_) => "unvalidated",
            Phase::Validating => "validating",
            Phase::SafeRetreat => "safe-retreat",
        }
    }
}

impl Startup for CarefulResume {
    fn saved_path_use(&self) -> SavedPathUse {
        self.made
    }

    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        let known = opening == Opening::Connection && self.saved.is_some();
        let Some(rtt) = path.handshake_rtt.filter(|_| known) else { return self.over() };
        self.pace = Some(Rate::from_bytes_over(Bytes::from_f64(window.cwnd), rtt / INITIAL_SPREAD));
        self.phase = Phase::Reconnaissance;
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match self.phase {
            Phase::Normal => Step::Done,
            Phase::Reconnaissance => self.reconnoitre(ack, path, window),
            Phase::Unvalidated(until) => self.on_unvalidated_ack(until, ack, path, window),
            Phase::Validating => {
                self.pipe += ack.delivered.as_f64();
                grow(ack, window);
                if ack.total_delivered < self.after { Step::Stay } else { self.over() }
            }
            Phase::SafeRetreat => self.on_retreat_ack(ack, path, window),
        }
    }

    /// Responds to congestion in the jump or before it is validated (RFC 9959, section 3.5): the window is at most half
    /// of `PipeSize`, and does not grow until all of the jump is acknowledged or lost. Before the jump, the usual
    /// decrease applies.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        match self.phase {
            Phase::Normal | Phase::Reconnaissance => return StartupResponse::Delegate,
            Phase::Unvalidated(_) => self.after = self.sent,
            Phase::Validating | Phase::SafeRetreat => {}
        }
        self.pipe += loss.ack.delivered.as_f64();
        if self.phase == Phase::SafeRetreat {
            return StartupResponse::Handled;
        }
        self.pace = None;
        window.cwnd = window.cwnd.min(self.pipe / 2.0).max(2.0 * path.mss.as_f64());
        window.ssthresh = window.cwnd;
        self.phase = Phase::SafeRetreat;
        StartupResponse::Handled
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        match self.phase {
            Phase::Unvalidated(until) if until <= now => self.end_jump(path, window),
            _ => Step::Stay,
        }
    }

    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, _window: &mut Window) -> Option<f64> {
        let validated = (self.pipe * self.beta).max(2.0 * path.mss.as_f64());
        (self.phase != Phase::Normal && self.pipe > 0.0).then_some(validated)
    }

    fn abort(&mut self) {
        self.over();
    }
}

#[cfg(test)]
mod tests;
