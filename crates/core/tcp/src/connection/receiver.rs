//! Receive side: the peer's data, the window offered for it, and TS.Recent.

use std::ops::Range;

use bytes::Bytes;
use longhaul_units::{Span, Time};

use super::ack_schedule::AckSchedule;
use super::{Flow, Reclaimable};
use crate::reassembly::{Inserted, Limits, Reassembly};
use crate::{Config, seq};

/// In-order data that is accepted under hard memory pressure.
const SMALL: usize = 16 << 10;

/// Receive side. Data reception and acknowledgment share RCV.NXT and the holes.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) data: Reclaimable<Reassembly>,
    pub(super) acks: AckSchedule,
    pub(super) inflow: Flow,
    /// The highest right edge ever advertised: data below it is accepted.
    pub(super) edge: u64,
    /// Stream offset up to which the application has read; the window counts from here.
    pub(super) consumed: u64,
    /// Current size of the buffer, and its upper limit.
    pub(super) capacity: u64,
    ceiling: u64,
    /// TS.Recent, and the arrival time of the segment that carried it, if there was one.
    pub(super) ts_recent: u32,
    ts_recent_at: Option<Time>,
    fin: Option<u64>,
    /// Whether the application will no longer read: arriving data triggers a RST (RFC 9293, section 3.6.1).
    pub(super) closed: bool,
    /// Start of the current measurement for auto-tuning: time, and the offset read by then.
    tune_since: Time,
    tune_consumed: u64,
    /// The shortest time since `tune_since` from an ACK to the data that it triggered.
    round_trip: Option<Span>,
}

impl Receiver {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        let ceiling = config.recv_buffer_max.clamp(1, 1 << 30) as u64;
        Self {
            acks: AckSchedule::new(config.quick_acks),
            consumed: 1,
            capacity: (config.recv_buffer as u64).clamp(1, ceiling),
            ceiling,
            tune_since: now,
            tune_consumed: 1,
            ..Self::default()
        }
    }

    /// Starts the stream after the peer's SYN, with the `window` in bytes that our SYN or SYN-ACK offers. Without
    /// window scaling, the buffer is at most as large as the window field can express.
    pub(super) fn on_peer_syn(&mut self, window: u64, scaling: bool) {
        self.data = Reclaimable::new(1);
        self.edge = 1 + window;
        if !scaling {
            self.ceiling = self.ceiling.min(u64::from(u16::MAX));
            self.capacity = self.capacity.min(self.ceiling);
        }
    }

    pub(super) fn on_ack_sent(&mut self) {
        self.acks.on_ack_sent(self.next());
    }

    pub(super) fn set_ts_recent(&mut self, value: u32, at: Time) {
        (self.ts_recent, self.ts_recent_at) = (value, Some(at));
    }

    /// First step of RFC 9293, section 3.10.7.4: returns whether a segment overlaps the receive window. It ends at `end`, SYN
    /// and FIN included.
    pub(super) fn is_acceptable(&self, start: i64, end: i64, rst: bool) -> bool {
        let next = self.next() as i64;
        let edge = (self.edge as i64).max(next);
        let within = |offset: i64| next <= offset && offset < edge;
        match (end.saturating_sub(start), edge.saturating_sub(next)) {
            // The ACKs and RSTs of a sender may come after the octet with which it has probed our closed window. Such a
            // RST is answered with a challenge ACK.
            (0, 0) => start == next || start == next + 1,
            // A sender that has filled the window sends pure ACKs at its right edge. If both sides have filled the
            // other's window, dropping these ACKs would stop both directions until the first retransmission. Linux and
            // other stacks also accept them. A RST must lie within the window.
            (0, _) => within(start) || (start == edge && !rst),
            // With a closed window, ACKs and RSTs are still accepted (RFC 9293, section 3.10.7.4).
            (_, 0) => start == next,
            (_, _) => within(start) || within(end.saturating_sub(1)) || (start < next && end > next),
        }
    }

    /// Returns whether a segment outside the receive window begins with data that was received before, no further back than
    /// a full buffer.
    pub(super) fn repeats_recent_data(&self, start: i64) -> bool {
        let next = self.next() as i64;
        (next.saturating_sub(self.capacity as i64)..next).contains(&start)
    }

    /// Returns the offsets of the data that is accepted: from the first byte of the stream up to the edge of the
    /// window and the end of the stream.
    pub(super) fn acceptable_data(&self) -> Range<u64> {
        1..self.fin.map_or(self.edge, |fin| fin.min(self.edge))
    }

    /// Returns whether `len` bytes may be buffered. Under hard memory pressure only a little in-order data is accepted;
    /// other data is treated as lost.
    pub(super) fn has_memory_for(&self, len: usize, in_order: bool, pressed: bool) -> bool {
        !pressed || (in_order && self.data.unread.saturating_add(len) <= SMALL)
    }

    /// Adds data. There may be as many out-of-order ranges as a full window of alternating segments has.
    pub(super) fn insert(&mut self, start: u64, data: Bytes) -> Inserted {
        let ranges = (self.capacity / 1024).clamp(128, 1 << 16) as usize;
        let memory = (self.capacity as usize).saturating_mul(2).max(64 << 10);
        self.data.insert(start, data, Limits { ranges, memory })
    }

    /// Records the end of the peer's stream at `end`. Returns `false` if the end is already known or contradicts
    /// received data or the offered window. A FIN beyond a hole takes effect when the hole is filled.
    pub(super) fn record_fin(&mut self, end: i64) -> bool {
        let arrived = self.data.ranges().next_back().map_or(self.data.next, |range| range.end);
        let records = self.fin.is_none() && (arrived as i64..=self.edge as i64).contains(&end);
        if records {
            self.fin = Some(end as u64);
        }
        records
    }

    pub(super) fn free_spare_memory(&mut self) {
        self.data.rest(Reassembly::rest);
        self.acks.queue.shrink_to_fit();
    }

    /// Returns whether [`free_spare_memory`](Self::free_spare_memory) would drop something.
    pub(super) fn holds_empty_parts(&self) -> bool {
        self.data.made().is_some_and(Reassembly::is_empty)
    }

    /// Returns RCV.NXT, which includes the peer's FIN once everything before it has arrived.
    pub(super) fn next(&self) -> u64 {
        let next = self.data.next;
        if self.fin == Some(next) { next.saturating_add(1) } else { next }
    }

    /// Returns whether everything up to and including the peer's FIN has arrived.
    pub(super) fn fin_reached(&self) -> bool {
        self.fin.is_some_and(|fin| self.data.next == fin)
    }

    pub(super) fn syn_window(&self, shift: u8) -> u16 {
        (self.capacity >> shift).min(u64::from(u16::MAX)) as u16
    }

    pub(super) fn memory(&self) -> usize {
        self.data.made().map_or(0, Reassembly::memory)
    }

    /// Returns whether a timestamp is older than TS.Recent, unless TS.Recent is older than `validity` (RFC 7323,
    /// section 5.5).
    pub(super) fn is_older_timestamp(&self, now: Time, value: u32, validity: Span) -> bool {
        let comparable = self.ts_recent_at.is_some_and(|at| now - at <= validity);
        comparable && seq::later(self.ts_recent, value)
    }

    fn buffer_end(&self) -> u64 {
        self.consumed.saturating_add(self.capacity)
    }

    /// Returns how far the right edge could advance, in whole units of `1 << shift` from RCV.NXT. An empty buffer
    /// smaller than a unit offers a whole unit, because otherwise it could not offer anything.
    fn gain(&self, shift: u8) -> u64 {
        let next = self.next();
        let units = (self.buffer_end().saturating_sub(next) >> shift).max(u64::from(next == self.consumed));
        next.saturating_add(units.min(u64::from(u16::MAX)) << shift).saturating_sub(self.edge)
    }

    /// Returns the window field to send with shift `shift`, and updates the right edge below which data is accepted.
    ///
    /// The edge advances by at least one segment or half the buffer (RFC 9293, section 3.8.6.2.2) and never moves left.
    /// The advertised edge may be lower by less than a unit: after a segment whose length is not a multiple of the
    /// unit, the old edge cannot be expressed. The window is rounded up if the result ends less than a unit beyond the
    /// buffer, otherwise down, as RFC 7323, section 2.4, anticipates; a receiver with a bounded buffer cannot avoid
    /// this.
    pub(super) fn offer_window(&mut self, shift: u8, mss: u16) -> u16 {
        let next = self.next();
        let unit = 1u64 << shift;
        let gain = self.gain(shift);
        if gain > 0 && gain >= u64::from(mss).min(self.capacity / 2) {
            self.edge = self.edge.saturating_add(gain);
        }
        let open = self.edge.saturating_sub(next);
        let rounded = next.saturating_add(open.next_multiple_of(unit));
        let units = if rounded < self.buffer_end().saturating_add(unit) { open.div_ceil(unit) } else { open >> shift };
        let units = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(next.saturating_add(units << shift));
        units as u16
    }

    pub(super) fn wants_update(&self, shift: u8, mss: u16) -> bool {
        let open = self.edge.saturating_sub(self.next());
        let gain = self.gain(shift);
        // If less than two segments are open, a gain of two is announced. A wider window also grows with the ACKs of
        // arriving data, so only a gain of a quarter of the buffer is announced.
        gain >= (self.capacity / 2).min(u64::from(mss) * 2).max(1)
            && (open < u64::from(mss) * 2 || gain >= self.capacity / 4)
    }

    /// Records the age of the timestamp that in-order data echoes: one round trip plus the time that the sender waited.
    pub(super) fn round_trip(&mut self, age: Option<Span>) {
        let Some(age) = age else { return };
        self.round_trip = Some(self.round_trip.map_or(age, |least| least.min(age)));
    }

    /// Grows the buffer to four times the data that the application read in a round trip, so that a sender that
    /// doubles its window per round trip is never limited by the receive window (dynamic right-sizing, Fisk and Feng
    /// 2001). `srtt` covers only data sent by this side. If this side only receives, it is the RTT of the handshake,
    /// and only timestamps show the queueing delay that was added since.
    pub(super) fn tune(&mut self, now: Time, srtt: Option<Span>) {
        let Some(rtt) = self.round_trip.max(srtt) else { return };
        if now - self.tune_since < rtt {
            return;
        }
        let read = self.consumed.saturating_sub(self.tune_consumed);
        self.tune_since = now;
        self.tune_consumed = self.consumed;
        self.round_trip = None;
        self.capacity = self.capacity.max(read.saturating_mul(4).min(self.ceiling));
    }
}

#[cfg(test)]
mod tests;
