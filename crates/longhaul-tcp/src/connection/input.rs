//! Arriving segments (RFC 9293, section 3.10.7.4, with RFC 5961 and RFC 7323).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use bytes::Bytes;
use longhaul_units::{Span, Time};
use longhaul_wire::{Ecn, Flags, Header, SackBlock, Timestamps};

use super::handshake::reset_for;
use super::timers::{Timer, Timers};
use super::{Connection, Event, Pressure};
use crate::error::ConnectionError;
use crate::info::add;
use crate::reassembly::Limits;
use crate::seq;
use crate::state::State;

/// RFC 5961, section 7: challenge ACKs are limited; the limit is each connection's own, so that it tells an attacker
/// nothing of others (CVE-2016-5696).
const CHALLENGE_INTERVAL: Span = Span::from_millis(500);

/// How much older a segment at low priority may be than one at the usual one that arrives before it.
const OVERTAKEN: Span = Span::from_secs(1);

/// RFC 9293, section 3.8.6.3, MUST-40.
const MAX_ACK_DELAY: Span = Span::from_millis(499);

/// What is known of a segment beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SegmentMeta {
    /// When the kernel received it, mapped to the clock of `now`. For RTT and dispersion, never a `now`.
    pub rx_time: Option<Time>,
    /// Whether receive offload merged it with others.
    pub coalesced: bool,
    /// Whether it carried CE, or which ECT.
    pub ecn: Ecn,
    /// The TTL it arrived with, if the socket tells.
    pub ttl: Option<u8>,
}

/// The payload of a segment: bytes, and the shared buffer they lie in, if there is one to keep a reference to.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    shared: Option<&'a Bytes>,
}

impl<'a> Payload<'a> {
    /// Bytes to be copied if they are kept.
    #[must_use]
    pub const fn copied(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: None }
    }

    /// Bytes within `shared`, kept by reference.
    #[must_use]
    pub const fn shared(bytes: &'a [u8], shared: &'a Bytes) -> Self {
        Self { bytes, shared: Some(shared) }
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
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

/// A segment with its sequence number as stream offset.
struct Arrival<'a> {
    header: &'a Header,
    payload: Payload<'a>,
    /// Offset of the first octet; negative if before the peer's SYN.
    start: i64,
}

impl Arrival<'_> {
    fn len(&self) -> i64 {
        i64::from(self.header.sequence_len(self.payload.len() as u32))
    }

    /// The offset after its data.
    fn data_end(&self) -> i64 {
        self.start.saturating_add(self.payload.len() as i64)
    }

    /// The offset after the segment.
    fn end(&self) -> i64 {
        self.start.saturating_add(self.len())
    }

    fn has(&self, flag: Flags) -> bool {
        self.header.flags.contains(flag)
    }
}

impl Connection {
    /// Handles one segment of a receive batch. After the last, call [`finish_batch`](Self::finish_batch).
    pub fn handle_segment(&mut self, now: Time, meta: &SegmentMeta, header: &Header, payload: Payload<'_>) {
        let now = self.advance(now);
        add(&mut self.stats.segments_in, 1);
        match self.life.state {
            State::Closed | State::Listen => {}
            State::SynSent => self.handle_in_syn_sent(now, meta, header),
            _ => {
                let start = self.numbers.peer_offset(header.seq, self.rcv.next());
                self.handle_synchronised(now, meta, Arrival { header, payload, start });
            }
        }
    }

    fn handle_synchronised(&mut self, now: Time, meta: &SegmentMeta, mut segment: Arrival<'_>) {
        if self.life.state == State::SynReceived && segment.has(Flags::SYN) && segment.start == 0 {
            if !self.handle_repeated_syn(&mut segment) {
                return;
            }
        } else if !self.passes_paws(now, &segment) || !self.is_acceptable(now, &segment) {
            return;
        }
        if segment.has(Flags::RST) {
            self.handle_reset(now, &segment);
            return;
        }
        if segment.has(Flags::SYN) && self.life.state != State::SynReceived {
            self.challenge(now);
            return;
        }
        if !segment.has(Flags::ACK) {
            return;
        }
        self.take_network(meta, segment.header);
        let Some(ack) = self.check_acknowledgment(now, meta, &segment) else { return };
        self.take_ack_rate(segment.header.options.ack_rate, !segment.payload.is_empty());
        self.watch_cadence(now, ack);
        self.remember_timestamp(meta.rx_time.unwrap_or(now).min(now), &segment);
        self.heard_from_peer(now);
        self.take_user_timeout(segment.header.options.user_timeout);
        self.arm_keep_alive(now);
        self.process_ack(now, meta, segment.header, segment.start.max(0) as u64, ack, segment.payload.len());
        self.hear_after_outage(now);
        self.give_up_unanswered();
        self.tell_unheard(now);
        self.pmtu.note_episodes(self.stats.recoveries);
        self.after_ack(now);
        if self.life.state == State::Closed {
            return;
        }
        self.take_congestion_mark(meta, &segment);
        // The FIN comes before the data, so that an ACK of the data covers it (RFC 5681, section 4.2: one ACK per segment).
        if segment.has(Flags::FIN) {
            self.note_fin(&segment);
        }
        if !segment.payload.is_empty() {
            self.note_arrival(segment.start, meta.rx_time.unwrap_or(now).min(now), meta.coalesced);
            self.take_data(now, &segment);
        }
        self.consider_fin(now);
    }

    /// A SYN of the peer we already answered: its answer may have been lost. A SYN-ACK in simultaneous open is the
    /// acknowledgment we wait for, and all that counts of the segment. Whether there is one to be looked at.
    fn handle_repeated_syn(&mut self, segment: &mut Arrival<'_>) -> bool {
        if segment.has(Flags::RST) {
            return false;
        }
        if segment.has(Flags::ACK) {
            segment.payload = Payload::copied(&[]);
            // The peer may not have heard of our SYN-ACK.
            self.rcv.ack_due = true;
            return true;
        }
        self.repeat_syn_ack();
        false
    }

    /// RFC 7323, section 5.3, R1: a segment with an older timestamp is a duplicate from the past.
    fn passes_paws(&mut self, now: Time, segment: &Arrival<'_>) -> bool {
        if !self.negotiated.timestamps || segment.has(Flags::RST) {
            return true;
        }
        let Some(stamp) = segment.header.options.timestamps else {
            // RFC 7323, section 3.2: once negotiated, a segment without is dropped.
            return false;
        };
        if !self.is_from_the_past(now, stamp.value) || self.is_overtaken(segment, stamp.value) {
            return true;
        }
        add(&mut self.stats.paws_dropped, 1);
        self.answer_unacceptable(now, segment);
        false
    }

    /// Whether a segment beyond a hole is older than what filled the hole before it because that overtook it: the peer sends at low
    /// priority, and said so. A second is too short for sequence numbers to come round below 34 Gb/s.
    fn is_overtaken(&self, segment: &Arrival<'_>, value: u32) -> bool {
        let behind = self.numbers.clock.tick() * u64::from(self.rcv.ts_recent.wrapping_sub(value));
        self.negotiated.probe_echo && segment.start > self.rcv.next() as i64 && behind <= OVERTAKEN
    }

    /// Whether a timestamp is older than the newest remembered, if that is not too old to tell (RFC 7323, section 5.5).
    fn is_from_the_past(&self, now: Time, value: u32) -> bool {
        let comparable = self.rcv.ts_recent_at.is_some_and(|at| now - at <= self.numbers.clock.validity());
        comparable && seq::later(self.rcv.ts_recent, value)
    }

    /// RFC 9293, section 3.10.7.4, first: whether any octet lies in the window.
    fn is_acceptable(&mut self, now: Time, segment: &Arrival<'_>) -> bool {
        let next = self.rcv.next() as i64;
        let edge = (self.rcv.edge as i64).max(next);
        let (start, end, len) = (segment.start, segment.end(), segment.len());
        let within = |offset: i64| next <= offset && offset < edge;
        let acceptable = match (len, edge.saturating_sub(next)) {
            (0, 0) => start == next,
            // A sender that has filled the window acknowledges from its right edge. To drop that would stop the other
            // direction until the first retransmission, as both sides may have filled the other's window. Deployed stacks
            // accept it, too. A RST has to hit the window.
            (0, _) => within(start) || (start == edge && !segment.has(Flags::RST)),
            // A closed window still takes ACKs and RSTs (RFC 9293, section 3.10.7.4).
            (_, 0) => start == next,
            (_, _) => within(start) || within(end.saturating_sub(1)) || (start < next && end > next),
        };
        if !acceptable {
            self.answer_unacceptable(now, segment);
        }
        acceptable
    }

    /// What is not acceptable draws an ACK, unless it is a RST. Duplicates with data are answered each, and at once, if they
    /// are credible: the sender's undo and probes live on it (RFC 2883). The rest is limited like challenges, against ACK
    /// loops and against senders of forged segments (RFC 5961, section 7).
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
            self.rcv.dsack = Some((segment.start as u64, end as u64));
            add(&mut self.stats.duplicate_bytes_in, segment.payload.len() as u64);
            self.name_segment(segment);
            self.queue_ack(now);
        } else if !segment.payload.is_empty() || segment.has(Flags::FIN) {
            self.queue_ack(now);
        } else {
            self.challenge(now);
        }
    }

    /// Whether a segment outside the window can be the peer's: it acknowledges what RFC 5961, section 5.2, accepts and, with
    /// timestamps, echoes one that this connection can have sent. A blind attacker has to guess both.
    fn is_credible(&self, now: Time, header: &Header) -> bool {
        let ack = self.numbers.our_offset(header.ack, self.snd.una);
        let oldest = (self.snd.una as i64).saturating_sub(self.snd.max_window.min(1 << 30) as i64);
        let plausible = header.flags.contains(Flags::ACK) && oldest <= ack && ack <= self.snd.sent_to() as i64;
        let echoed = |stamp: Timestamps| {
            let age = self.numbers.clock.age(now, stamp.echo);
            // A microsecond clock goes round in 71 minutes: afterwards half of all values look recent.
            age.is_some_and(|age| age <= now - self.life.created_at)
        };
        plausible && (!self.negotiated.timestamps || header.options.timestamps.is_some_and(echoed))
    }

    /// One ACK with our numbers, at most one each half second (RFC 5961, sections 3.2, 4.2, 5.2 and 7).
    pub(super) fn challenge(&mut self, now: Time) {
        if self.rcv.challenged_at.is_some_and(|at| now - at < CHALLENGE_INTERVAL) {
            return;
        }
        self.rcv.challenged_at = Some(now);
        add(&mut self.stats.challenge_acks, 1);
        self.queue_ack(now);
    }

    /// RFC 9293, section 3.10.7.4, second; RFC 5961, section 3.2; RFC 1337.
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
        // What the peer sent before it gave up was in order, but RFC 9293 flushes the queues.
        self.finish(Some(error));
    }

    /// RFC 7323, section 4.3: the echo is that of the segment which ends the hole, or of the last one acknowledged.
    /// `at` is when the segment arrived, which may be long ago if this host slept: that is how old the value is.
    fn remember_timestamp(&mut self, at: Time, segment: &Arrival<'_>) {
        let Some(stamp) = segment.header.options.timestamps.filter(|_| self.negotiated.timestamps) else { return };
        let last_ack = self.rcv.last_ack_sent as i64;
        if segment.start <= last_ack && !self.is_from_the_past(at, stamp.value) {
            self.rcv.ts_recent = stamp.value;
            self.rcv.ts_recent_at = Some(at);
        }
    }

    /// RFC 9293, section 3.10.7.4, fifth; RFC 5961, section 5.2. The offset acknowledged, if it is acceptable.
    fn check_acknowledgment(&mut self, now: Time, meta: &SegmentMeta, segment: &Arrival<'_>) -> Option<u64> {
        let ack = self.numbers.our_offset(segment.header.ack, self.snd.una);
        if self.life.state == State::SynReceived {
            if ack < 1 || ack > self.snd.nxt as i64 {
                self.life.reset = Some(Box::new(reset_for(segment.header, 0)));
                return None;
            }
            self.snd.wl1 = segment.start.max(0) as u64;
            self.snd.wl2 = ack as u64;
            self.establish(now, meta.rx_time.unwrap_or(now).min(now), segment.header);
            if self.life.state == State::Closed {
                return None;
            }
            self.announce_user_timeout(now);
            return Some(ack as u64);
        }
        let oldest = (self.snd.una as i64).saturating_sub(self.snd.max_window.min(1 << 30) as i64);
        let unsent = ack > self.snd.sent_to() as i64;
        if unsent || ack < oldest {
            if unsent {
                self.refuse_ahead();
            }
            self.challenge(now);
            return None;
        }
        // An old but tolerable acknowledgment says nothing new; its data still counts.
        Some(ack.max(0) as u64)
    }

    /// The states that our FIN's acknowledgment ends (RFC 9293, section 3.10.7.4, fifth).
    fn after_ack(&mut self, now: Time) {
        if !self.snd.fin_acknowledged() {
            return;
        }
        match self.life.state {
            State::FinWait1 => {
                self.life.enter(State::FinWait2);
                if self.life.orphaned || self.rcv.closed {
                    self.timers.arm(Timer::Linger, now + self.config.fin_wait2_timeout);
                }
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(None),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.life.enter(State::TimeWait);
        self.life.events.raise(Event::Finished);
        self.cc.limits.account(now);
        self.timers = Timers::default();
        self.timers.arm(Timer::Linger, now + self.config.time_wait);
    }

    /// RFC 3168, section 6.1.3: CE is echoed until the peer says CWR.
    fn take_congestion_mark(&mut self, meta: &SegmentMeta, segment: &Arrival<'_>) {
        if !self.negotiated.ecn || segment.payload.is_empty() {
            return;
        }
        if segment.has(Flags::CWR) {
            self.rcv.echo_congestion = false;
        }
        if meta.ecn == Ecn::Ce {
            add(&mut self.stats.ce_in, 1);
            if !self.rcv.echo_congestion {
                self.rcv.ack_due = true;
            }
            self.rcv.echo_congestion = true;
        }
    }

    /// RFC 9293, section 3.10.7.4, seventh.
    fn take_data(&mut self, now: Time, segment: &Arrival<'_>) {
        if !self.life.state.can_receive() {
            // After the peer's FIN nothing more can come: ignored.
            return;
        }
        let next = self.rcv.data.next() as i64;
        let end = segment.data_end();
        if self.rcv.closed && end > next {
            // Nobody reads: the peer must know that its data is lost (RFC 9293, section 3.6.1).
            self.abort_unread(now);
            return;
        }
        let from = 1i64.saturating_sub(segment.start).max(0) as usize;
        // Nothing comes after the end of the stream.
        let limit = self.rcv.fin.map_or(self.rcv.edge, |fin| fin.min(self.rcv.edge));
        let to = (limit as i64).saturating_sub(segment.start).max(0) as usize;
        let part = segment.payload.part(from, to);
        if part.is_empty() {
            self.rcv.ack_due = true;
            return;
        }
        if !self.has_memory_for(part.len(), segment.start <= next) {
            add(&mut self.stats.bytes_refused, part.len() as u64);
            return;
        }
        let start = segment.start.max(1) as u64;
        let in_order_before = self.rcv.data.out_of_order() == 0;
        let limits =
            Limits { ranges: self.range_cap(), memory: (self.rcv.capacity as usize).saturating_mul(2).max(64 << 10) };
        let inserted = self.rcv.data.insert(start, part.keep(), limits);
        add(&mut self.stats.bytes_received, inserted.new_bytes as u64);
        if let Some(duplicate) = &inserted.duplicate {
            self.rcv.dsack = Some((duplicate.start, duplicate.end));
            add(&mut self.stats.duplicate_bytes_in, duplicate.end.saturating_sub(duplicate.start));
        }
        if inserted.advanced {
            self.life.events.raise(Event::Readable);
        }
        let plain = in_order_before && inserted.advanced && inserted.duplicate.is_none();
        if let Some(stamp) = segment.header.options.timestamps.filter(|_| plain && self.negotiated.timestamps) {
            self.rcv.round_trip(self.numbers.clock.age(now, stamp.echo));
        }
        if !plain {
            self.name_segment(segment);
        }
        self.schedule_ack(now, part.len(), plain);
    }

    /// The ACK that this segment draws at once names it, if the peer wants that (`docs/wire.md`, "Probe echo").
    fn name_segment(&mut self, segment: &Arrival<'_>) {
        if self.negotiated.probe_echo {
            self.rcv.probe_echo = segment.header.options.timestamps.map(|stamp| stamp.value);
        }
    }

    /// Under hard memory pressure only a little in-order data is taken; the rest is as good as lost on the way.
    fn has_memory_for(&self, len: usize, in_order: bool) -> bool {
        const SMALL: usize = 16 << 10;
        self.life.pressure != Pressure::Hard || (in_order && self.rcv.data.unread().saturating_add(len) <= SMALL)
    }

    /// Holes are as many as a full window of alternating segments has.
    fn range_cap(&self) -> usize {
        (self.rcv.capacity / 1024).clamp(128, 1 << 16) as usize
    }

    /// RFC 9293, section 3.8.6.3; RFC 5681, section 4.2: at once for whatever is out of order or fills a hole.
    fn schedule_ack(&mut self, now: Time, len: usize, plain: bool) {
        self.rcv.peer_segment = self.rcv.peer_segment.max(len.min(1 << 16));
        self.rcv.unacked = self.rcv.unacked.saturating_add(1);
        if len >= self.rcv.peer_segment || len >= 536 {
            self.rcv.unacked_full = self.rcv.unacked_full.saturating_add(1);
        }
        let due = self.rcv.close_ack_due(self.config.ack_every(), plain);
        if plain {
            if due {
                self.queue_ack(now);
            }
            return;
        }
        self.rcv.unacked_out_of_order = self.rcv.unacked_out_of_order.saturating_add(1);
        self.rcv.ack_due = true;
        // A duplicate needs an ACK of its own to be reported; without SACK every ACK is a duplicate that counts;
        // three blocks are all that one ACK can name.
        if self.rcv.dsack.is_some()
            || self.rcv.probe_echo.is_some()
            || !self.negotiated.sack
            || self.rcv.unacked_out_of_order >= 3
        {
            self.queue_ack(now);
        }
    }

    /// Remembers where the peer's stream ends. A FIN beyond a hole waits for the hole.
    fn note_fin(&mut self, segment: &Arrival<'_>) {
        let at = segment.data_end();
        let arrived = self.rcv.data.ranges().next_back().map_or(self.rcv.data.next(), |range| range.end);
        if !self.life.state.can_receive() || self.rcv.fin.is_some() || at < arrived as i64 {
            return;
        }
        if at > self.rcv.edge as i64 {
            return;
        }
        self.rcv.fin = Some(at as u64);
        self.rcv.ack_due = true;
    }

    /// RFC 9293, section 3.10.7.4, eighth: everything before the FIN has arrived.
    fn consider_fin(&mut self, now: Time) {
        if !self.rcv.fin_reached() || !self.life.state.can_receive() {
            return;
        }
        self.rcv.ack_due |= self.rcv.last_ack_sent < self.rcv.next();
        self.life.events.raise(Event::Readable);
        match self.life.state {
            State::SynReceived | State::Established => self.life.enter(State::CloseWait),
            State::FinWait1 if self.snd.fin_acknowledged() => self.enter_time_wait(now),
            State::FinWait1 => self.life.enter(State::Closing),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// Ends a receive batch: decides on the acknowledgement.
    pub fn finish_batch(&mut self, now: Time) {
        let now = self.advance(now);
        if self.rcv.unacked == 0 || self.rcv.ack_due {
            return;
        }
        // Every second segment, or as many as the application or the peer wants, or every batch if that is less often.
        let every = self.rcv.every(self.config.ack_every());
        let any_size = every == 1 || self.rcv.close_acks > 0;
        let enough = self.rcv.unacked_full >= every || (any_size && self.rcv.unacked >= every);
        if enough || self.config.ack_delay.is_zero() {
            self.rcv.ack_due = true;
        } else if !self.timers.is_armed(Timer::Ack) {
            self.timers.arm(Timer::Ack, now + self.config.ack_delay.min(MAX_ACK_DELAY));
        }
    }

    /// Adds D-SACK and SACK blocks to an ACK (RFC 2018, section 4; RFC 2883, section 4).
    pub(super) fn add_sack(&mut self, header: &mut Header) {
        let dsack = self.rcv.dsack.take();
        if !self.negotiated.sack {
            return;
        }
        let irs = self.numbers.irs;
        let block = |left, right| SackBlock { left: seq::to_wire(irs, left), right: seq::to_wire(irs, right) };
        if let Some((left, right)) = dsack {
            header.options.sack.push(block(left, right));
        }
        for range in self.rcv.data.recent_ranges() {
            if !header.options.sack.push(block(range.start, range.end)) {
                break;
            }
        }
    }
}
