use longhaul_cc::{RttSample, update};

use super::*;
use crate::tests::{MSS, segments, sender};

/// HyStart with ACKs of one segment each, at times and with RTT samples that the test chooses.
struct Acks {
    slow_start: HyStart,
    window: Window,
    path: Path,
    now: Time,
    delivered: Bytes,
    in_flight: Bytes,
    step: Step,
}

const RTT: Span = Span::from_millis(100);

impl Acks {
    /// A window of `cwnd` segments, all in flight, with or without pacing.
    fn new(mut slow_start: HyStart, cwnd: u64, pacing: bool) -> Self {
        let path = update!(Path { paced: pacing, ..Path::new(MSS) });
        let window = Window::new(segments(cwnd).as_f64());
        slow_start.begin(Reason::NoLoss, &path, &window);
        let (now, in_flight) = (Time::from_nanos(1_000_000_000), segments(cwnd));
        Self { slow_start, window, path, now, delivered: Bytes::ZERO, in_flight, step: Step::Stay }
    }

    /// An ACK of one segment, `gap` after the previous one; the segments that it releases leave before the next ACK.
    fn ack(&mut self, gap: Span, rtt: Span) {
        self.now += gap;
        self.delivered += MSS;
        self.in_flight -= MSS;
        let mut ack = Ack::new(self.now);
        (ack.total_delivered, ack.in_flight) = (self.delivered, self.in_flight);
        ack.rtt = Some(RttSample::new(rtt, self.now - rtt));
        self.step = self.slow_start.on_ack(&ack, MSS, &self.path, &mut self.window);
        self.in_flight = Bytes::from_f64(self.window.cwnd);
    }

    fn ended(&self) -> bool {
        self.step == Step::Done
    }
}

/// Returns the length of a train of ACKs 0.5 ms apart from its first ACK to the one that ends slow start.
fn longest_train(pacing: bool) -> Span {
    let mut acks = Acks::new(HyStart { detect: Detect::AckTrain, ..HyStart::default() }, 500, pacing);
    acks.ack(Span::ZERO, RTT);
    let began = acks.now;
    while !acks.ended() {
        acks.ack(Span::from_micros(500), RTT);
    }
    acks.now - began
}

/// Linux: a train ends slow start if it is longer than the minimum RTT plus 1 ms, or half of that without pacing.
#[test]
fn a_train_as_long_as_the_round_trip_ends_it_or_half_of_it_unpaced() {
    assert_eq!(longest_train(true), Span::from_micros(101_500));
    assert_eq!(longest_train(false), Span::from_micros(51_000));
}

/// A train of exactly 101 ms does not exceed the bound of 101 ms.
#[test]
fn the_bound_itself_is_no_long_train() {
    for (last, ends) in [(Span::from_nanos(1_000_000), false), (Span::from_nanos(1_000_001), true)] {
        let mut acks = Acks::new(HyStart { detect: Detect::AckTrain, ..HyStart::default() }, 500, true);
        acks.ack(Span::ZERO, RTT);
        for _ in 0..100 {
            acks.ack(Span::from_millis(1), RTT);
        }
        acks.ack(last, RTT);
        assert_eq!(acks.ended(), ends, "{last}");
    }
}

/// A gap of more than 2 ms breaks the train for the rest of the round.
#[test]
fn a_gap_breaks_the_train() {
    for (gap, ends) in [(2_000_000, true), (2_000_001, false)] {
        let mut acks = Acks::new(HyStart { detect: Detect::AckTrain, ..HyStart::default() }, 500, true);
        acks.ack(Span::ZERO, RTT);
        acks.ack(Span::from_nanos(gap), RTT);
        for _ in 0..120 {
            acks.ack(Span::from_millis(1), RTT);
        }
        assert_eq!(acks.window.ssthresh.is_finite(), ends, "{gap} ns");
    }
}

/// The allowance is the duration of four batches at the pacing rate of slow start, if that is less than 1 ms.
#[test]
fn the_allowance_for_batches_is_a_millisecond_or_what_four_take() {
    assert_eq!(ack_delay(segments(100).as_f64(), RTT), Span::from_millis(1));
    // At 2 x 262144 bytes per ms, four batches take 0.5 ms.
    assert_eq!(ack_delay(262_144.0, Span::from_millis(1)), Span::from_micros(500));
}

/// Linux: the threshold is an eighth of the minimum RTT, clamped to 4-16 ms; eight samples precede the first
/// comparison.
#[test]
fn a_round_trip_longer_by_an_eighth_ends_it() {
    for (base, threshold) in [(16_000, 4_000), (32_000, 4_000), (80_000, 10_000), (128_000, 16_000), (600_000, 16_000)]
    {
        for (rise, ends) in [(threshold, false), (threshold + 1, true)] {
            let mut acks = Acks::new(HyStart { detect: Detect::Delay, ..HyStart::default() }, 16, true);
            for _ in 0..16 {
                acks.ack(Span::from_millis(1), Span::from_micros(base));
            }
            // The seventeenth ACK begins a round.
            for _ in 0..9 {
                assert!(!acks.ended());
                acks.ack(Span::from_millis(1), Span::from_micros(base + rise));
            }
            assert_eq!(acks.ended(), ends, "{base} us and {rise} us");
        }
    }
}

/// The ninth sample of a round is the first that is compared.
#[test]
fn eight_samples_decide_nothing() {
    let mut acks = Acks::new(HyStart { detect: Detect::Delay, ..HyStart::default() }, 16, true);
    for _ in 0..16 {
        acks.ack(Span::from_millis(1), RTT);
    }
    for sample in 1..=9 {
        acks.ack(Span::from_millis(1), RTT * 2);
        assert_eq!(acks.ended(), sample == 9, "sample {sample}");
    }
    assert_eq!(acks.window.ssthresh, acks.window.cwnd);
}

/// `hystart_low_window`: 16 segments.
#[test]
fn below_sixteen_segments_nothing_is_looked_at() {
    for (cwnd, ends) in [(15, false), (16, true)] {
        let mut acks = Acks::new(HyStart::default(), cwnd, true);
        acks.ack(Span::ZERO, RTT);
        acks.window.cwnd = segments(cwnd).as_f64();
        for _ in 0..200 {
            acks.ack(Span::from_millis(1), RTT * 2);
            if acks.ended() {
                break;
            }
            acks.window.cwnd = segments(cwnd).as_f64();
        }
        assert_eq!(acks.ended(), ends, "{cwnd} segments");
    }
}

/// Each detector works alone: a train of ACKs ends slow start after about 100 ms, and an RTT increased by half ends it
/// in the next round.
#[test]
fn what_is_not_to_be_detected_is_not() {
    let alone = |detect, cwnd, rise| {
        let mut acks = Acks::new(HyStart { detect, ..HyStart::default() }, cwnd, true);
        let mut count = 0;
        while !acks.ended() && count < 300 {
            acks.ack(Span::from_millis(1), if count < 16 { RTT } else { RTT + rise });
            count += 1;
        }
        (acks.ended(), count)
    };
    assert_eq!(alone(Detect::AckTrain, 400, Span::ZERO), (true, 103));
    assert_eq!(alone(Detect::Delay, 400, Span::ZERO), (false, 300));
    assert_eq!(alone(Detect::Delay, 16, RTT / 2), (true, 25));
    assert!(alone(Detect::AckTrain, 16, RTT / 2).1 > 25);
}

/// After a detector has ended slow start, it is standard slow start up to the threshold, until a timeout.
#[test]
fn after_a_find_slow_start_is_plain_until_a_timeout() {
    let config = HyStart { detect: Detect::Delay, ..HyStart::default() };
    for (reason, watches) in [(Reason::Loss, false), (Reason::Ecn, false), (Reason::Timeout, true)] {
        let mut acks = Acks::new(config, 16, true);
        for sample in 0..25 {
            acks.ack(Span::from_millis(1), if sample < 16 { RTT } else { RTT * 2 });
        }
        assert!(acks.ended());
        acks.window.ssthresh = segments(1000).as_f64();
        acks.slow_start.begin(reason, &acks.path, &acks.window);
        for sample in 0..60 {
            acks.ack(Span::from_millis(1), if sample < 1 { RTT } else { RTT * 2 });
        }
        assert_eq!(acks.window.ssthresh < segments(1000).as_f64(), watches, "{reason:?}");
    }
}

/// In a complete controller: a queue that grows by 20 ms per round trip ends slow start without a loss.
#[test]
fn a_growing_queue_hands_over_to_avoidance() {
    let mut sender = sender("hystart+cubic");
    sender.fill();
    sender.round();
    sender.round();
    assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(40), "slow-start"));
    sender.rtt += Span::from_millis(20);
    sender.round();
    assert_eq!(sender.snapshot().phase, "congestion-avoidance");
    assert!(sender.cwnd() < segments(60) && sender.ssthresh() <= sender.cwnd());
}
