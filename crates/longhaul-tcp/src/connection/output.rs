//! What leaves: batches of segments of one size, for one `sendmsg` with segmentation offload.

use std::ops::Range;

use longhaul_cc::{EcnMark, SegmentKind, SendLimit, Sent, TxId};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header, NetworkOption, ProbeEcho, Timestamps};

use super::timers::Timer;
use super::{Connection, Event, State};
use crate::send_buffer::Layout;

/// UDP payload that one `sendmsg` may carry with segmentation offload.
const MAX_BATCH_BYTES: usize = 65_507;
/// Segments of one `sendmsg` (Linux: UDP_MAX_SEGMENTS, 64 on older kernels).
const MAX_BATCH_SEGMENTS: usize = 64;

/// Segments that leave together: one destination, one ECN mark, one DSCP, all of one size but for a shorter last one.
///
/// Headers are in [`headers`](Self::headers); payload stays in the connection's send buffer, named by offsets and
/// read through [`Connection::payload`]. Reused from call to call, it allocates nothing once it has grown.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The headers of all segments, one after the other.
    pub headers: Vec<u8>,
    /// The segments, in order.
    pub segments: Vec<SegmentRef>,
    /// UDP payload of every segment but the last, which may be shorter.
    pub segment_size: usize,
    /// The ECN codepoint of all of them.
    pub ecn: Ecn,
    /// Their DiffServ codepoint.
    pub dscp: u8,
    /// UDP payload of all of them together.
    pub len: usize,
}

/// One segment of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Bytes of header in [`Batch::headers`].
    pub header_len: u8,
    /// Payload bytes.
    pub payload_len: u16,
    /// Where the payload starts in the stream.
    pub payload_start: u64,
}

impl SegmentRef {
    /// The stream offsets of the payload.
    #[must_use]
    pub fn payload(&self) -> Range<u64> {
        self.payload_start..self.payload_start + u64::from(self.payload_len)
    }
}

impl Batch {
    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.segments.clear();
        (self.segment_size, self.len, self.dscp) = (0, 0, 0);
        self.ecn = Ecn::NotEct;
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Each segment with the bytes of its header.
    pub fn parts(&self) -> impl Iterator<Item = (&SegmentRef, &[u8])> {
        let mut headers = self.headers.as_slice();
        self.segments.iter().map(move |segment| {
            let (header, rest) = headers.split_at(usize::from(segment.header_len).min(headers.len()));
            headers = rest;
            (segment, header)
        })
    }

    /// Whether a segment of `size` bytes of UDP payload may still join.
    pub(super) fn admits(&self, size: usize, max_segments: usize) -> bool {
        let Some(last) = self.segments.last() else { return true };
        let last = usize::from(last.header_len) + usize::from(last.payload_len);
        last == self.segment_size
            && size <= self.segment_size
            && self.segments.len() < max_segments.min(MAX_BATCH_SEGMENTS)
            && self.len + size <= MAX_BATCH_BYTES
    }

    pub(crate) fn push(&mut self, header: &Header, payload_start: u64, payload_len: u16) {
        let at = self.headers.len();
        self.headers.resize(at + 60, 0);
        let room = self.headers.get_mut(at..).unwrap_or_default();
        // Sixty bytes hold any header: 12 and 40 of options.
        let len = CheshireCodec::emit(header, room).unwrap_or(0);
        self.headers.truncate(at + len);
        self.note(len, payload_start, payload_len);
    }

    /// Repeats the last header with another sequence number.
    pub(super) fn push_like_last(&mut self, sequence: u32, payload_start: u64, payload_len: u16) {
        let Some(last) = self.segments.last() else { return };
        let len = usize::from(last.header_len);
        let at = self.headers.len();
        self.headers.extend_from_within(at - len..);
        if let Some(field) = self.headers.get_mut(at + 4..at + 8) {
            field.copy_from_slice(&sequence.to_be_bytes());
        }
        self.note(len, payload_start, payload_len);
    }

    fn note(&mut self, header_len: usize, payload_start: u64, payload_len: u16) {
        let size = header_len + usize::from(payload_len);
        if self.segments.is_empty() {
            self.segment_size = size;
        }
        self.len += size;
        self.segments.push(SegmentRef { header_len: header_len as u8, payload_len, payload_start });
    }
}

impl Connection {
    /// Fills `batch` with what may leave now; `false` when there is nothing. Call it until then. `max_segments` is
    /// what the socket's segmentation offload takes at once (1 without).
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        let now = self.advance(now);
        batch.clear();
        if let Some(reset) = self.life.reset.take() {
            batch.push(&reset, 0, 0);
            self.stats.segments_out += 1;
            return true;
        }
        if self.life.state == State::Closed {
            return false;
        }
        self.follow_cadence();
        let left = self.transmit_second(now, batch)
            || self.transmit_queued_acks(batch, max_segments)
            || self.transmit_handshake(now, batch)
            || self.transmit_data(now, batch, max_segments)
            || self.transmit_probe(now, batch)
            || self.transmit_from_tail(now, batch, max_segments)
            || self.transmit_ack(now, batch);
        if left {
            self.note_departure(now);
        }
        left
    }

    /// Calls `each` with the slices of a segment's payload, in order.
    pub fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.snd.buffer.slices(segment.payload(), each);
    }

    /// Prepares a batch for [`frames`](Self::frames): puts headers beside the payload where there is room for them.
    pub fn lay_headers(&mut self, batch: &Batch) {
        self.snd.buffer.lay_headers(&batch.headers, &batch.segments);
    }

    /// Appends the slices of a batch, headers and payload, to `out`, and gives how many bytes they have. That is less
    /// than [`Batch::len`] if some of the payload was acknowledged since the batch was made: it must not leave then.
    pub fn frames<'a>(&'a self, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.snd.buffer.frames(&batch.headers, &batch.segments, out)
    }

    /// What segments of new data are going to be like.
    pub(super) fn layout(&self) -> Layout {
        Layout { header: CheshireCodec::HEADER_LEN as u16 + self.data_options(), payload: self.mss().max(1) }
    }

    fn transmit_queued_acks(&mut self, batch: &mut Batch, max_segments: usize) -> bool {
        while let Some(header) = self.rcv.ack_queue.front() {
            if !batch.admits(CheshireCodec::header_len(&header.options), max_segments) {
                break;
            }
            batch.push(header, 0, 0);
            self.rcv.ack_queue.pop_front();
            self.stats.segments_out += 1;
        }
        !batch.is_empty()
    }

    fn transmit_ack(&mut self, now: Time, batch: &mut Batch) -> bool {
        if !self.rcv.ack_due || !self.life.state.is_synchronized() {
            return false;
        }
        let header = self.ack_header(now);
        batch.push(&header, 0, 0);
        self.stats.segments_out += 1;
        true
    }

    /// The header of a pure ACK as of now; what it acknowledges is then acknowledged.
    pub(super) fn ack_header(&mut self, now: Time) -> Header {
        let flags = Flags::ACK | self.echo_flag();
        let mut header = self.header(now, flags, self.snd.sent_to());
        self.add_sack(&mut header);
        header.options.probe_echo = self.rcv.probe_echo.take().map(|value| ProbeEcho { value });
        self.add_network_to_ack(&mut header);
        if header.options.probe_echo.is_some() || header.options.network.is_some() {
            header.fit();
        }
        self.add_arrivals(&mut header);
        self.timers.stop(Timer::Ack);
        self.rcv.acknowledged();
        header
    }

    /// Queues a pure ACK of this moment's state, to leave before anything else.
    pub(super) fn queue_ack(&mut self, now: Time) {
        const QUEUE_LIMIT: usize = 256;
        if self.rcv.ack_queue.len() < QUEUE_LIMIT {
            let header = self.ack_header(now);
            self.rcv.ack_queue.push_back(header);
        } else {
            self.rcv.ack_due = true;
        }
    }

    pub(super) fn echo_flag(&self) -> Flags {
        if self.rcv.echo_congestion { Flags::ECE } else { Flags::NONE }
    }

    /// A header with what every segment after the SYNs carries.
    pub(super) fn header(&mut self, now: Time, flags: Flags, offset: u64) -> Header {
        let window = self.rcv.offer_window(self.negotiated.recv_shift, self.mss());
        let mut header = Header {
            flags,
            window,
            seq: self.numbers.sequence(offset),
            ack: self.numbers.acknowledgment(self.rcv.next()),
            ..Header::default()
        };
        if self.negotiated.timestamps {
            header.options.timestamps =
                Some(Timestamps { value: self.numbers.clock.value(now), echo: self.rcv.ts_recent });
        }
        header
    }

    /// Fills a batch with retransmissions, then new data, as window, peer and pacer allow.
    fn transmit_data(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        if !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return false;
        }
        if self.snd.board.lost_bytes() == 0
            && self.snd.unsent() == 0
            && !self.snd.fin_waits()
            && !self.loss.wants_to_send()
            && self.cc.limits.current != SendLimit::Cpu
        {
            return false;
        }
        let edge = self.rcv.edge;
        let stop = self.fill(now, batch, max_segments);
        // What is not polled on at once, although more might leave, waits for the processor.
        self.on_send_limit(now, stop.unwrap_or(SendLimit::Cpu));
        if batch.is_empty() {
            // The window in the unused header was never offered.
            self.rcv.edge = edge;
            if stop == Some(SendLimit::PeerWindow) && self.snd.board.is_empty() && !self.timers.is_armed(Timer::Persist)
            {
                self.timers.arm(Timer::Persist, now + self.rtt.rto());
            }
            return false;
        }
        self.after_transmit(now, batch);
        true
    }

    fn on_send_limit(&mut self, now: Time, limit: SendLimit) {
        self.set_limit(now, limit);
        match limit {
            SendLimit::Cwnd => self.cc.rounds.limited = true,
            SendLimit::App if self.pipe() < self.cc.control.cwnd.0 => {
                self.cc.rate.on_app_limited(self.pipe());
                // Whoever waits for the buffer to empty has more to send.
                if !self.snd.writer_waits {
                    self.snd.starved_since.get_or_insert(now);
                }
            }
            _ => {}
        }
    }

    /// The send loop. Returns what stopped it, or `None` if only the batch is full.
    fn fill(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Option<SendLimit> {
        let room = self.cc.control.cwnd.0.saturating_sub(self.pipe());
        let want = (self.snd.unsent() + self.snd.board.lost_bytes()).min(room).max(1);
        let budget = match self.cc.pacer.ready(now, Bytes(want)) {
            Ok(bytes) => bytes.0,
            // What loss recovery forces out, one segment an event, does not wait for the pacer.
            Err(_) if self.loss.grant.forced => 1,
            Err(at) => {
                self.timers.arm(Timer::Pace, at);
                return Some(SendLimit::Pacing);
            }
        };
        let idle = self.snd.board.is_empty();
        if idle {
            self.restart_after_idleness(now);
        }
        let snapshot = self.cc.rate.snapshot(now, idle, self.cc.control.tag);
        self.snd.board.begin_burst(snapshot);
        let flags = Flags::ACK | self.echo_flag();
        let mut template = self.header(now, flags, self.snd.nxt);
        self.add_network_to_data(&mut template);
        batch.dscp = self.cc.control.dscp;
        let options = CheshireCodec::header_len(&template.options);
        let mut fill = Fill { now, template, header_len: options, batch, max_segments, budget, plain: false };
        loop {
            if !fill.batch.admits(fill.header_len + 1, max_segments) {
                return None;
            }
            if fill.budget == 0 {
                // Whether more may follow at once is asked of the pacer once it knows of this batch.
                return None;
            }
            let room = self.cc.control.cwnd.0.saturating_sub(self.pipe()).max(self.loss.allowance(self.mss()));
            let step = match self.next_retransmission(room) {
                Some(index) => self.transmit_again(&mut fill, index),
                // What is lost waits for the window, and nothing else does.
                None if self.snd.board.lost_bytes() > 0 && self.snd.unsent() == 0 => Step::Stop(SendLimit::Cwnd),
                None => match self.transmit_pair(&mut fill, room) {
                    Some(step) => step,
                    None => self.transmit_new(&mut fill, room),
                },
            };
            match step {
                Step::Sent(bytes) => fill.budget = fill.budget.saturating_sub(bytes.max(1)),
                Step::Last => return None,
                Step::Stop(limit) => return Some(limit),
            }
        }
    }

    /// The segment to retransmit next, if `room` (or a forced retransmission) allows it.
    fn next_retransmission(&mut self, room: u64) -> Option<u64> {
        if self.awaits_second_ack() {
            return None;
        }
        let mss = self.mss();
        // What the peer says it has is in flight no more, and must not be again: a peer may say so of the first segment.
        let unsacked = |index: &u64| self.snd.board.get(*index).is_some_and(|record| !record.is_sacked());
        self.loss.grant.probe = self.loss.grant.probe.filter(unsacked);
        if let Some(index) = self.loss.grant.probe {
            if self.snd.board.get(index).is_some_and(|r| r.len <= mss) {
                return Some(index);
            }
            self.cut_to_mss();
            return self.snd.board.back().map(|(last, _)| last);
        }
        let index = match self.snd.board.next_lost() {
            Some(index) => index,
            None => self.loss.rescue(&self.snd.board, room, self.snd.unsent() > 0, mss)?,
        };
        let record = self.snd.board.get(index)?;
        if record.len > mss {
            self.cut_to_mss();
            return self.next_retransmission(room);
        }
        (self.loss.grant.forced || room >= record.sequence_len()).then_some(index)
    }

    /// Cuts what is in flight and longer than a segment may be now: a path MTU probe that was lost goes again in
    /// pieces that are known to pass.
    fn cut_to_mss(&mut self) {
        let mss = self.mss();
        self.pmtu.on_probe_lost(self.now);
        self.snd.board.resegment(mss);
        self.loss.on_renumbered();
    }

    /// Sends a segment of the scoreboard again.
    fn transmit_again(&mut self, fill: &mut Fill<'_>, index: u64) -> Step {
        let Some(record) = self.snd.board.get(index).copied() else { return Step::Last };
        // RFC 3168, section 6.1.5: retransmissions are not ECN-capable.
        if !fill.admits(record.len, Ecn::NotEct) {
            return Step::Last;
        }
        let before = self.pipe();
        let tx = self.snd.board.retransmit(index);
        self.loss.on_retransmit(&record, self.numbers.clock.value(fill.now));
        self.stats.bytes_retransmitted += u64::from(record.len);
        self.stats.segments_retransmitted += 1;
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let flags = fill.template.flags | self.push_flag(record.start, record.len) | fin;
        fill.push(flags, self.numbers.sequence(record.start), record.start, record.len);
        self.report_sent(fill.now, tx, record.len, before, SegmentKind::Retransmit);
        Step::Sent(u64::from(record.len))
    }

    /// PSH on the segment that ends what is queued (RFC 9293, section 3.9.1.2, MUST-61); never on a bare FIN, which has
    /// nothing to push.
    fn push_flag(&self, start: u64, len: u16) -> Flags {
        let ends = len > 0 && start + u64::from(len) == self.snd.buffer.end();
        if ends { Flags::PSH } else { Flags::NONE }
    }

    /// The ECN field of new data.
    pub(super) const fn ecn(&self) -> Ecn {
        match self.cc.control.ecn {
            _ if !self.negotiated.ecn || self.ext.ecn_check.has_failed() => Ecn::NotEct,
            EcnMark::Ect0 => Ecn::Ect0,
            EcnMark::Ect1 => Ecn::Ect1,
            EcnMark::NotEct => Ecn::NotEct,
        }
    }

    /// Sends new data.
    fn transmit_new(&mut self, fill: &mut Fill<'_>, room: u64) -> Step {
        self.pass_over_held();
        let asked = self.quick_start_due(fill.now);
        let extra = asked.map_or(0, |(_, extra)| extra);
        let next = match self.next_segment(fill.now, room, extra) {
            Ok(next) => next,
            Err(limit) => return Step::Stop(limit),
        };
        // Of what had left from the tail nobody knows which of both is echoed.
        let alone = next.mtu_probe || self.snd.fresh() < u64::from(next.len);
        let ecn = self.next_ecn(next.len, alone);
        // A probe for a larger path MTU leaves alone: it is longer than the segments of any batch.
        if (next.mtu_probe && !fill.batch.is_empty()) || !fill.admits(next.len.saturating_add(extra), ecn) {
            return Step::Last;
        }
        let start = self.snd.nxt.max(1);
        let end = start + u64::from(next.len);
        let fin = self.snd.fin_waits() && end == self.snd.buffer.end();
        let before = self.pipe();
        let tx = self.snd.board.push(start, next.len, fin, next.mtu_probe);
        self.snd.nxt = end + u64::from(fin);
        self.snd.fin_sent |= fin;
        self.note_sent_again(start);
        self.note_ecn(ecn, start, end);
        if next.mtu_probe {
            self.pmtu.probe_sent(next.len, (fill.header_len - CheshireCodec::HEADER_LEN) as u16);
        }
        let mut flags = fill.template.flags;
        if fin {
            flags |= Flags::FIN;
        }
        flags |= self.push_flag(start, next.len);
        if std::mem::take(&mut self.snd.cwr_due) {
            flags |= Flags::CWR;
        }
        let network = asked.map(|(rate, _)| self.ask_quick_start(fill.now, rate, end));
        fill.push_asking(network, flags, self.numbers.sequence(start), start, next.len);
        self.loss.on_new_data();
        self.stats.bytes_sent += u64::from(next.len);
        self.report_sent(fill.now, tx, next.len, before, SegmentKind::Data);
        if next.mtu_probe { Step::Last } else { Step::Sent(u64::from(next.len)) }
    }

    /// The next new segment, whose header is `extra` bytes longer than usual, else what stands in its way.
    fn next_segment(&mut self, now: Time, room: u64, extra: u16) -> Result<NextSegment, SendLimit> {
        let mss = self.mss().saturating_sub(extra);
        let unsent = self.snd.unsent();
        if unsent == 0 {
            return match self.snd.fin_waits() {
                // A bare FIN carries no octet that the window counts, and ends the connection a round trip sooner.
                true => Ok(NextSegment { len: 0, mtu_probe: false }),
                false if self.snd.buffer.free() == 0 => Err(SendLimit::SendBuffer),
                false => Err(SendLimit::App),
            };
        }
        if std::mem::take(&mut self.snd.persist.due) {
            return Ok(NextSegment { len: 1, mtu_probe: false });
        }
        let window = self.snd.window_edge().saturating_sub(self.snd.nxt);
        let len = unsent.min(u64::from(mss)).min(window);
        if let Some(limit) = self.too_little(len, unsent, mss) {
            return Err(limit);
        }
        let len = self.snd.before_held(len);
        if room < len {
            return Err(SendLimit::Cwnd);
        }
        let options = self.data_options();
        if let Some(probe) = self.pmtu.probe_payload(now, options, self.snd.peer_mss).filter(|_| extra == 0) {
            // Enough must follow the probe for its loss to show at once.
            let enough = self.snd.fresh() >= 4 * u64::from(probe) && u64::from(probe) <= window.min(room);
            if enough && !self.loss.is_repairing() {
                return Ok(NextSegment { len: probe, mtu_probe: true });
            }
        }
        Ok(NextSegment { len: len as u16, mtu_probe: false })
    }

    /// Nagle and the sender's silly-window avoidance (RFC 9293, sections 3.7.4 and 3.8.6.2.1).
    fn too_little(&mut self, len: u64, unsent: u64, mss: u16) -> Option<SendLimit> {
        if len == u64::from(mss) {
            return None;
        }
        if len == unsent {
            let may = self.snd.nodelay || self.snd.board.is_empty() || self.snd.fin_queued;
            return (!may).then_some(SendLimit::App);
        }
        // The peer's window cuts the segment short.
        if len > 0 && (len >= self.snd.max_window / 2 || std::mem::take(&mut self.snd.override_sws)) {
            return None;
        }
        Some(SendLimit::PeerWindow)
    }

    pub(super) fn report_sent(&mut self, now: Time, tx: TxId, len: u16, before: u64, kind: SegmentKind) {
        let mut event = Sent::new(now, tx, Bytes::from(len));
        event.in_flight_before = Bytes(before);
        event.kind = kind;
        event.tag = self.cc.control.tag;
        if kind == SegmentKind::Data {
            event.pause = self.snd.starved_since.take().map_or(Span::ZERO, |since| now - since);
        }
        let path = self.path();
        self.cc.controller.on_sent(&event, &path);
    }

    /// Timers, pacer and the acknowledgement that rode along, once a batch of data is made.
    pub(super) fn after_transmit(&mut self, now: Time, batch: &Batch) {
        self.refresh_control();
        // Rates are of payload, as windows are.
        self.cc.pacer.sent(now, Bytes::from(batch.len.saturating_sub(batch.headers.len())));
        self.stats.segments_out += batch.segments.len() as u64;
        self.stats.data_segments_out += batch.segments.len() as u64;
        self.snd.last_sent = Some(now);
        if self.snd.writer_waits && self.snd.has_room_again() {
            self.snd.writer_waits = false;
            self.life.events.raise(Event::Writable);
        }
        if !self.rcv.has_more_to_say() {
            self.timers.stop(Timer::Ack);
            self.rcv.acknowledged();
        }
        self.arm_retransmission(now);
    }
}

/// A batch in the making.
pub(super) struct Fill<'a> {
    pub(super) now: Time,
    pub(super) template: Header,
    pub(super) header_len: usize,
    pub(super) batch: &'a mut Batch,
    max_segments: usize,
    /// Bytes the pacer still lets go.
    budget: u64,
    /// The last header pushed has the template's flags: the next may be a copy of it.
    plain: bool,
}

pub(super) enum Step {
    /// Bytes of payload sent; more may follow.
    Sent(u64),
    /// The batch is complete.
    Last,
    Stop(SendLimit),
}

struct NextSegment {
    len: u16,
    mtu_probe: bool,
}

impl Fill<'_> {
    pub(super) fn admits(&mut self, payload: u16, ecn: Ecn) -> bool {
        if self.batch.is_empty() {
            self.batch.ecn = ecn;
        }
        self.batch.ecn == ecn && self.batch.admits(self.header_len + usize::from(payload), self.max_segments)
    }

    /// Pushes a segment that asks routers for something, if there is anything to ask.
    fn push_asking(&mut self, network: Option<NetworkOption>, flags: Flags, sequence: u32, start: u64, len: u16) {
        if network.is_none() {
            self.push(flags, sequence, start, len);
            return;
        }
        let held = std::mem::replace(&mut self.template.options.network, network);
        self.plain = false;
        self.push(flags, sequence, start, len);
        self.template.options.network = held;
        self.plain = false;
    }

    pub(super) fn push(&mut self, flags: Flags, sequence: u32, start: u64, len: u16) {
        let plain = flags == self.template.flags;
        if plain && self.plain {
            self.batch.push_like_last(sequence, start, len);
            return;
        }
        self.plain = plain;
        let held = std::mem::replace(&mut self.template.flags, flags);
        self.template.seq = sequence;
        self.batch.push(&self.template, start, len);
        self.template.flags = held;
    }
}
