use longhaul_units::{Bytes, Span, Time};

use super::*;
use crate::compose::Stage;
use crate::ledbat::DelaySource;
use crate::ledbat::gauge::Gauge;
use crate::ledbat::plus_plus::{self, LedbatPlusPlus};
use crate::ledbat::start::{LedbatStart, Options};
use crate::tests::MSS;
use crate::{AckedSegment, Granted, Path, RttSample, TxId};

/// Clocks of two hosts: the receiver's is ahead by `ahead` nanoseconds, and fast by `ppm`.
#[derive(Clone, Copy)]
struct Clocks {
    ahead: i64,
    ppm: i64,
}

impl Clocks {
    fn receivers(self, at: Time) -> Time {
        let gained = at.as_nanos() as i128 * i128::from(self.ppm) / 1_000_000;
        Time::from_nanos((at.as_nanos() as i128 + i128::from(self.ahead) + gained) as u64)
    }
}

const AGREE: Clocks = Clocks { ahead: 0, ppm: 0 };

fn ms(count: u64) -> Span {
    Span::from_millis(count)
}

/// A path of 20 ms in each direction, and the delays measured over it.
struct World {
    clocks: Clocks,
    now: Time,
    gauge: Gauge,
}

impl World {
    fn new(source: DelaySource, clocks: Clocks) -> Self {
        // The clocks may differ by hours in either direction.
        Self { clocks, now: Time::ZERO + Span::from_secs(36_000), gauge: Gauge::of(source) }
    }

    /// Processes an ACK `after` the previous one, of a segment queued for `there`, while the ACK was queued for
    /// `back`.
    fn ack(&mut self, after: Span, there: Span, back: Span) {
        self.told(after, there, back, SegmentKind::Data, true);
    }

    fn told(&mut self, after: Span, there: Span, back: Span, kind: SegmentKind, reports: bool) {
        self.now += after;
        let rtt = ms(40) + there + back;
        let sent_at = self.now - rtt;
        let mut segment = AckedSegment::new(TxId(1), sent_at, MSS);
        segment.kind = kind;
        segment.arrival = reports.then(|| self.clocks.receivers(sent_at + ms(20) + there));
        let segments = [segment];
        let mut ack = Ack::new(self.now);
        (ack.acked, ack.rtt) = (&segments, Some(RttSample { rtt, sent_at }));
        self.gauge.observe(&ack);
    }

    /// Processes four such ACKs.
    fn acks(&mut self, there: Span, back: Span) {
        for _ in 0..4 {
            self.ack(ms(1), there, back);
        }
    }

    fn queueing_ms(&self) -> f64 {
        self.gauge.queueing() * 1e3
    }
}

/// Queueing on the reverse path affects the RTT only; queueing on the forward path affects both delays, for any
/// offset of the clocks.
#[test]
fn the_way_back_does_not_count_one_way() {
    for ahead in [0, 7_200_000_000_000, -7_200_000_000_000, 1] {
        let rows = [(DelaySource::RoundTrip, 95.0), (DelaySource::OneWay, 15.0), (DelaySource::Auto, 15.0)];
        for (source, expected) in rows {
            let mut world = World::new(source, Clocks { ahead, ppm: 0 });
            world.acks(Span::ZERO, Span::ZERO);
            world.now += ms(1000);
            world.acks(ms(15), ms(80));
            assert!((world.queueing_ms() - expected).abs() < 1e-6, "{source:?}, {ahead}: {}", world.queueing_ms());
        }
    }
}

/// Before the first report, and a round trip after the last one, the RTT is used.
#[test]
fn without_reports_the_round_trip_counts() {
    let mut world = World::new(DelaySource::Auto, AGREE);
    world.told(ms(1), Span::ZERO, Span::ZERO, SegmentKind::Data, false);
    world.told(ms(100), ms(10), ms(30), SegmentKind::Data, false);
    assert!((world.queueing_ms() - 40.0).abs() < 1e-6, "{}", world.queueing_ms());
    world.acks(Span::ZERO, Span::ZERO);
    world.now += ms(1000);
    world.acks(ms(10), ms(30));
    assert!((world.queueing_ms() - 10.0).abs() < 1e-6, "{}", world.queueing_ms());
    world.told(ms(79), ms(10), ms(30), SegmentKind::Data, false);
    assert!((world.queueing_ms() - 10.0).abs() < 1e-6, "{}", world.queueing_ms());
    world.told(ms(2), ms(10), ms(30), SegmentKind::Data, false);
    assert!((world.queueing_ms() - 40.0).abs() < 1e-6, "{}", world.queueing_ms());
}

/// The arrival time of a retransmitted segment is ignored, because it is unknown which copy arrived.
#[test]
fn retransmissions_do_not_count() {
    let mut world = World::new(DelaySource::OneWay, AGREE);
    world.acks(ms(30), Span::ZERO);
    world.told(ms(100), Span::ZERO, Span::ZERO, SegmentKind::Retransmit, true);
    world.now += ms(1000);
    world.acks(ms(30), Span::ZERO);
    // The RTT, which is never ambiguous, has been measured without the 30 ms; the one-way delay has not.
    assert!(world.queueing_ms() < 1e-6, "{}", world.queueing_ms());
}

/// The current delay is the minimum of four samples, none of them older than a round trip.
#[test]
fn the_delay_now_is_the_least_of_four() {
    let mut world = World::new(DelaySource::OneWay, AGREE);
    world.acks(Span::ZERO, Span::ZERO);
    world.now += ms(1000);
    for there in [20, 50, 45, 60, 55] {
        world.ack(ms(1), ms(there), ms(20));
    }
    assert!((world.queueing_ms() - 45.0).abs() < 1e-6, "{}", world.queueing_ms());
    world.ack(ms(500), ms(70), ms(20));
    assert!((world.queueing_ms() - 70.0).abs() < 1e-6, "{}", world.queueing_ms());
}

/// The receiver's clock steps forward by 10 s: the delay is at most that of the RTT.
#[test]
fn the_round_trip_bounds_what_a_clock_may_say() {
    let mut world = World::new(DelaySource::OneWay, AGREE);
    world.acks(Span::ZERO, Span::ZERO);
    world.clocks.ahead += 10_000_000_000;
    world.now += ms(1000);
    world.acks(ms(5), ms(3));
    assert!((world.queueing_ms() - 8.0).abs() < 1e-6, "{}", world.queueing_ms());
    world.clocks.ahead -= 20_000_000_000;
    world.now += ms(1000);
    world.acks(Span::ZERO, ms(40));
    assert!(world.queueing_ms() < 1e-6, "{}", world.queueing_ms());
    world.now += ms(1000);
    world.acks(ms(30), ms(40));
    assert!((world.queueing_ms() - 30.0).abs() < 1e-6, "{}", world.queueing_ms());
}

/// Returns the largest error of the one-way delay in the last of `minutes` minutes, in ms. The path's queues are
/// empty for a moment every 10 s, with 40 ms on the reverse path at other times.
fn worst_error(ppm: i64, minutes: u64) -> f64 {
    let mut world = World::new(DelaySource::OneWay, Clocks { ahead: 0, ppm });
    let mut worst = 0.0_f64;
    for second in 0..minutes * 60 {
        let (there, back) = if second % 10 == 0 { (0, 0) } else { (second % 7, 40 + second % 5) };
        world.now += ms(1000);
        world.acks(ms(there), ms(back));
        if second / 60 == minutes - 1 {
            worst = worst.max((world.queueing_ms() - there as f64).abs());
        }
    }
    worst
}

/// A clock that is fast by 100 ppm gains 6 ms per minute, 60 ms in the history of ten minutes. Once the drift is
/// known, the remaining error is the gain of one minute. A slow clock needs no correction, and an exact one gets
/// none.
#[test]
fn a_fast_clock_is_corrected_and_a_slow_one_needs_no_correction() {
    for (ppm, within) in [(100, 6.2), (200, 12.4), (30, 2.0), (0, 1e-6), (-30, 0.5), (-100, 1.2)] {
        let worst = worst_error(ppm, 25);
        assert!(worst <= within, "{ppm} ppm: {worst} ms");
    }
}

/// A queue on the forward path that grows from minute to minute is not taken for drift.
#[test]
fn a_growing_queue_is_no_drift() {
    let mut world = World::new(DelaySource::OneWay, AGREE);
    for second in 0..540 {
        world.now += ms(1000);
        world.acks(ms(second / 6), Span::ZERO);
    }
    assert!((world.queueing_ms() - 89.0).abs() < 1e-6, "{}", world.queueing_ms());
}

/// A single minute with another RTT does not change the drift, and fewer than three differences yield none.
#[test]
fn the_drift_is_the_median_of_three_at_least() {
    let mut world = OneWay::default();
    let mut drifts = Vec::new();
    for minute in 0..8_u64 {
        let at = Time::ZERO + Span::from_secs(60 * minute);
        let late = if minute == 4 { ms(500) } else { Span::ZERO };
        world.sample(at, at, at + ms(20) + ms(5) * minute + late, ms(40));
        drifts.push(world.drift.as_millis());
    }
    assert_eq!(drifts, [0, 0, 0, 0, 5, 5, 5, 5]);
    let mut wild = OneWay::default();
    for minute in 0..8_u64 {
        let at = Time::ZERO + Span::from_secs(60 * minute);
        wild.sample(at, at, at + ms(20) + ms(1000) * minute, ms(40));
    }
    assert_eq!(wild.drift, MAX_DRIFT);
}

/// `one-way` requires arrival times, `auto` prefers them, and `rtt` does not request them.
#[test]
fn what_each_source_asks_for() {
    let told = Granted { arrival_times: true, segments: true, ..Granted::basic() };
    let path = Path::new(Bytes(1460));
    for (source, asks, works) in
        [(DelaySource::RoundTrip, false, true), (DelaySource::OneWay, true, false), (DelaySource::Auto, true, true)]
    {
        let algorithm =
            LedbatPlusPlus::new(plus_plus::Options { target: ms(60), delay: source, ..plus_plus::Options::default() });
        let start = LedbatStart::new(Options { target: ms(60), delay: source, ..Options::default() });
        for mut stage in [Box::new(algorithm) as Box<dyn Stage>, Box::new(start)] {
            let needs = stage.needs();
            assert_eq!(needs.required.arrival_times || needs.preferred.arrival_times, asks, "{source:?}");
            assert_eq!(stage.on_granted(&Granted::basic(), &path).is_ok(), works, "{source:?}");
            assert_eq!(stage.on_granted(&told, &path), Ok(()), "{source:?}");
        }
    }
}
