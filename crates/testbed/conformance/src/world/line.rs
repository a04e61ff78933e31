//! Closed loop: a bottleneck with a queue, into which the controller's window and pace admit data.

use std::collections::VecDeque;

use longhaul_units::{Bytes, Rate, Span, Time};

use super::World;
use crate::{Answer, Expect, Operation, Poverty, Scenario};
use longhaul_cc::{BuildParams, ControllerFactory, Episode, Granted, RateSample, SegmentKind, SendLimit, update};

/// Maximum number of pieces per window. A large window is sent in larger pieces, each acknowledged by one ACK.
const PIECES: u64 = 64;
/// Time from the last loss of everything in flight to the retransmission timeout (RFC 6298, section 2.4).
const RTO: Span = Span::from_secs(1);
/// Default maximum ACK delay of QUIC (RFC 9000, section 18.2).
const MAX_ACK_DELAY: Span = Span::from_millis(25);

/// A path with one bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pipe {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// RTT without a queue.
    pub rtt: Span,
    /// Capacity of the queue; data beyond it is dropped.
    pub queue: Bytes,
    /// Segment size.
    pub mss: Bytes,
    /// Resolution of the clock that the controller sees.
    pub resolution: Span,
    /// Rate and RTT of the second half, if they change.
    pub later: Option<(Rate, Span)>,
    /// Features that the transport lacks.
    pub poverty: Poverty,
}

impl Pipe {
    /// A constant path with a queue of one bandwidth-delay product, segments of `mss`, and an exact clock.
    #[must_use]
    pub fn new(rate: Rate, rtt: Span, mss: Bytes) -> Self {
        let (queue, resolution) = (rate.bytes_in(rtt), Span::from_nanos(1));
        Self { rate, rtt, queue, mss, resolution, later: None, poverty: Poverty::Nothing }
    }
}

/// Result of a bulk transfer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Filled {
    /// Bytes delivered.
    pub delivered: Bytes,
    /// Bytes lost.
    pub lost: Bytes,
    /// Maximum bytes in flight.
    pub most_in_flight: Bytes,
    /// The controller's decisions, one per event.
    pub trace: Vec<Answer>,
}

/// Lets a controller of `factory` fill `pipe` for `time`. Returns `None` if the controller requires more than the
/// transport offers, which has no options.
///
/// # Panics
/// Panics if a rule is broken.
pub fn fill(factory: &dyn ControllerFactory, pipe: &Pipe, time: Span, expect: Expect) -> Option<Filled> {
    let network_header = factory.build(&BuildParams::default()).needs().required.network_header;
    let granted = update!(Granted { network_header, ..pipe.poverty.granted() });
    let scenario = Scenario {
        start: Time::from_nanos(7_000_000_000),
        resolution: pipe.resolution,
        mss: pipe.mss,
        rtt: pipe.rtt,
        granted,
        cap: Bytes(1 << 40),
        tick_delay: if pipe.poverty.lacks(Poverty::Ticks) { 16 } else { 0 },
        ..Scenario::default()
    };
    let mut world = World {
        poverty: pipe.poverty,
        line: Some(Line::new(pipe, scenario.start)),
        feedback: network_header.map(|_| pipe.rate.as_bytes_per_sec() / 1000),
        ..World::new(factory, &scenario, expect)
    };
    if !world.establish(granted) {
        return None;
    }
    let half = world.now + time / 2;
    world.run_until(half);
    if let (Some((rate, rtt)), Some(line)) = (pipe.later, &mut world.line) {
        (line.rate, line.rtt) = (rate, rtt);
        let sixteenths = u8::try_from(rtt.as_nanos() * 16 / pipe.rtt.as_nanos().max(1)).unwrap_or(u8::MAX);
        world.step(Operation::Route { sixteenths }, &scenario);
    }
    world.run_until(half + time / 2);
    let (delivered, lost) = (world.total_delivered, world.total_lost);
    let most_in_flight = world.line.as_ref().map_or(Bytes::ZERO, |line| line.most_in_flight);
    Some(Filled { delivered, lost, most_in_flight, trace: world.trace })
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    sent_at: Time,
    /// Time at which its acknowledgment arrives, or would have arrived.
    back_at: Time,
    arrives: bool,
    again: bool,
    prior_delivered: Bytes,
    delivered_at: Time,
    first_sent_at: Time,
    tx_in_flight: Bytes,
    lost_before: Bytes,
}

/// The bottleneck and the data in it.
#[derive(Debug, Default)]
pub(super) struct Line {
    rate: Rate,
    rtt: Span,
    queue: Bytes,
    pieces: VecDeque<Piece>,
    /// Time at which the bottleneck's queue is empty.
    free_at: Time,
    /// Time at which the pacing rate allows the next piece.
    send_at: Time,
    delivered_at: Time,
    first_sent_at: Time,
    /// Lost bytes that are not reported yet, and whether a retransmission is among them.
    untold: Bytes,
    untold_again: bool,
    /// Lost bytes that are not delivered yet.
    holes: Bytes,
    most_in_flight: Bytes,
    /// The sample of the next ACK.
    pub(super) sample: Option<RateSample>,
}

impl Line {
    fn new(pipe: &Pipe, now: Time) -> Self {
        let Pipe { rate, rtt, queue, .. } = *pipe;
        Self { rate, rtt, queue, free_at: now, send_at: now, delivered_at: now, first_sent_at: now, ..Self::default() }
    }

    /// Takes a delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation).
    fn measure(&mut self, piece: &Piece, now: Time, delivered: Bytes, lost: Bytes) {
        let interval = piece.sent_at.since(piece.first_sent_at).max(now.since(piece.delivered_at));
        let mut sample = RateSample::new(delivered - piece.prior_delivered, interval.max(Span::from_nanos(1)));
        (sample.prior_delivered, sample.tx_in_flight) = (piece.prior_delivered, piece.tx_in_flight);
        sample.lost = lost - piece.lost_before;
        (self.delivered_at, self.first_sent_at) = (now, piece.sent_at);
        self.sample = Some(sample);
    }
}

impl World {
    /// Puts a piece into the queue of the bottleneck, if there is one.
    pub(super) fn startup(&mut self, bytes: Bytes, kind: SegmentKind) {
        let (now, in_flight) = (self.now, self.in_flight);
        let held = self.ack_delay();
        let Some(line) = &mut self.line else { return };
        if line.pieces.is_empty() {
            (line.delivered_at, line.first_sent_at) = (now, now);
        }
        let waits = line.rate.bytes_in(line.free_at.since(now));
        let arrives = waits + bytes <= line.queue.max(bytes);
        if arrives {
            line.free_at = line.free_at.max(now) + line.rate.time_for(bytes);
        }
        let again = kind == SegmentKind::Retransmit;
        let back_at = line.free_at.max(now) + line.rtt + held;
        if let Some(last) = line.pieces.back_mut().filter(|_| arrives) {
            last.back_at = last.back_at.min(back_at);
        }
        line.most_in_flight = line.most_in_flight.max(in_flight);
        line.pieces.push_back(Piece {
            bytes,
            sent_at: now,
            back_at,
            arrives,
            again,
            prior_delivered: self.total_delivered,
            delivered_at: line.delivered_at,
            first_sent_at: line.first_sent_at,
            tx_in_flight: in_flight,
            lost_before: self.total_lost,
        });
    }

    /// Returns the time for which the peer holds back the ACK of the next piece, unless another piece arrives: every
    /// second one is acknowledged at once (RFC 9000, section 13.2.2).
    fn ack_delay(&self) -> Span {
        let holds = self.poverty.lacks(Poverty::AckDelay) && self.next_tx.is_multiple_of(2);
        if holds { MAX_ACK_DELAY } else { Span::ZERO }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            self.send_paced();
            let Some(line) = &self.line else { return };
            let back = line.pieces.front().map(|piece| piece.back_at);
            let next = match (back, self.may_send()) {
                (Some(back), true) => back.min(line.send_at),
                (Some(back), false) => back,
                (None, true) => line.send_at,
                // Everything in flight is lost, or nothing may be sent: only the timer remains.
                (None, false) => self.now + RTO,
            };
            if next > end {
                self.pass(end.since(self.now));
                return;
            }
            self.pass(next.since(self.now));
            if back.is_some_and(|back| back <= self.now) {
                self.come_back();
            } else if back.is_none() && !self.may_send() {
                self.expire();
            }
        }
    }

    fn may_send(&self) -> bool {
        self.controller.control().cwnd >= self.in_flight + self.path.mss
    }

    fn send_paced(&mut self) {
        self.limit = SendLimit::Pacing;
        loop {
            let control = self.controller.control();
            if !self.may_send() {
                (self.limit, self.limited) = (SendLimit::Cwnd, true);
                return;
            }
            let (now, mss) = (self.now, self.path.mss);
            let Some(line) = self.line.as_mut().filter(|line| line.send_at <= now) else { return };
            let room = control.cwnd - self.in_flight;
            let piece = (control.cwnd / PIECES).min(room).max(mss);
            let piece = piece / mss.0 * mss.0;
            if let Some(pace) = control.pace.filter(|_| !self.poverty.lacks(Poverty::Pace)) {
                line.send_at = line.send_at.max(now) + pace.rate.time_for(piece);
            }
            self.sent_or_resent(piece);
        }
    }

    /// Processes the first piece when its ACK arrives, or would have arrived.
    fn come_back(&mut self) {
        let Some(line) = &mut self.line else { return };
        let Some(piece) = line.pieces.pop_front() else { return };
        // A lost piece is reported with the next piece that arrives.
        if piece.again && piece.arrives {
            line.holes -= piece.bytes;
        }
        if !piece.arrives {
            line.untold += piece.bytes;
            line.untold_again |= piece.again;
            line.holes += if piece.again { Bytes::ZERO } else { piece.bytes };
            return;
        }
        // The piece arrives, and its ACK reports the losses before it.
        let lost = core::mem::take(&mut line.untold);
        let again = core::mem::take(&mut line.untold_again);
        let whole = line.holes == Bytes::ZERO;
        let (delivered, lost_in_all) = (self.total_delivered + piece.bytes, self.total_lost + lost);
        line.measure(&piece, self.now, delivered, lost_in_all);
        self.sample_rtt(self.now.since(piece.sent_at));
        let mut delivered = piece.bytes;
        if lost > Bytes::ZERO && self.poverty.lacks(Poverty::Losses) {
            let episode = self.next_episode(Bytes::ZERO, false, false);
            self.acknowledge(delivered, Bytes::ZERO, Bytes::ZERO, episode, false);
            delivered = Bytes::ZERO;
        }
        let episode = self.next_episode(lost, again, whole);
        self.episode = if episode == Episode::Exit { Episode::None } else { episode };
        let cumulative = if whole { piece.bytes + self.sacked } else { Bytes::ZERO };
        self.acknowledge(delivered, cumulative, lost, episode, false);
        if matches!(episode, Episode::Enter | Episode::Again) {
            self.sent_or_resent(self.path.mss.min(self.lost));
        }
    }

    fn next_episode(&self, lost: Bytes, again: bool, whole: bool) -> Episode {
        match self.episode {
            Episode::None | Episode::Exit if lost > Bytes::ZERO => Episode::Enter,
            Episode::None | Episode::Exit => Episode::None,
            _ if whole && lost == Bytes::ZERO => Episode::Exit,
            Episode::Rto => Episode::Rto,
            _ if again => Episode::Again,
            _ => Episode::In,
        }
    }

    /// The retransmission timer expires, since nothing is in flight.
    fn expire(&mut self) {
        if let Some(line) = &mut self.line {
            (line.untold, line.untold_again) = (Bytes::ZERO, false);
        }
        if !self.poverty.lacks(Poverty::Timeouts) {
            return self.timeout();
        }
        let lost = self.in_flight;
        self.episode = if self.in_recovery() { Episode::Again } else { Episode::Enter };
        self.acknowledge(Bytes::ZERO, Bytes::ZERO, lost, self.episode, false);
        self.sent_or_resent(self.path.mss.min(self.lost));
    }
}
