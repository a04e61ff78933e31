//! TCP Fast Start (Padmanabhan, Katz, Globecom 1998): the first flight is as large as the window of an earlier
//! connection, at a priority that routers drop first, so that an outdated entry of the metrics cache harms no other
//! flow.

use longhaul_units::{Bytes, Rate, Time};

use super::{DSCP_OPTION, accounted_for, bound};
use crate::compose::{LossEvent, Opening, Overlay, Stage, StageEvent, Startup, StartupResponse, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Demands, Needs, Pace, Path, SavedPath, SavedPathUse, SegmentKind, Sent, Timeout, initial_window};

/// Registry entry of Fast Start. Its name differs because `fast-start` is FAST's slow start.
pub(crate) static ENTRY: Entry = Entry::startup("cached-start", |values| Box::new(CachedStart::from_values(values)))
    .described(
        "TCP Fast Start: starts with the window and rate of an earlier connection, paced, at low priority",
        "Padmanabhan, Katz, Globecom 1998 (numbers reconstructed)",
    )
    .with_options(CachedStart::OPTIONS)
    .tested_in(&["cached-start+cubic", "cached-start+new-reno"])
    .internet_safe();

crate::options! {
    /// Fast Start, which does nothing without a saved path.
    pub(crate) struct CachedStart {
        max_window: Bytes [bound] =
            OptionSpec::int("max-window", 0, 1 << 30, 0, "maximum first flight, KiB; 0: unlimited"),
        dscp: u8 = DSCP_OPTION,
        saved: Option<SavedPath> => None,
        made: SavedPathUse => SavedPathUse::Unused,
        phase: Phase => Phase::Idle,
        pace: Option<Rate> => None,
        /// Bytes of the flight sent, delivered and lost.
        sent: Bytes => Bytes::ZERO,
        delivered: Bytes => Bytes::ZERO,
        lost: Bytes => Bytes::ZERO,
        /// Limit of the window during recovery: the bytes delivered when the first loss was detected.
        ceiling: f64 => 0.0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// The flight is being sent or acknowledged.
    Sending,
    /// Part of the flight was lost and is being retransmitted.
    Recovery,
}

impl CachedStart {
    fn over(&mut self) -> Step {
        (self.phase, self.pace) = (Phase::Idle, None);
        Step::Done
    }

    /// Ends the start when all data sent has been delivered. If this was the whole flight, its size is validated and
    /// congestion avoidance follows. Otherwise, only the delivered part is validated, and the slow-start variant grows
    /// the window up to the saved one.
    fn arrived(&mut self, path: &Path, window: &mut Window) -> Step {
        window.ssthresh = window.ssthresh.min(window.cwnd);
        if self.delivered.as_f64() < window.cwnd {
            let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
            window.cwnd = window.cwnd.min(self.sent.as_f64().max(initial));
        }
        self.over()
    }

    /// Ends recovery. If most of the flight was lost, the saved path no longer applies, and the connection starts as
    /// without it.
    fn recovered(&mut self, path: &Path, window: &mut Window) -> Step {
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

    fn on_event(&mut self, event: &StageEvent, _path: &Path) {
        if let StageEvent::SavedPath(saved) = *event {
            self.saved = Some(saved);
        }
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
            Phase::Recovery => "recovery",
        }
    }
}

impl Startup for CachedStart {
    fn saved_path_use(&self) -> SavedPathUse {
        self.made
    }

    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
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
        Step::Stay
    }

    /// Keeps the window while the flight is in the network; the ACK clock takes over after that.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.delivered += ack.delivered;
        self.lost += ack.newly_lost;
        match self.phase {
            Phase::Idle => Step::Done,
            Phase::Sending if self.delivered.as_f64() < window.cwnd && ack.in_flight > Bytes::ZERO => Step::Stay,
            Phase::Sending => self.arrived(path, window),
            Phase::Recovery if !accounted_for(ack, self.delivered, self.sent) => {
                window.cwnd = (window.cwnd + ack.delivered.as_f64()).min(self.ceiling.max(window.cwnd));
                Step::Stay
            }
            Phase::Recovery => self.recovered(path, window),
        }
    }

    /// Responds to a loss in the flight: lost data is retransmitted from the initial window on, which grows as in slow
    /// start. The response to an ECN mark is the same, until the whole flight is delivered.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        if self.phase == Phase::Idle {
            return StartupResponse::Delegate;
        }
        self.delivered += loss.ack.delivered;
        self.lost += loss.ack.newly_lost;
        if self.phase == Phase::Sending {
            self.ceiling = self.delivered.as_f64();
        }
        (self.phase, self.pace) = (Phase::Recovery, None);
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        window.cwnd = initial.min(window.cwnd);
        window.ssthresh = window.ssthresh.max(window.cwnd);
        StartupResponse::Handled
    }

    /// Returns half of the bytes delivered before the timer fired, because the path can hold at least that much.
    /// Congestion avoidance would use a window that says nothing about the path.
    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, _window: &mut Window) -> Option<f64> {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        (self.phase != Phase::Idle).then(|| (self.delivered.as_f64() / 2.0).max(initial))
    }

    fn abort(&mut self) {
        self.over();
    }
}

#[cfg(test)]
mod tests;
