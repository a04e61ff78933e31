//! TCPProbe's flipped pairs: the second of two full segments leaves first, and the other back to back behind it, so that
//! even a receiver that delays its ACKs answers each at once: one is out of order, the other fills the hole (Gerla et al.,
//! PFLDnet 2006, section 2.3). How far apart they arrive is what the narrow link made of them.
//!
//! The flip is ours, not the path's: the scoreboard keeps the order of sending, so that RACK holds nothing to be
//! overtaken, and neither the flip nor a D-SACK for the pair is taken for reordering. The pair leaves as two datagrams, the
//! second a byte longer, which no receive offload appends to the first.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::estimate::{PairSample, TcpProbe};
use longhaul_cc::{EcnMark, SegmentKind};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::Flags;

use super::arrivals::{Report, Reports, apart, of_segment};
use super::output::{Batch, Fill, Step};
use super::{Connection, SegmentMeta};
use crate::info::{PairInfo, add};
use crate::scoreboard::Record;
use crate::seq;

/// How much later than the first the second may leave; a pair that was held up between the two measures the host.
const MAX_SEPARATION: Span = Span::from_micros(50);

/// The pairs of a connection that sends them.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) probe: TcpProbe,
    flight: Option<Flight>,
    /// The segment that is to leave right behind the first.
    second: Option<Second>,
    /// The range of the newest pair.
    range: (u64, u64),
    measured: u64,
    coalesced: u64,
    dropped: u64,
    latest: Option<PairSample>,
}

/// What is to leave next.
#[derive(Clone, Copy, Debug)]
struct Second {
    start: u64,
    len: u16,
    ecn: EcnMark,
}

/// A pair on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent_at: Time,
    /// Bytes of the second's IP packet.
    bytes: Bytes,
    /// The one that left first and lies second in the stream.
    first: Member,
    second: Member,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    /// When its ACK came.
    acked_at: Option<Time>,
    arrival: Option<Report>,
}

impl Member {
    fn new(start: u64) -> Self {
        Self { start, acked_at: None, arrival: None }
    }

    fn take(&mut self, reports: &Reports) {
        self.arrival = self.arrival.or_else(|| of_segment(reports, self.start));
    }
}

/// Which of a pair one ACK newly delivered, and whether one of them was sent twice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairDelivery {
    starts: Option<(u64, u64)>,
    first: bool,
    second: bool,
    spoilt: bool,
}

impl PairDelivery {
    pub(super) fn note(&mut self, record: &Record) {
        let Some((first, second)) = self.starts else { return };
        if record.start == first || record.start == second {
            self.first |= record.start == first;
            self.second |= record.start == second;
            self.spoilt |= record.is_retransmitted();
        }
    }
}

impl Pairs {
    /// To be filled in while an ACK is digested.
    pub(super) fn delivery(&self) -> PairDelivery {
        PairDelivery { starts: self.flight.map(|f| (f.first.start, f.second.start)), ..PairDelivery::default() }
    }

    /// Whether a duplicate that the peer reports lies in the newest pair.
    pub(super) fn holds(&self, left: u64, right: u64) -> bool {
        self.range.0 <= left && right <= self.range.1
    }

    /// Digests an ACK that came `at`; the sample that it completes.
    fn on_ack(&mut self, at: Time, alone: bool, delivery: PairDelivery, reports: &Reports) -> Option<PairSample> {
        let flight = self.flight.as_mut()?;
        flight.first.take(reports);
        flight.second.take(reports);
        if delivery.first {
            flight.first.acked_at = Some(at);
        }
        if delivery.second {
            flight.second.acked_at = Some(at);
        }
        if delivery.spoilt {
            self.flight = None;
            self.drop_one();
            return None;
        }
        let flight = *flight;
        let (first_at, second_at) = flight.first.acked_at.zip(flight.second.acked_at)?;
        self.flight = None;
        let both = delivery.first && delivery.second;
        let arrivals = flight.first.arrival.zip(flight.second.arrival);
        let dispersion = match arrivals {
            Some((first, second)) => apart(first.at, second.at),
            // One ACK for both, or two that were merged, say nothing of the spacing.
            None if both || !alone => None,
            None => apart(first_at, second_at),
        };
        // Round trips, although arrivals tell of one way: two clocks drift apart by more than a pair's dispersion before
        // the least delay has been seen.
        let sample = dispersion.map(|dispersion| PairSample {
            first_delay: first_at - flight.sent_at,
            second_delay: second_at - flight.sent_at,
            dispersion,
            bytes: flight.bytes,
            coalesced: arrivals.is_some_and(|(first, second)| first.coalesced || second.coalesced),
        });
        match sample {
            None => self.drop_one(),
            Some(sample) => self.take(sample, at),
        }
        sample
    }

    fn take(&mut self, sample: PairSample, at: Time) {
        add(&mut self.measured, 1);
        self.latest = Some(sample);
        if sample.coalesced {
            add(&mut self.coalesced, 1);
        } else {
            self.probe.on_pair(&sample, at);
        }
    }

    fn drop_one(&mut self) {
        add(&mut self.dropped, 1);
    }

    /// What is known so far.
    pub(super) fn info(&self) -> PairInfo {
        PairInfo {
            capacity: self.probe.capacity(),
            converged: self.probe.converged(),
            measured: self.measured,
            coalesced: self.coalesced,
            dropped: self.dropped,
            latest: self.latest,
        }
    }
}

impl Connection {
    /// Digests what an ACK said of the pair in flight.
    pub(super) fn digest_pair(
        &mut self,
        at: Time,
        meta: &SegmentMeta,
        delivery: PairDelivery,
        reports: &Reports,
    ) -> Option<PairSample> {
        self.pairs.as_mut()?.on_ack(at, !meta.coalesced, delivery, reports)
    }

    /// Whether the next two full segments may leave as a pair.
    fn may_pair(&self, fill: &Fill<'_>, room: u64) -> bool {
        let Some(pairs) = &self.pairs else { return false };
        let both = 2 * u64::from(self.mss());
        pairs.flight.is_none()
            && fill.batch.is_empty()
            && !self.loss.is_repairing()
            && self.snd.board.sacked_bytes() == 0
            && !self.snd.cwr_due
            && !self.snd.persist.due
            && self.snd.unsent() > both
            && room >= both
            && self.snd.window_edge().saturating_sub(self.snd.nxt) >= both
            && pairs.probe.may_send(fill.now)
    }

    /// Sends the first of a pair, if it is time for one.
    pub(super) fn transmit_pair(&mut self, fill: &mut Fill<'_>, room: u64) -> Option<Step> {
        if !self.may_pair(fill, room) {
            return None;
        }
        let mss = self.mss();
        let ecn = if self.negotiated.ecn { self.control.ecn } else { EcnMark::NotEct };
        let (start, short) = (self.snd.nxt.max(1), mss.saturating_sub(1).max(1));
        let middle = start + u64::from(mss);
        let before = self.pipe();
        let (first_tx, second_tx) = self.snd.board.push_flipped(start, mss, short);
        self.snd.nxt = middle + u64::from(short);
        fill.admits(short, ecn);
        fill.push(fill.template.flags, seq::to_wire(self.iss, middle), middle, short);
        for _ in 0..2 {
            self.loss.on_new_data();
        }
        self.stats.bytes_sent += u64::from(mss) + u64::from(short);
        self.report_sent(fill.now, first_tx, short, before, SegmentKind::Data);
        self.report_sent(fill.now, second_tx, mss, before + u64::from(short), SegmentKind::Data);
        let datagram = fill.header_len + usize::from(mss);
        if let Some(pairs) = &mut self.pairs {
            pairs.flight = Some(Flight {
                sent_at: fill.now,
                bytes: Bytes::from(datagram) + self.pmtu.ip_overhead(),
                first: Member::new(middle),
                second: Member::new(start),
            });
            pairs.second = Some(Second { start, len: mss, ecn });
            pairs.range = (start, self.snd.nxt);
            pairs.probe.on_sent(fill.now);
        }
        Some(Step::Last)
    }

    /// Sends the second of a pair whose first has just left.
    pub(super) fn transmit_second(&mut self, now: Time, batch: &mut Batch) -> bool {
        let Some(pairs) = &mut self.pairs else { return false };
        let Some(second) = pairs.second.take() else { return false };
        if pairs.flight.is_some_and(|flight| now > flight.sent_at + MAX_SEPARATION) {
            pairs.flight = None;
            pairs.drop_one();
        }
        if !self.state.is_synchronized() {
            return false;
        }
        let flags = Flags::ACK | self.echo_flag();
        let mut header = self.header(now, flags, self.snd.nxt);
        header.seq = seq::to_wire(self.iss, second.start);
        batch.push(&header, second.start, second.len);
        batch.ecn = second.ecn;
        self.after_transmit(now, batch);
        true
    }
}
