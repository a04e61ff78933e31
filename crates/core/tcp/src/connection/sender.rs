//! Send sequence variables (RFC 9293, section 3.3.1), the data that they delimit, and the response to ECE.

use bytes::Buf;
use longhaul_cc::TxId;
use longhaul_units::{Span, Time};

use super::Flow;
use super::persist::Persist;
use crate::scoreboard::Told;
use crate::send_buffer::{Layout, SendBuffer};
use crate::{Batch, Burst, Config, Record, Scoreboard, SegmentRef};

/// After this many copied bytes a write ends, so that it does not occupy a thread for long. No chunk is longer.
const COPY_LIMIT: usize = 256 << 10;

mod rc3;
mod rest;
mod unsent;
mod window;

pub(super) use rc3::Bounds;
use rc3::Rc3Loop;
pub(super) use rest::RestingSender;
use unsent::UnsentLimit;
pub(super) use window::{WindowField, WindowUpdate};

/// The smallest MSS accepted from a peer: with a smaller one, metadata outweighs data (CVE-2019-11479).
const MIN_PEER_MSS: u16 = 128;

/// Send side: queued and outstanding data, and the peer's window.
///
/// Data that the RC3 loop sent beyond SND.NXT is a part of it, not an extension, because it moves the bounds that this
/// type maintains: acceptable ACKs, the room for writers, and SND.NXT.
#[derive(Debug)]
pub(super) struct Sender {
    buffer: SendBuffer,
    board: Scoreboard,
    pub(super) persist: Persist,
    /// SND.UNA and SND.NXT as stream offsets.
    una: u64,
    nxt: u64,
    /// SND.WND in bytes, the largest window ever, SND.WL1 and SND.WL2.
    window: u64,
    max_window: u64,
    wl1: u64,
    wl2: u64,
    /// The MSS from the peer's SYN, without deducting options.
    peer_mss: u16,
    /// The application shut down its side: a FIN follows the last byte.
    fin_queued: bool,
    fin_sent: bool,
    nodelay: bool,
    /// End of the newest segment that was shorter than the MSS.
    short_end: u64,
    unsent_limit: UnsentLimit,
    /// The override timeout of silly-window avoidance fired: a segment of any size may be sent (RFC 9293, section
    /// 3.8.6.2.1).
    override_sws: bool,
    /// A writer found the buffer full and waits for [`Event::Writable`](super::Event::Writable).
    writer_blocked: bool,
    /// The next new data segment carries CWR (RFC 3168, section 6.1.2).
    cwr_due: bool,
    /// ECE triggers no further reduction until this offset is acknowledged.
    ece_answered_until: u64,
    /// The time of the last transmission; idle time before a restart counts from here.
    last_sent: Option<Time>,
    outflow: Flow,
    /// The time since which the window has had room but the application has had no data to send; cleared when new
    /// data is sent.
    app_limited_since: Option<Time>,
    /// Data sent beyond SND.NXT by the RC3 loop, if the controller ever started it.
    rc3: Option<Box<Rc3Loop>>,
}

/// New segment that was added to the scoreboard.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewSegment {
    pub(super) tx: TxId,
    /// Stream offset of its data.
    pub(super) start: u64,
    /// Whether it carries our FIN.
    pub(super) fin: bool,
    /// Whether the RC3 loop had sent some of its data before.
    pub(super) was_sent_by_rc3: bool,
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

#[expect(clippy::multiple_inherent_impl, reason = "window, RC3 loop and form at rest have their files")]
impl Sender {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            buffer: SendBuffer::new(config.send_buffer),
            board: Scoreboard::new(),
            persist: Persist::default(),
            una: 0,
            nxt: 0,
            window: 0,
            max_window: 0,
            wl1: 0,
            wl2: 0,
            peer_mss: 536,
            fin_queued: false,
            fin_sent: false,
            nodelay: !config.nagle,
            short_end: 0,
            unsent_limit: UnsentLimit::new(config),
            override_sws: false,
            writer_blocked: false,
            cwr_due: false,
            ece_answered_until: 0,
            last_sent: None,
            outflow: Flow::default(),
            app_limited_since: None,
            rc3: None,
        }
    }

    /// Advances SND.NXT over our SYN.
    pub(super) fn on_syn(&mut self) {
        self.nxt = 1;
    }

    /// Takes the MSS and the window from the peer's SYN, and returns the MSS that applies.
    pub(super) fn on_peer_syn(&mut self, mss: u16, window: u64) -> u16 {
        self.peer_mss = mss.max(MIN_PEER_MSS);
        (self.window, self.max_window) = (window, window);
        (self.wl1, self.wl2) = (0, 0);
        self.peer_mss
    }

    /// Advances SND.UNA over our SYN.
    pub(super) fn on_syn_acknowledged(&mut self) {
        self.una = 1;
    }

    /// Sets SND.WL1 and SND.WL2 when the handshake ends (RFC 9293, section 3.10.7.4, SYN-RECEIVED).
    pub(super) fn begin_window_updates(&mut self, seq: u64, ack: u64) {
        (self.wl1, self.wl2) = (seq, ack);
    }

    /// Replaces SND.WND.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
        self.max_window = self.max_window.max(window);
    }

    /// Applies settings of the application.
    pub(super) fn configure(&mut self, config: &Config) {
        self.buffer.set_capacity(config.send_buffer);
        self.unsent_limit.configure(config);
    }

    pub(super) fn set_nodelay(&mut self, nodelay: bool) {
        self.nodelay = nodelay;
    }

    /// Queues as much of `data` as the buffer and the limit of unsent data admit, and returns the number of bytes.
    pub(super) fn write(&mut self, data: &[u8], layout: Layout) -> usize {
        let data = data.get(..self.room()).unwrap_or(data);
        self.buffer.write(data, layout, self.nxt.max(1))
    }

    /// Does the same with the chunks of `data`, without copying large ones if they are [`Bytes`](bytes::Bytes), and leaves
    /// the rest in it.
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

    /// Records that a writer waits for room.
    pub(super) fn block_writer(&mut self) {
        self.writer_blocked = true;
    }

    /// Returns whether to wake the waiting writer, which then waits no more. Room for a single segment is not enough,
    /// so wake-ups are rare.
    pub(super) fn wake_writer(&mut self) -> bool {
        let wakes = self.writer_blocked
            && self.buffer.free() >= self.buffer.capacity() / 4
            && self.unsent() <= self.unsent_limit() / 2;
        self.writer_blocked &= !wakes;
        wakes
    }

    /// Queues a FIN after the last byte.
    pub(super) fn queue_fin(&mut self) {
        self.fin_queued = true;
    }

    /// Starts a burst: the segments sent until the next one share a send time and a delivery-rate snapshot.
    pub(super) fn begin_burst(&mut self, burst: Burst) {
        self.board.begin_burst(burst);
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
        // Both permissions hold for one segment.
        self.persist.on_new_data();
        self.override_sws = false;
        let was_sent_by_rc3 = self.advance_rc3(start, self.nxt);
        if was_sent_by_rc3 {
            self.board.note_early();
        }
        NewSegment { tx, start, fin, was_sent_by_rc3 }
    }

    /// Returns whether nothing but new data, its windows and its pacing decides on the next segment.
    pub(super) fn admits_series(&self) -> bool {
        self.rc3.is_none() && !self.is_cwr_due() && !self.persist.is_due() && self.app_limited_since.is_none()
    }

    /// Adds `count` segments of `len` bytes of new data from SND.NXT on, which do not end the queued data. Returns the
    /// first transmission, and where its segment starts.
    pub(super) fn send_series(&mut self, len: u16, count: u32) -> (TxId, u64) {
        let start = self.nxt.max(1);
        let tx = self.board.push_series(start, len, count);
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

    /// Records the retransmission of a segment of the scoreboard.
    pub(super) fn retransmit(&mut self, index: u64) -> TxId {
        self.board.retransmit(index)
    }

    /// Records that data was sent at `now`.
    pub(super) fn on_transmission(&mut self, now: Time, round_trip: Option<Span>) {
        self.last_sent = Some(now);
        self.outflow.note(now, round_trip);
    }

    /// Returns the time for which segments may be joined to a burst.
    pub(super) fn patience(&self, now: Time, round_trip: Option<Span>) -> Span {
        self.outflow.patience(now, round_trip)
    }

    /// Restarts the idle time at `now`, although nothing was sent.
    pub(super) fn restart_idle_time(&mut self, now: Time) {
        self.last_sent = Some(now);
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

    /// Advances SND.UNA to `ack`, calls `delivered` for segments that are newly delivered, and returns the bytes of all.
    pub(super) fn acknowledge(
        &mut self,
        ack: u64,
        mss: u64,
        told: Told<'_>,
        delivered: impl FnMut(&Record, &Burst),
    ) -> u64 {
        let bytes = self.board.acknowledge(ack, told, delivered);
        self.una = ack;
        self.meet_rc3(ack, mss);
        bytes
    }

    /// Applies a SACK block above SND.UNA in the same way. Returns `None` if it covers data that was not sent.
    pub(super) fn sack(
        &mut self,
        (left, right): (u64, u64),
        mss: u64,
        delivered: impl FnMut(&Record, &Burst),
    ) -> Option<u64> {
        if right > self.nxt && !self.sack_beyond_nxt(left, right, mss) {
            return None;
        }
        Some(self.board.sack(left, right.min(self.nxt), delivered))
    }

    /// Releases the data below SND.UNA; a window probe that was in flight is acknowledged with it.
    pub(super) fn release_acknowledged(&mut self) {
        self.persist.on_una_advanced();
        self.buffer.advance(self.una.min(self.buffer.end()));
    }

    /// Permits a segment of any size, because the override timeout has expired (RFC 9293, section 3.8.6.2.1).
    pub(super) fn override_silly_window(&mut self) {
        self.override_sws = true;
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

    /// Returns whether the new segment that is sent next carries CWR, and records that it does.
    pub(super) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.cwr_due)
    }

    /// Splits outstanding segments that are longer than `mss`.
    pub(super) fn resegment(&mut self, mss: u16) {
        self.board.resegment(mss);
    }

    /// Splits outstanding segments that are longer than `mss`, up to the one at `last`.
    pub(super) fn resegment_to(&mut self, last: u64, mss: u16) {
        self.board.resegment_to(last, mss);
    }

    /// Clears all SACK state because the receiver reneged (RFC 2018, section 8).
    pub(super) fn renege(&mut self) {
        self.board.renege();
        self.clear_received();
    }

    /// Frees memory that is kept for the next burst.
    pub(super) fn free_spare_memory(&mut self) {
        self.buffer.rest();
        self.board.rest();
    }

    /// Appends the slices of a batch to `out`, and returns their length in bytes.
    pub(super) fn frames<'a>(&'a mut self, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.buffer.frames(&batch.headers, &batch.segments, out)
    }

    /// Calls `each` with the slices of a segment's payload in stream order.
    pub(super) fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.buffer.slices(segment.payload(), each);
    }

    /// Returns SND.UNA.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns SND.NXT.
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns SND.WND.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Returns the lowest and the highest acceptable acknowledgment (RFC 5961, section 5.2). They are signed, because
    /// old ones may precede the stream.
    pub(super) fn acceptable_acks(&self) -> (i64, i64) {
        let oldest = (self.una as i64).saturating_sub(self.max_window.min(1 << 30) as i64);
        (oldest, self.sent_to() as i64)
    }

    /// Returns the scoreboard of outstanding segments.
    pub(super) fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// Returns the scoreboard, for loss detection to mark segments in it.
    pub(super) fn board_mut(&mut self) -> &mut Scoreboard {
        &mut self.board
    }

    /// Returns whether any segment is outstanding.
    pub(super) fn has_outstanding(&self) -> bool {
        !self.board.is_empty()
    }

    /// Returns whether data, sent or not, is unacknowledged. A FIN is no data.
    pub(super) fn has_unacknowledged_data(&self) -> bool {
        self.una < self.buffer.end()
    }

    /// Returns FlightSize (RFC 5681, section 2), without data that the peer had received before SND.NXT reached it.
    pub(super) fn flight_size(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.board.passed_bytes())
    }

    /// Returns the number of bytes that a writer may add.
    pub(super) fn room(&self) -> usize {
        let below = self.unsent_limit().saturating_sub(self.unsent());
        self.buffer.free().min(usize::try_from(below).unwrap_or(usize::MAX))
    }

    /// Returns the number of unsent bytes at which writers block.
    fn unsent_limit(&self) -> u64 {
        self.unsent_limit.bytes(self.rc3_plan().is_some(), self.usable_window() < u64::from(self.peer_mss))
    }

    /// Sets the number of other connections that wait for their turn to send: the more there are, the less unsent data each
    /// has.
    pub(super) fn set_others(&mut self, others: usize) {
        self.unsent_limit.set_others(others);
    }

    /// Returns whether other connections wait to send as well, so that the next turn comes later than at once.
    pub(super) fn waits_its_turn(&self) -> bool {
        self.unsent_limit.has_others()
    }

    /// Returns the number of queued bytes that were never sent, without the FIN.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt.max(1))
    }

    /// Returns whether a segment of `len` bytes of new data is queued and fits into the peer's window.
    pub(super) fn can_send(&self, len: u16) -> bool {
        self.unsent().min(self.usable_window()) >= u64::from(len)
    }

    /// Returns the end of the queued data.
    pub(super) fn queued_end(&self) -> u64 {
        self.buffer.end()
    }

    /// Returns whether the send buffer is empty: nothing is queued and all data is acknowledged.
    pub(super) fn is_buffer_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns whether the send buffer is full.
    pub(super) fn is_buffer_full(&self) -> bool {
        self.buffer.free() == 0
    }

    /// Returns whether the Nagle algorithm is disabled.
    pub(super) fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// Records that the newest segment is shorter than the MSS.
    pub(super) fn note_short(&mut self) {
        self.short_end = self.nxt;
    }

    /// Returns whether a segment that is shorter than the MSS awaits its acknowledgment.
    pub(super) fn has_short_in_flight(&self) -> bool {
        self.short_end > self.una
    }

    /// Returns whether the application has closed its side.
    pub(super) fn is_fin_queued(&self) -> bool {
        self.fin_queued
    }

    /// Returns whether our FIN was sent at least once.
    pub(super) fn is_fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// Returns whether a FIN is queued and was never sent.
    pub(super) fn has_unsent_fin(&self) -> bool {
        self.fin_queued && !self.fin_sent
    }

    /// Returns whether data or the FIN is queued that was never sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent() > 0 || self.has_unsent_fin()
    }

    /// Returns whether all data and the FIN are acknowledged.
    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Returns whether the next new segment carries CWR.
    pub(super) fn is_cwr_due(&self) -> bool {
        self.cwr_due
    }

    /// Returns whether the response to an ECE is not confirmed yet: CWR is due, or data in flight at the reduction is
    /// outstanding.
    pub(super) fn is_responding_to_ece(&self) -> bool {
        self.cwr_due || self.una <= self.ece_answered_until
    }

    /// Returns the time of the last transmission.
    pub(super) fn last_sent(&self) -> Option<Time> {
        self.last_sent
    }

    /// Returns the time since the last transmission. With a closed window only probes are sent, which do not end an
    /// idle period.
    pub(super) fn idle_time(&self, now: Time) -> Option<Span> {
        self.last_sent.filter(|_| self.window > 0).map(|last| now - last)
    }

    /// Returns the memory in bytes of the buffer and the records.
    pub(super) fn memory(&self) -> usize {
        self.buffer.memory() + self.board.memory() + self.rc3.as_ref().map_or(0, |rc3| rc3.memory())
    }
}

#[cfg(test)]
mod tests;
