//! Send loop: retransmissions and new data, segment by segment, as far as windows, pacer and batch allow.

use longhaul_cc::{SegmentKind, SendLimit, Sent};
use longhaul_units::{Bytes, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header};

use super::sender::NewSegment;
use super::{ControlLoop, SendLoop, extension};
use crate::Batch;

impl SendLoop<'_> {
    /// Sends segments until the batch is full or a limit is reached. Returns the limit that stopped it, or `None` if the batch
    /// is full.
    pub(super) fn fill(&mut self, fill: &mut Fill<'_>) -> Option<SendLimit> {
        loop {
            if !fill.batch.admits(fill.header_len + 1, fill.max_segments) {
                return None;
            }
            let room = self.cc.room(self.snd, self.loss);
            if fill.budget == 0 {
                // A quantum missed by a late wake-up is sent in the same batch.
                let want = self.cc.waiting_bytes(self.snd, self.loss);
                fill.budget = self.cc.pacer.more(fill.batch.payload_len(), Bytes(want)).0;
                if fill.budget == 0 {
                    // At the next poll the pacer, which has counted this batch by then, decides whether more may follow.
                    return None;
                }
            }
            let room_for_new = room.max(self.loss.allowance(self.pmtu.mss()));
            let step = match self.next_retransmission(room) {
                Some(index) => self.retransmit_segment(fill, index),
                // Lost data is waiting for the congestion window, and there is no new data.
                None if self.snd.board.lost_bytes > 0 && self.snd.unsent() == 0 => FillStep::Stop(SendLimit::Cwnd),
                None if self.ext.list.is_empty() => self.transmit_new(fill, room_for_new, 0, |_, _| {}),
                None => match extension::send_new(self, fill, room_for_new) {
                    Some(step) => step,
                    None => self.transmit_new(fill, room_for_new, 0, |_, _| {}),
                },
            };
            match step {
                FillStep::Sent(bytes) => {
                    fill.budget = fill.budget.saturating_sub(bytes.max(1));
                    fill.budget = fill.budget.saturating_sub(self.transmit_series(fill));
                }
                FillStep::Last => return None,
                FillStep::Stop(limit) => return Some(limit),
            }
        }
    }

    fn next_retransmission(&mut self, room: u64) -> Option<u64> {
        if self.loss.awaits_second_ack(self.negotiated.sack) {
            return None;
        }
        let mss = self.pmtu.mss();
        // A SACKed segment is no longer in flight and must not be retransmitted, even if it is the first one.
        let record =
            self.loss.grant.probe.and_then(|index| self.snd.board.get(index)).filter(|r| !r.is_sacked()).copied();
        self.loss.grant.probe = self.loss.grant.probe.filter(|_| record.is_some());
        if let Some((index, record)) = self.loss.grant.probe.zip(record) {
            if record.len <= mss {
                return Some(index);
            }
            self.resegment_to_mss(index);
            // A tail loss probe retransmits the last piece of the segment (RFC 8985, section 7.3), and an outage probe
            // the first.
            let (board, in_episode) = (&self.snd.board, self.loss.in_episode());
            let after = board.index_at_or_after(record.end());
            return Some(if in_episode { board.index_at_or_after(record.start) } else { after.saturating_sub(1) });
        }
        let index = match self.snd.board.next_lost() {
            Some(index) => index,
            None => self.loss.rescue(&self.snd.board, room, self.snd.unsent() > 0, mss)?,
        };
        let record = self.snd.board.get(index)?;
        if record.len > mss {
            self.resegment_to_mss(index);
            return self.next_retransmission(room);
        }
        (self.loss.grant.forced || room >= record.sequence_len()).then_some(index)
    }

    fn resegment_to_mss(&mut self, index: u64) {
        let mss = self.pmtu.mss();
        self.pmtu.on_probe_lost(self.timers.now);
        self.snd.board.resegment_to(index, mss);
        self.loss.on_renumbered();
    }

    fn retransmit_segment(&mut self, fill: &mut Fill<'_>, index: u64) -> FillStep {
        let Some(record) = self.snd.board.get(index).filter(|record| !record.is_sacked()).copied() else {
            return FillStep::Last;
        };
        // RFC 3168, section 6.1.5: retransmissions are not ECN-capable.
        if !fill.admits(record.len, Ecn::NotEct) {
            return FillStep::Last;
        }
        let before = self.loss.pipe(&self.snd.board);
        let tx = self.snd.board.retransmit(index);
        self.loss.on_retransmit(&record, self.numbers.clock.value(fill.now));
        self.stats.incidents_mut().bytes_retransmitted += u64::from(record.len);
        self.stats.incidents_mut().segments_retransmitted += 1;
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let flags = fill.template.flags | self.push_flag(record.start, record.len) | fin;
        fill.push(flags, self.numbers.sequence(record.start), record.start, record.len);
        self.control_loop().report_sent(fill.now, tx, record.len, before, SegmentKind::Retransmit);
        FillStep::Sent(u64::from(record.len))
    }

    /// Returns PSH for a segment with data that ends the queued data (RFC 9293, section 3.9.1.2, MUST-61).
    fn push_flag(&self, start: u64, len: u16) -> Flags {
        let ends = len > 0 && start + u64::from(len) == self.snd.buffer.end();
        if ends { Flags::PSH } else { Flags::NONE }
    }

    /// Sends a new segment, to whose header `decorate` adds `extra` bytes of options, given the end of its data.
    pub(super) fn transmit_new(
        &mut self,
        fill: &mut Fill<'_>,
        room: u64,
        extra: u16,
        decorate: impl FnOnce(&mut Header, u64),
    ) -> FillStep {
        self.snd.skip_received(u64::from(self.pmtu.mss()));
        let next = match self.next_segment(fill, room, extra) {
            Ok(next) => next,
            Err(limit) => return FillStep::Stop(limit),
        };
        // Data sent ahead is ambiguous: an ECN echo may belong to either copy.
        let alone = next.mtu_probe || self.snd.unsent_before_ahead() < u64::from(next.len);
        // A lost window probe goes unnoticed, so that it is neither ECN-capable nor carries CWR (RFC 3168, section 6.1.6).
        let window_probe = self.snd.persist.due;
        let ecn = if window_probe { Ecn::NotEct } else { self.next_ecn(next.len, alone) };
        // A path MTU probe is sent alone, because it is longer than the segments of any batch.
        if (next.mtu_probe && !fill.batch.is_empty()) || !fill.admits(next.len.saturating_add(extra), ecn) {
            return FillStep::Last;
        }
        // Add the segment to the scoreboard and advance SND.NXT.
        let before = self.loss.pipe(&self.snd.board);
        let NewSegment { tx, start, fin } = self.snd.send_new(next.len, next.mtu_probe);
        let end = start + u64::from(next.len);
        if next.len < self.pmtu.mss().saturating_sub(extra) {
            self.snd.short_end = self.snd.nxt;
        }
        if ecn == Ecn::Ce {
            self.ext.ecn_check.on_sent(start, end);
        }
        if next.mtu_probe {
            self.pmtu.probe_sent(next.len, (fill.header_len - CheshireCodec::HEADER_LEN) as u16);
        }
        // Set FIN, PSH and CWR, and add the options.
        let mut flags = fill.template.flags;
        if fin {
            flags |= Flags::FIN;
        }
        flags |= self.push_flag(start, next.len);
        if !window_probe && std::mem::take(&mut self.snd.cwr_due) {
            flags |= Flags::CWR;
        }
        let template = (extra > 0).then(|| fill.begin_decorated(|header| decorate(header, end)));
        fill.push(flags, self.numbers.sequence(start), start, next.len);
        if let Some(template) = template {
            (fill.template, fill.plain) = (template, false);
        }
        self.loss.on_new_data();
        self.stats.bytes_sent += u64::from(next.len);
        self.control_loop().report_sent(fill.now, tx, next.len, before, SegmentKind::Data);
        if next.mtu_probe { FillStep::Last } else { FillStep::Sent(u64::from(next.len)) }
    }

    /// Returns the next new segment, whose header has `extra` more bytes than usual, or the limit that prevents it.
    fn next_segment(&self, fill: &Fill<'_>, room: u64, extra: u16) -> Result<Choice, SendLimit> {
        let mss = self.pmtu.mss().saturating_sub(extra);
        let (unsent, window) = (self.snd.unsent(), self.snd.usable_window());
        if self.snd.has_unsent() && self.snd.persist.due {
            return Ok(Choice { len: unsent.min(1) as u16, mtu_probe: false });
        }
        if unsent == 0 {
            return match self.snd.has_unsent_fin() {
                // A bare FIN has no data that counts against cwnd, and the connection ends one round trip earlier. It
                // does occupy a sequence number of the peer's window.
                true if window > 0 => Ok(Choice { len: 0, mtu_probe: false }),
                true => Err(SendLimit::PeerWindow),
                false if self.snd.buffer.free() == 0 => Err(SendLimit::SendBuffer),
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
        // The header of this batch may lack options that other headers have.
        let options = (fill.header_len - CheshireCodec::HEADER_LEN) as u16;
        if let Some(probe) = self.pmtu.probe_payload(fill.now, options).filter(|_| extra == 0) {
            // Enough data must follow the probe for its loss to be detected at once.
            let enough = self.snd.unsent_before_ahead() >= 4 * u64::from(probe) && u64::from(probe) <= window.min(room);
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
            let may = self.snd.nodelay || self.snd.short_end <= self.snd.una || self.snd.fin_queued || is_due;
            return (!may).then_some(SendLimit::App);
        }
        // The peer's window cuts the segment short.
        if self.snd.admits_shortened(len) {
            return None;
        }
        Some(SendLimit::PeerWindow)
    }

    /// Returns the ECN field of the next new segment with `len` bytes of payload: CE if a test is due and possible.
    pub(super) fn next_ecn(&self, len: u16, mtu_probe: bool) -> Ecn {
        let usual = self.ecn();
        let may_ask = self.ext.ecn_check.is_due()
            && usual != Ecn::NotEct
            && !self.snd.is_responding_to_ece()
            // Without SACK, original and retransmission often cannot be told apart, and a correct echo would cause a
            // reduction.
            && self.negotiated.sack
            && !self.loss.in_episode()
            && len > 0
            && !mtu_probe;
        if may_ask { Ecn::Ce } else { usual }
    }

    /// Sends more segments like the last one of the batch, a plain segment of new data, as long as nothing else can be
    /// due before them. Returns their payload bytes.
    ///
    /// Between ACKs, the conditions for sending a segment change only with the number of segments: less data, less room
    /// in both windows, a smaller pacing budget. The last segment of the queued data is not part of a series, since it
    /// may be short, or carry PSH and FIN.
    pub(super) fn transmit_series(&mut self, fill: &mut Fill<'_>) -> u64 {
        let (len, pipe) = (self.pmtu.mss(), self.loss.pipe(&self.snd.board));
        let is_plain = fill.is_plain_series(len, self.ecn())
            && !self.ext.is_active
            && !self.ext.ecn_check.is_due()
            && !self.loss.in_episode()
            && self.loss.allowance(len) == 0
            && self.snd.admits_series();
        if !is_plain || len == 0 {
            return 0;
        }
        let size = u64::from(len);
        let room = self.cc.control.cwnd.0.saturating_sub(pipe);
        let most = self.snd.unsent().saturating_sub(1).min(self.snd.usable_window()).min(room) / size;
        let count = most.min(fill.budget.div_ceil(size)).min(fill.room_for(len));
        let (tx, start) = self.snd.send_series(len, count as u32);
        fill.batch.push_like_last(self.numbers.sequence(start), start, len, count as usize);
        let path = self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss());
        let mut event = Sent::new(fill.now, tx, Bytes(size));
        event.in_flight_before = Bytes(pipe);
        event.tag = self.cc.control.tag;
        self.cc.controller.on_sent_run(&event, count, &path);
        self.stats.bytes_sent += count * size;
        count * size
    }

    pub(super) fn ecn(&self) -> Ecn {
        self.ext.ecn_check.codepoint(self.cc.control.ecn, self.negotiated.ecn)
    }

    pub(super) fn control_loop(&mut self) -> ControlLoop<'_> {
        let Self { config, snd, rtt, loss, cc, pmtu, ext, timers, .. } = self;
        ControlLoop { config, snd, rtt, loss, cc, pmtu, ext, timers }
    }
}

pub(super) struct Fill<'a> {
    pub(super) now: Time,
    pub(super) template: Header,
    pub(super) header_len: usize,
    pub(super) batch: &'a mut Batch,
    max_segments: usize,
    /// Bytes that the pacer still permits.
    pub(super) budget: u64,
    /// Whether the last header has the template's flags, so that the next one may be a copy of it.
    plain: bool,
}

pub(super) enum FillStep {
    Sent(u64),
    /// The batch is complete.
    Last,
    Stop(SendLimit),
}

struct Choice {
    len: u16,
    mtu_probe: bool,
}

impl<'a> Fill<'a> {
    pub(super) fn new(now: Time, template: Header, batch: &'a mut Batch, max_segments: usize, budget: u64) -> Self {
        let header_len = CheshireCodec::header_len(&template.options);
        Self { now, template, header_len, batch, max_segments, budget, plain: false }
    }

    pub(super) fn admits(&mut self, payload: u16, ecn: Ecn) -> bool {
        if self.batch.is_empty() {
            self.batch.ecn = ecn;
        }
        self.batch.ecn == ecn && self.batch.admits(self.header_len + usize::from(payload), self.max_segments)
    }

    /// Returns whether the last segment has `payload` bytes and the template's header, and the next segment may be like
    /// it.
    pub(super) fn is_plain_series(&self, payload: u16, ecn: Ecn) -> bool {
        self.plain
            && self.batch.ecn == ecn
            && self.batch.segments.last().is_some_and(|last| last.payload_len == payload)
    }

    pub(super) fn room_for(&self, payload: u16) -> u64 {
        self.batch.room_for(self.header_len + usize::from(payload), self.max_segments)
    }

    /// Decorates the template for one segment with a unique header. Returns the template for the following segments.
    fn begin_decorated(&mut self, decorate: impl FnOnce(&mut Header)) -> Header {
        let template = self.template.clone();
        decorate(&mut self.template);
        self.plain = false;
        template
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
