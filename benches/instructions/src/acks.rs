//! Benchmark of controllers: a prebuilt ACK event after another, and a `Control` after each.
//!
//! The events are those of a transport with an MSS of 1448 bytes and an RTT of 100 ms, in two states:
//!
//! * [`State::Avoidance`]: after one loss and its recovery, so that congestion avoidance controls the window. Each ACK
//!   delivers two segments, has samples of the RTT and the delivery rate, and finds the sender limited by its window. A
//!   new round begins every 1,000 ACKs, and ACKs are 200 us apart. There is another loss every 100,000 ACKs, so that
//!   the window stays in its usual range.
//! * [`State::Recovery`]: in a recovery episode; each ACK SACKs one segment and reveals no further loss.
//!
//! A controller gets the information that it requests from the transport: single segments, their arrival times, a
//! flipped pair per round. As in a transport, `control` and `next_tick` are read after every call.

use std::hint::black_box;

use longhaul_cc::estimate::PairSample;
use longhaul_cc::registry::{SpecError, known};
use longhaul_cc::{
    Ack, AckedSegment, BuildParams, Congestion, Controller, Demands, Episode, Granted, Path, PathEvent, RateSample,
    RttSample, SegmentKind, Sent, TxId,
};
use longhaul_units::{Bytes, Span, Time};

const MSS: Bytes = Bytes(1448);
const RTT: Span = Span::from_millis(100);
const STEP: Span = Span::from_micros(200);
const ACKS_A_ROUND: u64 = 1000;
/// Number of ACKs between two losses in [`State::Avoidance`].
pub const ACKS_A_LOSS: u64 = 100 * ACKS_A_ROUND;
/// Bytes delivered per round trip.
const DELIVERED: Bytes = Bytes(2 * MSS.0 * RTT.as_nanos() / STEP.as_nanos());
const IN_FLIGHT: Bytes = Bytes(2 * ACKS_A_ROUND * MSS.0);
/// Time that the bottleneck takes to transmit a segment.
const DISPERSION: Span = Span::from_micros(50);
/// Variants of profiles that read more fields of an ACK.
const VARIANTS: [&str; 3] = [
    "westwood-bbe(capacity=pairs)",
    "westwood-bbe(capacity=fused)",
    "ledbat-start(delay=auto)+ledbat-plus-plus(delay=auto)",
];

/// Iterates over every profile of the registry, and variants that read more fields of an ACK.
pub fn controllers() -> impl Iterator<Item = &'static str> {
    longhaul_zoo::register().expect("the names are free");
    known().profiles.iter().map(|profile| profile.name).chain(VARIANTS)
}

/// State in which a controller is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Congestion avoidance controls the window.
    Avoidance,
    /// A lost segment was retransmitted and is not yet acknowledged.
    Recovery,
}

/// Controller in a state, and the next ACK event for it.
#[derive(Debug)]
pub struct Sender {
    state: State,
    connection: Connection,
    ack: Ack<'static>,
    count: u64,
}

impl Sender {
    /// Creates the controller of this name, and completes its handshake.
    ///
    /// # Errors
    /// Returns an error if there is no controller of this name.
    pub fn new(controller: &str, state: State) -> Result<Self, SpecError> {
        let mut connection = Connection::new(&controller.parse()?);
        let ack = match state {
            State::Avoidance => connection.ack(2),
            State::Recovery => {
                connection.enter_recovery();
                let mut ack = connection.ack(1);
                (ack.cumulative, ack.episode) = (Bytes::ZERO, Episode::In);
                ack
            }
        };
        Ok(Self { state, connection, ack, count: 0 })
    }

    /// Passes the next ACK to the controller. This is the work that benchmarks measure.
    pub fn step(&mut self) {
        if self.state == State::Avoidance {
            if self.count.is_multiple_of(ACKS_A_LOSS) {
                self.connection.lose_and_repair();
            }
            self.count += 1;
            self.ack.round_start = self.count.is_multiple_of(ACKS_A_ROUND);
        }
        self.connection.advance(&mut self.ack);
        self.connection.tell(&self.ack);
    }
}

/// Controller after its handshake, with a clock that each event advances.
#[derive(Debug)]
struct Connection {
    controller: Box<dyn Controller>,
    path: Path,
    now: Time,
    delivered: Bytes,
    /// Segments that each ACK delivers, if the controller requests them.
    segments: Vec<AckedSegment>,
    wants: Demands,
}

impl Connection {
    fn new(congestion: &Congestion) -> Self {
        let mut path = Path::new(MSS);
        (path.srtt, path.latest_rtt, path.min_rtt) = (Some(RTT), Some(RTT), Some(RTT));
        path.handshake_rtt = Some(RTT);
        let mut controller = congestion.build(&BuildParams::default());
        let needs = controller.needs();
        let wants = needs.required.union(needs.preferred);
        let mut granted = Granted::basic();
        (granted.segments, granted.arrival_times, granted.pairs) = (wants.segments, wants.arrival_times, wants.pairs);
        controller.on_granted(&granted, &path).expect("a controller does with what it asks for");
        let now = Time::ZERO + Span::from_secs(1);
        controller.on_event(&PathEvent::Established { now, granted }, &path);
        Self { controller, path, now, delivered: Bytes::ZERO, segments: Vec::new(), wants }
    }

    /// Returns an ACK of the next `segments` segments, a [`STEP`] after the last one, for a sender whose window is
    /// full.
    fn ack(&mut self, segments: u64) -> Ack<'static> {
        self.now += STEP;
        let bytes = MSS * segments;
        self.delivered += bytes;
        let mut ack = Ack::new(self.now);
        (ack.cumulative, ack.delivered, ack.total_delivered) = (bytes, bytes, self.delivered);
        (ack.prior_in_flight, ack.in_flight, ack.flight_size) = (IN_FLIGHT, IN_FLIGHT - bytes, IN_FLIGHT);
        ack.cwnd_limited = true;
        ack.rtt = Some(RttSample::new(RTT, self.now - RTT));
        let mut rate = RateSample::new(DELIVERED, RTT);
        (rate.tx_in_flight, rate.prior_delivered) = (IN_FLIGHT, self.delivered - DELIVERED);
        ack.rate = Some(rate);
        if self.wants.segments {
            self.segments = (0..segments).map(|number| AckedSegment::new(TxId(number), self.now, MSS)).collect();
            self.move_segments();
        }
        ack
    }

    /// Passes the first ACK of a recovery episode and the subsequent retransmission to the controller.
    fn enter_recovery(&mut self) {
        let mut ack = self.ack(1);
        (ack.cumulative, ack.newly_lost, ack.recover_flight) = (Bytes::ZERO, MSS, IN_FLIGHT);
        ack.episode = Episode::Enter;
        self.tell(&ack);
        let mut sent = Sent::new(self.now, TxId(1), MSS);
        (sent.kind, sent.in_flight_before) = (SegmentKind::Retransmit, IN_FLIGHT);
        self.controller.on_sent(&sent, &self.path);
    }

    /// Passes a recovery episode from its first to its last ACK to the controller.
    fn lose_and_repair(&mut self) {
        let segments = self.segments.clone();
        self.enter_recovery();
        let mut exit = self.ack(1);
        exit.episode = Episode::Exit;
        self.tell(&exit);
        self.segments = segments;
    }

    fn tell(&mut self, ack: &Ack<'static>) {
        if self.segments.is_empty() {
            self.controller.on_ack(black_box(ack), &self.path);
        } else {
            let mut ack: Ack<'_> = *ack;
            ack.acked = &self.segments;
            self.controller.on_ack(black_box(&ack), &self.path);
        }
        black_box((self.controller.control(), self.controller.next_tick()));
    }

    /// Advances a prebuilt event by a [`STEP`] with few stores, so that building events hardly counts.
    fn advance(&mut self, ack: &mut Ack<'_>) {
        self.now += STEP;
        self.delivered += ack.delivered;
        (ack.now, ack.total_delivered) = (self.now, self.delivered);
        if let Some(sample) = &mut ack.rtt {
            sample.sent_at = self.now - RTT;
        }
        if let Some(sample) = &mut ack.rate {
            sample.prior_delivered = self.delivered - DELIVERED;
        }
        if self.wants.pairs {
            ack.pair = ack.round_start.then(pair);
        }
        self.move_segments();
    }

    /// Advances the segments of the ACK. They were sent at once, and arrived one by one half a round trip later.
    fn move_segments(&mut self) {
        let count = self.segments.len() as u64;
        for (number, segment) in (1..).zip(&mut self.segments) {
            (segment.tx, segment.sent_at) = (TxId(segment.tx.0 + count), self.now - RTT);
            segment.arrival = self.wants.arrival_times.then(|| self.now - RTT / 2 + DISPERSION * number);
        }
    }
}

/// Returns a flipped pair without queueing delay.
fn pair() -> PairSample {
    let mut pair = PairSample::default();
    (pair.first_delay, pair.second_delay) = (RTT, RTT + DISPERSION);
    (pair.dispersion, pair.bytes) = (DISPERSION, MSS);
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events keep each controller in the named state, and contain the information that it requests.
    #[test]
    fn events_are_what_the_states_say() {
        for controller in controllers() {
            let mut avoidance = Sender::new(controller, State::Avoidance).unwrap();
            let mut recovery = Sender::new(controller, State::Recovery).unwrap();
            for _ in 0..2 * ACKS_A_ROUND {
                avoidance.step();
                recovery.step();
            }
            assert_eq!(avoidance.connection.delivered, MSS * (2 + 1 + 1 + 4 * ACKS_A_ROUND), "{controller}");
            assert!(avoidance.ack.round_start && !recovery.ack.round_start, "{controller}");
            let wants = &avoidance.connection.wants;
            assert_eq!(avoidance.ack.pair.is_some(), wants.pairs, "{controller}");
            let lens = [&avoidance, &recovery].map(|sender| sender.connection.segments.len());
            assert_eq!(lens, if wants.segments { [2, 1] } else { [0, 0] }, "{controller}");
            let window = avoidance.connection.controller.control().cwnd;
            assert!(window >= MSS * 2, "{controller}: {window:?}");
        }
        let pairs = Sender::new(VARIANTS[0], State::Avoidance).unwrap().connection.wants.pairs;
        let arrivals = Sender::new(VARIANTS[2], State::Avoidance).unwrap().connection.wants.arrival_times;
        assert!(pairs && arrivals, "variants read more");
    }
}
