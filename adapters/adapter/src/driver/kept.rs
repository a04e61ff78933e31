//! Transmissions whose state the stack stores and returns when they are acknowledged or lost.

use longhaul_units::{Bytes, Time};

use super::Driver;
use crate::ring::{Entry, Taken};

/// A transmission with the state at its send time, or `None` if it does not count as in flight.
#[derive(Clone, Copy, Debug)]
pub struct Kept(Option<Entry>);

impl Driver {
    /// Records that a packet was sent, with zero bytes if it does not count as in flight. `app_limited` means that the
    /// application could not fill the window.
    pub fn on_sent_kept(&mut self, at: Time, bytes: u64, app_limited: bool) -> Kept {
        if app_limited && bytes > 0 {
            self.sampler.on_app_limited(self.in_flight);
        }
        self.batch.app_limited = app_limited;
        Kept(self.send(at, None, bytes))
    }

    /// Records an ACK that covers `bytes`. `newest` is the newest packet that it acknowledges.
    pub fn on_sum_acked(&mut self, at: Time, newest: &Kept, bytes: u64) {
        let now = self.advance(at);
        let Some(newest) = newest.0 else { return };
        let bytes = Bytes(bytes).min(self.in_flight);
        self.batch.last = Some((now, self.in_flight));
        (self.batch.newest, self.batch.delivered) = (Some(newest), bytes);
        self.sampler.on_delivered(bytes.0, now);
        self.on_end_acks(at, (self.in_flight - bytes).0);
    }

    /// A packet was lost.
    pub fn on_kept_lost(&mut self, at: Time, lost: &Kept, bytes: u64, persistent: bool) {
        let Some(entry) = lost.0 else { return };
        let bytes = bytes.min(self.in_flight.0);
        if bytes > 0 {
            self.note_loss(&Taken { bytes, entry });
            self.conclude(at, persistent);
        }
    }

    /// Records that packets of `bytes` in total were discarded together with their packet number space.
    pub fn on_discarded(&mut self, bytes: u64) {
        self.in_flight -= Bytes(bytes);
        self.note_idleness(self.now);
    }

    /// Returns the bytes in flight, which this driver counts for stacks that do not count them.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight.0
    }

    /// Returns the smoothed RTT.
    #[must_use]
    pub const fn srtt(&self) -> Option<longhaul_units::Span> {
        self.path.srtt
    }
}
