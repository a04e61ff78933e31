//! Flipped packet pairs of TCPProbe (Gerla et al., PFLDnet 2006, section 2.3). The second of two full-sized segments
//! is sent first, and the first one back to back after it. Even a receiver with delayed ACKs then acknowledges both
//! at once: the first to arrive is out of order, the other fills the hole. The spacing of their arrivals is the
//! dispersion by the narrow link.
//!
//! The sender itself reorders the pair. The scoreboard keeps the transmission order, so that RACK does not regard a
//! segment of the pair as overtaken, and neither the flip nor a D-SACK for the pair counts as reordering.
//!
//! Receive offload merges datagrams of equal length, followed by at most one shorter one. Therefore the segment before
//! a pair is the shortest, the pair's first segment is one byte longer, its second two bytes longer, and the following
//! one is full-sized. None of them is merged with its predecessor, and both segments of the pair have their own arrival
//! times.

use longhaul_cc::estimate::PairSample;
use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{Ack, SegmentKind, SendLimit};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::Ecn;

use super::{AckFacts, Claims, Extension, Filled, Outgoing, Turn};
use crate::connection::arrivals::{Report, Reports, apart, of_segment};
use crate::connection::send_loop::{Fill, FillStep};
use crate::connection::sender::{NewPair, NewSegment};
use crate::connection::{Engine, SendLoop, Sender};
use crate::{Info, PairInfo, Record, add};

/// Maximum time between the two transmissions. A pair with a longer delay between them measures the host.
const MAX_SEPARATION: Span = Span::from_micros(50);
/// Number of bytes by which the segment before a pair, the pair's first and its second are shorter than a full-sized
/// one.
const SHORTER: [u16; 3] = [3, 2, 1];
/// Minimum window in segments for sending a pair: the pair and the segment before it. If there is no room yet for the
/// pair, another segment is in flight, whose ACK makes room.
const LEAST_WINDOW: u64 = 3;
const MAX_RECORDS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Pairs {
    probe: TcpProbe,
    flight: Option<Flight>,
    is_retransmitted: bool,
    sample: Option<PairSample>,
    /// End of the short segment that separates the next pair from earlier data.
    separated: Option<u64>,
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
struct Second {
    start: u64,
    len: u16,
    ecn: Ecn,
}

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
    acked_at: Option<Time>,
    arrival: Option<Report>,
    /// Whether the current ACK delivers it.
    is_delivered: bool,
}

impl Member {
    fn new(start: u64) -> Self {
        Self { start, acked_at: None, arrival: None, is_delivered: false }
    }

    /// Processes an ACK that arrived at `at`. Returns whether it delivers the segment.
    fn on_ack(&mut self, at: Time, reports: Option<&Reports>) -> bool {
        self.arrival = self.arrival.or_else(|| of_segment(reports?, self.start));
        let is_delivered = std::mem::take(&mut self.is_delivered);
        if is_delivered {
            self.acked_at = Some(at);
        }
        is_delivered
    }
}

impl Pairs {
    fn holds(&self, left: u64, right: u64) -> bool {
        self.ranges.iter().any(|range| range.0 <= left && right <= range.1)
    }

    /// Processes an ACK that arrived at `at`, and returns the sample that it completes. `reports` is `None` if the
    /// peer does not report arrivals.
    fn measure(&mut self, at: Time, alone: bool, reports: Option<&Reports>) -> Option<PairSample> {
        let flight = self.flight.as_mut()?;
        let both = flight.first.on_ack(at, reports) & flight.second.on_ack(at, reports);
        if std::mem::take(&mut self.is_retransmitted) {
            self.flight = None;
            self.drop_one();
            return None;
        }
        let flight = *flight;
        let (first_at, second_at) = flight.first.acked_at.zip(flight.second.acked_at)?;
        self.flight = None;
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
    fn take_second(&mut self, now: Time) -> Option<Second> {
        let second = self.second.take()?;
        if self.flight.is_some_and(|flight| now > flight.sent_at + MAX_SEPARATION) {
            self.flight = None;
            self.drop_one();
        }
        Some(second)
    }

    fn statistics(&self) -> PairInfo {
        PairInfo {
            capacity: self.probe.capacity(),
            converged: self.probe.converged(),
            measured: self.measured,
            coalesced: self.coalesced,
            dropped: self.dropped,
            latest: self.latest,
        }
    }

    fn may_pair(&self, out: &SendLoop<'_>, now: Time, room: u64) -> bool {
        let mss = u64::from(out.pmtu.mss());
        self.flight.is_none()
            && !out.loss.in_episode()
            && out.snd.board.sacked_bytes == 0
            && !out.snd.cwr_due
            && !out.snd.persist.due
            && out.snd.unsent_before_ahead() > 3 * mss
            && out.snd.usable_window() >= 3 * mss
            && room.saturating_add(out.loss.pipe(&out.snd.board)) >= LEAST_WINDOW * mss
            && (self.separated == Some(out.snd.nxt) || self.probe.may_send(now))
    }

    fn send_separator(&mut self, out: &mut SendLoop<'_>, fill: &mut Fill<'_>, len: u16) {
        let before = out.loss.pipe(&out.snd.board);
        let NewSegment { tx, start, .. } = out.snd.send_new(len, false);
        fill.push(fill.template.flags, out.numbers.sequence(start), start, len);
        out.loss.on_new_data();
        out.stats.bytes_sent += u64::from(len);
        out.control_loop().report_sent(fill.now, tx, len, before, SegmentKind::Data);
        self.separated = Some(out.snd.nxt);
    }

    fn send_first(&mut self, out: &mut SendLoop<'_>, fill: &mut Fill<'_>, first: u16, second: u16) {
        let ecn = out.ecn();
        let before = out.loss.pipe(&out.snd.board);
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
        self.flight = Some(Flight {
            sent_at: fill.now,
            bytes: Bytes::from(datagram) + out.pmtu.ip_overhead(),
            first: Member::new(middle),
            second: Member::new(start),
        });
        self.second = Some(Second { start, len: second, ecn });
        self.ranges.rotate_right(1);
        self.ranges[0] = (start, end);
        self.probe.on_sent(fill.now);
    }
}

impl Extension for Pairs {
    fn takes_records(&self) -> bool {
        true
    }

    fn on_delivered(&mut self, record: &Record) {
        let Some(flight) = &mut self.flight else { return };
        for member in [&mut flight.first, &mut flight.second].into_iter().filter(|member| member.start == record.start)
        {
            member.is_delivered = true;
            self.is_retransmitted |= record.is_retransmitted();
        }
    }

    fn on_ack(&mut self, ack: &AckFacts<'_>, _: &mut Sender, claims: &mut Claims) {
        self.sample = self.measure(ack.segment.received_at(), !ack.segment.meta.coalesced, ack.reports);
        claims.is_swapped |= ack.dsack.is_some_and(|(left, right)| self.holds(left, right));
    }

    fn complete(&mut self, event: &mut Ack<'_>) {
        event.pair = self.sample.take();
    }

    fn send_new(&mut self, out: &mut SendLoop<'_>, fill: &mut Fill<'_>, room: u64) -> Option<FillStep> {
        if !self.may_pair(out, fill.now, room) {
            return None;
        }
        let [separator, first, second] = SHORTER.map(|bytes| out.pmtu.mss().saturating_sub(bytes).max(1));
        if self.separated == Some(out.snd.nxt) {
            if !fill.batch.is_empty() {
                return Some(FillStep::Last);
            }
            if room < u64::from(first) + u64::from(second) {
                // Wait for ACKs of the data in flight to make room.
                return (out.loss.pipe(&out.snd.board) > 0).then_some(FillStep::Stop(SendLimit::Cwnd));
            }
            self.send_first(out, fill, first, second);
        } else if room < u64::from(separator) {
            return None;
        } else if fill.admits(separator, out.ecn()) {
            self.send_separator(out, fill, separator);
        }
        Some(FillStep::Last)
    }

    /// Sends the second segment of a pair right after the first.
    fn send(&mut self, turn: Turn, engine: &mut Engine<'_>, out: &mut Outgoing<'_>) -> Filled {
        if turn != Turn::First {
            return Filled::Nothing(None);
        }
        let second = self.take_second(out.now);
        let Some(second) = second.filter(|_| engine.life.state.is_synchronized()) else { return Filled::Nothing(None) };
        let header = engine.headers().header(out.now, second.start);
        out.batch.push(&header, second.start, second.len);
        out.batch.ecn = second.ecn;
        Filled::InWindow
    }

    fn is_passive(&self) -> bool {
        false
    }

    fn info(&self, _: &Sender, info: &mut Info) {
        info.pairs = Some(self.statistics());
    }
}
