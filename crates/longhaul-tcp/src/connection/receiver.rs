//! The receive side: the window it offers, and when it acknowledges.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;

use longhaul_units::{Span, Time};
use longhaul_wire::Header;

use crate::config::Config;
use crate::reassembly::Reassembly;

/// Segments at the start of a connection that are acknowledged two by two (or as `ack_every` says) whatever the batch:
/// the sender's slow start, its RTT samples and its dispersion measurements live on them.
pub(super) const CLOSE_ACKS: u32 = 128;

/// Segments with data for which the peer's wish for another rate of ACKs holds.
pub(super) const HEEDED: u32 = 256;

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) data: Reassembly,
    /// The right edge ever advertised: what lies below it is accepted.
    pub(super) edge: u64,
    /// Bytes the application has read: the window counts from here.
    pub(super) consumed: u64,
    /// The buffer's size now, and its ceiling.
    pub(super) capacity: u64,
    pub(super) ceiling: u64,
    pub(super) ts_recent: u32,
    pub(super) ts_recent_at: Option<Time>,
    pub(super) last_ack_sent: u64,
    /// Where the peer's FIN is, once seen.
    pub(super) fin: Option<u64>,
    /// An acknowledgement must leave with the next segment, or alone.
    pub(super) ack_due: bool,
    /// Full segments, and segments, since the last acknowledgement.
    pub(super) unacked_full: u32,
    pub(super) unacked: u32,
    /// Segments still to be acknowledged so closely.
    pub(super) close_acks: u32,
    /// How many segments the peer wants an ACK for, and of how many segments to come that holds.
    asked_every: u32,
    asked_left: u32,
    /// The next segment with data draws an ACK at once.
    pub(super) at_once: bool,
    /// A duplicate to report (RFC 2883).
    pub(super) dsack: Option<(u64, u64)>,
    /// The TSval of the segment that draws the next ACK, if that is to be named.
    pub(super) probe_echo: Option<u32>,
    /// What routers said to the peer's newest request, not yet told.
    pub(super) network_answer: Option<longhaul_wire::network::Feedback>,
    /// Out-of-order segments since the last acknowledgement.
    pub(super) unacked_out_of_order: u32,
    /// CE was received and not yet answered by CWR (RFC 3168, section 6.1.3).
    pub(super) echo_congestion: bool,
    /// Nobody reads any more: data that arrives is answered by a RST (RFC 9293, section 3.6.1).
    pub(super) closed: bool,
    /// The largest segment seen: what "full" means (RFC 9293, section 3.8.6.3).
    pub(super) peer_segment: usize,
    /// Auto-tuning: what was read since when.
    tune_since: Time,
    tune_consumed: u64,
    /// The least time since then from an acknowledgement to data that answers it.
    round_trip: Option<Span>,
    /// ACKs whose content was fixed when they fell due, oldest first.
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
            close_acks: CLOSE_ACKS,
            asked_every: 0,
            asked_left: 0,
            at_once: false,
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

    /// RCV.NXT, the peer's FIN included once everything before it has arrived.
    pub(super) fn next(&self) -> u64 {
        let next = self.data.next();
        if self.fin == Some(next) { next.saturating_add(1) } else { next }
    }

    /// Whether everything up to and including the peer's FIN has arrived.
    pub(super) fn fin_reached(&self) -> bool {
        self.fin.is_some_and(|fin| self.data.next() == fin)
    }

    /// Whether SACK blocks or a duplicate wait to be reported, which data segments do not carry.
    pub(super) fn has_more_to_say(&self) -> bool {
        let news = self.network_answer.is_some();
        news || self.ack_due && (self.data.out_of_order() > 0 || self.dsack.is_some() || self.probe_echo.is_some())
    }

    /// Forgets what an acknowledgement that leaves now has said.
    pub(super) fn acknowledged(&mut self) {
        self.ack_due = false;
        self.unacked_full = 0;
        self.unacked = 0;
        self.unacked_out_of_order = 0;
        self.last_ack_sent = self.next();
    }

    /// Where the buffer ends.
    fn limit(&self) -> u64 {
        self.consumed.saturating_add(self.capacity)
    }

    /// How far the right edge could move now, in whole units of `1 << shift` from RCV.NXT on. An empty buffer smaller
    /// than a unit offers a whole one: it could not offer anything else.
    fn gain(&self, shift: u8) -> u64 {
        let next = self.next();
        let units = (self.limit().saturating_sub(next) >> shift).max(u64::from(next == self.consumed));
        next.saturating_add(units.min(u64::from(u16::MAX)) << shift).saturating_sub(self.edge)
    }

    /// The window field to send under `shift`, and the edge that goes with it, below which everything is accepted.
    ///
    /// The edge advances by at least a segment or half the buffer (RFC 9293, section 3.8.6.2.2) and never moves left.
    /// What the field says may fall short of it, by less than a unit: after a segment that is no multiple of the unit
    /// the old edge cannot be said any more. It is rounded up as long as that ends less than a unit beyond the buffer,
    /// else down, which RFC 7323, section 2.4, foresees: no receiver can do better whose buffer has an end.
    pub(super) fn offer_window(&mut self, shift: u8, mss: u16) -> u16 {
        let next = self.next();
        let unit = 1u64 << shift;
        let gain = self.gain(shift);
        if gain > 0 && gain >= u64::from(mss).min(self.capacity / 2) {
            self.edge = self.edge.saturating_add(gain);
        }
        let open = self.edge.saturating_sub(next);
        let rounded = next.saturating_add(open.next_multiple_of(unit));
        let units = if rounded < self.limit().saturating_add(unit) { open.div_ceil(unit) } else { open >> shift };
        let units = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(next.saturating_add(units << shift));
        units as u16
    }

    /// Whether the application's reading has opened the window enough to tell the peer, under `shift`.
    pub(super) fn wants_update(&self, shift: u8, mss: u16) -> bool {
        let open = self.edge.saturating_sub(self.next());
        let gain = self.gain(shift);
        // Towards a closed window a segment is news; an open one is refreshed by the ACKs of the data itself.
        gain >= (self.capacity / 2).min(u64::from(mss) * 2).max(1)
            && (open < u64::from(mss) * 2 || gain >= self.capacity / 4)
    }

    /// Data echoes the timestamp of an acknowledgement that left so long ago: a round trip, and whatever the sender waited.
    pub(super) fn round_trip(&mut self, age: Option<Span>) {
        let Some(age) = age else { return };
        self.round_trip = Some(self.round_trip.map_or(age, |least| least.min(age)));
    }

    /// Grows the buffer to four times what the application read in a round trip, so that a sender which doubles each
    /// round never meets the window (dynamic right-sizing, Fisk and Feng 2001). `srtt` is of what this side sent: whoever
    /// only receives knows no more by it than the handshake's round trip, and a queue that has grown since is in the
    /// timestamps alone.
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

    /// The peer wants an ACK for every `ratio` segments. The first one under a new wish is answered at once.
    pub(super) fn heed(&mut self, ratio: u8) {
        let every = u32::from(ratio);
        self.at_once |= self.asked_left == 0 || self.asked_every != every;
        (self.asked_every, self.asked_left) = (every, HEEDED);
    }

    /// How many segments an ACK is for: the peer's wish, while it holds, else `own`.
    pub(super) const fn every(&self, own: u32) -> u32 {
        if self.asked_left > 0 { self.asked_every } else { own }
    }

    /// Whether the segments that came call for an acknowledgement before the batch is over; `own` is how many one is for where the
    /// peer has no wish. Called for each segment with data, `plain` or not.
    pub(super) fn close_ack_due(&mut self, own: u32, plain: bool) -> bool {
        let at_once = std::mem::take(&mut self.at_once);
        let every = self.every(own);
        let asked = self.asked_left > 0;
        self.asked_left = self.asked_left.saturating_sub(1);
        if !plain {
            return false;
        }
        let close = self.close_acks > 0;
        self.close_acks = self.close_acks.saturating_sub(1);
        at_once || asked && every == 1 || (asked || close) && self.unacked_full >= every
    }
}

#[cfg(test)]
mod tests;
