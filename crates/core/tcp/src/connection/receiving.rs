//! Effects of an acceptable segment on the receive side (RFC 9293, section 3.10.7.4, seventh step; RFC 3168; RFC 7323).

use longhaul_wire::{Ecn, Flags};

use super::ack_schedule::Place;
use super::{Incoming, Receiving};
use crate::add;

#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// The segment lies outside the window or the stream.
    Outside,
    Refused,
    Taken {
        /// Number of its bytes within the window, and its position.
        arrived: (usize, Place),
        is_readable: bool,
        /// Whether the segment text is in order, has no duplicate part, and fills no hole.
        is_whole: bool,
    },
}

impl Receiving<'_> {
    /// Updates TS.Recent (RFC 7323, section 4.3): the echo belongs to the segment that fills the hole, or to the last
    /// one acknowledged. The arrival time may be long ago if this host was suspended.
    #[inline]
    pub(super) fn update_ts_recent(&mut self, segment: &Incoming<'_>) {
        let Some(value) = segment.timestamp().filter(|_| self.negotiated.timestamps) else { return };
        let at = segment.received_at();
        let last_ack = self.rcv.acks.last_sent as i64;
        if segment.start <= last_ack && !self.rcv.is_older_timestamp(at, value, self.numbers.clock.validity()) {
            self.rcv.set_ts_recent(value, at);
        }
    }

    /// Echoes CE by ECE until CWR arrives (RFC 3168, section 6.1.3).
    #[inline]
    pub(super) fn take_mark(&mut self, segment: &Incoming<'_>) {
        if !self.negotiated.ecn || segment.payload.is_empty() {
            return;
        }
        let is_marked = segment.meta.ecn == Ecn::Ce;
        if is_marked {
            add(&mut self.stats.incidents_mut().ce_in, 1);
        }
        self.rcv.acks.on_ecn(segment.has(Flags::CWR), is_marked);
    }

    fn set_probe_echo(&mut self, segment: &Incoming<'_>) {
        if self.negotiated.probe_echo {
            self.rcv.acks.probe_echo = segment.timestamp();
        }
    }

    pub(super) fn report_duplicate(&mut self, segment: &Incoming<'_>) {
        self.rcv.acks.dsack = Some((segment.start as u64, segment.data_end() as u64));
        add(&mut self.stats.incidents_mut().duplicate_bytes_in, segment.payload.len() as u64);
        self.set_probe_echo(segment);
    }

    /// Inserts the text of a segment, within the limits on memory, which are stricter if the endpoint is `pressed`.
    pub(super) fn take_text(&mut self, segment: &Incoming<'_>, pressed: bool) -> Text {
        let next = self.rcv.data.next as i64;
        // Trim the segment to the receive window and to the end of the stream.
        let admitted = self.rcv.acceptable_data();
        let from = (admitted.start as i64).saturating_sub(segment.start).max(0) as usize;
        let to = (admitted.end as i64).saturating_sub(segment.start).max(0) as usize;
        let part = segment.payload.part(from, to);
        if part.is_empty() {
            return Text::Outside;
        }
        if !self.rcv.has_memory_for(part.len(), segment.start <= next, pressed) {
            add(&mut self.stats.incidents_mut().bytes_refused, part.len() as u64);
            return Text::Refused;
        }
        let start = segment.start.max(1) as u64;
        // Whether the data continues the range beyond a hole that has changed most recently.
        let same_block = self.rcv.data.newest_range().is_some_and(|range| range.end == start);
        let inserted = self.rcv.insert(start, part.keep());
        if let Some(buffer) = part.shared.filter(|_| inserted.advanced) {
            self.rcv.data.pin(buffer, inserted.new_bytes);
        }
        add(&mut self.stats.bytes_received, inserted.new_bytes as u64);
        if let Some(duplicate) = &inserted.duplicate {
            self.rcv.acks.dsack = Some((duplicate.start, duplicate.end));
            add(&mut self.stats.incidents_mut().duplicate_bytes_in, duplicate.end.saturating_sub(duplicate.start));
        }
        let plain = inserted.in_order && inserted.duplicate.is_none();
        if let Some(echo) = segment.echo().filter(|_| plain && self.negotiated.timestamps) {
            self.rcv.round_trip(self.numbers.clock.age(segment.now, echo));
        }
        if !plain {
            self.set_probe_echo(segment);
        }
        let place = match plain {
            true => Place::Next,
            false if same_block && !inserted.advanced && inserted.duplicate.is_none() => Place::SameBlock,
            false => Place::Other,
        };
        Text::Taken { arrived: (part.len(), place), is_readable: inserted.advanced, is_whole: plain && from == 0 }
    }
}
