//! Which window a restart after idleness may use.

use longhaul_units::Bytes;

use crate::initial_window;

/// More than this in a flight that lost a segment means that the larger initial window was too large
/// (RFC 6928, section 2).
const FALLBACK_FLIGHT: Bytes = Bytes(4096);

/// Watches the initial flight and every restart flight for losses.
///
/// A flight is what leaves before its first acknowledgement comes. A loss found while SND.UNA is still inside the
/// flight is a loss in that flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    sent: Bytes,
    acknowledged: Bytes,
    leaving: bool,
    conservative: bool,
}

impl Restart {
    /// A flight begins: the connection's first or one after idleness.
    pub(super) fn begin(&mut self) {
        *self = Self { leaving: true, conservative: self.conservative, ..Self::default() };
    }

    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        if self.leaving {
            self.sent += bytes;
        }
    }

    /// SND.UNA advanced by `cumulative`; call after the ACK's losses were reported.
    pub(super) fn on_ack(&mut self, cumulative: Bytes, delivered: Bytes) {
        if delivered > Bytes::ZERO {
            self.leaving = false;
        }
        self.acknowledged += cumulative;
    }

    /// Whether no acknowledgement of the flight has come yet.
    pub(super) const fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// A loss or timeout was found; the ACK that revealed it advanced SND.UNA by `cumulative`.
    pub(super) fn on_loss(&mut self, cumulative: Bytes) {
        if self.sent > FALLBACK_FLIGHT && self.acknowledged + cumulative < self.sent {
            self.conservative = true;
        }
    }

    /// The most that a restart may use, where the initial window of the connection is `initial`.
    pub(super) fn window(&self, initial: Bytes, mss: Bytes) -> Bytes {
        if self.conservative { initial.min(initial_window::rfc3390(mss)) } else { initial }
    }
}
