//! Transmit path: selects what to send next and fills batches with it.

use longhaul_cc::{SegmentKind, SendLimit, TxId};
use longhaul_units::{Bytes, Time};
use longhaul_wire::{Ecn, Flags};

use super::Timer;
use super::rc3::{self, Tail};
use super::send_loop::Fill;
use crate::{Batch, Connection, Event, SegmentRef, State};

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

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Fills `batch` with segments to be sent at `now`. Must be called until it returns that there are no more.
    /// `max_segments` is the limit of the socket's segmentation offload, or 1 without offload.
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        let now = self.timers.advance(now);
        batch.clear();
        let due = self.transmit(now, batch, max_segments);
        if due != Due::Nothing && !self.observers.is_empty() {
            self.observers.report_segments(now, batch);
            // An aborted connection ends with its RST.
            if self.is_drained() {
                self.end_observation();
            }
            self.report_changes();
        }
        due
    }

    /// Sets the number of other connections of the endpoint that wait for their turn to send.
    pub(crate) fn set_others(&mut self, others: usize) {
        self.snd.set_others(others);
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
        self.control_loop().on_send_limit(now, stop.unwrap_or(SendLimit::Cpu));
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
            self.control_loop().wait_for_pacer(now);
            return Due::Batch;
        }
        // If the pacer limits the next batch as well, that is for the next poll to note. A request of an ACK frequency that is
        // repeated after this batch can wait for the next one.
        let want = Bytes(self.cc.waiting_bytes(&self.snd, &self.loss).max(1));
        let is_exhausted =
            !self.rcv.acks.has_any() && self.ext.probes.is_none() && self.cc.pacer.ready(now, want).is_ok();
        if is_exhausted { Due::LastBatch } else { Due::Batch }
    }

    /// Updates timers, pacer and the state of the piggybacked ACK after a batch of data was made.
    pub(super) fn after_transmit(&mut self, now: Time, batch: &Batch) {
        self.cc.bursts.on_sent(batch.payload_len());
        self.control_loop().refresh();
        // Pacing rates count payload, as congestion windows do.
        self.cc.pacer.sent(now, batch.payload_len());
        self.stats.segments_out += batch.segments.len() as u64;
        self.stats.data_segments_out += batch.segments.len() as u64;
        self.snd.on_transmission(now, self.rtt.srtt());
        if self.snd.wake_writer() {
            self.life.events.raise(Event::Writable);
        }
        self.headers().on_piggybacked_ack();
        self.arm_retransmission(now);
    }

    /// Fills a batch within the budget of the pacer. Returns the limit that stopped it, or `None` if the batch is full.
    fn fill(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Option<SendLimit> {
        let want = self.cc.waiting_bytes(&self.snd, &self.loss).max(1);
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
            self.control_loop().restart_after_idleness(now);
        }
        // The segments of one batch share a send time, a delivery-rate snapshot and a header template.
        let tag = self.cc.control.tag;
        let snapshot = self.cc.rate.snapshot(now, idle, tag);
        self.snd.begin_burst(snapshot);
        let (flags, nxt) = (Flags::ACK | self.rcv.acks.echo_flag(), self.snd.nxt());
        let mut template = self.headers().header(now, flags, nxt);
        template.options.network = self.ext.network.request_on_data(self.cc.control.header, self.config.ttl);
        batch.dscp = self.cc.control.dscp;
        let mut fill = Fill::new(now, template, batch, max_segments, budget);
        self.send_loop().fill(&mut fill)
    }

    /// Sends the second segment of a pair right after the first.
    fn transmit_second(&mut self, now: Time, batch: &mut Batch) -> bool {
        let second = self.ext.pairs.as_mut().and_then(|pairs| pairs.take_second(now));
        let Some(second) = second.filter(|_| self.life.state.is_synchronized()) else { return false };
        let (flags, nxt) = (Flags::ACK | self.rcv.acks.echo_flag(), self.snd.nxt());
        let mut header = self.headers().header(now, flags, nxt);
        header.seq = self.numbers.sequence(second.start);
        batch.push(&header, second.start, second.len);
        batch.ecn = second.ecn;
        self.after_transmit(now, batch);
        true
    }

    /// Sends the next probe if one is due.
    fn transmit_probe(&mut self, now: Time, batch: &mut Batch) -> bool {
        let Some(probes) = self.ext.probes.as_deref_mut().filter(|_| self.rtt.srtt().is_some()) else { return false };
        let due = probes.next(now, self.numbers.clock, &self.snd, self.pmtu.mss(), &mut self.timers);
        let Some((plan, index, record)) = due else { return false };
        self.snd.board_mut().note_copy(index);
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let flags = Flags::ACK | Flags::PSH | fin | self.rcv.acks.echo_flag();
        let mut header = self.headers().header(now, flags, record.start);
        header.seq = self.numbers.sequence(record.start);
        batch.dscp = plan.dscp;
        // Probes are not ECN-capable: the echo of a CE mark would be attributed to data in the window. A congested
        // queue drops the probe instead.
        batch.ecn = Ecn::NotEct;
        batch.push(&header, record.start, record.len);
        self.stats.segments_out += 1;
        let before = self.loss.pipe(self.snd.board());
        let mut control = self.control_loop();
        control.report_sent(now, TxId(0), record.len, before, SegmentKind::Probe);
        // The plan may allow more probes after this one.
        control.refresh();
        true
    }

    /// Sends the next segments from the tail if they are due. Nothing is sent before the first RTT sample, or between
    /// a retransmission timeout and the next acknowledgment of new data.
    fn transmit_rc3(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        let Some(plan) = self.snd.rc3_plan() else { return false };
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let silent = self.rtt.srtt().is_none() || self.rtt.backoff() > 0;
        if silent || !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return false;
        }
        let room = self.cc.room(&self.snd, &self.loss);
        let bounds = self.snd.rc3_bounds(room, u64::from(self.pmtu.mss()).max(1));
        let Some((first, due_at)) = self.snd.next_from_tail(bounds) else {
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < due_at {
            self.timers.arm(Timer::Copy, due_at);
            return false;
        }
        let flags = Flags::ACK | self.rcv.acks.echo_flag();
        let template = self.headers().header(now, flags, first.start);
        let tail = Tail { plan, bounds, first };
        let sent = rc3::fill(&mut self.send_loop(), now, batch, max_segments, &template, &tail);
        if sent == 0 {
            self.timers.stop(Timer::Copy);
            return false;
        }
        self.snd.schedule_tail(now, plan.gap, sent);
        self.stats.segments_out += sent;
        self.control_loop().refresh();
        true
    }

    /// Fills an empty batch with the most urgent segments other than a RST.
    fn transmit_next(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        if self.transmit_second(now, batch) {
            return Due::Batch;
        }
        self.stats.segments_out += self.rcv.acks.push_queued(batch, max_segments);
        if !batch.is_empty() || self.transmit_handshake(now, batch) {
            return Due::Batch;
        }
        match self.transmit_data(now, batch, max_segments) {
            Due::Nothing => {}
            data => return data,
        }
        if self.transmit_probe(now, batch) || self.transmit_rc3(now, batch, max_segments) {
            return Due::Batch;
        }
        if !self.rcv.acks.is_due() || !self.life.state.is_synchronized() {
            return Due::Nothing;
        }
        // Everything else has been asked already.
        self.headers().push_ack(now, batch);
        Due::LastBatch
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
        if self.ext.ack_frequency.is_some() && self.life.state.is_synchronized() && self.snd.has_unacknowledged_data() {
            // A request that comes without data, now or soon, may reach a peer that has closed the connection and answers
            // with a RST.
            let ratio = self.cc.control.ack_ratio;
            self.headers().request_ack_frequency(ratio);
        }
        let due = self.transmit_next(now, batch, max_segments);
        if let Some(probes) = self.ext.probes.as_mut().filter(|_| due != Due::Nothing) {
            probes.note_timestamp(self.numbers.clock.value(now));
        }
        due
    }
}
