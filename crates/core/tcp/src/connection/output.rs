//! Transmit path: selects what to send next and fills batches with it.

use longhaul_cc::SendLimit;
use longhaul_units::{Bytes, Time};

use super::Timer;
use super::extension::{Carrier, Filled, Outgoing, Turn};
use super::send_loop::Fill;
use crate::{Batch, Connection, Event, State};

/// Segments that [`Connection::poll_transmit`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A batch, after which there may be more.
    Batch,
    /// A batch, after which there is nothing to send until the next event.
    LastBatch,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Fills `batch` with segments to be sent at `now`. Must be called until it reports that there are no more.
    /// `max_segments` is the limit of the socket's segmentation offload, or 1 without offload.
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        let now = self.timers.advance(now);
        batch.clear();
        let due = self.transmit(now, batch, max_segments);
        if due != Due::Nothing && !self.observers.is_empty() {
            self.observers.report_segments(now, batch);
            // An aborted connection ends with its RST.
            if self.life.is_drained() {
                self.watch().end();
            }
            if !self.observers.is_empty() {
                self.watch().report_changes();
            }
        }
        due
    }

    /// Appends the slices of a batch, headers and payload, to `out`, and returns their length in bytes. Where there is
    /// room, headers are written next to the payload on each send, so that both form one slice. If the length is less
    /// than [`Batch::len`], payload was acknowledged since the batch was made, and the batch must not be sent.
    pub fn frames<'a>(&'a mut self, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.snd.frames(batch, out)
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
        // ACKs queued earlier are sent first.
        if self.rcv.acks.queue.is_empty() && self.transmit_handshake(now, batch) {
            return Due::Batch;
        }
        let due = self.transmit_next(now, batch, max_segments);
        if !self.ext.list.is_empty() && due != Due::Nothing {
            let stamp = self.numbers.clock.value(now);
            self.ext.list.iter_mut().for_each(|extension| extension.on_batch(stamp));
        }
        due
    }

    /// Fills an empty batch with the most urgent segments other than a SYN or a RST.
    fn transmit_next(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        if let Some(due) = self.transmit_extension(Turn::First, now, batch, max_segments) {
            return due;
        }
        self.stats.segments_out += self.rcv.acks.push_queued(batch, max_segments);
        if !batch.is_empty() {
            return Due::Batch;
        }
        match self.transmit_data(now, batch, max_segments) {
            Due::Nothing => {}
            data => return data,
        }
        if let Some(due) = self.transmit_extension(Turn::Last, now, batch, max_segments) {
            return due;
        }
        if !self.rcv.acks.due || !self.life.state.is_synchronized() {
            return Due::Nothing;
        }
        // All other sources have already been tried.
        let header = self.headers().ack_header(now);
        batch.push(&header, 0, 0);
        self.stats.segments_out += 1;
        Due::LastBatch
    }

    /// Fills a batch with retransmissions, then with new data, as far as cwnd, peer window and pacer allow.
    fn transmit_data(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Due {
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        if !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return Due::Nothing;
        }
        if self.snd.lost_bytes() == 0
            && !self.snd.has_unsent()
            && !self.loss.wants_to_send()
            && !matches!(self.cc.limits.current, SendLimit::Cpu | SendLimit::Pacing)
        {
            return Due::Nothing;
        }
        let edge = self.rcv.edge;
        let stop = self.fill(now, batch, max_segments);
        // If the batch is full, the caller polls again at once; a delay until then is caused by the processor.
        self.control_loop().on_send_limit(now, stop.unwrap_or(SendLimit::Cpu));
        if batch.is_empty() {
            // The header was not sent, so the window in it was not advertised.
            self.rcv.edge = edge;
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
        // If the pacer also limits the next batch, the next poll records this. A repeated request for an ACK frequency
        // can wait for the next batch.
        let want = Bytes(self.cc.waiting_bytes(&self.snd, &self.loss).max(1));
        let is_exhausted = !self.rcv.acks.has_any() && !self.ext.is_active && self.cc.pacer.ready(now, want).is_ok();
        if is_exhausted { Due::LastBatch } else { Due::Batch }
    }

    /// Updates timers, pacer and the state of the piggybacked ACK after a batch of data was made.
    fn after_transmit(&mut self, now: Time, batch: &Batch) {
        self.cc.bursts.on_sent(batch.payload_len());
        self.control_loop().refresh();
        // Pacing rates count payload, as congestion windows do.
        self.cc.pacer.sent(now, batch.payload_len());
        self.stats.segments_out += batch.segments.len() as u64;
        self.stats.data_segments_out += batch.segments.len() as u64;
        self.snd.on_transmission(now, self.rtt.srtt);
        if self.snd.wake_writer() {
            self.events.raise(Event::Writable);
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
            let since = self.snd.idle_since();
            self.control_loop().restart_after_idleness(now, since);
        }
        // The segments of one batch share a send time, a delivery-rate snapshot and a header template.
        let tag = self.cc.control.tag;
        let snapshot = self.cc.rate.snapshot(now, idle, tag);
        self.snd.board.begin_burst(snapshot);
        let nxt = self.snd.nxt;
        let mut template = self.headers().header(now, nxt);
        self.ext.decorate(&mut template, Carrier::Data(&self.cc.control, self.config.ttl));
        batch.dscp = self.cc.control.dscp;
        let mut fill = Fill::new(now, template, batch, max_segments, budget);
        self.send_loop().fill(&mut fill)
    }

    /// Returns what is due if extensions have filled the batch, or hold everything back.
    fn transmit_extension(&mut self, turn: Turn, now: Time, batch: &mut Batch, max_segments: usize) -> Option<Due> {
        if self.ext.list.is_empty() {
            return None;
        }
        match self.engine().send_for_extensions(turn, Outgoing { now, batch: &mut *batch, max_segments }) {
            Filled::Nothing(_) => return None,
            Filled::Held => return Some(Due::Nothing),
            Filled::InWindow => self.after_transmit(now, batch),
            Filled::Beside => {
                self.stats.segments_out += batch.segments.len() as u64;
                // The controller may plan more probes.
                self.control_loop().refresh();
            }
        }
        Some(Due::Batch)
    }
}
