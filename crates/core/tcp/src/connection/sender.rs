//! Send sequence variables (RFC 9293, section 3.3.1), the data that they delimit, and the response to ECE.

use bytes::Buf;
use longhaul_cc::TxId;
use longhaul_units::{Span, Time};

use super::persist::Persist;
use super::{Flow, Reclaimable};
use crate::scoreboard::Told;
use crate::send_buffer::{Layout, SendBuffer};
use crate::{Batch, Burst, Config, Record, Scoreboard, SegmentRef};

/// Number of copied bytes after which a write ends, so that it does not occupy a thread for long. No chunk is longer.
const COPY_LIMIT: usize = 256 << 10;

mod ahead;
mod window;

use ahead::Ahead;
pub(super) use ahead::AheadBounds;
pub(super) use window::WindowUpdate;

/// Limit of unsent data, at which writers block: enough for the time until they are woken. More costs memory, and leaves the
/// processor's caches before it is sent: with 4 MiB, sending a gigabyte took a fifth more processor time on a busy machine.
const UNSENT_ALONE: u64 = 256 << 10;
/// Minimum share of that limit with other connections: about the amount of one send call. The writer is woken while the
/// others send.
const UNSENT_LEAST: u64 = 64 << 10;
/// The limit while the peer's window is closed.
const UNSENT_WINDOW_CLOSED: u64 = 4 << 20;
/// The smallest MSS accepted from a peer: with a smaller one, metadata outweighs data (CVE-2019-11479).
const MIN_PEER_MSS: u16 = 128;

/// Send side: queued and outstanding data, and the peer's window.
///
/// Data sent ahead is a part of it, not an extension, because it moves the bounds that this type maintains: acceptable ACKs, the room for writers, and SND.NXT.
#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) buffer: Reclaimable<SendBuffer>,
    pub(super) board: Reclaimable<Scoreboard>,
    pub(super) persist: Persist,
    /// SND.UNA and SND.NXT as stream offsets.
    pub(super) una: u64,
    pub(super) nxt: u64,
    /// SND.WND in bytes, the largest window ever, SND.WL1 and SND.WL2.
    pub(super) window: u64,
    max_window: u64,
    pub(super) wl1: u64,
    pub(super) wl2: u64,
    /// The MSS from the peer's SYN, without deducting options.
    peer_mss: u16,
    /// Whether the application has shut down its side: a FIN follows the last byte.
    pub(super) fin_queued: bool,
    pub(super) fin_sent: bool,
    pub(super) nodelay: bool,
    /// End of the newest segment that was shorter than the MSS.
    pub(super) short_end: u64,
    /// The limit of unsent data that the application has set.
    lowat: Option<u32>,
    /// Number of other connections of the endpoint that waited for their turn to send when this one had its last.
    pub(super) others: u16,
    /// Whether the override timeout of silly-window avoidance has fired: a segment of any size may be sent (RFC 9293,
    /// section 3.8.6.2.1).
    pub(super) override_sws: bool,
    /// Whether a writer found the buffer full and waits for [`Event::Writable`](super::Event::Writable).
    pub(super) writer_blocked: bool,
    /// Whether the next new data segment carries CWR (RFC 3168, section 6.1.2).
    pub(super) cwr_due: bool,
    /// Offset until whose acknowledgment ECE triggers no further reduction.
    ece_answered_until: u64,
    /// The time of the last transmission; idle time before a restart counts from here.
    pub(super) last_sent: Option<Time>,
    pub(super) outflow: Flow,
    /// The time since which the window has had room but the application has had no data to send; cleared when new
    /// data is sent.
    app_limited_since: Option<Time>,
    /// Data sent beyond SND.NXT, if this was ever intended.
    pub(super) ahead: Option<Box<Ahead>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NewSegment {
    pub(super) tx: TxId,
    pub(super) start: u64,
    pub(super) fin: bool,
}

/// Flipped pair of segments that was added to the scoreboard; the one at `middle` is sent first.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPair {
    pub(super) first_tx: TxId,
    pub(super) second_tx: TxId,
    pub(super) start: u64,
    pub(super) middle: u64,
    pub(super) end: u64,
}

#[expect(clippy::multiple_inherent_impl, reason = "window and data sent ahead have their files")]
impl Sender {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            buffer: Reclaimable::new((config.send_buffer, 1)),
            board: Reclaimable::new(Scoreboard::UNUSED),
            peer_mss: 536,
            nodelay: !config.nagle,
            lowat: lowat(config),
            ..Self::default()
        }
    }

    pub(super) fn on_peer_syn(&mut self, mss: u16, window: u64) -> u16 {
        self.peer_mss = mss.max(MIN_PEER_MSS);
        (self.window, self.max_window) = (window, window);
        (self.wl1, self.wl2) = (0, 0);
        self.peer_mss
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
        self.max_window = self.max_window.max(window);
    }

    pub(super) fn configure(&mut self, config: &Config) {
        self.buffer.capacity = config.send_buffer;
        self.lowat = lowat(config);
    }

    pub(super) fn write(&mut self, data: &[u8], layout: Layout) -> usize {
        let data = data.get(..self.room()).unwrap_or(data);
        self.buffer.write(data, layout, self.nxt.max(1))
    }

    /// Like `write`, for the chunks of `data`: large chunks are not copied if they are [`Bytes`](bytes::Bytes), and the
    /// rest remains in `data`.
    pub(super) fn write_bytes(&mut self, data: &mut impl Buf, layout: Layout) -> usize {
        let (mut taken, mut copied) = (0, 0);
        while copied < COPY_LIMIT {
            let room = self.room().min(COPY_LIMIT);
            let (len, is_copy) = self.buffer.write_chunk(data, room, layout, self.nxt.max(1));
            if len == 0 {
                break;
            }
            taken += len;
            copied += if is_copy { len } else { 0 };
        }
        taken
    }

    /// Returns whether to wake the waiting writer, which then no longer waits. Room for a single segment is not enough,
    /// so wake-ups are rare.
    pub(super) fn wake_writer(&mut self) -> bool {
        let wakes = self.writer_blocked
            && self.buffer.free() >= self.buffer.capacity / 4
            && self.unsent() <= self.unsent_limit() / 2;
        self.writer_blocked &= !wakes;
        wakes
    }

    /// Adds a new segment of `len` bytes at SND.NXT to the scoreboard, with our FIN if it is queued, follows, and the
    /// peer's window admits it.
    pub(super) fn send_new(&mut self, len: u16, mtu_probe: bool) -> NewSegment {
        let start = self.nxt.max(1);
        let end = start + u64::from(len);
        // A FIN without data that the window does not admit is a zero-window probe.
        let fin = self.has_unsent_fin() && end == self.buffer.end() && (len == 0 || end < self.window_edge());
        let tx = self.board.push(start, len, fin, mtu_probe);
        self.nxt = end + u64::from(fin);
        self.fin_sent |= fin;
        // Both permissions apply only to a single segment.
        self.persist.due = false;
        self.override_sws = false;
        if self.pass_ahead(start, self.nxt) {
            self.board.note_early();
        }
        NewSegment { tx, start, fin }
    }

    /// Returns whether only new data, the windows and pacing determine the next segment.
    pub(super) fn admits_series(&self) -> bool {
        self.ahead.is_none() && !self.cwr_due && !self.persist.due && self.app_limited_since.is_none()
    }

    /// Adds `count` segments of `len` bytes of new data from SND.NXT on, which do not end the queued data. Returns the
    /// first transmission, and the start of its segment.
    pub(super) fn send_series(&mut self, len: u16, count: u32) -> (TxId, u64) {
        let start = self.nxt.max(1);
        let tx = self.board.append(start, len, 0, count);
        self.nxt = start + u64::from(len) * u64::from(count);
        (tx, start)
    }

    /// Adds two new segments of `len` and `next_len` bytes at SND.NXT, of which the second is sent first.
    pub(super) fn send_flipped(&mut self, len: u16, next_len: u16) -> NewPair {
        let start = self.nxt.max(1);
        let middle = start + u64::from(len);
        let (first_tx, second_tx) = self.board.push_flipped(start, len, next_len);
        self.nxt = middle + u64::from(next_len);
        NewPair { first_tx, second_tx, start, middle, end: self.nxt }
    }

    pub(super) fn on_transmission(&mut self, now: Time, round_trip: Option<Span>) {
        self.last_sent = Some(now);
        self.outflow.note(now, round_trip);
    }

    /// Records that the application has no data to send. A writer that waits for buffer space has more, so it does not
    /// count.
    pub(super) fn on_app_limited(&mut self, now: Time) {
        if !self.writer_blocked {
            self.app_limited_since.get_or_insert(now);
        }
    }

    /// Returns how long the application had no data to send before the new data that is sent at `now`.
    pub(super) fn end_pause(&mut self, now: Time) -> Span {
        self.app_limited_since.take().map_or(Span::ZERO, |since| now - since)
    }

    /// Advances SND.UNA to `ack`, calls `delivered` for segments that are newly delivered, and returns their total
    /// number of bytes.
    pub(super) fn acknowledge(
        &mut self,
        ack: u64,
        mss: u64,
        told: Told<'_>,
        delivered: impl FnMut(&Record, &Burst),
    ) -> u64 {
        let bytes = self.board.acknowledge(ack, told, delivered);
        self.una = ack;
        self.acknowledge_ahead(ack, mss);
        bytes
    }

    /// Processes a SACK block above SND.UNA in the same way. Returns `None` if it covers data that was not sent.
    pub(super) fn sack(
        &mut self,
        (left, right): (u64, u64),
        mss: u64,
        delivered: impl FnMut(&Record, &Burst),
    ) -> Option<u64> {
        if right > self.nxt && !self.sack_ahead(left, right, mss) {
            return None;
        }
        Some(self.board.sack(left, right.min(self.nxt), delivered))
    }

    /// Releases the data below SND.UNA; a window probe that was in flight is acknowledged with it.
    pub(super) fn release_acknowledged(&mut self) {
        self.persist.in_flight = false;
        let end = self.buffer.end();
        self.buffer.advance(self.una.min(end));
    }

    /// Returns whether a segment that the peer's window shortens to `len` bytes may be sent (RFC 9293, section
    /// 3.8.6.2.1).
    pub(super) fn admits_shortened(&self, len: u64) -> bool {
        len > 0 && (len >= self.max_window / 2 || self.override_sws)
    }

    /// Begins a response to ECE. Returns whether to reduce the window: once per window of data, until the data in
    /// flight at the last response is acknowledged (RFC 3168, section 6.1.2). CWR is then due.
    pub(super) fn respond_to_ece(&mut self) -> bool {
        let responds = self.una > self.ece_answered_until;
        if responds {
            self.ece_answered_until = self.nxt;
            self.cwr_due = true;
        }
        responds
    }

    /// Clears all SACK state because the receiver reneged (RFC 2018, section 8).
    pub(super) fn renege(&mut self) {
        self.board.renege();
        self.clear_received();
    }

    pub(super) fn free_spare_memory(&mut self) {
        self.buffer.rest(SendBuffer::rest);
        self.board.rest(Scoreboard::rest);
    }

    /// Returns whether [`free_spare_memory`](Self::free_spare_memory) would drop something.
    pub(super) fn holds_empty_parts(&self) -> bool {
        let is_empty = self.buffer.made().is_none_or(SendBuffer::is_empty);
        is_empty && (self.buffer.made().is_some() || self.board.made().is_some())
    }

    pub(super) fn frames<'a>(&'a mut self, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.buffer.frames(&batch.headers, &batch.segments, out)
    }

    pub(super) fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.buffer.slices(segment.payload(), each);
    }

    /// Returns the lowest and the highest acceptable acknowledgment (RFC 5961, section 5.2). They are signed, because
    /// old ones may precede the stream.
    pub(super) fn acceptable_acks(&self) -> (i64, i64) {
        let oldest = (self.una as i64).saturating_sub(self.max_window.min(1 << 30) as i64);
        (oldest, self.sent_to() as i64)
    }

    pub(super) fn lost_bytes(&self) -> u64 {
        self.board.made().map_or(0, |board| board.lost_bytes)
    }

    pub(super) fn has_outstanding(&self) -> bool {
        self.board.made().is_some_and(|board| !board.is_empty())
    }

    /// Returns FlightSize (RFC 5681, section 2), without data that the peer had received before SND.NXT reached it.
    pub(super) fn flight_size(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.board.passed_bytes)
    }

    pub(super) fn room(&self) -> usize {
        let below = self.unsent_limit().saturating_sub(self.unsent());
        self.buffer.free().min(usize::try_from(below).unwrap_or(usize::MAX))
    }

    fn unsent_limit(&self) -> u64 {
        match self.lowat {
            Some(bytes) => bytes.into(),
            // Data that will be sent ahead is sent soon.
            None if self.ahead.as_ref().is_some_and(|ahead| ahead.is_intended) => u64::MAX,
            // The peer may be waiting for this application to read, and it may do so only after its write has
            // succeeded.
            None if self.usable_window() < self.peer_mss.into() => UNSENT_WINDOW_CLOSED,
            None => (UNSENT_ALONE / (1 + u64::from(self.others))).max(UNSENT_LEAST),
        }
    }

    /// Returns the number of queued bytes that were never sent, without the FIN.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt.max(1))
    }

    pub(super) fn has_unsent_fin(&self) -> bool {
        self.fin_queued && !self.fin_sent
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent() > 0 || self.has_unsent_fin()
    }

    /// Returns whether everything queued has been acknowledged, the FIN included.
    pub(super) fn is_settled(&self) -> bool {
        !self.has_unsent() && !self.has_outstanding()
    }

    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Returns whether the response to an ECE is not confirmed yet: CWR is due, or data in flight at the reduction is
    /// outstanding.
    pub(super) fn is_responding_to_ece(&self) -> bool {
        self.cwr_due || self.una <= self.ece_answered_until
    }

    /// Returns the time of the last transmission. With a closed window, only probes are sent, and these do not end an
    /// idle period.
    pub(super) fn idle_since(&self) -> Option<Time> {
        self.last_sent.filter(|_| self.window > 0)
    }

    pub(super) fn memory(&self) -> usize {
        self.buffer.made().map_or(0, SendBuffer::memory)
            + self.board.made().map_or(0, Scoreboard::memory)
            + self.ahead.as_ref().map_or(0, |ahead| ahead.memory())
    }
}

fn lowat(config: &Config) -> Option<u32> {
    config.notsent_lowat.map(|bytes| u32::try_from(bytes.max(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
