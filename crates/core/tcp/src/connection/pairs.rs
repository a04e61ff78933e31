//! Flipped packet pairs of TCPProbe (Gerla et al., PFLDnet 2006, section 2.3). The second of two full-sized segments
//! is sent first, and the first one back to back after it. Even a receiver with delayed ACKs then acknowledges both
//! at once: the first to arrive is out of order, the other fills the hole. The spacing of their arrivals is the
//! dispersion by the narrow link.
//!
//! The sender itself reorders the pair. The scoreboard keeps the transmission order, so that RACK does not regard a
//! segment of the pair as overtaken, and neither the flip nor a D-SACK for the pair counts as reordering.
//!
//! Receive offload merges datagrams of equal length, followed by at most one shorter one. Therefore the segment
//! before a pair is the shortest, the pair's first is one byte longer, its second two bytes longer, and the following
//! one is full-sized. None of them is merged with its predecessor, and both segments of the pair have arrival times
//! of their own.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::estimate::PairSample;
use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{SegmentKind, SendLimit};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::Ecn;

use super::SendLoop;
use super::arrivals::{Report, Reports, apart, of_segment};
use super::send_loop::{Fill, FillStep};
use super::sender::{NewPair, NewSegment};
use crate::{PairInfo, Record, add};

/// Maximum time between the two transmissions. A pair with a longer delay between them measures the host.
const MAX_SEPARATION: Span = Span::from_micros(50);
/// Bytes by which the segment before a pair, the pair's first and its second are shorter than a full-sized one.
const SHORTER: [u16; 3] = [3, 2, 1];
/// Minimum window in segments for sending a pair: the pair and the segment before it. If there is no room yet for the
/// pair, another segment is in flight, whose ACK makes room.
const LEAST_WINDOW: u64 = 3;
/// Number of newest pairs whose D-SACKs are recognized.
const MAX_RECORDS: usize = 4;

/// State of a connection that sends pairs.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) probe: TcpProbe,
    flight: Option<Flight>,
    /// End of the shorter segment after which a pair may be sent.
    separated: Option<u64>,
    /// The segment to be sent right after the first.
    second: Option<Second>,
    /// Ranges of the newest pairs. A D-SACK for one arrives when the next one or two are in flight.
    ranges: [(u64, u64); MAX_RECORDS],
    measured: u64,
    coalesced: u64,
    dropped: u64,
    latest: Option<PairSample>,
}

/// Second segment of a pair, which is sent next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) start: u64,
    pub(super) len: u16,
    pub(super) ecn: Ecn,
}

/// Pair in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent_at: Time,
    /// Length in bytes of the second segment's IP packet.
    bytes: Bytes,
    /// The segment that is sent first and is second in the stream.
    first: Member,
    second: Member,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    /// Arrival time of its ACK.
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

/// The segments of a pair that one ACK newly delivered, and whether one of them was retransmitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairDelivery {
    starts: Option<(u64, u64)>,
    first: bool,
    second: bool,
    retransmitted: bool,
}

impl PairDelivery {
    pub(super) fn note(&mut self, record: &Record) {
        let Some((first, second)) = self.starts else { return };
        if record.start == first || record.start == second {
            self.first |= record.start == first;
            self.second |= record.start == second;
            self.retransmitted |= record.is_retransmitted();
        }
    }
}

impl Pairs {
    /// Returns an empty record, to be filled in while an ACK is processed.
    pub(super) fn delivery(&self) -> PairDelivery {
        PairDelivery { starts: self.flight.map(|f| (f.first.start, f.second.start)), ..PairDelivery::default() }
    }

    /// Returns whether a D-SACK lies within one of the newest pairs.
    pub(super) fn holds(&self, left: u64, right: u64) -> bool {
        self.ranges.iter().any(|range| range.0 <= left && right <= range.1)
    }

    /// Processes an ACK that arrived at `at`, and returns the sample that it completes. `reports` is `None` if the
    /// peer does not report arrivals.
    pub(super) fn on_ack(
        &mut self,
        at: Time,
        alone: bool,
        delivery: PairDelivery,
        reports: Option<&Reports>,
    ) -> Option<PairSample> {
        let flight = self.flight.as_mut()?;
        if let Some(reports) = reports {
            flight.first.take(reports);
            flight.second.take(reports);
        }
        if delivery.first {
            flight.first.acked_at = Some(at);
        }
        if delivery.second {
            flight.second.acked_at = Some(at);
        }
        if delivery.retransmitted {
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
            // ACK spacing does not replace missing reports of a peer that reports arrivals: they are missing because
            // too many segments arrived at once. One ACK for both, or two merged ACKs, do not show the spacing.
            None if reports.is_some() || both || !alone => None,
            None => apart(first_at, second_at),
        };
        // Delays are round-trip times even if one-way times were reported: the drift of two clocks exceeds a pair's
        // dispersion before the minimum one-way delay is known.
        let sample = dispersion.map(|dispersion| {
            let mut sample = PairSample::default();
            (sample.first_delay, sample.second_delay) = (first_at - flight.sent_at, second_at - flight.sent_at);
            (sample.dispersion, sample.bytes) = (dispersion, flight.bytes);
            sample.coalesced = arrivals.is_some_and(|(first, second)| first.coalesced || second.coalesced);
            sample
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

    /// Returns the second segment of a pair, if it is to be sent right after the first.
    pub(super) fn take_second(&mut self, now: Time) -> Option<Second> {
        let second = self.second.take()?;
        if self.flight.is_some_and(|flight| now > flight.sent_at + MAX_SEPARATION) {
            self.flight = None;
            self.drop_one();
        }
        Some(second)
    }

    /// Returns statistics and the current estimate.
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

/// Returns whether a pair and the segment before it may be sent.
fn may_pair(out: &SendLoop<'_>, fill: &Fill<'_>, room: u64) -> bool {
    let Some(pairs) = &out.ext.pairs else { return false };
    let mss = u64::from(out.pmtu.mss());
    pairs.flight.is_none()
        && !out.loss.in_episode()
        && out.snd.board().sacked_bytes() == 0
        && !out.snd.is_cwr_due()
        && !out.snd.persist.is_due()
        && out.snd.unsent_before_rc3() > 3 * mss
        && out.snd.usable_window() >= 3 * mss
        && room.saturating_add(out.loss.pipe(out.snd.board())) >= LEAST_WINDOW * mss
        && (pairs.separated == Some(out.snd.nxt()) || pairs.probe.may_send(fill.now))
}

/// Sends the segment before a pair, or the pair's first segment, if a pair is due.
pub(super) fn transmit_pair(out: &mut SendLoop<'_>, fill: &mut Fill<'_>, room: u64) -> Option<FillStep> {
    if !may_pair(out, fill, room) {
        return None;
    }
    let [separator, first, second] = SHORTER.map(|bytes| out.pmtu.mss().saturating_sub(bytes).max(1));
    if out.ext.pairs.as_ref().is_some_and(|pairs| pairs.separated == Some(out.snd.nxt())) {
        if !fill.batch.is_empty() {
            return Some(FillStep::Last);
        }
        if room < u64::from(first) + u64::from(second) {
            // Wait for ACKs of the data in flight, which make room.
            return (out.loss.pipe(out.snd.board()) > 0).then_some(FillStep::Stop(SendLimit::Cwnd));
        }
        transmit_first(out, fill, first, second);
    } else if room < u64::from(separator) {
        return None;
    } else if fill.admits(separator, out.ecn()) {
        transmit_separator(out, fill, separator);
    }
    Some(FillStep::Last)
}

/// Sends the segment before a pair, which is the last one of its batch.
fn transmit_separator(out: &mut SendLoop<'_>, fill: &mut Fill<'_>, len: u16) {
    let before = out.loss.pipe(out.snd.board());
    let NewSegment { tx, start, .. } = out.snd.send_new(len, false);
    fill.push(fill.template.flags, out.numbers.sequence(start), start, len);
    out.loss.on_new_data();
    out.stats.bytes_sent += u64::from(len);
    out.control_loop().report_sent(fill.now, tx, len, before, SegmentKind::Data);
    if let Some(pairs) = &mut out.ext.pairs {
        pairs.separated = Some(out.snd.nxt());
    }
}

/// Sends the first segment of a pair, which is second in the stream.
fn transmit_first(out: &mut SendLoop<'_>, fill: &mut Fill<'_>, first: u16, second: u16) {
    let ecn = out.ecn();
    let before = out.loss.pipe(out.snd.board());
    let NewPair { first_tx, second_tx, start, middle, end } = out.snd.send_flipped(second, first);
    fill.admits(first, ecn);
    fill.push(fill.template.flags, out.numbers.sequence(middle), middle, first);
    for _ in 0..2 {
        out.loss.on_new_data();
    }
    out.stats.bytes_sent += u64::from(first) + u64::from(second);
    out.control_loop().report_sent(fill.now, first_tx, first, before, SegmentKind::Data);
    out.control_loop().report_sent(fill.now, second_tx, second, before + u64::from(first), SegmentKind::Data);
    let datagram = fill.header_len + usize::from(second);
    if let Some(pairs) = &mut out.ext.pairs {
        pairs.flight = Some(Flight {
            sent_at: fill.now,
            bytes: Bytes::from(datagram) + out.pmtu.ip_overhead(),
            first: Member::new(middle),
            second: Member::new(start),
        });
        pairs.second = Some(Second { start, len: second, ecn });
        pairs.ranges.rotate_right(1);
        pairs.ranges[0] = (start, end);
        pairs.probe.on_sent(fill.now);
    }
}
