//! Segment arrival (RFC 9293, section 3.10.7.4; RFC 5961; RFC 7323).

use longhaul_units::Time;
use longhaul_wire::{Flags, Header};

use super::ack_schedule::MAX_ACK_DELAY;
use super::checks::Acceptability;
use super::handshake::reset_for;
use super::receiving::Text;
use super::segment::{Train, may_lead};
use super::{Engine, Incoming, Pressure, Timer};
use crate::{
    Connection, ConnectionError, ConnectionEvent, Event, HostError, Payload, Rejection, SegmentMeta, State, add,
};

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
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
                self.handle_synchronised(Incoming { now, meta, header, payload, start, ack: 0 })
            }
        };
        if !self.observers.is_empty() {
            self.watch().report_changes();
        }
        advances && may_lead(meta, header)
    }

    /// Handles a segment in any state after SYN-SENT (RFC 9293, section 3.10.7.4). Returns whether its data
    /// has only advanced RCV.NXT.
    fn handle_synchronised(&mut self, mut segment: Incoming<'_>) -> bool {
        let now = segment.now;
        // First: check the sequence number, after PAWS (RFC 7323, section 5.3).
        let mut is_repeated = false;
        if self.life.state == State::SynReceived && segment.has(Flags::SYN) && segment.start == 0 {
            if !self.handle_repeated_syn(&mut segment) {
                return false;
            }
        } else {
            match self.checks().check(&segment) {
                Acceptability::Acceptable => {}
                Acceptability::Ignored => return false,
                Acceptability::Rejected(reason) => {
                    self.engine().reject(&segment, reason);
                    let is_outside = reason == Rejection::OutsideWindow;
                    is_repeated = is_outside && self.checks().acknowledges_although_old(&segment);
                    if !is_repeated {
                        return false;
                    }
                }
            }
        }
        // Second: check the RST bit.
        if segment.has(Flags::RST) {
            self.handle_reset(&segment);
            return false;
        }
        // Fourth: check the SYN bit (RFC 5961, section 4.2). This includes SYN-RECEIVED: otherwise, a SYN anywhere in
        // the window would remove a half-open connection, for which a RST has to be at RCV.NXT. A peer that has
        // restarted sends such a RST.
        if segment.has(Flags::SYN) && (self.life.state != State::SynReceived || segment.start != 0) {
            self.headers().challenge(now);
            return false;
        }
        // Fifth: check the ACK field.
        if !segment.has(Flags::ACK) {
            return false;
        }
        let state = self.life.state;
        let Some(ack) = self.check_acknowledgment(&segment) else { return false };
        segment.ack = ack;
        if !self.ext.list.is_empty() {
            self.engine().hear(&segment, state);
        }
        self.receiving().update_ts_recent(&segment);
        self.peer.last_heard = now;
        self.snd.persist.unanswered = 0;
        self.loss.unanswered = 0;
        self.peer.stop_probing(&mut self.timers);
        if let advice @ Some(_) = segment.header.options.user_timeout {
            self.peer.user_timeout.take_advice(advice, &mut self.config, self.rtt.rto());
        }
        self.peer.arm_keep_alive(now, &self.config, self.life.state, &mut self.timers);
        let advances = ack > self.snd.una;
        self.process_ack(&segment);
        self.loss.hear_in_outage(now, &mut self.snd, &mut self.rtt, &mut self.timers);
        if !self.ext.list.is_empty() {
            self.engine().settle(now);
        }
        self.pmtu.note_episodes(self.stats.incidents().recoveries);
        self.after_ack(now, advances);
        if is_repeated || self.life.state == State::Closed {
            return false;
        }
        // Seventh: process the segment text.
        self.receiving().take_mark(&segment);
        // The FIN is recorded before the data, so that the ACK of the data covers it (RFC 5681, section 4.2: one ACK
        // per segment).
        if segment.has(Flags::FIN) && self.life.state.can_receive() && self.rcv.record_fin(segment.data_end()) {
            self.rcv.acks.due = true;
        }
        let mut advances = false;
        if !segment.payload.is_empty() {
            self.ext.note_arrival(segment.start, segment.received_at(), segment.meta.coalesced);
            advances = self.process_text(&segment);
        }
        // Eighth: check the FIN bit.
        self.process_fin(now);
        advances
    }

    /// Second step of RFC 9293, section 3.10.7.4: handles a RST (RFC 5961, section 3.2; RFC 1337).
    fn handle_reset(&mut self, segment: &Incoming<'_>) {
        if self.life.state == State::TimeWait {
            return;
        }
        if segment.start != self.rcv.next() as i64 {
            self.headers().challenge(segment.now);
            return;
        }
        let echo = segment.header.options.timestamps.map(|stamps| stamps.echo);
        if !segment.has(Flags::ACK) && self.engine().outlives_reset(segment.now, echo) {
            return;
        }
        let error = match self.life.state {
            State::SynReceived => ConnectionError::Refused,
            _ => ConnectionError::Reset,
        };
        // In-order data may be unread, but RFC 9293 flushes the queues on a RST.
        self.finish(Some(error));
    }

    /// Fifth step of RFC 9293, section 3.10.7.4 (RFC 5961, section 5.2): returns the acknowledged offset, if it is
    /// acceptable.
    fn check_acknowledgment(&mut self, segment: &Incoming<'_>) -> Option<u64> {
        let now = segment.now;
        let ack = self.numbers.our_offset(segment.header.ack, self.snd.una);
        if self.life.state == State::SynReceived {
            if ack < 1 || ack > self.snd.nxt as i64 {
                self.life.reset = Some(Box::new(reset_for(segment.header, 0)));
                return None;
            }
            (self.snd.wl1, self.snd.wl2) = (segment.start.max(0) as u64, ack as u64);
            self.establish(now, segment.received_at(), segment.header);
            if self.life.state == State::Closed {
                return None;
            }
            self.engine().announce_user_timeout(now);
            return Some(ack as u64);
        }
        let (oldest, newest) = self.snd.acceptable_acks();
        let unsent = ack > newest;
        if unsent || ack < oldest {
            if unsent {
                self.snd.count_invalid_ack();
            }
            self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::Acknowledgment));
            self.headers().challenge(now);
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
            if self.snd.is_settled() {
                self.reset(now);
            }
            return;
        }
        if !self.snd.fin_acknowledged() {
            return;
        }
        match self.life.state {
            State::FinWait1 => {
                self.enter(State::FinWait2);
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
        self.enter(State::TimeWait);
        self.events.raise(Event::Finished);
        self.cc.limits.account(now);
        self.timers.stop_all();
        self.timers.arm(Timer::Linger, now + self.config.time_wait);
    }

    /// Eighth step of RFC 9293, section 3.10.7.4: changes state once everything before the FIN has arrived.
    fn process_fin(&mut self, now: Time) {
        if !self.rcv.fin_reached() || !self.life.state.can_receive() {
            return;
        }
        // Unless the last ACK covers everything up to RCV.NXT.
        self.rcv.acks.due |= self.rcv.acks.last_sent < self.rcv.next();
        self.events.raise(Event::Readable);
        match self.life.state {
            State::SynReceived | State::Established => self.enter(State::CloseWait),
            State::FinWait1 if self.snd.fin_acknowledged() => self.enter_time_wait(now),
            State::FinWait1 => self.enter(State::Closing),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// Seventh step of RFC 9293, section 3.10.7.4: processes the segment text. Returns whether it is in order, no part
    /// of it is a duplicate, and it fills no hole.
    fn process_text(&mut self, segment: &Incoming<'_>) -> bool {
        let now = segment.now;
        if !self.life.state.can_receive() {
            // Text after the peer's FIN is ignored.
            return false;
        }
        if self.rcv.closed && segment.data_end() > self.rcv.data.next as i64 {
            // The application will not read: the peer must be informed that its data is lost (RFC 9293, section 3.6.1).
            if !self.life.resets {
                self.reset_after_queued(now);
            }
            return false;
        }
        let pressed = self.life.pressure == Pressure::Hard;
        match self.receiving().take_text(segment, pressed) {
            Text::Outside => self.rcv.acks.due = true,
            Text::Refused => {
                self.observers.report(now, || ConnectionEvent::SegmentRejected(Rejection::NoMemory));
            }
            Text::Taken { arrived: (len, place), is_readable, is_whole } => {
                if is_readable {
                    self.events.raise(Event::Readable);
                }
                self.rcv.inflow.note(now, self.rtt.srtt);
                let every = self.config.ack_every();
                if self.rcv.acks.on_data(len, place, every, self.negotiated.sack) {
                    self.headers().queue_ack(now);
                }
                return is_whole;
            }
        }
        false
    }

    /// Handles a SYN that was already answered: our SYN-ACK may have been lost. In a simultaneous open, a SYN-ACK
    /// acknowledges our SYN, and the rest of the segment is ignored. Returns whether to process the segment further.
    fn handle_repeated_syn(&mut self, segment: &mut Incoming<'_>) -> bool {
        if segment.has(Flags::RST) {
            return false;
        }
        if segment.has(Flags::ACK) && self.life.handshake.as_ref().is_some_and(|handshake| handshake.passive.is_some())
        {
            // A peer whose SYN we have answered does not answer our SYN.
            self.headers().challenge(segment.now);
            return false;
        }
        if segment.has(Flags::ACK) {
            segment.payload = Payload::copied(&[]);
            // Our SYN-ACK may have been lost.
            self.rcv.acks.due = true;
            return true;
        }
        if let Some(handshake) = &mut self.life.handshake {
            handshake.repeat();
        }
        false
    }

    /// Handles the next segment of a train: of the same receive batch as one for which
    /// [`handle_segment`](Self::handle_segment) or this method has returned `true`, with the same header except for the
    /// sequence number. Returns `false` if the segment does not follow in order, or something else needs to be checked;
    /// it must then be passed to `handle_segment`.
    ///
    /// The acknowledgment, the window and the timestamps of such a segment have been processed with those of the one
    /// before, and the timers have been set. TS.Recent does not change either, as long as the segment begins after the
    /// last ACK (RFC 7323, section 4.3).
    pub fn handle_next(&mut self, now: Time, meta: &SegmentMeta, header: &Header, payload: Payload<'_>) -> bool {
        let start = self.rcv.data.next;
        let follows = self.numbers.peer_offset(header.seq, start) == start as i64;
        let end = start.saturating_add(payload.len() as u64);
        let is_simple = follows
            && !payload.is_empty()
            && end < self.rcv.acceptable_data().end
            && start > self.rcv.acks.last_sent
            && self.checks().keeps_window(header, start)
            && self.observers.is_empty();
        if !is_simple {
            return false;
        }
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, 1);
        if let Some(ack) = self.checks().acknowledged_by(header) {
            self.snd.repeat_window(start, ack);
        }
        self.ext.note_arrival(start as i64, meta.received_at(now), meta.coalesced);
        self.process_text(&Incoming { now, meta, header, payload, start: start as i64, ack: 0 });
        true
    }

    /// Handles a train as [`handle_next`](Self::handle_next) handles its segments; `header` is that of the first.
    /// Returns `false` without a change if the segments have to be handled one at a time because something else needs
    /// to be checked, or if an ACK may be due after one of them.
    ///
    /// The preceding segment has shown that the connection accepts data, and has woken the reader.
    pub(crate) fn handle_train(&mut self, now: Time, meta: &SegmentMeta, header: &Header, train: &Train<'_>) -> bool {
        let start = self.rcv.data.next;
        let payload = u64::from(train.payload);
        let end = start.saturating_add(payload.saturating_mul(train.count as u64));
        let last = end.saturating_sub(payload);
        let is_simple = self.numbers.peer_offset(header.seq, start) == start as i64
            && end < self.rcv.acceptable_data().end
            && start > self.rcv.acks.last_sent
            && self.life.pressure != Pressure::Hard
            && self.rcv.acks.only_counts()
            && self.checks().keeps_window(header, last)
            && self.observers.is_empty();
        if !is_simple || !self.rcv.data.append_train(train) {
            return false;
        }
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, train.count as u64);
        if let Some(ack) = self.checks().acknowledged_by(header) {
            self.snd.repeat_window(last, ack);
        }
        let arrived_at = meta.received_at(now);
        let starts = (start..end).step_by(train.payload.max(1).into());
        starts.for_each(|start| self.ext.note_arrival(start as i64, arrived_at, meta.coalesced));
        add(&mut self.stats.bytes_received, end.saturating_sub(start));
        self.rcv.acks.count(train.count, train.payload.into());
        true
    }

    /// Ends a receive batch and decides whether to send an ACK.
    pub fn finish_batch(&mut self, now: Time) {
        let now = self.timers.advance(now);
        let is_delayed = self.rcv.acks.end_batch(self.config.ack_every(), !self.config.ack_delay.is_zero());
        if is_delayed && !self.timers.is_armed(Timer::Ack) {
            self.timers.arm(Timer::Ack, now + self.config.ack_delay.min(MAX_ACK_DELAY));
        }
    }

    /// Handles a socket or ICMP error for packets to the peer. It is recorded but does not end the connection by
    /// itself, because it may be transient (RFC 1122, section 4.2.3.9) or forged (RFC 5927, section 4). Two errors take
    /// effect once confirmed. In SYN-SENT, an unreachable or refusing peer ends the attempt if the next SYN fails in
    /// the same way; after a local error such as a filter that is being reloaded, the SYN is retransmitted as if it had
    /// been lost. Later, a closed port ends the connection if three consecutive probes are refused and no segment
    /// arrives from the peer in the meantime (RFC 1122, section 4.2.3.9: a hard error; RFC 5461, section 4.1, describes
    /// the risk).
    pub fn handle_host_error(&mut self, now: Time, error: HostError) {
        let now = self.timers.advance(now);
        if self.life.state == State::Closed {
            return;
        }
        self.peer.host_error = Some((error, now));
        add(&mut self.peer.host_errors, 1);
        self.observers.report(now, || ConnectionEvent::HostError(error));
        match self.life.state {
            State::SynSent if error.is_about_path() => {
                let handshake = self.life.handshake.as_mut();
                if let Some(error) = handshake.and_then(|handshake| handshake.on_refusal(now, error, &mut self.timers))
                {
                    self.finish(Some(error));
                }
            }
            State::TimeWait => {}
            state if state.is_synchronized() && error == HostError::Refused => {
                self.peer.on_closed_port(now, &mut self.timers);
            }
            _ => {}
        }
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Engine<'_> {
    /// Answers an unacceptable segment with an ACK, unless it is a RST. Credible duplicates with data are each
    /// acknowledged at once, because the sender's spurious-loss detection and probes depend on it (RFC 2883). Other
    /// answers are rate-limited like challenge ACKs, to prevent ACK loops and replies to forged segments (RFC 5961,
    /// section 7).
    fn reject(&mut self, segment: &Incoming<'_>, reason: Rejection) {
        let now = segment.now;
        if reason == Rejection::Timestamp {
            add(&mut self.stats.incidents_mut().paws_dropped, 1);
        }
        self.observers.report(now, || ConnectionEvent::SegmentRejected(reason));
        if segment.has(Flags::RST) {
            return;
        }
        if segment.has(Flags::SYN) || !self.checks().is_credible(now, segment.header) {
            self.headers().challenge(now);
            return;
        }
        let next = self.rcv.next() as i64;
        if self.life.state == State::TimeWait && segment.has(Flags::FIN) && segment.end() == next {
            self.timers.arm(Timer::Linger, now + self.config.time_wait);
        }
        if segment.payload.is_empty() && !segment.has(Flags::FIN) {
            self.headers().challenge(now);
            return;
        }
        if !segment.payload.is_empty() && segment.start >= 1 && segment.data_end() <= next {
            self.receiving().report_duplicate(segment);
        }
        self.headers().queue_ack(now);
    }

    /// Advertises our user timeout, if enabled, because the value is new or no segment without SYN has carried it. Data
    /// segments do not carry it, so that they have equal lengths.
    pub(super) fn announce_user_timeout(&mut self, now: Time) {
        let advice = self.peer.user_timeout.advice(self.config).filter(|_| self.life.state.is_synchronized());
        if advice.is_some() {
            let mut header = self.headers().ack_header(now);
            header.options.user_timeout = advice;
            header.fit();
            self.rcv.acks.queue.push_back(header);
        }
    }
}
