//! Congestion events: losses, ECN marks, and spurious losses.

use longhaul_cc::{Ack, Episode, LostSegment, PathEvent, Timeout, TxId};
use longhaul_units::{Bytes, Time};

use super::{Driver, Lost};
use crate::ring::Taken;

impl Driver {
    /// Records that a packet was lost. [`on_losses`](Self::on_losses) reports it to the controller.
    pub fn on_packet_lost(&mut self, number: u64, bytes: u64) {
        if let Some(taken) = self.ring.lost(number, bytes) {
            self.note_loss(&taken);
        }
    }

    /// Processes the losses that [`on_packet_lost`](Self::on_packet_lost) has recorded.
    pub fn on_losses(&mut self, at: Time, lost: Lost) {
        self.ring.trim();
        self.conclude(at, lost.persistent);
    }

    /// Processes losses of which the stack reports only the total size: the oldest packets are taken as lost.
    pub fn on_unlisted_losses(&mut self, at: Time, lost: Lost) {
        let mut left = lost.bytes;
        while left > 0 {
            let Some(taken) = self.ring.oldest(lost.sent_at, left) else { break };
            left -= taken.bytes;
            self.note_loss(&taken);
        }
        self.conclude(at, lost.persistent);
    }

    /// Processes an ACK that reports congestion marks; the newest marked packet was sent at `sent_at`. There is one
    /// response per round trip (RFC 9002, section 7.3.2).
    pub fn on_mark(&mut self, at: Time, sent_at: Time) {
        let now = self.advance(at);
        let is_answered = self.recovery.is_some() || self.marked_at.is_some_and(|last| sent_at <= last);
        if !self.established || is_answered {
            return;
        }
        self.marked_at = Some(now);
        self.congestion_seen = true;
        let mut ack = Ack::new(now);
        ack.ecn_echo = true;
        (ack.prior_in_flight, ack.flight_size) = (self.in_flight, self.prior_in_flight(now));
        self.report(ack, None);
    }

    /// Reports to the controller that the last congestion event was spurious: all packets marked lost have arrived.
    pub fn on_spurious(&mut self) {
        if let Some(timeout) = self.undoable.take().filter(|_| self.established) {
            (self.recovery, self.after_timeout) = (None, false);
            self.tell(&PathEvent::Spurious { now: self.now, timeout, in_flight: self.in_flight });
        }
    }

    pub(super) fn note_loss(&mut self, taken: &Taken) {
        let entry = &taken.entry;
        let mut segment = LostSegment::new(TxId(entry.tx), entry.sent_at, taken.bytes());
        segment.tag = entry.tag;
        (segment.in_flight_at_send, segment.lost_at_send) =
            (Bytes(entry.snapshot.in_flight), Bytes(entry.snapshot.lost));
        self.lost.push(segment);
        self.largest_lost = self.largest_lost.max(Some(entry.tx));
    }

    /// Reports the noted losses.
    pub(super) fn conclude(&mut self, at: Time, persistent: bool) {
        let now = self.advance(at);
        let lost = core::mem::take(&mut self.lost);
        let Some(largest) = self.largest_lost.take() else { return };
        let bytes = lost.iter().fold(Bytes::ZERO, |sum, segment| sum + segment.bytes);
        self.sampler.lost = self.sampler.lost.saturating_add(bytes.0);
        let before = self.in_flight;
        self.in_flight -= bytes;
        self.note_idleness(now);
        if !self.established {
            self.path.handshake_lossy |= persistent;
        } else if persistent && !self.follows_timeout(largest) {
            self.time_out(now);
        } else {
            let mut ack = Ack::new(now);
            ack.newly_lost = bytes;
            (ack.prior_in_flight, ack.flight_size) = (before, self.prior_in_flight(now).max(before));
            ack.episode = self.episode_after(largest);
            if ack.episode == Episode::Enter {
                ack.recover_flight = ack.flight_size;
            }
            if self.choice.granted().segments {
                ack.lost = &lost;
            }
            self.report(ack, None);
        }
        self.lost = lost;
        self.lost.clear();
    }

    /// Returns the state of recovery after the loss of transmission `largest`: a packet sent before the last congestion
    /// event belongs to that event.
    fn episode_after(&mut self, largest: u64) -> Episode {
        match self.recovery {
            Some(first) if largest < first && self.after_timeout => Episode::Rto,
            Some(first) if largest < first => Episode::In,
            known => {
                self.recovery = Some(self.next_tx);
                (self.undoable, self.congestion_seen, self.after_timeout) = (Some(false), true, false);
                if known.is_some() { Episode::Again } else { Episode::Enter }
            }
        }
    }

    /// Returns whether the response to the last timeout covers the loss of transmission `largest`.
    fn follows_timeout(&self, largest: u64) -> bool {
        self.after_timeout && self.recovery.is_some_and(|first| largest < first)
    }

    /// Responds to persistent congestion, which corresponds to a retransmission timeout in TCP (RFC 9002, section
    /// 7.6.2).
    fn time_out(&mut self, now: Time) {
        let mut event = Timeout::new(now, 1, self.prior_in_flight(now));
        event.in_flight = self.in_flight;
        self.recovery = Some(self.next_tx);
        (self.undoable, self.congestion_seen, self.after_timeout) = (Some(true), true, true);
        self.controller.on_timeout(&event, &self.path);
        self.refresh();
    }

    /// Returns the bytes in flight before the ACK that is being processed.
    fn prior_in_flight(&self, now: Time) -> Bytes {
        match self.batch.last {
            Some((at, prior)) if at == now => prior,
            _ => self.in_flight,
        }
    }
}
