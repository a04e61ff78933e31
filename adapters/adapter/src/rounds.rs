//! Round trips.

use longhaul_units::Bytes;

/// Counter of round trips: a round ends when a transmission sent after its beginning is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Number of the first transmission after the round began.
    end: u64,
    /// Whether the window limited the sender in this round and in the previous one.
    pub(crate) limited: bool,
    was_limited: bool,
}

impl Rounds {
    /// Begins a round if `newest`, the newest acknowledged transmission, ends the current one. `next` is the number of the
    /// next transmission.
    pub(crate) fn advance(&mut self, newest: u64, next: u64, limited: bool) -> bool {
        let ends = newest >= self.end;
        if ends {
            (self.end, self.was_limited, self.limited) = (next, limited, false);
        }
        ends
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limited || self.was_limited
    }

    /// Returns whether the window is in use when an ACK arrives: it is full, or pacing holds the sender back while at
    /// least half of it is in use (RFC 7661, section 4.2).
    pub(crate) fn uses(app_limited: bool, prior_in_flight: Bytes, cwnd: Bytes) -> bool {
        !app_limited && prior_in_flight * 2 >= cwnd
    }
}
