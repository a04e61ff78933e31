//! Transmissions whose state the stack stores and returns when they are acknowledged or lost.

use longhaul_units::{Bytes, Span, Time};

use super::Driver;
use crate::ring::{Entry, Taken};

/// A transmission with the state at its send time, of zero bytes if it does not count as in flight.
#[derive(Clone, Copy, Debug)]
pub struct Kept(Entry);

impl Driver {
    /// Records that a packet was sent, with zero bytes if it does not count as in flight. `app_limited` means that the
    /// application could not fill the window.
    pub fn on_sent_kept(&mut self, at: Time, bytes: u64, app_limited: bool) -> Kept {
        if app_limited && bytes > 0 {
            self.sampler.on_app_limited(self.in_flight);
        }
        self.batch.app_limited = app_limited;
        Kept(self.send(at, None, bytes).unwrap_or_else(|| self.uncounted(at)))
    }

    /// Returns a transmission that does not count as in flight, such as an ACK. It takes the number of the last one that
    /// does, so that it neither ends a round trip nor recovery.
    fn uncounted(&mut self, at: Time) -> Entry {
        let (now, tx) = (self.now, self.next_tx.saturating_sub(1));
        let snapshot = self.sampler.snapshot(now, false, self.in_flight);
        Entry { tx, number: None, stamp: at, sent_at: now, bytes: 0, left: 0, tag: self.control.tag, snapshot }
    }

    /// Records an ACK that covers `bytes`. `newest` is the newest packet that it acknowledges, which need not count as in
    /// flight. `ack_delay` is the part of the round-trip time for which the peer delayed the ACK.
    pub fn on_sum_acked(&mut self, at: Time, newest: &Kept, bytes: u64, ack_delay: Span) {
        let now = self.advance(at);
        let bytes = Bytes(bytes).min(self.in_flight);
        if bytes == Bytes::ZERO {
            return;
        }
        self.batch.last = Some((now, self.in_flight));
        (self.batch.newest, self.batch.delivered) = (Some(newest.0), bytes);
        self.sampler.on_delivered(bytes.0, now);
        self.batch.ack_delay = ack_delay;
        self.on_end_acks(at, (self.in_flight - bytes).0);
    }

    /// A packet was lost.
    pub fn on_kept_lost(&mut self, at: Time, lost: &Kept, bytes: u64, persistent: bool) {
        let bytes = bytes.min(self.in_flight.0);
        if bytes > 0 {
            self.note_loss(&Taken { bytes, entry: lost.0 });
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
    pub const fn srtt(&self) -> Option<Span> {
        self.path.srtt
    }
}
