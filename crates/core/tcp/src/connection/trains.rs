//! Segments that continue the one before them in a receive batch, as receive offload delivers them. They cost less than
//! others, because most of what they say has been checked with the first.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use bytes::Bytes;
use longhaul_units::Time;
use longhaul_wire::{Ecn, Flags, Header};

use super::Connection;
use super::Pressure;
use super::input::{Arrival, Payload, SegmentMeta};
use crate::info::add;

/// Segments that follow one another without a gap, with payloads of the same length, as they lie in a receive buffer.
#[derive(Debug)]
pub(crate) struct Train<'a> {
    /// The buffer.
    pub(crate) buffer: &'a Bytes,
    /// The part of it from the first payload to the end of the last.
    pub(crate) part: &'a [u8],
    /// Number of segments.
    pub(crate) count: usize,
    /// Bytes of each payload, and of the header before it.
    pub(crate) payload: u16,
    pub(crate) header: u16,
}

/// Returns whether a segment with this header may be followed by others in a train: it only acknowledges and carries
/// data.
pub(super) fn may_lead(meta: &SegmentMeta, header: &Header) -> bool {
    let is_plain = header.flags == Flags::ACK || header.flags == Flags::ACK | Flags::PSH;
    is_plain && meta.ecn != Ecn::Ce && header.options.only_timestamps().is_some()
}

impl Connection {
    /// Handles the next segment of a train: of the same receive batch as one for which
    /// [`handle_segment`](Self::handle_segment) or this method has returned `true`, with the same header except for the
    /// sequence number. Returns `false` if the segment does not follow in order, or something else needs to be checked;
    /// it must then be passed to `handle_segment`.
    ///
    /// The acknowledgment, the window and the timestamps of such a segment have been processed with those of the one
    /// before, and the timers have been set. TS.Recent does not change either, as long as the segment begins after the
    /// last ACK (RFC 7323, section 4.3).
    pub fn handle_next(&mut self, now: Time, meta: &SegmentMeta, header: &Header, payload: Payload<'_>) -> bool {
        let start = self.rcv.next_data();
        let follows = self.numbers.peer_offset(header.seq, start) == start as i64;
        let end = start.saturating_add(payload.len() as u64);
        let is_simple = follows
            && !payload.is_empty()
            && end < self.rcv.acceptable_data().end
            && start > self.rcv.acks.last_sent()
            && self.keeps_window(header, start)
            && self.observers.is_empty();
        if !is_simple {
            return false;
        }
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, 1);
        self.repeat_window(header, start);
        self.note_arrival(start as i64, meta.rx_time.unwrap_or(now).min(now), meta.coalesced);
        self.process_text(now, &Arrival { header, payload, start: start as i64 });
        true
    }

    /// Handles a train as [`handle_next`](Self::handle_next) handles its segments; `header` is that of the first. Returns
    /// `false` without a change if they have to be handled one by one: if something else needs to be checked, or if an ACK
    /// may be due after one of them.
    ///
    /// The segment before has shown that the connection takes data, and has woken the reader.
    pub(crate) fn handle_train(&mut self, now: Time, meta: &SegmentMeta, header: &Header, train: &Train<'_>) -> bool {
        let start = self.rcv.next_data();
        let payload = u64::from(train.payload);
        let end = start.saturating_add(payload.saturating_mul(train.count as u64));
        let last = end.saturating_sub(payload);
        let is_simple = self.numbers.peer_offset(header.seq, start) == start as i64
            && end < self.rcv.acceptable_data().end
            && start > self.rcv.acks.last_sent()
            && self.life.pressure != Pressure::Hard
            && self.rcv.acks.only_counts()
            && self.keeps_window(header, last)
            && self.observers.is_empty();
        if !is_simple || !self.rcv.append_train(train) {
            return false;
        }
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, train.count as u64);
        self.repeat_window(header, last);
        let arrived_at = meta.rx_time.unwrap_or(now).min(now);
        let starts = (start..end).step_by(train.payload.max(1).into());
        starts.for_each(|start| self.note_arrival(start as i64, arrived_at, meta.coalesced));
        add(&mut self.stats.bytes_received, end.saturating_sub(start));
        self.rcv.acks.count(train.count, train.payload.into());
        true
    }

    /// Returns whether a segment of a train, at `start`, leaves the send window at what it is. It does not if a segment beyond
    /// the first one has arrived before, with another window, and this is beyond that one.
    pub(super) fn keeps_window(&self, header: &Header, start: u64) -> bool {
        let window = u64::from(header.window) << self.negotiated.send_shift;
        self.acknowledged_by(header).is_none_or(|ack| self.snd.keeps_window(start, ack, window))
    }

    fn repeat_window(&mut self, header: &Header, start: u64) {
        if let Some(ack) = self.acknowledged_by(header) {
            self.snd.repeat_window(start, ack);
        }
    }

    /// Returns the offset in our stream that the ACK field acknowledges, unless it precedes the stream.
    pub(super) fn acknowledged_by(&self, header: &Header) -> Option<u64> {
        u64::try_from(self.numbers.our_offset(header.ack, self.snd.una())).ok()
    }
}
