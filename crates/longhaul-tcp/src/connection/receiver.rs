//! Receive side: the window that it advertises and the timing of ACKs.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;

use longhaul_units::{Span, Time};
use longhaul_wire::Header;

use crate::config::Config;
use crate::reassembly::Reassembly;

/// Data segments at the start of a connection that are acknowledged every second segment (or as `ack_every` says),
/// even in the middle of a receive batch. The sender's slow start, RTT samples and dispersion measurements need these
/// ACKs.
pub(super) const INITIAL_ACKS: u32 = 128;

/// Data segments for which an ACK frequency requested by the peer applies.
pub(super) const ACK_REQUEST_SEGMENTS: u32 = 256;

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) data: Reassembly,
    /// The highest right edge ever advertised: data below it is accepted.
    pub(super) edge: u64,
    /// Stream offset up to which the application has read; the window counts from here.
    pub(super) consumed: u64,
    /// Current size of the buffer, and its upper limit.
    pub(super) capacity: u64,
    pub(super) ceiling: u64,
    pub(super) ts_recent: u32,
    pub(super) ts_recent_at: Option<Time>,
    pub(super) last_ack_sent: u64,
    /// Offset of the peer's FIN, once received.
    pub(super) fin: Option<u64>,
    /// An ACK must be sent, with the next data segment or alone.
    pub(super) ack_due: bool,
    /// Full-sized segments, and segments of any size, since the last ACK.
    pub(super) unacked_full: u32,
    pub(super) unacked: u32,
    /// Remaining segments of [`INITIAL_ACKS`].
    pub(super) initial_acks: u32,
    /// Segments per ACK that the peer requested, and the number of further segments for which this applies.
    requested_every: u32,
    requested_left: u32,
    /// The next data segment triggers an immediate ACK.
    pub(super) immediate_ack: bool,
    /// A duplicate to be reported by D-SACK (RFC 2883).
    pub(super) dsack: Option<(u64, u64)>,
    /// TSval of the segment that triggers the next ACK, if the ACK has to echo it.
    pub(super) probe_echo: Option<u32>,
    /// Routers' answers to the peer's newest request, not yet returned to the peer.
    pub(super) network_answer: Option<longhaul_wire::network::Feedback>,
    /// Out-of-order segments since the last ACK.
    pub(super) unacked_out_of_order: u32,
    /// CE was received and the peer has not sent CWR yet (RFC 3168, section 6.1.3).
    pub(super) echo_congestion: bool,
    /// The application will not read any more: arriving data triggers a RST (RFC 9293, section 3.6.1).
    pub(super) closed: bool,
    /// The largest segment received, which defines "full-sized" (RFC 9293, section 3.8.6.3).
    pub(super) peer_segment: usize,
    /// Start of the current measurement for auto-tuning: time, and the offset read by then.
    tune_since: Time,
    tune_consumed: u64,
    /// The shortest time since `tune_since` from an ACK to the data that it triggered.
    round_trip: Option<Span>,
    /// ACKs whose content was fixed when they became due, oldest first.
    pub(super) ack_queue: VecDeque<Header>,
    /// When the last challenge ACK was sent.
    pub(super) challenged_at: Option<Time>,
}

impl Receiver {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        let ceiling = config.recv_buffer_max.clamp(1, 1 << 30) as u64;
        Self {
            data: Reassembly::new(0),
            edge: 0,
            consumed: 1,
            capacity: (config.recv_buffer as u64).clamp(1, ceiling),
            ceiling,
            ts_recent: 0,
            ts_recent_at: None,
            last_ack_sent: 0,
            fin: None,
            ack_due: false,
            unacked_full: 0,
            unacked: 0,
            initial_acks: INITIAL_ACKS,
            requested_every: 0,
            requested_left: 0,
            immediate_ack: false,
            dsack: None,
            probe_echo: None,
            network_answer: None,
            unacked_out_of_order: 0,
            echo_congestion: false,
            closed: false,
            peer_segment: 0,
            tune_since: now,
            tune_consumed: 1,
            round_trip: None,
            ack_queue: VecDeque::new(),
            challenged_at: None,
        }
    }

    /// Returns RCV.NXT, which includes the peer's FIN once everything before it has arrived.
    pub(super) fn next(&self) -> u64 {
        let next = self.data.next();
        if self.fin == Some(next) { next.saturating_add(1) } else { next }
    }

    /// Returns whether everything up to and including the peer's FIN has arrived.
    pub(super) fn fin_reached(&self) -> bool {
        self.fin.is_some_and(|fin| self.data.next() == fin)
    }

    /// Returns whether there is anything to report that data segments do not carry: SACK blocks, a duplicate, a probe
    /// echo, or network feedback.
    pub(super) fn needs_pure_ack(&self) -> bool {
        let news = self.network_answer.is_some();
        news || self.ack_due && (self.data.out_of_order() > 0 || self.dsack.is_some() || self.probe_echo.is_some())
    }

    /// Resets the state that an ACK sent at this moment reports.
    pub(super) fn acknowledged(&mut self) {
        self.ack_due = false;
        self.unacked_full = 0;
        self.unacked = 0;
        self.unacked_out_of_order = 0;
        self.last_ack_sent = self.next();
    }

    /// Returns the right end of the buffer.
    fn buffer_end(&self) -> u64 {
        self.consumed.saturating_add(self.capacity)
    }

    /// Returns how far the right edge could advance, in whole units of `1 << shift` from RCV.NXT. An empty buffer
    /// smaller than a unit offers a whole unit, because otherwise it could not offer anything.
    fn gain(&self, shift: u8) -> u64 {
        let next = self.next();
        let units = (self.buffer_end().saturating_sub(next) >> shift).max(u64::from(next == self.consumed));
        next.saturating_add(units.min(u64::from(u16::MAX)) << shift).saturating_sub(self.edge)
    }

    /// Returns the window field to send with shift `shift`, and updates the right edge below which data is accepted.
    ///
    /// The edge advances by at least one segment or half the buffer (RFC 9293, section 3.8.6.2.2) and never moves
    /// left. The advertised edge may be lower by less than a unit: after a segment whose length is not a multiple of
    /// the unit, the old edge cannot be expressed. The window is rounded up if the result ends less than a unit
    /// beyond the buffer, else down, as RFC 7323, section 2.4, foresees; a receiver with a bounded buffer cannot
    /// avoid this.
    pub(super) fn offer_window(&mut self, shift: u8, mss: u16) -> u16 {
        let next = self.next();
        let unit = 1u64 << shift;
        let gain = self.gain(shift);
        if gain > 0 && gain >= u64::from(mss).min(self.capacity / 2) {
            self.edge = self.edge.saturating_add(gain);
        }
        let open = self.edge.saturating_sub(next);
        let rounded = next.saturating_add(open.next_multiple_of(unit));
        let units = if rounded < self.buffer_end().saturating_add(unit) { open.div_ceil(unit) } else { open >> shift };
        let units = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(next.saturating_add(units << shift));
        units as u16
    }

    /// Returns whether the application has read enough for a window update with shift `shift`.
    pub(super) fn wants_update(&self, shift: u8, mss: u16) -> bool {
        let open = self.edge.saturating_sub(self.next());
        let gain = self.gain(shift);
        // A nearly closed window is updated for two segments. A wider one is also updated by the ACKs of arriving
        // data.
        gain >= (self.capacity / 2).min(u64::from(mss) * 2).max(1)
            && (open < u64::from(mss) * 2 || gain >= self.capacity / 4)
    }

    /// Records the age of the timestamp that in-order data echoes: a round trip and the time that the sender waited.
    pub(super) fn round_trip(&mut self, age: Option<Span>) {
        let Some(age) = age else { return };
        self.round_trip = Some(self.round_trip.map_or(age, |least| least.min(age)));
    }

    /// Grows the buffer to four times the data that the application read in a round trip, so that a sender that
    /// doubles its window per round trip is never limited by the receive window (dynamic right-sizing, Fisk and Feng
    /// 2001). `srtt` covers only data sent by this side. If this side only receives, it is the RTT of the handshake,
    /// and only timestamps show the queueing delay that was added since.
    pub(super) fn tune(&mut self, now: Time, srtt: Option<Span>) {
        let Some(rtt) = self.round_trip.max(srtt) else { return };
        if now - self.tune_since < rtt {
            return;
        }
        let read = self.consumed.saturating_sub(self.tune_consumed);
        self.tune_since = now;
        self.tune_consumed = self.consumed;
        self.round_trip = None;
        self.capacity = self.capacity.max(read.saturating_mul(4).min(self.ceiling));
    }

    /// Applies the peer's request for one ACK per `ratio` segments. The first segment under a new request is
    /// acknowledged at once.
    pub(super) fn apply_ack_request(&mut self, ratio: u8) {
        let every = u32::from(ratio);
        self.immediate_ack |= self.requested_left == 0 || self.requested_every != every;
        (self.requested_every, self.requested_left) = (every, ACK_REQUEST_SEGMENTS);
    }

    /// Returns the number of segments per ACK: the peer's request while it applies, else `own`.
    pub(super) const fn every(&self, own: u32) -> u32 {
        if self.requested_left > 0 { self.requested_every } else { own }
    }

    /// Returns whether an ACK is due before the end of the receive batch. `own` is the number of segments per ACK
    /// without a request of the peer. Must be called for each data segment. `plain` segments are in order and fill no
    /// hole.
    pub(super) fn is_early_ack_due(&mut self, own: u32, plain: bool) -> bool {
        let immediate_ack = std::mem::take(&mut self.immediate_ack);
        let every = self.every(own);
        let is_requested = self.requested_left > 0;
        self.requested_left = self.requested_left.saturating_sub(1);
        if !plain {
            return false;
        }
        let close = self.initial_acks > 0;
        self.initial_acks = self.initial_acks.saturating_sub(1);
        immediate_ack || is_requested && every == 1 || (is_requested || close) && self.unacked_full >= every
    }
}

#[cfg(test)]
mod tests;
