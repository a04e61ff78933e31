//! Headers of segments, and pure ACKs, which consist of nothing else.

use longhaul_units::Time;
use longhaul_wire::{Flags, Header, ProbeEcho, SackBlock, Timestamps};

use super::ack_schedule::QUEUE_LIMIT;
use super::extension::Carrier;
use super::{Headers, Timer};
use crate::add;

impl Headers<'_> {
    /// Returns a header with the fields that all segments after the handshake carry.
    pub(super) fn header(&mut self, now: Time, offset: u64) -> Header {
        let flags = Flags::ACK | if self.rcv.acks.echo_congestion { Flags::ECE } else { Flags::NONE };
        let window = self.rcv.offer_window(self.negotiated.recv_shift, self.pmtu.mss());
        Header { window, ..self.windowless_header(now, flags, offset) }
    }

    pub(super) fn windowless_header(&self, now: Time, flags: Flags, offset: u64) -> Header {
        let mut header = Header {
            flags,
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

    /// Returns the offset of the sequence number of segments without text, such as pure ACKs and RSTs.
    pub(super) fn textless_offset(&self) -> u64 {
        self.snd.acceptable_to_peer(self.negotiated.send_shift)
    }

    pub(super) fn ack_header(&mut self, now: Time) -> Header {
        let mut header = self.header(now, self.textless_offset());
        let blocks = self.rcv.acks.blocks_due();
        self.add_sack(&mut header);
        header.options.probe_echo = self.rcv.acks.probe_echo.take().map(|value| ProbeEcho { value });
        if self.ext.decorate(&mut header, Carrier::PureAck) || header.options.probe_echo.is_some() {
            header.fit();
        }
        let blocks = blocks.min(header.options.sack.len());
        match &mut self.ext.arrivals {
            Some(arrivals) => arrivals.report(&mut header, self.numbers.initial.irs, blocks),
            None => _ = header.fit(),
        }
        self.timers.stop(Timer::Ack);
        self.rcv.on_ack_sent();
        header
    }

    /// Adds D-SACK and SACK blocks to an ACK (RFC 2018, section 4; RFC 2883, section 4).
    fn add_sack(&mut self, header: &mut Header) {
        let dsack = self.rcv.acks.dsack.take();
        if !self.negotiated.sack {
            return;
        }
        let block = |left, right| SackBlock {
            left: self.numbers.acknowledgment(left),
            right: self.numbers.acknowledgment(right),
        };
        if let Some((left, right)) = dsack {
            header.options.sack.push(block(left, right));
        }
        for range in self.rcv.data.recent_ranges() {
            if !header.options.sack.push(block(range.start, range.end)) {
                break;
            }
        }
    }

    /// Queues a pure ACK with the current state, which is sent before anything else.
    pub(super) fn queue_ack(&mut self, now: Time) {
        if self.rcv.acks.queue.len() < QUEUE_LIMIT {
            let header = self.ack_header(now);
            self.rcv.acks.queue.push_back(header);
        } else {
            self.rcv.acks.due = true;
        }
    }

    /// Queues a challenge ACK, at most one per 500 ms (RFC 5961, sections 3.2, 4.2, 5.2 and 7).
    pub(super) fn challenge(&mut self, now: Time) {
        if self.rcv.acks.may_challenge(now) {
            add(&mut self.stats.incidents_mut().challenge_acks, 1);
            self.queue_ack(now);
        }
    }

    /// Resets the state of delayed ACKs after data segments have acknowledged everything, unless there is something to
    /// report that only pure ACKs carry, or the peer may drop the segments because they lie beyond its window.
    pub(super) fn on_piggybacked_ack(&mut self) {
        let is_beyond = self.textless_offset() < self.snd.nxt;
        if is_beyond || self.ext.needs_ack() || self.rcv.acks.needs_pure_ack(self.rcv.data.out_of_order > 0) {
            return;
        }
        self.timers.stop(Timer::Ack);
        self.rcv.on_ack_sent();
    }

    /// Returns a RST that follows all sent data and carries an ACK and, if negotiated, timestamps (RFC 7323, section
    /// 3.2).
    pub(super) fn reset_header(&self, now: Time) -> Header {
        self.windowless_header(now, Flags::RST | Flags::ACK, self.textless_offset())
    }

    /// Sends a segment below SND.UNA, which the peer answers with an ACK (RFC 9293, section 3.8.4).
    pub(super) fn send_keep_alive(&mut self, now: Time) {
        let mut header = self.header(now, self.snd.una);
        header.flags = Flags::ACK;
        header.seq = header.seq.wrapping_sub(1);
        self.rcv.acks.queue.push_back(header);
    }
}
