//! Effect of congestion on each variant of Swift Start: before there is an estimate, and in the paced round.

use std::sync::{Arc, Mutex};

use longhaul_units::{Bytes, Rate, Span, Time};

use super::{pass, phase};
use crate::stages;
use longhaul_cc::compose::*;
use longhaul_cc::{Ack, AckedSegment, BuildParams, Granted, Path, PathEvent, SegmentKind, SendLimit, TxId};
use longhaul_conformance::testing::{MSS, Sender, segments};

/// Congestion avoidance that halves the window and records the causes of its decreases.
#[derive(Clone, Debug, Default)]
struct Witness(Arc<Mutex<Vec<CongestionEvent>>>);

impl Stage for Witness {
    fn phase(&self) -> &'static str {
        "avoidance"
    }
}

impl CongestionAvoidance for Witness {
    fn on_ack(&mut self, _ack: &Ack<'_>, _grow: Bytes, _path: &Path, _window: &mut Window) -> AvoidanceStep {
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.0.lock().unwrap().push(*event);
        Target::multiplicative(event, 0.5, path.mss)
    }
}

/// The variants; the hardened one with and without reported arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Published,
    Hardened,
    Unreported,
}

const STARTS: [Start; 3] = [Start::Published, Start::Hardened, Start::Unreported];
const SIGNALS: [Signal; 3] = [Signal::Loss, Signal::Ecn, Signal::Timeout];

/// A start with gamma 1 over a path that needs 1 ms per segment and has an RTT of 100 ms; its flight was sent.
struct Flow {
    sender: Sender,
    witness: Witness,
    start: Start,
    acked: u64,
}

impl Flow {
    fn new(start: Start) -> Self {
        let name = match start {
            Start::Published => "swift-start(gamma=1)+slow-start",
            Start::Hardened | Start::Unreported => "swift-start-hardened(gamma=1)+slow-start",
        };
        let witness = Witness::default();
        let mut stages = stages(name);
        stages.avoidance = Box::new(witness.clone());
        let mut granted = Granted::basic();
        (granted.arrival_times, granted.segments) = (start == Start::Hardened, true);
        let controller = Box::new(Composed::new(stages, &BuildParams::default()));
        let mut sender = Sender::with(controller, granted);
        sender.path.queued = Bytes(1 << 30);
        sender.fill();
        Self { sender, witness, start, acked: 0 }
    }

    /// Segments of the first flight, which is the initial window.
    const fn flight(&self) -> u64 {
        if matches!(self.start, Start::Published) { 4 } else { 10 }
    }

    /// Processes an ACK of `count` segments after `micros` microseconds; each segment arrived 1 ms after the previous
    /// one.
    fn ack(&mut self, micros: u64, count: u64, change: impl Fn(&mut Ack<'_>)) {
        let until = self.sender.now + Span::from_micros(micros);
        pass(&mut self.sender, until);
        let arrived = (self.acked..self.acked + count).map(|number| {
            let mut segment = AckedSegment::new(TxId(number), Time::from_nanos(1_000_000_000), MSS);
            segment.arrival = Some(Time::ZERO + Span::from_millis(number));
            segment
        });
        let acked: Vec<_> = arrived.collect();
        self.acked += count;
        let mut ack: Ack<'_> = self.sender.acked(count);
        ack.acked = &acked;
        change(&mut ack);
        self.sender.tell(&ack);
    }

    /// Returns a flow at the first departure of the paced round: the window is open for the whole round, of which
    /// nothing was sent.
    fn paced(start: Start) -> Self {
        let mut flow = Self::new(start);
        flow.ack(100_000, 2, |_| {});
        assert_eq!(flow.sender.fill(), 3);
        flow.ack(1000, 2, |_| {});
        assert_eq!(phase(&flow.sender), "swift-start-paced", "{start:?}");
        let first = flow.sender.controller.next_tick().unwrap();
        flow.sender.now = first;
        flow.sender.controller.on_tick(first, &flow.sender.path);
        assert!(flow.sender.cwnd() > segments(90), "{start:?}: {}", flow.sender.cwnd());
        flow
    }

    fn happen(&mut self, signal: Signal) {
        match signal {
            Signal::Timeout => self.sender.time_out(1),
            Signal::Ecn => self.sender.mark(),
            _ => self.sender.lose(),
        }
    }

    /// Asserts that the start has left no timer and no pace, and that congestion avoidance responds.
    fn is_answered(&self, signal: Signal, what: &str) {
        let expected = match signal {
            Signal::Timeout => "slow-start",
            Signal::Ecn => "cwr",
            _ => "recovery",
        };
        assert_eq!(phase(&self.sender), expected, "{what}");
        assert_eq!((self.sender.controller.next_tick(), self.sender.control().pace), (None, None), "{what}");
        let causes = self.witness.0.lock().unwrap();
        assert!(matches!(causes[..], [event] if event.signal == signal), "{what}: {causes:?}");
    }

    fn event(&self) -> CongestionEvent {
        self.witness.0.lock().unwrap()[0]
    }
}

/// After a loss, mark or timeout while ACKs of the flight are awaited, before and after the first one, the response
/// uses the current window, and no later ACK yields an estimate.
#[test]
fn before_the_estimate_it_is_given_up() {
    for start in STARTS {
        for (signal, later) in SIGNALS.into_iter().flat_map(|signal| [(signal, false), (signal, true)]) {
            let what = format!("{start:?}, {signal:?}, after the first ACK: {later}");
            let mut flow = Flow::new(start);
            if later {
                flow.ack(100_000, 2, |_| {});
                flow.sender.fill();
            }
            assert_eq!(phase(&flow.sender), "swift-start-probe", "{what}");
            let (cwnd, flight) = (flow.sender.cwnd().as_f64(), flow.sender.in_flight.as_f64());
            flow.happen(signal);
            flow.is_answered(signal, &what);
            assert_eq!((flow.event().cwnd, flow.event().base), (cwnd, flight), "{what}");
            let ssthresh = flow.sender.ssthresh();
            assert_eq!(ssthresh.as_f64(), flight / 2.0, "{what}");
            match signal {
                Signal::Timeout => flow.sender.send(SegmentKind::Retransmit),
                Signal::Ecn => flow.sender.ack(flow.sender.in_flight.0 / MSS.0),
                _ => flow.sender.recover(),
            }
            for _ in 0..6 {
                flow.sender.fill();
                flow.ack(1000, 1, |_| {});
                assert!(!phase(&flow.sender).starts_with("swift"), "{what}");
            }
            assert_eq!(flow.sender.ssthresh(), ssthresh, "{what}");
        }
    }
}

/// If an ACK marks data lost without a response, as in an earlier episode, there is no estimate, and slow start
/// continues.
#[test]
fn a_flight_with_losses_is_no_flight() {
    for start in STARTS {
        for lost_at in 0..2 {
            let mut flow = Flow::new(start);
            for number in 0..2 {
                flow.ack(if number == 0 { 100_000 } else { 1000 }, 2, |ack| {
                    ack.newly_lost = if number == lost_at { MSS } else { Bytes::ZERO };
                });
            }
            assert_eq!(phase(&flow.sender), "slow-start", "{start:?}, ACK {lost_at}");
            assert!(flow.sender.cwnd() <= segments(flow.flight() + 3), "{start:?}, ACK {lost_at}");
            assert_eq!(flow.sender.control().pace, None);
        }
    }
}

/// In the paced round, the quota that was not sent is void: the response to a loss, a mark or a timeout uses the
/// outstanding bytes, or the initial window if that is more, with any congestion avoidance. If the response was
/// spurious, that window is restored.
#[test]
fn in_the_paced_round_the_unsent_quota_is_void() {
    for start in STARTS {
        for (signal, sent) in SIGNALS.into_iter().flat_map(|signal| [(signal, 0), (signal, 20)]) {
            let what = format!("{start:?}, {signal:?}, {sent} sent");
            let mut flow = Flow::paced(start);
            (0..sent).for_each(|_| flow.sender.send(SegmentKind::Data));
            let flight = flow.sender.in_flight;
            let kept = flight.max(segments(flow.flight()));
            assert_eq!(flight, segments(sent + if start == Start::Published { 3 } else { 9 }), "{what}");
            flow.happen(signal);
            flow.is_answered(signal, &what);
            assert_eq!((flow.event().cwnd, flow.event().base), (kept.as_f64(), flight.as_f64()), "{what}");
            if signal == Signal::Ecn {
                continue; // a mark is never spurious
            }
            let timeout = signal == Signal::Timeout;
            let in_flight = flow.sender.in_flight;
            flow.sender.event(&PathEvent::Spurious { now: flow.sender.now, timeout, in_flight });
            let after = (flow.sender.cwnd(), phase(&flow.sender), flow.sender.controller.next_tick());
            assert_eq!(after, (kept, "slow-start", None), "{what}");
        }
    }
}

/// If the application pauses and less than the initial window is outstanding when the round ends, the window becomes
/// the initial one.
#[test]
fn no_less_than_the_initial_window_is_handed_over() {
    for start in STARTS {
        let mut flow = Flow::paced(start);
        flow.sender.path.queued = Bytes::ZERO;
        flow.ack(1000, 2, |ack| ack.limit = SendLimit::App);
        let now = flow.sender.now;
        pass(&mut flow.sender, now);
        assert!(flow.sender.in_flight < segments(flow.flight()), "{start:?}");
        assert!(!phase(&flow.sender).starts_with("swift"), "{start:?}: {}", phase(&flow.sender));
        assert_eq!(flow.sender.cwnd(), segments(flow.flight()), "{start:?}");
    }
}

/// The rate found is one segment per ms from arrival times, and two per ms from ACKs, which cover two segments each
/// and arrive 1 ms apart.
#[test]
fn the_rate_is_the_paths() {
    for start in STARTS {
        let pace = Flow::paced(start).sender.control().pace.unwrap();
        let millis = if start == Start::Hardened { 1.0 } else { 0.5 };
        assert_eq!(pace.rate, Rate::from_bytes_per_sec((MSS.as_f64() / millis * 1000.0) as u64), "{start:?}");
    }
}
