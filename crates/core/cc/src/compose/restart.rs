//! Window of a restart after an idle period.

use longhaul_units::Bytes;

use crate::initial_window;

/// If a flight larger than this lost a segment, the larger initial window was too large (RFC 6928, section 2).
const FALLBACK_FLIGHT: Bytes = Bytes(4096);

/// Observes whether the initial flight and every restart flight lose segments.
///
/// A flight is the data sent before its first acknowledgment arrives. A loss belongs to the flight if SND.UNA is
/// still inside it when the loss is found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    sent: Bytes,
    acknowledged: Bytes,
    pub(super) leaving: bool,
    conservative: bool,
}

impl Restart {
    /// Begins a flight: the connection's first, or one after an idle period.
    pub(super) fn begin(&mut self) {
        *self = Self { leaving: true, conservative: self.conservative, ..Self::default() };
    }

    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        if self.leaving {
            self.sent += bytes;
        }
    }

    /// Processes an advance of SND.UNA by `cumulative`. Call it after the ACK's losses were reported.
    pub(super) fn on_ack(&mut self, cumulative: Bytes, delivered: Bytes) {
        if delivered > Bytes::ZERO {
            self.leaving = false;
        }
        self.acknowledged += cumulative;
    }

    /// Processes a loss or timeout; the ACK that revealed it advanced SND.UNA by `cumulative`.
    pub(super) fn on_loss(&mut self, cumulative: Bytes) {
        if self.sent > FALLBACK_FLIGHT && self.acknowledged + cumulative < self.sent {
            self.conservative = true;
        }
    }

    /// Returns the maximum window of a restart on a connection with the initial window `initial`.
    pub(super) fn window(&self, initial: Bytes, mss: Bytes) -> Bytes {
        if self.conservative { initial.min(initial_window::rfc3390(mss)) } else { initial }
    }
}
