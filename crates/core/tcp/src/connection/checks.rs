//! Acceptability of a segment (RFC 9293, section 3.10.7.4, first step; RFC 5961, section 5.2; RFC 7323, section 5.3).

use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, Timestamps};

use super::{Checks, Incoming};
use crate::Rejection;

/// Maximum age of the timestamp of a low-priority segment relative to TS.Recent.
const OVERTAKEN: Span = Span::from_secs(1);

/// Result of the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acceptability {
    Acceptable,
    /// The segment is dropped without an answer.
    Ignored,
    Rejected(Rejection),
}

impl Checks<'_> {
    /// Checks the sequence number, after PAWS (RFC 7323, section 5.3, R1).
    pub(super) fn check(&self, segment: &Incoming<'_>) -> Acceptability {
        if self.negotiated.timestamps && !segment.has(Flags::RST) {
            // Once timestamps are negotiated, a segment without one is dropped (RFC 7323, section 3.2).
            let Some(value) = segment.timestamp() else { return Acceptability::Ignored };
            let is_older = self.rcv.is_older_timestamp(segment.now, value, self.numbers.clock.validity());
            if is_older && !self.is_overtaken(segment, value) {
                return Acceptability::Rejected(Rejection::Timestamp);
            }
        }
        if self.rcv.is_acceptable(segment.start, segment.end(), segment.has(Flags::RST)) {
            Acceptability::Acceptable
        } else {
            Acceptability::Rejected(Rejection::OutsideWindow)
        }
    }

    /// Returns whether a segment beyond a hole has an old timestamp only because segments sent later at higher
    /// priority overtook it. The peer announces low-priority sending by negotiating probe echoes. Sequence numbers do
    /// not wrap within the tolerated second below 34 Gb/s.
    fn is_overtaken(&self, segment: &Incoming<'_>, value: u32) -> bool {
        let behind = self.numbers.clock.tick() * u64::from(self.rcv.ts_recent.wrapping_sub(value));
        self.negotiated.probe_echo && segment.start > self.rcv.next() as i64 && behind <= OVERTAKEN
    }

    /// Returns whether a segment outside the window may originate from the peer: its ACK field is in the range of RFC
    /// 5961, section 5.2, and its echoed timestamp, if negotiated, can have been sent on this connection. A blind
    /// attacker has to guess both.
    pub(super) fn is_credible(&self, now: Time, header: &Header) -> bool {
        let ack = self.numbers.our_offset(header.ack, self.snd.una);
        let (oldest, newest) = self.snd.acceptable_acks();
        let plausible = header.flags.contains(Flags::ACK) && oldest <= ack && ack <= newest;
        let echoed = |stamp: Timestamps| {
            let age = self.numbers.clock.age(now, stamp.echo);
            // A microsecond clock wraps in 71 minutes. After that, half of all values look recent.
            age.is_some_and(|age| age <= now - self.life.created_at)
        };
        plausible && (!self.negotiated.timestamps || header.options.timestamps.is_some_and(echoed))
    }

    /// Returns whether an unacceptable segment acknowledges data or changes the window: it repeats recent data, or was
    /// sent before the peer knew that we have received the octet with which it probed our window. If both ends have
    /// sent more than the other accepts, for instance after a middlebox has rewritten a window, only retransmissions
    /// carry acknowledgments that either end can use (RFC 9293, appendix A.2).
    pub(super) fn acknowledges_although_old(&self, segment: &Incoming<'_>) -> bool {
        let header = segment.header;
        let has_news = || {
            let Some(ack) = self.acknowledged_by(header) else { return false };
            let window = u64::from(header.window) << self.negotiated.send_shift;
            let changes = |start| !self.snd.keeps_window(start, ack, window);
            ack > self.snd.una || u64::try_from(segment.start).is_ok_and(changes)
        };
        self.life.state.is_synchronized()
            && !header.flags.intersects(Flags::SYN | Flags::RST)
            && self.rcv.repeats_recent_data(segment.start)
            && self.is_credible(segment.now, header)
            && has_news()
    }

    /// Returns whether a segment of a train, at `start`, leaves the send window unchanged. It does not if a segment
    /// beyond the first one has already arrived with a different window, and this segment is beyond that one.
    pub(super) fn keeps_window(&self, header: &Header, start: u64) -> bool {
        let window = u64::from(header.window) << self.negotiated.send_shift;
        self.acknowledged_by(header).is_none_or(|ack| self.snd.keeps_window(start, ack, window))
    }

    /// Returns the offset in our stream that the ACK field acknowledges, unless it precedes the stream.
    pub(super) fn acknowledged_by(&self, header: &Header) -> Option<u64> {
        u64::try_from(self.numbers.our_offset(header.ack, self.snd.una)).ok()
    }
}
