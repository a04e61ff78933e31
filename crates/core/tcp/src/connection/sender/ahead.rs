//! Data sent ahead: beyond SND.NXT, outside the congestion window.
//!
//! It is recorded as a set of ranges and is not in the scoreboard until SND.NXT reaches it: ranges that the peer has
//! received by then are skipped, the others are retransmitted as new data. A cumulative ACK may advance SND.NXT as far
//! as every octet was sent (`docs/decisions/0022-data-from-the-tail.md`). Which data is sent ahead, and when, is an extension's
//! decision.

use std::ops::Range;

use longhaul_units::Time;

use crate::connection::Sender;
use crate::ranges::Ranges;
use crate::{ProbeInfo, add};

/// Maximum number of ranges sent. With data sent downwards from the end of the send buffer, a new one begins whenever data is
/// queued before the last one is complete.
const MAX_SENT: usize = 64;
/// Maximum number of ranges received by the peer. Holes between them are losses. Further ranges, which a
/// misbehaving peer may report, are ignored, and their data is retransmitted.
const MAX_HELD: usize = 4096;
/// Maximum number of recorded ranges below SND.NXT, which later D-SACKs may report.
const MAX_BEHIND: usize = 64;
/// Maximum length in octets of a scoreboard record for skipped data.
const MAX_RECORD: u64 = u16::MAX as u64;

/// Data sent beyond SND.NXT, and the part of it that has arrived.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    sent: Ranges,
    /// The part of these ranges that the peer reported as received.
    received: Ranges,
    /// The newest of these ranges that SND.NXT has passed: a D-SACK for them does not indicate a spurious
    /// retransmission.
    pub(crate) behind: Ranges,
    /// Whether more data, as far as it is queued, is to be sent ahead.
    pub(super) is_intended: bool,
    /// Octets that the current ACK reports as received.
    pub(crate) arrived: u64,
    /// Counts segments that have arrived before SND.NXT reached them as answered, and those within the window that repeat data
    /// sent ahead as lost.
    pub(crate) counts: ProbeInfo,
}

/// Bounds of the data that may be sent ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadBounds {
    /// Data below this offset is sent within the congestion window, as soon as the pacer permits.
    pub(crate) floor: u64,
    /// The end of the queued data or of the peer's window.
    pub(crate) top: u64,
    pub(crate) may_grow: bool,
}

impl Ahead {
    fn count_arrived(&mut self, bytes: u64, mss: u64) {
        self.arrived = self.arrived.saturating_add(bytes);
        add(&mut self.counts.acked, bytes.div_ceil(mss.max(1)));
        add(&mut self.counts.carried_bytes, bytes);
    }

    fn take_sack(&mut self, block: &Range<u64>, mss: u64) -> bool {
        if !self.sent.hold(block) {
            return false;
        }
        if let Some(new) = self.received.insert(block.clone(), MAX_HELD) {
            self.count_arrived(new, mss);
        }
        true
    }

    fn advance(&mut self, nxt: u64) {
        for range in self.sent.take_below(nxt) {
            self.behind.keep_highest(MAX_BEHIND - 1);
            let _ = self.behind.insert(range, MAX_BEHIND);
        }
        drop(self.received.take_below(nxt));
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.sent.memory() + self.received.memory() + self.behind.memory()
    }
}

impl Sender {
    /// Returns the end of the contiguous data sent: SND.NXT, or the end of the range that was sent ahead directly
    /// above it. An ACK beyond it is invalid. Because the peer's RCV.NXT may exceed SND.NXT, a pure ACK with SND.NXT
    /// could be unacceptable (RFC 9293, section 3.10.7.4), and both ends would drop each other's ACKs.
    pub(crate) fn sent_to(&self) -> u64 {
        let first = self.ahead.as_ref().and_then(|ahead| ahead.sent.first()).filter(|range| range.start <= self.nxt);
        first.map_or(self.nxt, |range| range.end.max(self.nxt))
    }

    pub(crate) fn unsent_before_ahead(&self) -> u64 {
        let first = self.ahead.as_ref().and_then(|ahead| ahead.sent.first());
        first.map_or(self.unsent(), |range| range.start.saturating_sub(self.nxt).min(self.unsent()))
    }

    /// Returns how many of `len` bytes of new data precede the first range that the peer has received.
    pub(crate) fn before_received(&self, len: u64) -> u64 {
        let received = self.ahead.as_ref().and_then(|ahead| ahead.received.first());
        received.filter(|range| range.start > self.nxt).map_or(len, |range| len.min(range.start - self.nxt))
    }

    pub(crate) fn intend_ahead(&mut self, is_intended: bool) {
        if is_intended || self.ahead.is_some() {
            self.ahead.get_or_insert_default().is_intended = is_intended;
        }
    }

    /// Returns where data may be sent ahead, given the `room` in the congestion window. Data that cwnd admits is sent
    /// within it, even if the pacer delays it. Nothing is sent beyond the peer's window.
    pub(crate) fn ahead_bounds(&self, room: u64, mss: u64) -> AheadBounds {
        let (end, edge) = (self.buffer.end(), self.window_edge());
        let complete = self.nodelay || self.fin_queued;
        AheadBounds {
            floor: self.nxt.max(1).saturating_add(room / mss * mss),
            top: end.min(edge),
            may_grow: edge < end || !complete,
        }
    }

    pub(crate) fn gap_ahead(&self, within: Range<u64>) -> Option<Range<u64>> {
        let sent = &self.ahead.as_ref()?.sent;
        let Range { start, mut end } = within;
        while end > start {
            match sent.last_below(end) {
                Some(range) if range.end >= end => end = range.start,
                below => return Some(below.map_or(start, |range| range.end.max(start))..end),
            }
        }
        None
    }

    pub(crate) fn send_ahead(&mut self, piece: Range<u64>) -> bool {
        let Some(ahead) = &mut self.ahead else { return false };
        let bytes = piece.end.saturating_sub(piece.start);
        let is_recorded = ahead.sent.insert(piece, MAX_SENT).is_some();
        if is_recorded {
            add(&mut ahead.counts.sent, 1);
            add(&mut ahead.counts.bytes_sent, bytes);
        }
        is_recorded
    }

    pub(super) fn pass_ahead(&mut self, start: u64, nxt: u64) -> bool {
        let Some(ahead) = &mut self.ahead else { return false };
        let again = ahead.sent.meet(&(start..nxt));
        add(&mut ahead.counts.lost, u64::from(again));
        ahead.advance(nxt);
        again
    }

    pub(super) fn acknowledge_ahead(&mut self, ack: u64, mss: u64) {
        let Some(ahead) = self.ahead.as_mut().filter(|_| ack > self.nxt) else { return };
        if let Some(new) = ahead.received.insert(self.nxt..ack, MAX_HELD + 1) {
            ahead.count_arrived(new, mss);
        }
        ahead.advance(ack);
        self.nxt = ack;
    }

    pub(super) fn sack_ahead(&mut self, left: u64, right: u64, mss: u64) -> bool {
        let nxt = self.nxt;
        self.ahead.as_mut().is_some_and(|ahead| ahead.take_sack(&(left.max(nxt)..right), mss))
    }

    pub(crate) fn count_invalid_ack(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            add(&mut ahead.counts.refused, 1);
        }
    }

    /// Skips data that the peer has received already: adds records for it to the scoreboard and advances SND.NXT.
    pub(crate) fn skip_received(&mut self, mss: u64) {
        let mss = mss.max(1);
        // Records consist of whole segments, in case they have to be retransmitted.
        let most = MAX_RECORD / mss * mss;
        while let Some(range) = self.ahead.as_ref().and_then(|ahead| ahead.received.first()) {
            if range.start > self.nxt {
                return;
            }
            if self.board.is_empty() {
                // Data is SACKed here although all data before it is acknowledged: the peer has discarded it (RFC
                // 2018, section 8).
                self.clear_received();
                return;
            }
            while self.nxt < range.end {
                let len = (range.end - self.nxt).min(most);
                self.board.push_passed(self.nxt, len as u16);
                self.nxt += len;
            }
            if let Some(ahead) = &mut self.ahead {
                ahead.advance(self.nxt);
            }
        }
    }

    /// Sets the latest send time of transmissions that can have been answered by now. If data was sent ahead and again
    /// within the window, this decides to which transmission its delivery is attributed.
    pub(crate) fn set_ahead_horizon(&mut self, at: Time) {
        if self.ahead.is_some() {
            self.board.horizon = at;
        }
    }

    pub(super) fn clear_received(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.received = Ranges::default();
        }
    }
}
