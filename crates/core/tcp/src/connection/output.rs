//! Transmit path: selects what to send next and fills batches with it.

use longhaul_cc::{EcnMark, SegmentKind, SendLimit, Sent, TxId};
use longhaul_units::{Bytes, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header, NetworkOption, Timestamps};

use super::sender::NewSegment;
use super::timers::Timer;
use super::{Connection, Event, State};
use crate::batch::{Batch, SegmentRef};
use crate::send_buffer::Layout;

/// What [`Connection::poll_transmit`] has found to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A batch, after which there may be more.
    Batch,
    /// A batch, after which there is nothing until something happens.
    LastBatch,
}

impl Connection {
    /// Fills `batch` with segments to be sent at `now`. Must be called until it returns that there are no more.
    /// `max_segments` is the limit of the socket's segmentation offload, or 1 without offload.
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        let now = self.timers.advance(now);
        batch.clear();
        let due = self.transmit(now, batch, max_segments);
        if due != Due::Nothing {
            self.report_batch(batch);
        }
        due
    }

    /// Sets the number of other connections of the endpoint that wait for their turn to send.
    pub(crate) fn set_others(&mut self, others: usize) {
        self.snd.set_others(others);
    }

    /// Fills an empty batch with the most urgent segments.
    fn transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        if let Some(reset) = self.life.reset.take() {
            batch.push(&reset, 0, 0);
            self.stats.segments_out += 1;
            return Due::Batch;
        }
        if self.life.state == State::Closed {
            return Due::Nothing;
        }
        self.request_ack_frequency();
        let due = self.transmit_next(now, batch, max_segments);
        if due != Due::Nothing {
            self.record_timestamp(now);
        }
        due
    }

    /// Fills an empty batch with the most urgent segments other than a RST.
    fn transmit_next(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        if self.transmit_second(now, batch)
            || self.transmit_queued_acks(batch, max_segments)
            || self.transmit_handshake(now, batch)
        {
            return Due::Batch;
        }
        match self.transmit_data(now, batch, max_segments) {
            Due::Nothing => {}
            data => return data,
        }
        if self.transmit_probe(now, batch) || self.transmit_rc3(now, batch, max_segments) {
            return Due::Batch;
        }
        // Everything else has been asked already.
        if self.transmit_ack(now, batch) { Due::LastBatch } else { Due::Nothing }
    }

    /// Calls `each` with the slices of a segment's payload in stream order.
    pub fn payload(&self, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        self.snd.payload(segment, each);
    }

    /// Appends the slices of a batch, headers and payload, to `out`, and returns their length in bytes. Headers are written next
    /// to the payload where there is room, so that both are one slice, each time the batch is to be sent. If the length is
    /// less than [`Batch::len`], payload was acknowledged since the batch was made, and the batch must not be sent.
    pub fn frames<'a>(&'a mut self, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.snd.frames(batch, out)
    }

    /// Returns the expected layout of new data segments.
    pub(super) fn layout(&self) -> Layout {
        Layout { header: CheshireCodec::HEADER_LEN as u16 + self.data_options(), payload: self.mss().max(1) }
    }

    /// Returns a header with the fields that all segments after the handshake carry.
    pub(super) fn header(&mut self, now: Time, flags: Flags, offset: u64) -> Header {
        let window = self.rcv.offer_window(self.negotiated.recv_shift, self.mss());
        Header { window, ..self.windowless_header(now, flags, offset) }
    }

    /// Returns the offset of the sequence number of segments without text, such as pure ACKs and RSTs.
    pub(super) fn textless_offset(&self) -> u64 {
        self.snd.acceptable_to_peer(self.negotiated.send_shift)
    }

    /// Returns the same header with a window of zero.
    pub(super) fn windowless_header(&self, now: Time, flags: Flags, offset: u64) -> Header {
        let mut header = Header {
            flags,
            seq: self.numbers.sequence(offset),
            ack: self.numbers.acknowledgment(self.rcv.next()),
            ..Header::default()
        };
        if self.negotiated.timestamps {
            header.options.timestamps =
                Some(Timestamps { value: self.numbers.clock.value(now), echo: self.rcv.ts_recent() });
        }
        header
    }

    /// Fills a batch with retransmissions, then with new data, as far as cwnd, peer window and pacer allow.
    fn transmit_data(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        if !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return Due::Nothing;
        }
        if self.snd.board().lost_bytes() == 0
            && !self.snd.has_unsent()
            && !self.loss.wants_to_send()
            && !matches!(self.cc.limits.current, SendLimit::Cpu | SendLimit::Pacing)
        {
            return Due::Nothing;
        }
        let edge = self.rcv.edge();
        let stop = self.fill(now, batch, max_segments);
        // If the batch is full, the caller polls again at once; a delay until then is due to the processor.
        self.on_send_limit(now, stop.unwrap_or(SendLimit::Cpu));
        if batch.is_empty() {
            // The header was not sent, so the window in it was not advertised.
            self.rcv.withdraw_offer(edge);
            if stop == Some(SendLimit::PeerWindow)
                && !self.snd.has_outstanding()
                && !self.timers.is_armed(Timer::Persist)
            {
                self.timers.arm(Timer::Persist, now + self.rtt.rto());
            }
            return Due::Nothing;
        }
        self.after_transmit(now, batch);
        if stop.is_none() {
            self.wait_for_pacer(now);
            return Due::Batch;
        }
        if self.is_exhausted(now) { Due::LastBatch } else { Due::Batch }
    }

    /// Returns whether nothing else is due after a batch of data that something other than its size has limited. If the pacer
    /// limits the next one as well, that is for the next poll to note. A request of an ACK frequency that is repeated after this
    /// batch can wait for the next one.
    fn is_exhausted(&mut self, now: Time) -> bool {
        let want = self.waiting_bytes().max(1);
        !self.rcv.acks.has_any() && self.ext.probes.is_none() && self.cc.pacer.ready(now, Bytes(want)).is_ok()
    }

    /// Returns how many bytes wait to be sent, or sent again, and fit into the congestion window.
    fn waiting_bytes(&self) -> u64 {
        let room = self.cc.control.cwnd.0.saturating_sub(self.pipe());
        (self.snd.unsent() + self.snd.board().lost_bytes()).min(room)
    }

    /// Lets the pacer know that data wait for it, if they do. Beside other connections, the next poll comes later than at
    /// once, and the pacer makes up for that.
    pub(super) fn wait_for_pacer(&mut self, now: Time) {
        let want = self.waiting_bytes();
        if want > 0 {
            self.cc.pacer.wait(now, Bytes(want));
        }
    }

    fn on_send_limit(&mut self, now: Time, limit: SendLimit) {
        self.set_limit(now, limit);
        let (pipe, cwnd) = (self.pipe(), self.cc.control.cwnd.0);
        // A full window limits the sender, even if the application has no more data: otherwise a window of one segment
        // would never grow while each message is one segment.
        let is_full = pipe >= cwnd || pipe > 0 && cwnd <= u64::from(self.mss());
        if limit == SendLimit::Cwnd || is_full {
            self.cc.rounds.limited = true;
        }
        if limit == SendLimit::App && pipe < cwnd {
            self.cc.rate.on_app_limited(pipe);
            self.snd.on_app_limited(now);
        }
    }

    /// Send loop. Returns the limit that stopped it, or `None` if the batch is full.
    fn fill(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Option<SendLimit> {
        let want = self.waiting_bytes().max(1);
        let budget = match self.cc.pacer.ready(now, Bytes(want)) {
            Ok(bytes) => bytes.0,
            // Forced retransmissions, one segment per event, bypass the pacer.
            Err(_) if self.loss.grant.forced => 1,
            Err(at) => {
                self.timers.arm(Timer::Pace, at);
                return Some(SendLimit::Pacing);
            }
        };
        let idle = !self.snd.has_outstanding();
        if idle {
            self.restart_after_idleness(now);
        }
        // The segments of one batch share a send time, a delivery-rate snapshot and a header template.
        let tag = self.cc.control.tag;
        let snapshot = self.cc.rate.snapshot(now, idle, tag);
        self.snd.begin_burst(snapshot);
        let flags = Flags::ACK | self.echo_flag();
        let mut template = self.header(now, flags, self.snd.nxt());
        self.add_network_to_data(&mut template);
        batch.dscp = self.cc.control.dscp;
        let options = CheshireCodec::header_len(&template.options);
        let mut fill = Fill { now, template, header_len: options, batch, max_segments, budget, plain: false };
        loop {
            if !fill.batch.admits(fill.header_len + 1, max_segments) {
                return None;
            }
            let room = self.cc.control.cwnd.0.saturating_sub(self.pipe());
            if fill.budget == 0 {
                // A quantum that a late wake-up missed travels in the same batch.
                let want = self.waiting_bytes();
                fill.budget = self.cc.pacer.more(fill.batch.payload_len(), Bytes(want)).0;
                if fill.budget == 0 {
                    // At the next poll the pacer, which has counted this batch by then, decides whether more may follow.
                    return None;
                }
            }
            let room_for_new = room.max(self.loss.allowance(self.mss()));
            let step = match self.next_retransmission(room) {
                Some(index) => self.retransmit_segment(&mut fill, index),
                // Lost data waits for the congestion window, and there is no new data.
                None if self.snd.board().lost_bytes() > 0 && self.snd.unsent() == 0 => Step::Stop(SendLimit::Cwnd),
                None => match self.transmit_pair(&mut fill, room_for_new) {
                    Some(step) => step,
                    None => self.transmit_new(&mut fill, room_for_new),
                },
            };
            match step {
                Step::Sent(bytes) => {
                    fill.budget = fill.budget.saturating_sub(bytes.max(1));
                    fill.budget = fill.budget.saturating_sub(self.transmit_run(&mut fill));
                }
                Step::Last => return None,
                Step::Stop(limit) => return Some(limit),
            }
        }
    }

    /// Returns the segment to retransmit next, if `room` or a forced retransmission allows it.
    fn next_retransmission(&mut self, room: u64) -> Option<u64> {
        if self.awaits_second_ack() {
            return None;
        }
        let mss = self.mss();
        // A SACKed segment is no longer in flight and must not be retransmitted, even if it is the first one.
        let record =
            self.loss.grant.probe.and_then(|index| self.snd.board().get(index)).filter(|r| !r.is_sacked()).copied();
        self.loss.grant.probe = self.loss.grant.probe.filter(|_| record.is_some());
        if let Some((index, record)) = self.loss.grant.probe.zip(record) {
            if record.len <= mss {
                return Some(index);
            }
            self.resegment_to_mss(index);
            // A tail loss probe is the last piece of the segment (RFC 8985, section 7.3), a probe of an outage the first.
            let (board, in_episode) = (self.snd.board(), self.loss.in_episode());
            let after = board.index_at_or_after(record.end());
            return Some(if in_episode { board.index_at_or_after(record.start) } else { after.saturating_sub(1) });
        }
        let index = match self.snd.board_mut().next_lost() {
            Some(index) => index,
            None => self.loss.rescue(self.snd.board(), room, self.snd.unsent() > 0, mss)?,
        };
        let record = self.snd.board().get(index)?;
        if record.len > mss {
            self.resegment_to_mss(index);
            return self.next_retransmission(room);
        }
        (self.loss.grant.forced || room >= record.sequence_len()).then_some(index)
    }

    /// Splits a segment that is longer than the current SMSS: a lost path MTU probe.
    fn resegment_to_mss(&mut self, index: u64) {
        let mss = self.mss();
        self.pmtu.on_probe_lost(self.timers.now());
        self.snd.resegment_to(index, mss);
        self.loss.on_renumbered();
    }

    /// Retransmits a segment of the scoreboard.
    fn retransmit_segment(&mut self, fill: &mut Fill<'_>, index: u64) -> Step {
        let Some(record) = self.snd.board().get(index).filter(|record| !record.is_sacked()).copied() else {
            return Step::Last;
        };
        // RFC 3168, section 6.1.5: retransmissions are not ECN-capable.
        if !fill.admits(record.len, Ecn::NotEct) {
            return Step::Last;
        }
        let before = self.pipe();
        let tx = self.snd.retransmit(index);
        self.loss.on_retransmit(&record, self.numbers.clock.value(fill.now));
        self.stats.incidents_mut().bytes_retransmitted += u64::from(record.len);
        self.stats.incidents_mut().segments_retransmitted += 1;
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let flags = fill.template.flags | self.push_flag(record.start, record.len) | fin;
        fill.push(flags, self.numbers.sequence(record.start), record.start, record.len);
        self.report_sent(fill.now, tx, record.len, before, SegmentKind::Retransmit);
        Step::Sent(u64::from(record.len))
    }

    /// Returns PSH for a segment with data that ends the queued data (RFC 9293, section 3.9.1.2, MUST-61).
    fn push_flag(&self, start: u64, len: u16) -> Flags {
        let ends = len > 0 && start + u64::from(len) == self.snd.queued_end();
        if ends { Flags::PSH } else { Flags::NONE }
    }

    /// Returns the ECN field of new data segments.
    pub(super) fn ecn(&self) -> Ecn {
        match self.cc.control.ecn {
            _ if !self.negotiated.ecn || self.ext.ecn_check.has_failed() => Ecn::NotEct,
            EcnMark::Ect0 => Ecn::Ect0,
            EcnMark::Ect1 => Ecn::Ect1,
            EcnMark::NotEct => Ecn::NotEct,
        }
    }

    /// Sends a new segment.
    fn transmit_new(&mut self, fill: &mut Fill<'_>, room: u64) -> Step {
        self.snd.skip_received(u64::from(self.mss()));
        let asked = self.quick_start_due(fill.now);
        let extra = asked.map_or(0, |(_, extra)| extra);
        let next = match self.next_segment(fill, room, extra) {
            Ok(next) => next,
            Err(limit) => return Step::Stop(limit),
        };
        // Data already sent by the RC3 loop is ambiguous: an ECN echo may belong to either copy.
        let alone = next.mtu_probe || self.snd.unsent_before_rc3() < u64::from(next.len);
        // A lost window probe goes unnoticed, so that it is neither ECN-capable nor carries CWR (RFC 3168, section 6.1.6).
        let window_probe = self.snd.persist.is_due();
        let ecn = if window_probe { Ecn::NotEct } else { self.next_ecn(next.len, alone) };
        // A path MTU probe is sent alone, because it is longer than the segments of any batch.
        if (next.mtu_probe && !fill.batch.is_empty()) || !fill.admits(next.len.saturating_add(extra), ecn) {
            return Step::Last;
        }
        // Add the segment to the scoreboard and advance SND.NXT.
        let before = self.pipe();
        let NewSegment { tx, start, fin, was_sent_by_rc3 } = self.snd.send_new(next.len, next.mtu_probe);
        let end = start + u64::from(next.len);
        if next.len < self.mss().saturating_sub(extra) {
            self.snd.note_short();
        }
        if was_sent_by_rc3 {
            self.count_rc3_resend();
        }
        self.note_ecn(ecn, start, end);
        if next.mtu_probe {
            self.pmtu.probe_sent(next.len, (fill.header_len - CheshireCodec::HEADER_LEN) as u16);
        }
        // Set FIN, PSH and CWR, and add a Quick-Start request if one is due.
        let mut flags = fill.template.flags;
        if fin {
            flags |= Flags::FIN;
        }
        flags |= self.push_flag(start, next.len);
        if !window_probe && self.snd.take_cwr() {
            flags |= Flags::CWR;
        }
        let network = asked.map(|(rate, _)| self.ask_quick_start(fill.now, rate, end));
        fill.push_with_request(network, flags, self.numbers.sequence(start), start, next.len);
        self.loss.on_new_data();
        self.stats.bytes_sent += u64::from(next.len);
        self.report_sent(fill.now, tx, next.len, before, SegmentKind::Data);
        if next.mtu_probe { Step::Last } else { Step::Sent(u64::from(next.len)) }
    }

    /// Returns the next new segment, whose header has `extra` more bytes than usual, or the limit that prevents it.
    fn next_segment(&self, fill: &Fill<'_>, room: u64, extra: u16) -> Result<Choice, SendLimit> {
        let mss = self.mss().saturating_sub(extra);
        let (unsent, window) = (self.snd.unsent(), self.snd.usable_window());
        if self.snd.has_unsent() && self.snd.persist.is_due() {
            return Ok(Choice { len: unsent.min(1) as u16, mtu_probe: false });
        }
        if unsent == 0 {
            return match self.snd.has_unsent_fin() {
                // A bare FIN has no data that counts against cwnd; the connection ends a round trip sooner. It takes a
                // number of the peer's window, however.
                true if window > 0 => Ok(Choice { len: 0, mtu_probe: false }),
                true => Err(SendLimit::PeerWindow),
                false if self.snd.is_buffer_full() => Err(SendLimit::SendBuffer),
                false => Err(SendLimit::App),
            };
        }
        let len = unsent.min(u64::from(mss)).min(window);
        if let Some(limit) = self.avoid_silly_window(len, unsent, mss) {
            return Err(limit);
        }
        let len = self.snd.before_received(len);
        if room < len {
            return Err(SendLimit::Cwnd);
        }
        // The header of this batch may lack options that others have.
        let options = (fill.header_len - CheshireCodec::HEADER_LEN) as u16;
        if let Some(probe) = self.pmtu.probe_payload(fill.now, options, self.snd.peer_mss()).filter(|_| extra == 0) {
            // Enough data must follow the probe for its loss to be detected at once.
            let enough = self.snd.unsent_before_rc3() >= 4 * u64::from(probe) && u64::from(probe) <= window.min(room);
            if enough && !self.loss.in_episode() {
                return Ok(Choice { len: probe, mtu_probe: true });
            }
        }
        Ok(Choice { len: len as u16, mtu_probe: false })
    }

    /// Applies the Nagle algorithm and silly-window avoidance (RFC 9293, sections 3.7.4 and 3.8.6.2.1). Nagle's original
    /// rule delays the end of each message by a round trip. With Minshall's change (draft-minshall-nagle-01), a short
    /// segment waits only for another short one.
    fn avoid_silly_window(&self, len: u64, unsent: u64, mss: u16) -> Option<SendLimit> {
        if len == u64::from(mss) {
            return None;
        }
        if len == unsent {
            // A tail loss probe (RFC 8985, section 7.3) and F-RTO (RFC 5682, section 2.1, step 2b) override Nagle.
            let is_due = self.loss.allowance(mss) > 0;
            let may = self.snd.nodelay() || !self.snd.has_short_in_flight() || self.snd.is_fin_queued() || is_due;
            return (!may).then_some(SendLimit::App);
        }
        // The peer's window cuts the segment short.
        if self.snd.admits_shortened(len) {
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
            event.pause = self.snd.end_pause(now);
        }
        let path = self.path();
        self.cc.controller.on_sent(&event, &path);
    }

    /// Updates timers, pacer and the state of the piggybacked ACK after a batch of data was made.
    pub(super) fn after_transmit(&mut self, now: Time, batch: &Batch) {
        self.cc.bursts.on_sent(batch.payload_len());
        self.refresh_control();
        // Pacing rates count payload, as congestion windows do.
        self.cc.pacer.sent(now, batch.payload_len());
        self.stats.segments_out += batch.segments.len() as u64;
        self.stats.data_segments_out += batch.segments.len() as u64;
        self.snd.on_transmission(now, self.rtt.srtt());
        if self.snd.wake_writer() {
            self.life.events.raise(Event::Writable);
        }
        self.on_piggybacked_ack();
        self.arm_retransmission(now);
    }
}

/// State of the send loop while it fills a batch.
pub(super) struct Fill<'a> {
    pub(super) now: Time,
    pub(super) template: Header,
    pub(super) header_len: usize,
    pub(super) batch: &'a mut Batch,
    max_segments: usize,
    /// Bytes that the pacer still permits.
    pub(super) budget: u64,
    /// The last header has the template's flags, so the next one may be a copy of it.
    plain: bool,
}

pub(super) enum Step {
    /// Bytes of payload sent; more may follow.
    Sent(u64),
    /// The batch is complete.
    Last,
    Stop(SendLimit),
}

/// New segment to be sent.
struct Choice {
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

    /// Returns whether the last segment has `payload` bytes and the template's header, and the next one may be like it.
    pub(super) fn is_plain_run(&self, payload: u16, ecn: Ecn) -> bool {
        self.plain
            && self.batch.ecn == ecn
            && self.batch.segments.last().is_some_and(|last| last.payload_len == payload)
    }

    /// Returns how many more segments with `payload` bytes the batch admits.
    pub(super) fn room_for(&self, payload: u16) -> u64 {
        self.batch.room_for(self.header_len + usize::from(payload), self.max_segments)
    }

    /// Adds a segment that carries a request to routers, if there is one.
    fn push_with_request(&mut self, network: Option<NetworkOption>, flags: Flags, sequence: u32, start: u64, len: u16) {
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
            self.batch.push_like_last(sequence, start, len, 1);
            return;
        }
        self.plain = plain;
        let held = std::mem::replace(&mut self.template.flags, flags);
        self.template.seq = sequence;
        self.batch.push(&self.template, start, len);
        self.template.flags = held;
    }
}
