//! Segment arrival (RFC 9293, section 3.10.7.4; RFC 5961; RFC 7323).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use bytes::Bytes;
use longhaul_units::{Span, Time};
use longhaul_wire::{Ecn, Flags, Header, Timestamps};

use super::ack_schedule::{Arrived, Place};
use super::acking::AckSegment;
use super::handshake::reset_for;
use super::receiver::Extent;
use super::timers::Timer;
use super::trains::may_lead;
use super::{Connection, Event, Pressure};
use crate::error::ConnectionError;
use crate::info::add;
use crate::observer::{ConnectionEvent, Rejection};
use crate::state::State;

/// Maximum age of the timestamp of a low-priority segment relative to TS.Recent.
const OVERTAKEN: Span = Span::from_secs(1);

/// Metadata of a received segment.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SegmentMeta {
    /// The time at which the kernel received it, on the clock of `now`. It serves for RTT and dispersion, and never
    /// as `now`.
    pub rx_time: Option<Time>,
    /// Whether receive offload merged the segment with others.
    pub coalesced: bool,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The TTL or hop limit on arrival, if the socket reports it.
    pub ttl: Option<u8>,
}

/// Payload of a segment: bytes and, if available, the shared buffer that contains them.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    shared: Option<&'a Bytes>,
}

impl<'a> Payload<'a> {
    /// Returns a payload whose bytes are copied if they are kept.
    #[must_use]
    pub const fn copied(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: None }
    }

    /// Returns a payload within `shared`, which is kept by reference.
    #[must_use]
    pub const fn shared(bytes: &'a [u8], shared: &'a Bytes) -> Self {
        Self { bytes, shared: Some(shared) }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the payload is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.bytes.len());
        Self { bytes: self.bytes.get(from.min(to)..to).unwrap_or_default(), shared: self.shared }
    }

    fn keep(&self) -> Bytes {
        match self.shared {
            Some(shared) => shared.slice_ref(self.bytes),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

/// Received segment with its sequence number as a stream offset.
pub(super) struct Arrival<'a> {
    pub(super) header: &'a Header,
    pub(super) payload: Payload<'a>,
    /// Offset of the first octet; negative if it precedes the peer's SYN.
    pub(super) start: i64,
}

impl Arrival<'_> {
    fn len(&self) -> i64 {
        i64::from(self.header.sequence_len(self.payload.len() as u32))
    }

    /// Returns the offset after the data.
    fn data_end(&self) -> i64 {
        self.start.saturating_add(self.payload.len() as i64)
    }

    /// Returns the offset after the segment, SYN and FIN included.
    fn end(&self) -> i64 {
        self.start.saturating_add(self.len())
    }

    fn has(&self, flag: Flags) -> bool {
        self.header.flags.contains(flag)
    }
}

impl Connection {
    /// Handles one segment of a receive batch. After the last one, call [`finish_batch`](Self::finish_batch). Returns
    /// whether the segment has only advanced RCV.NXT, so that [`handle_next`](Self::handle_next) may handle the next
    /// one.
    pub fn handle_segment(&mut self, now: Time, meta: &SegmentMeta, header: &Header, payload: Payload<'_>) -> bool {
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, 1);
        let advances = match self.life.state {
            State::Closed | State::Listen => false,
            State::SynSent => {
                self.handle_in_syn_sent(now, meta, header);
                false
            }
            _ => {
                let start = self.numbers.peer_offset(header.seq, self.rcv.next());
                self.handle_synchronised(now, meta, Arrival { header, payload, start })
            }
        };
        self.report_changes();
        advances && may_lead(meta, header)
    }

    /// Handles a segment in any state after SYN-SENT (RFC 9293, section 3.10.7.4). Returns whether its data
    /// has only advanced RCV.NXT.
    fn handle_synchronised(&mut self, now: Time, meta: &SegmentMeta, mut segment: Arrival<'_>) -> bool {
        // First: check the sequence number, after PAWS (RFC 7323, section 5.3).
        let mut is_repeated = false;
        if self.life.state == State::SynReceived && segment.has(Flags::SYN) && segment.start == 0 {
            if !self.handle_repeated_syn(now, &mut segment) {
                return false;
            }
        } else if !self.passes_paws(now, &segment) {
            return false;
        } else if !self.is_acceptable(now, &segment) {
            is_repeated = self.acknowledges_although_old(now, &segment);
            if !is_repeated {
                return false;
            }
        }
        // Second: check the RST bit.
        if segment.has(Flags::RST) {
            self.handle_reset(now, &segment);
            return false;
        }
        // Fourth: check the SYN bit (RFC 5961, section 4.2). In SYN-RECEIVED as well: a SYN that only has to hit the window
        // would else remove a half-open connection, which otherwise takes a RST at RCV.NXT. That is how a peer that has
        // restarted answers.
        if segment.has(Flags::SYN) && (self.life.state != State::SynReceived || segment.start != 0) {
            self.challenge(now);
            return false;
        }
        // Fifth: check the ACK field.
        if !segment.has(Flags::ACK) {
            return false;
        }
        self.take_network(meta, segment.header);
        let Some(ack) = self.check_acknowledgment(now, meta, &segment) else { return false };
        self.take_ack_rate(segment.header.options.ack_rate, !segment.payload.is_empty());
        self.check_ack_frequency(now, ack);
        self.update_ts_recent(meta.rx_time.unwrap_or(now).min(now), &segment);
        self.heard_from_peer(now);
        self.take_user_timeout(segment.header.options.user_timeout);
        self.arm_keep_alive(now);
        let (header, start, len) = (segment.header, segment.start.max(0) as u64, segment.payload.len());
        let advances = ack > self.snd.una();
        self.process_ack(&AckSegment { now, meta, header, start, ack, len });
        self.on_segment_after_outage(now);
        self.deny_unanswered_request();
        self.report_network_answer(now);
        self.pmtu.note_episodes(self.stats.incidents().recoveries);
        self.after_ack(now, advances);
        if is_repeated || self.life.state == State::Closed {
            return false;
        }
        // Seventh: process the segment text.
        self.process_ce(meta, &segment);
        // The FIN is recorded before the data, so that the ACK of the data covers it (RFC 5681, section 4.2: one ACK
        // per segment).
        if segment.has(Flags::FIN) {
            self.record_fin(&segment);
        }
        let mut advances = false;
        if !segment.payload.is_empty() {
            self.note_arrival(segment.start, meta.rx_time.unwrap_or(now).min(now), meta.coalesced);
            advances = self.process_text(now, &segment);
        }
        // Eighth: check the FIN bit.
        self.process_fin(now);
        advances
    }

    /// Handles a SYN that was already answered: our SYN-ACK may have been lost. In a simultaneous open, a SYN-ACK
    /// acknowledges our SYN, and the rest of the segment is ignored. Returns whether to process the segment further.
    fn handle_repeated_syn(&mut self, now: Time, segment: &mut Arrival<'_>) -> bool {
        if segment.has(Flags::RST) {
            return false;
        }
        if segment.has(Flags::ACK) && self.is_passive() {
            // A peer whose SYN we have answered does not answer ours.
            self.challenge(now);
            return false;
        }
        if segment.has(Flags::ACK) {
            segment.payload = Payload::copied(&[]);
            // Our SYN-ACK may have been lost.
            self.rcv.acks.request();
            return true;
        }
        self.retransmit_syn_ack();
        false
    }

    /// PAWS (RFC 7323, section 5.3, R1): returns whether the segment's timestamp is not older than TS.Recent.
    fn passes_paws(&mut self, now: Time, segment: &Arrival<'_>) -> bool {
        if !self.negotiated.timestamps || segment.has(Flags::RST) {
            return true;
        }
        let Some(stamp) = segment.header.options.timestamps else {
            // Once timestamps are negotiated, a segment without one is dropped (RFC 7323, section 3.2).
            return false;
        };
        if !self.is_older_timestamp(now, stamp.value) || self.is_overtaken(segment, stamp.value) {
            return true;
        }
        add(&mut self.stats.incidents_mut().paws_dropped, 1);
        self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::Timestamp));
        self.answer_unacceptable(now, segment);
        false
    }

    /// Returns whether a segment beyond a hole has an old timestamp only because segments sent later at higher
    /// priority overtook it. The peer announces low-priority sending by negotiating probe echoes. Sequence numbers do
    /// not wrap within the tolerated second below 34 Gb/s.
    fn is_overtaken(&self, segment: &Arrival<'_>, value: u32) -> bool {
        let behind = self.numbers.clock.tick() * u64::from(self.rcv.ts_recent().wrapping_sub(value));
        self.negotiated.probe_echo && segment.start > self.rcv.next() as i64 && behind <= OVERTAKEN
    }

    /// Returns whether a timestamp is older than TS.Recent, unless TS.Recent is outdated (RFC 7323, section 5.5).
    fn is_older_timestamp(&self, now: Time, value: u32) -> bool {
        self.rcv.is_older_timestamp(now, value, self.numbers.clock.validity())
    }

    /// First step of RFC 9293, section 3.10.7.4: returns whether the segment overlaps the receive window.
    fn is_acceptable(&mut self, now: Time, segment: &Arrival<'_>) -> bool {
        let extent = Extent { start: segment.start, end: segment.end(), rst: segment.has(Flags::RST) };
        let acceptable = self.rcv.is_acceptable(extent);
        if !acceptable {
            self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::OutsideWindow));
            self.answer_unacceptable(now, segment);
        }
        acceptable
    }

    /// Answers an unacceptable segment with an ACK, unless it is a RST. Credible duplicates with data are each
    /// acknowledged at once, because the sender's spurious-loss detection and probes depend on it (RFC 2883). Other
    /// answers are rate-limited like challenge ACKs, to prevent ACK loops and answers to forged segments (RFC 5961,
    /// section 7).
    fn answer_unacceptable(&mut self, now: Time, segment: &Arrival<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        if segment.has(Flags::SYN) || !self.is_credible(now, segment.header) {
            self.challenge(now);
            return;
        }
        if self.life.state == State::TimeWait && segment.has(Flags::FIN) && segment.end() == self.rcv.next() as i64 {
            self.timers.arm(Timer::Linger, now + self.config.time_wait);
        }
        let end = segment.data_end();
        let duplicate = !segment.payload.is_empty() && segment.start >= 1 && end <= self.rcv.next() as i64;
        if duplicate {
            self.rcv.acks.report_duplicate(segment.start as u64, end as u64);
            add(&mut self.stats.incidents_mut().duplicate_bytes_in, segment.payload.len() as u64);
            self.set_probe_echo(segment);
            self.queue_ack(now);
        } else if !segment.payload.is_empty() || segment.has(Flags::FIN) {
            self.queue_ack(now);
        } else {
            self.challenge(now);
        }
    }

    /// Returns whether a segment outside the window may originate from the peer: its ACK field is in the range of RFC
    /// 5961, section 5.2, and its echoed timestamp, if negotiated, can have been sent on this connection. A blind
    /// attacker has to guess both.
    fn is_credible(&self, now: Time, header: &Header) -> bool {
        let ack = self.numbers.our_offset(header.ack, self.snd.una());
        let (oldest, newest) = self.snd.acceptable_acks();
        let plausible = header.flags.contains(Flags::ACK) && oldest <= ack && ack <= newest;
        let echoed = |stamp: Timestamps| {
            let age = self.numbers.clock.age(now, stamp.echo);
            // A microsecond clock wraps in 71 minutes. After that, half of all values look recent.
            age.is_some_and(|age| age <= now - self.life.created_at)
        };
        plausible && (!self.negotiated.timestamps || header.options.timestamps.is_some_and(echoed))
    }

    /// Returns whether an unacceptable segment acknowledges data or changes the window: it repeats recent data, or was sent
    /// before the peer knew that we have received the octet with which it probed our window. If both ends have sent more
    /// than the other accepts, for instance after a middlebox has rewritten a window, only retransmissions carry
    /// acknowledgments that either can use (RFC 9293, appendix A.2).
    fn acknowledges_although_old(&self, now: Time, segment: &Arrival<'_>) -> bool {
        let header = segment.header;
        let has_news = || {
            let Some(ack) = self.acknowledged_by(header) else { return false };
            let window = u64::from(header.window) << self.negotiated.send_shift;
            let changes = |start| !self.snd.keeps_window(start, ack, window);
            ack > self.snd.una() || u64::try_from(segment.start).is_ok_and(changes)
        };
        self.life.state.is_synchronized()
            && !header.flags.intersects(Flags::SYN | Flags::RST)
            && self.rcv.repeats_recent_data(segment.start)
            && self.is_credible(now, header)
            && has_news()
    }

    /// Second step of RFC 9293, section 3.10.7.4: handles a RST (RFC 5961, section 3.2; RFC 1337).
    fn handle_reset(&mut self, now: Time, segment: &Arrival<'_>) {
        if self.life.state == State::TimeWait {
            return;
        }
        if segment.start != self.rcv.next() as i64 {
            self.challenge(now);
            return;
        }
        let error = match self.life.state {
            State::SynReceived => ConnectionError::Refused,
            _ => ConnectionError::Reset,
        };
        // In-order data may be unread, but RFC 9293 flushes the queues on a RST.
        self.finish(Some(error));
    }

    /// Updates TS.Recent (RFC 7323, section 4.3): the echo belongs to the segment that fills the hole, or to the last
    /// one acknowledged. `at` is the arrival time, which may be long ago if this host was suspended.
    fn update_ts_recent(&mut self, at: Time, segment: &Arrival<'_>) {
        let Some(stamp) = segment.header.options.timestamps.filter(|_| self.negotiated.timestamps) else { return };
        let last_ack = self.rcv.acks.last_sent() as i64;
        if segment.start <= last_ack && !self.is_older_timestamp(at, stamp.value) {
            self.rcv.set_ts_recent(stamp.value, at);
        }
    }

    /// Fifth step of RFC 9293, section 3.10.7.4 (RFC 5961, section 5.2): returns the acknowledged offset, if it is
    /// acceptable.
    fn check_acknowledgment(&mut self, now: Time, meta: &SegmentMeta, segment: &Arrival<'_>) -> Option<u64> {
        let ack = self.numbers.our_offset(segment.header.ack, self.snd.una());
        if self.life.state == State::SynReceived {
            if ack < 1 || ack > self.snd.nxt() as i64 {
                self.life.reset = Some(Box::new(reset_for(segment.header, 0)));
                return None;
            }
            self.snd.begin_window_updates(segment.start.max(0) as u64, ack as u64);
            self.establish(now, meta.rx_time.unwrap_or(now).min(now), segment.header);
            if self.life.state == State::Closed {
                return None;
            }
            self.announce_user_timeout(now);
            return Some(ack as u64);
        }
        let (oldest, newest) = self.snd.acceptable_acks();
        let unsent = ack > newest;
        if unsent || ack < oldest {
            if unsent {
                self.count_invalid_ack();
            }
            self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::Acknowledgment));
            self.challenge(now);
            return None;
        }
        // An old acknowledgment within the limit has no effect, but the segment's data is processed.
        Some(ack.max(0) as u64)
    }

    /// Changes state if our FIN is acknowledged (RFC 9293, section 3.10.7.4, fifth step), or sends the RST that waits for
    /// the acknowledgment.
    fn after_ack(&mut self, now: Time, advances: bool) {
        if self.life.resets {
            if advances {
                self.timers.arm(Timer::Linger, now + self.config.fin_wait2_timeout);
            }
            self.reset_if_acknowledged(now);
            return;
        }
        if !self.snd.fin_acknowledged() {
            return;
        }
        match self.life.state {
            State::FinWait1 => {
                self.enter(State::FinWait2);
                if self.life.orphaned || self.rcv.is_closed() {
                    self.timers.arm(Timer::Linger, now + self.config.fin_wait2_timeout);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(None),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.enter(State::TimeWait);
        self.life.events.raise(Event::Finished);
        self.cc.limits.account(now);
        self.timers.stop_all();
        self.timers.arm(Timer::Linger, now + self.config.time_wait);
    }

    /// Echoes CE by ECE until CWR arrives (RFC 3168, section 6.1.3).
    fn process_ce(&mut self, meta: &SegmentMeta, segment: &Arrival<'_>) {
        if !self.negotiated.ecn || segment.payload.is_empty() {
            return;
        }
        let is_marked = meta.ecn == Ecn::Ce;
        if is_marked {
            add(&mut self.stats.incidents_mut().ce_in, 1);
        }
        self.rcv.acks.on_ecn(segment.has(Flags::CWR), is_marked);
    }

    /// Seventh step of RFC 9293, section 3.10.7.4: processes the segment text. Returns whether it is in order, no part
    /// of it is a duplicate, and it fills no hole.
    pub(super) fn process_text(&mut self, now: Time, segment: &Arrival<'_>) -> bool {
        if !self.life.state.can_receive() {
            // Text after the peer's FIN is ignored.
            return false;
        }
        let next = self.rcv.next_data() as i64;
        let end = segment.data_end();
        if self.rcv.is_closed() && end > next {
            // The application will not read: the peer must learn that its data is lost (RFC 9293, section 3.6.1).
            if !self.life.resets {
                self.reset_after_queued(now);
            }
            return false;
        }
        // Trim the segment to the receive window and to the end of the stream.
        let admitted = self.rcv.acceptable_data();
        let from = (admitted.start as i64).saturating_sub(segment.start).max(0) as usize;
        let to = (admitted.end as i64).saturating_sub(segment.start).max(0) as usize;
        let part = segment.payload.part(from, to);
        if part.is_empty() {
            self.rcv.acks.request();
            return false;
        }
        // Insert the data, within the memory limits.
        let pressed = self.life.pressure == Pressure::Hard;
        if !self.rcv.has_memory_for(part.len(), segment.start <= next, pressed) {
            add(&mut self.stats.incidents_mut().bytes_refused, part.len() as u64);
            self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::NoMemory));
            return false;
        }
        let start = segment.start.max(1) as u64;
        let in_order_before = self.rcv.out_of_order() == 0;
        let same_block = !in_order_before && self.rcv.continues_range(start);
        let inserted = self.rcv.insert(start, part.keep());
        if let Some(buffer) = part.shared.filter(|_| inserted.advanced) {
            self.rcv.pin(buffer, inserted.new_bytes);
        }
        add(&mut self.stats.bytes_received, inserted.new_bytes as u64);
        if let Some(duplicate) = &inserted.duplicate {
            self.rcv.acks.report_duplicate(duplicate.start, duplicate.end);
            add(&mut self.stats.incidents_mut().duplicate_bytes_in, duplicate.end.saturating_sub(duplicate.start));
        }
        if inserted.advanced {
            self.life.events.raise(Event::Readable);
        }
        // Schedule the ACK.
        let plain = in_order_before && inserted.advanced && inserted.duplicate.is_none();
        if let Some(stamp) = segment.header.options.timestamps.filter(|_| plain && self.negotiated.timestamps) {
            self.rcv.round_trip(self.numbers.clock.age(now, stamp.echo));
        }
        if !plain {
            self.set_probe_echo(segment);
        }
        let place = match plain {
            true => Place::Next,
            false if same_block && !inserted.advanced && inserted.duplicate.is_none() => Place::SameBlock,
            false => Place::Other,
        };
        self.schedule_ack(now, Arrived { len: part.len(), place });
        plain && from == 0
    }

    /// Sets the TSval that the next ACK echoes, if probe echoes are negotiated (`docs/wire.md`, "Probe echo").
    fn set_probe_echo(&mut self, segment: &Arrival<'_>) {
        if self.negotiated.probe_echo {
            self.rcv.acks.set_probe_echo(segment.header.options.timestamps.map(|stamp| stamp.value));
        }
    }

    /// Records the end of the peer's stream.
    fn record_fin(&mut self, segment: &Arrival<'_>) {
        if self.life.state.can_receive() && self.rcv.record_fin(segment.data_end()) {
            self.rcv.acks.request();
        }
    }

    /// Eighth step of RFC 9293, section 3.10.7.4: changes state once everything before the FIN has arrived.
    fn process_fin(&mut self, now: Time) {
        if !self.rcv.fin_reached() || !self.life.state.can_receive() {
            return;
        }
        self.rcv.request_ack_of_all();
        self.life.events.raise(Event::Readable);
        match self.life.state {
            State::SynReceived | State::Established => self.enter(State::CloseWait),
            State::FinWait1 if self.snd.fin_acknowledged() => self.enter_time_wait(now),
            State::FinWait1 => self.enter(State::Closing),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}
