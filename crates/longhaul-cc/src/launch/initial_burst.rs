//! The initial window at once: what RFC 6928's IW10 is without a pacer.

use longhaul_units::{Bytes, Time};

use super::swift_start::pacing::at_once;
use crate::compose::{Launch, LaunchStep, Opening, Overlay, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot};
use crate::{Ack, Path, SegmentKind, Sent};

/// The burst in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "initial-burst",
    slot: Slot::Launch,
    summary: "the initial window leaves at once and not paced",
    reference: "RFC 6928; Scharf, Computer Networks 55(8), 2011",
    options: &[],
    tested: &["initial-burst+new-reno", "initial-burst+slow-start(iw=3)+cubic"],
    safety: Safety::Shared,
    make: Make::Launch(|_| Box::new(InitialBurst::default())),
};

/// Where the burst stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    /// Over, or not begun.
    #[default]
    Idle,
    /// It leaves: so many bytes have.
    Leaving(Bytes),
    /// It has left.
    Left(Time),
}

/// Lifts the pace until the initial window has left, or its first ACK comes; changes nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitialBurst {
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
        if self.phase == Phase::Idle { Overlay::default() } else { at_once() }
    }

    fn phase(&self) -> &'static str {
        if self.phase == Phase::Idle { "handshake" } else { "initial-burst" }
    }
}

impl Launch for InitialBurst {
    fn begin(&mut self, opening: Opening, _now: Time, _path: &Path, window: &mut Window) -> LaunchStep {
        if opening != Opening::Connection {
            self.phase = Phase::Idle;
            return LaunchStep::Done;
        }
        (self.phase, self.window) = (Phase::Leaving(Bytes::ZERO), window.cwnd);
        LaunchStep::Stay
    }

    /// An ACK before all has left: there was no more to send.
    fn on_ack(&mut self, ack: &Ack<'_>, _path: &Path, window: &mut Window) -> LaunchStep {
        if ack.delivered == Bytes::ZERO {
            return LaunchStep::Stay;
        }
        if ack.cwnd_limited {
            window.cwnd += ack.delivered.as_f64();
        }
        self.phase = Phase::Idle;
        LaunchStep::Done
    }

    fn on_tick(&mut self, _now: Time, _path: &Path, _window: &mut Window) -> LaunchStep {
        if matches!(self.phase, Phase::Left(_)) {
            self.phase = Phase::Idle;
            return LaunchStep::Done;
        }
        LaunchStep::Stay
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
