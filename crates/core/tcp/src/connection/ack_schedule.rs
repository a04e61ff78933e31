//! ACKs of received data: when they are sent and what they report (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2;
//! RFC 2018; RFC 2883).

use std::collections::VecDeque;

use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Header};

use crate::Batch;

/// Data segments at the start of a connection that are acknowledged every second segment (or as often as `ack_every`
/// requires), even in the middle of a receive batch. The sender's slow start, RTT samples and dispersion measurements
/// need these ACKs.
pub(super) const INITIAL_ACKS: u32 = 128;

/// Number of data segments for which an ACK frequency requested by the peer applies.
pub(super) const ACK_REQUEST_SEGMENTS: u32 = 256;

/// Minimum interval between challenge ACKs (RFC 5961, section 7). The limit is per connection, so that it reveals
/// nothing about other connections to an attacker (CVE-2016-5696).
const CHALLENGE_INTERVAL: Span = Span::from_millis(500);

/// Upper bound of the ACK delay (RFC 9293, section 3.8.6.3, MUST-40).
pub(super) const MAX_ACK_DELAY: Span = Span::from_millis(499);

/// Maximum number of ACKs in the queue. Beyond it, one ACK acknowledges everything.
pub(super) const QUEUE_LIMIT: usize = 256;

/// Number of SACK blocks that may change before an ACK is sent: an ACK with timestamps has room for three.
const MAX_CHANGED_BLOCKS: u32 = 3;

/// Segment size from which a segment counts as full-sized, even if larger ones were received (RFC 9293, section 3.7.1:
/// the default MSS).
const FULL_SIZE: usize = 536;

#[derive(Debug, Default)]
pub(super) struct AckSchedule {
    /// Whether an ACK must be sent, with the next data segment or alone.
    pub(super) due: bool,
    /// Full-sized segments and segments of any size since the last ACK, and SACK blocks changed by them.
    unacked_full: u32,
    unacked: u32,
    changed_blocks: u32,
    /// RCV.NXT in the last ACK.
    pub(super) last_sent: u64,
    /// Remaining segments of [`INITIAL_ACKS`].
    initial_acks: u32,
    /// Segments per ACK that the peer requested, and the number of further segments for which this applies. At the start,
    /// our own settings may request them.
    requested_every: u32,
    requested_left: u32,
    /// Whether the next data segment triggers an immediate ACK.
    pub(super) immediate: bool,
    /// A duplicate to be reported by D-SACK (RFC 2883).
    pub(super) dsack: Option<(u64, u64)>,
    /// TSval of the segment that triggers the next ACK, if the ACK has to echo it.
    pub(super) probe_echo: Option<u32>,
    /// Whether CE was received and the peer has not sent CWR yet (RFC 3168, section 6.1.3).
    pub(super) echo_congestion: bool,
    /// The largest segment received, which defines "full-sized" (RFC 9293, section 3.8.6.3).
    peer_segment: usize,
    /// ACKs whose content was fixed when they became due, oldest first.
    pub(super) queue: VecDeque<Header>,
    challenged_at: Option<Time>,
}

/// Position of a received data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In order; it fills no hole.
    Next,
    /// Beyond a hole, right after the data that arrived out of order before it: in the same SACK block.
    SameBlock,
    /// Elsewhere: it fills a hole, is a duplicate, or changes another SACK block.
    Other,
}

impl AckSchedule {
    /// Creates a schedule in which each of the first `quick` data segments is acknowledged.
    pub(super) fn new(quick: u8) -> Self {
        Self { initial_acks: INITIAL_ACKS, requested_every: 1, requested_left: quick.into(), ..Self::default() }
    }

    /// Returns whether to acknowledge a data segment at once, in a separate ACK, instead of at the end of the receive
    /// batch. This is the case if it is out of order or fills a hole (RFC 9293, section 3.8.6.3; RFC 5681, section
    /// 4.2). The segment has `len` bytes within the window. `own` is the number of segments per ACK if the peer
    /// requests none.
    pub(super) fn on_data(&mut self, len: usize, place: Place, own: u32, sack: bool) -> bool {
        self.count(1, len);
        let is_early = self.is_early_ack_due(own, place == Place::Next);
        if place == Place::Next {
            return is_early;
        }
        if place == Place::Other || self.changed_blocks == 0 {
            self.changed_blocks = self.changed_blocks.saturating_add(1);
        }
        self.due = true;
        // A duplicate must be reported in a separate ACK. Without SACK, every duplicate ACK counts.
        let alone = self.dsack.is_some() || self.probe_echo.is_some() || !sack;
        alone || self.changed_blocks >= MAX_CHANGED_BLOCKS
    }

    /// Counts data segments with `len` bytes each. Segments that [only count](Self::only_counts) need no other record.
    pub(super) fn count(&mut self, segments: usize, len: usize) {
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        self.peer_segment = self.peer_segment.max(len.min(1 << 16));
        self.unacked = self.unacked.saturating_add(segments);
        if len >= self.peer_segment || len >= FULL_SIZE {
            self.unacked_full = self.unacked_full.saturating_add(segments);
        }
    }

    /// Returns whether an ACK of data in order is due no earlier than the end of a receive batch.
    pub(super) fn only_counts(&self) -> bool {
        !self.immediate && self.requested_left == 0 && self.initial_acks == 0
    }

    /// Ends a receive batch. Returns whether an ACK is delayed. Otherwise it is due, or nothing is to be acknowledged.
    ///
    /// An ACK is sent after every second full-sized segment, or after as many as the application or the peer
    /// requested, or after the batch if that is larger.
    pub(super) fn end_batch(&mut self, own: u32, may_delay: bool) -> bool {
        if self.unacked == 0 || self.due {
            return false;
        }
        let every = self.every(own);
        let any_size = every == 1 || self.initial_acks > 0;
        let enough = self.unacked_full >= every || (any_size && self.unacked >= every);
        self.due = enough || !may_delay;
        !self.due
    }

    /// Applies the peer's request for one ACK per `ratio` segments. The first segment under a new request is
    /// acknowledged at once.
    pub(super) fn apply_request(&mut self, ratio: u8) {
        let every = u32::from(ratio);
        self.immediate |= self.requested_left == 0 || self.requested_every != every;
        (self.requested_every, self.requested_left) = (every, ACK_REQUEST_SEGMENTS);
    }

    /// Returns the number of segments per ACK: the peer's request while it applies, else `own`.
    const fn every(&self, own: u32) -> u32 {
        if self.requested_left > 0 { self.requested_every } else { own }
    }

    /// Returns the number of SACK blocks that the next ACK has to report: those that have changed since the last one,
    /// one more if the ACK covers several segments, because it may be lost, and the D-SACK block.
    pub(super) fn blocks_due(&self) -> usize {
        let repeated = u32::from(self.unacked > 2);
        let duplicate = u32::from(self.dsack.is_some());
        self.changed_blocks.saturating_add(repeated).saturating_add(duplicate) as usize
    }

    /// Returns whether the peer gets an ACK per segment, or nearly so: at the start, and at the peer's request.
    pub(super) fn is_each_acknowledged(&self, own: u32) -> bool {
        self.initial_acks > 0 || self.every(own) == 1
    }

    /// Returns whether an ACK is due before the end of the receive batch. Must be called for each data segment.
    fn is_early_ack_due(&mut self, own: u32, plain: bool) -> bool {
        let immediate = std::mem::take(&mut self.immediate);
        let every = self.every(own);
        let is_requested = self.requested_left > 0;
        self.requested_left = self.requested_left.saturating_sub(1);
        if !plain {
            return false;
        }
        let close = self.initial_acks > 0;
        self.initial_acks = self.initial_acks.saturating_sub(1);
        immediate || is_requested && every == 1 || (is_requested || close) && self.unacked_full >= every
    }

    /// Processes the ECN fields of a data segment: CE is echoed until CWR arrives, and the first echo is sent at once
    /// (RFC 3168, section 6.1.3).
    pub(super) fn on_ecn(&mut self, cwr: bool, ce: bool) {
        self.echo_congestion &= !cwr;
        if ce {
            self.due |= !self.echo_congestion;
            self.echo_congestion = true;
        }
    }

    /// Returns whether a challenge ACK may be sent at `now`, and records it if so.
    pub(super) fn may_challenge(&mut self, now: Time) -> bool {
        let may = self.challenged_at.is_none_or(|at| now - at >= CHALLENGE_INTERVAL);
        if may {
            self.challenged_at = Some(now);
        }
        may
    }

    /// Resets the state reported by an ACK up to `next` that is being sent.
    pub(super) fn on_ack_sent(&mut self, next: u64) {
        self.due = false;
        (self.unacked_full, self.unacked, self.changed_blocks) = (0, 0, 0);
        self.last_sent = next;
    }

    pub(super) fn push_queued(&mut self, batch: &mut Batch, max_segments: usize) -> u64 {
        let mut pushed = 0;
        while let Some(header) = self.queue.front() {
            if !batch.admits(CheshireCodec::header_len(&header.options), max_segments) {
                break;
            }
            batch.push(header, 0, 0);
            self.queue.pop_front();
            pushed += 1;
        }
        pushed
    }

    /// Forgets all ACKs, because the connection is closed.
    pub(super) fn close(&mut self) {
        self.queue = VecDeque::new();
        self.due = false;
    }

    pub(super) fn has_pending(&self) -> bool {
        self.unacked > 0 || self.has_any()
    }

    /// Returns whether the ACK that is due reports information that data segments do not carry: SACK blocks, a
    /// duplicate, or a probe echo. `holes` means that out-of-order data has arrived.
    pub(super) fn needs_pure_ack(&self, holes: bool) -> bool {
        self.due && (holes || self.dsack.is_some() || self.probe_echo.is_some())
    }

    pub(super) fn has_any(&self) -> bool {
        self.due || !self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests;
