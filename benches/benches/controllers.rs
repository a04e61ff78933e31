//! Nanoseconds for one ACK in each registered congestion controller: a prebuilt event in, a `Control` out.
//!
//! Every profile of the registry is run in two states, with events as a transport at 1448 bytes a segment and 100 ms
//! of round trip would build them; building them is not timed.
//!
//! * `avoidance`: after one loss and its repair, so that the steady law is at work. Each ACK delivers two segments, has
//!   an RTT sample and one of the delivery rate, and finds the sender limited by its window. A new round begins every 1,000 ACKs, and 200 us pass
//!   from one to the next. Every 100,000 ACKs there is a loss again, so that the window stays in its usual range.
//! * `recovery`: inside a loss episode; each ACK delivers one segment selectively and reveals no further loss.
//!
//! As in a transport, every call is followed by reading `control` and `next_tick`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longhaul_cc::registry::built_in;
use longhaul_cc::{
    Ack, BuildParams, Congestion, Controller, Episode, Granted, Path, PathEvent, RateSample, RttSample, SegmentKind,
    Sent, TxId,
};
use longhaul_units::{Bytes, Span, Time};

const MSS: Bytes = Bytes(1448);
const RTT: Span = Span::from_millis(100);
/// Time from one ACK to the next.
const STEP: Span = Span::from_micros(200);
const ACKS_A_ROUND: u64 = 1000;
const ACKS_A_LOSS: u64 = 100 * ACKS_A_ROUND;
/// What arrives in a round trip.
const DELIVERED: Bytes = Bytes(2 * MSS.0 * RTT.as_nanos() / STEP.as_nanos());
const IN_FLIGHT: Bytes = Bytes(2 * ACKS_A_ROUND * MSS.0);

/// A controller after its handshake, on a clock that events move.
struct Connection {
    controller: Box<dyn Controller>,
    path: Path,
    now: Time,
    delivered: Bytes,
}

impl Connection {
    fn new(profile: &str) -> Self {
        let congestion: Congestion = profile.parse().expect("a registered profile");
        let mut path = Path::new(MSS);
        (path.srtt, path.latest_rtt, path.min_rtt) = (Some(RTT), Some(RTT), Some(RTT));
        path.handshake_rtt = Some(RTT);
        let (mut controller, granted) = (congestion.build(&BuildParams::default()), Granted::basic());
        controller.on_granted(&granted, &path).expect("profiles do with what every transport has");
        let now = Time::ZERO + Span::from_secs(1);
        controller.on_event(&PathEvent::Established { now, granted }, &path);
        Self { controller, path, now, delivered: Bytes::ZERO }
    }

    /// An ACK of `segments` in sequence, a step after the last, to a sender whose window is full.
    fn ack(&mut self, segments: u64) -> Ack<'static> {
        self.now += STEP;
        let bytes = MSS * segments;
        self.delivered += bytes;
        let mut ack = Ack::new(self.now);
        (ack.cumulative, ack.delivered, ack.total_delivered) = (bytes, bytes, self.delivered);
        (ack.prior_in_flight, ack.in_flight, ack.flight_size) = (IN_FLIGHT, IN_FLIGHT - bytes, IN_FLIGHT);
        ack.cwnd_limited = true;
        ack.rtt = Some(RttSample { rtt: RTT, sent_at: self.now - RTT });
        let mut rate = RateSample::new(DELIVERED, RTT);
        (rate.tx_in_flight, rate.prior_delivered) = (IN_FLIGHT, self.delivered - DELIVERED);
        ack.rate = Some(rate);
        ack
    }

    /// The first ACK of a loss episode, and the retransmission that follows.
    fn enter_recovery(&mut self) {
        let mut ack = self.ack(1);
        (ack.cumulative, ack.newly_lost, ack.recover_flight) = (Bytes::ZERO, MSS, IN_FLIGHT);
        ack.episode = Episode::Enter;
        self.tell(&ack);
        let mut sent = Sent::new(self.now, TxId(1), MSS);
        (sent.kind, sent.in_flight_before) = (SegmentKind::Retransmit, IN_FLIGHT);
        self.controller.on_sent(&sent, &self.path);
    }

    /// A loss episode from its first ACK to its last.
    fn lose_and_repair(&mut self) {
        self.enter_recovery();
        let mut exit = self.ack(1);
        exit.episode = Episode::Exit;
        self.tell(&exit);
    }

    /// What is timed.
    fn tell(&mut self, ack: &Ack<'_>) {
        self.controller.on_ack(black_box(ack), &self.path);
        black_box((self.controller.control(), self.controller.next_tick()));
    }

    /// Moves a prebuilt event to the next step: four stores.
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
    }
}

fn avoidance(c: &mut Criterion) {
    let mut group = c.benchmark_group("controllers/ack in avoidance");
    group.throughput(Throughput::Elements(1));
    for profile in built_in().profiles {
        group.bench_function(profile.name, |b| {
            let mut connection = Connection::new(profile.name);
            let (mut ack, mut count) = (connection.ack(2), 0);
            b.iter(|| {
                if count % ACKS_A_LOSS == 0 {
                    connection.lose_and_repair();
                }
                count += 1;
                connection.advance(&mut ack);
                ack.round_start = count % ACKS_A_ROUND == 0;
                connection.tell(&ack);
            });
        });
    }
}

fn recovery(c: &mut Criterion) {
    let mut group = c.benchmark_group("controllers/ack in recovery");
    group.throughput(Throughput::Elements(1));
    for profile in built_in().profiles {
        group.bench_function(profile.name, |b| {
            let mut connection = Connection::new(profile.name);
            connection.enter_recovery();
            let mut ack = connection.ack(1);
            (ack.cumulative, ack.episode) = (Bytes::ZERO, Episode::In);
            b.iter(|| {
                connection.advance(&mut ack);
                connection.tell(&ack);
            });
        });
    }
}

criterion_group!(benches, avoidance, recovery);
criterion_main!(benches);
