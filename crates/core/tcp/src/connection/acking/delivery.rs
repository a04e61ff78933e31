//! Segments that one ACK delivers: the transmissions to which they belong, and the information about the path.

use longhaul_cc::AckedSegment;
use longhaul_units::{Bytes, Span, Time};

use crate::connection::arrivals::{Reports, of_segment};
use crate::{Burst, Record, TimestampClock, seq};

/// Properties of the segments that one ACK newly delivers, collected in one pass.
#[derive(Default)]
pub(super) struct Delivery {
    /// Bytes newly delivered, and bytes by which SND.UNA advanced. The latter do not include data sent ahead,
    /// which was never in flight.
    pub(super) bytes: u64,
    pub(super) cumulative: u64,
    pub(super) newest: Option<(Record, Burst)>,
    /// Send times of the oldest and the newest segment that were never retransmitted, for RTT samples (Karn's
    /// algorithm).
    oldest_clean: Option<Time>,
    newest_clean: Option<Time>,
    pub(super) retransmitted: Option<Time>,
    pub(super) mtu_probe: bool,
    pub(super) proves_spurious: bool,
    /// Present if the segment with our CE mark is delivered: whether it was sent only once.
    pub(super) asked: Option<bool>,
}

impl Delivery {
    /// Returns the send times of the newest and the oldest segment that yield an RTT sample. Segments sent before a
    /// retransmission that the same ACK covers are excluded, because the receiver may have held them back until it
    /// arrived.
    pub(super) fn clean(&self) -> Option<(Time, Time)> {
        let (newest, oldest) = self.newest_clean.zip(self.oldest_clean)?;
        match self.retransmitted {
            Some(at) if newest <= at => None,
            Some(_) => Some((newest, newest)),
            None => Some((newest, oldest)),
        }
    }

    pub(super) fn add(&mut self, record: &Record, burst: &Burst, ambiguity: Ambiguity) {
        if ambiguity.is_asked {
            self.asked = Some(!record.is_retransmitted() && !record.is_copied());
        }
        let key = (burst.sent_at, record.end());
        if self.newest.as_ref().is_none_or(|(r, b)| key > (b.sent_at, r.end())) {
            self.newest = Some((*record, *burst));
        }
        if ambiguity.is_copy {
            // The send time of the delivered copy is unknown.
        } else if !record.is_retransmitted() {
            self.oldest_clean = Some(self.oldest_clean.map_or(burst.sent_at, |t| t.min(burst.sent_at)));
            self.newest_clean = self.newest_clean.max(Some(burst.sent_at));
        } else {
            self.retransmitted = self.retransmitted.max(Some(burst.sent_at));
        }
        self.mtu_probe |= record.is_mtu_probe();
    }
}

#[derive(Clone, Copy)]
pub(super) struct Attribution {
    pub(super) at: Time,
    pub(super) ack: u64,
    pub(super) echo: Option<u32>,
    pub(super) clock: TimestampClock,
    pub(super) min_rtt: Option<Span>,
    pub(super) asked_at: Option<u64>,
}

/// Whether the transmission acknowledged by an ACK is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguity {
    /// Whether the ACK may belong to an earlier transmission, or the segment may have overtaken others.
    pub(super) is_ambiguous: bool,
    /// Whether a probe's copy may have been delivered instead.
    pub(super) is_copy: bool,
    pub(super) is_asked: bool,
}

impl Ambiguity {
    /// Returns whether it is known which transmission has arrived: it is not a copy in a probe or in data sent ahead,
    /// and for a retransmitted segment it is the retransmission.
    pub(super) fn is_known(&self, record: &Record) -> bool {
        !(record.is_copied() || record.is_retransmitted() && self.is_ambiguous)
    }
}

impl Attribution {
    pub(super) fn of(&self, record: &Record, burst: &Burst) -> Ambiguity {
        // RFC 8985, section 6.2, step 2: an ACK that arrives too early, or echoes an older timestamp, belongs to the
        // original transmission. Above a hole the echo does not apply, because it belongs to the data before the hole
        // (RFC 7323, section 4.3).
        let early = || self.min_rtt.is_some_and(|min| self.at - burst.sent_at < min);
        let in_order = record.end() <= self.ack;
        let value = || self.clock.value(burst.sent_at);
        let older = || in_order && self.echo.is_some_and(|echo| seq::later(value(), echo));
        let is_copy = record.is_copied() && self.echo != Some(value());
        // Data sent ahead is retransmitted as new data, and so counts as a retransmission.
        let twice = record.is_retransmitted() || record.is_early();
        let is_ambiguous = (is_copy && !record.is_early()) || (twice && (early() || older()));
        // A CE mark set by this sender may let the segment overtake earlier ones, if marked packets have a separate
        // queue (RFC 9331, section 5.1).
        let is_asked = self.asked_at == Some(record.start);
        Ambiguity { is_ambiguous: is_ambiguous || is_asked, is_copy, is_asked }
    }
}

pub(super) fn acked_segment(record: &Record, burst: &Burst, reports: &Reports) -> AckedSegment {
    let mut segment = AckedSegment::new(record.tx, burst.sent_at, Bytes::from(record.len));
    segment.kind = record.kind();
    segment.tag = burst.tag;
    if let Some(report) = of_segment(reports, record.start) {
        (segment.arrival, segment.arrival_coalesced) = (Some(report.at), report.coalesced);
    }
    segment
}

#[cfg(test)]
mod tests;
