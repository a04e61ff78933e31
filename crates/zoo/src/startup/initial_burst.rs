//! Unpaced initial window, as RFC 6928 implies it for a sender without a pacer.

use longhaul_cc::compose::{Opening, Overlay, Stage, Startup, Step, Window};
use longhaul_cc::registry::Entry;
use longhaul_cc::{Ack, Path, SegmentKind, Sent};
use longhaul_units::{Bytes, Time};

pub(crate) static ENTRY: Entry = Entry::startup("initial-burst", |_| Box::new(InitialBurst::default()))
    .described("sends the initial window as one unpaced burst", "RFC 6928; Scharf, Computer Networks 55(8), 2011")
    .tested_in(&["initial-burst+new-reno", "initial-burst+slow-start(iw=3)+cubic"])
    .internet_safe();

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Idle,
    /// The initial window is being sent; holds the bytes sent so far.
    Leaving(Bytes),
    /// The initial window has been sent at this time.
    Left(Time),
}

/// Start-up scheme that suspends pacing until the initial window has been sent or the first ACK arrives. It changes
/// nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InitialBurst {
    phase: Phase,
    window: f64,
}

impl Stage for InitialBurst {
    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        let Phase::Leaving(before) = self.phase else { return };
        if sent.kind == SegmentKind::Data {
            let left = before + sent.bytes;
            let full = (left + path.mss).as_f64() > self.window;
            self.phase = if full { Phase::Left(sent.now) } else { Phase::Leaving(left) };
        }
    }

    fn next_tick(&self) -> Option<Time> {
        match self.phase {
            Phase::Left(at) => Some(at),
            Phase::Idle | Phase::Leaving(_) => None,
        }
    }

    fn overlay(&self) -> Overlay {
        if self.phase == Phase::Idle { Overlay::default() } else { Overlay::at_once() }
    }

    fn phase(&self) -> &'static str {
        if self.phase == Phase::Idle { "handshake" } else { "initial-burst" }
    }
}

impl Startup for InitialBurst {
    fn begin(&mut self, opening: Opening, _now: Time, _path: &Path, window: &mut Window) -> Step {
        if opening != Opening::Connection {
            self.phase = Phase::Idle;
            return Step::Done;
        }
        (self.phase, self.window) = (Phase::Leaving(Bytes::ZERO), window.cwnd);
        Step::Stay
    }

    /// If an ACK arrives before the whole window is sent, there was no more data to send, and the burst is over.
    fn on_ack(&mut self, ack: &Ack<'_>, _path: &Path, window: &mut Window) -> Step {
        if ack.delivered == Bytes::ZERO {
            return Step::Stay;
        }
        if ack.cwnd_limited {
            window.cwnd += ack.delivered.as_f64();
        }
        self.phase = Phase::Idle;
        Step::Done
    }

    fn on_tick(&mut self, _now: Time, _path: &Path, _window: &mut Window) -> Step {
        if matches!(self.phase, Phase::Left(_)) {
            self.phase = Phase::Idle;
            return Step::Done;
        }
        Step::Stay
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
