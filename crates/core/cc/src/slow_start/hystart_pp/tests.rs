use longhaul_units::Time;

use super::*;
use crate::RttSample;
use crate::tests::{MSS, segments};

/// HyStart++ with RTTs chosen by the test and ACKs of one segment each.
struct Rounds {
    slow_start: HyStartPp,
    window: Window,
    path: Path,
    step: Step,
}

impl Rounds {
    fn new() -> Self {
        let slow_start = HyStartPp::default();
        Self { slow_start, window: Window::new(14_600.0), path: Path::new(MSS), step: Step::Stay }
    }

    fn ack(&mut self, rtt_us: u64, round_start: bool) {
        let mut ack = Ack::new(Time::ZERO);
        ack.round_start = round_start;
        ack.rtt = Some(RttSample { rtt: Span::from_micros(rtt_us), sent_at: Time::ZERO });
        self.step = self.slow_start.on_ack(&ack, MSS, &self.path, &mut self.window);
    }

    /// A round of `acks` ACKs with the same RTT.
    fn round(&mut self, rtt_us: u64, acks: u32) {
        for index in 0..acks {
            self.ack(rtt_us, index == 0);
        }
    }

    fn phase(&self) -> &'static str {
        self.slow_start.phase()
    }
}

/// RFC 9406, section 4.2: the threshold is an eighth of the last round's minimum RTT, clamped to 4-16 ms.
#[test]
fn the_threshold_is_an_eighth_of_the_round_trip_between_4_and_16_ms() {
    for (last, threshold) in [(8_000, 4_000), (32_000, 4_000), (80_000, 10_000), (128_000, 16_000), (600_000, 16_000)] {
        for (rise, phase) in [(threshold - 1, "slow-start"), (threshold, "css")] {
            let mut rounds = Rounds::new();
            rounds.round(last, 8);
            rounds.round(last + rise, 8);
            assert_eq!(rounds.phase(), phase, "from {last} us by {rise} us");
        }
    }
}

#[test]
fn seven_samples_decide_nothing() {
    let mut rounds = Rounds::new();
    rounds.round(50_000, 8);
    rounds.round(90_000, 7);
    assert_eq!(rounds.phase(), "slow-start");
    rounds.ack(90_000, false);
    assert_eq!(rounds.phase(), "css");
}

#[test]
fn one_small_sample_keeps_slow_start() {
    let mut rounds = Rounds::new();
    rounds.round(50_000, 8);
    rounds.round(90_000, 5);
    rounds.ack(52_000, false);
    rounds.round(90_000, 1);
    assert_eq!(rounds.phase(), "slow-start");
}

#[test]
fn conservative_slow_start_grows_by_a_quarter() {
    let mut rounds = Rounds::new();
    rounds.round(50_000, 8);
    rounds.round(90_000, 8);
    let before = rounds.window.cwnd;
    rounds.ack(90_000, false);
    assert_eq!(rounds.window.cwnd - before, MSS.as_f64() / 4.0);
}

/// RFC 9406, section 4.2: CSS lasts for five rounds, including the one in which it began; then ssthresh = cwnd.
#[test]
fn after_five_rounds_avoidance_takes_over() {
    let mut rounds = Rounds::new();
    rounds.round(50_000, 8);
    for _ in 0..5 {
        rounds.round(90_000, 8);
        assert_eq!((rounds.phase(), rounds.step), ("css", Step::Stay));
        assert!(rounds.window.ssthresh.is_infinite());
    }
    rounds.ack(90_000, true);
    assert_eq!(rounds.step, Step::Done);
    assert_eq!(rounds.window.ssthresh, rounds.window.cwnd);
}

#[test]
fn a_round_trip_below_the_baseline_resumes_slow_start() {
    let mut rounds = Rounds::new();
    rounds.round(50_000, 8);
    rounds.round(90_000, 8);
    rounds.round(89_999, 7);
    assert_eq!(rounds.phase(), "css");
    rounds.ack(89_999, false);
    assert_eq!(rounds.phase(), "slow-start");
    let before = rounds.window.cwnd;
    rounds.ack(89_999, false);
    assert_eq!(rounds.window.cwnd - before, MSS.as_f64());
}

/// RFC 9406, section 4.3: L = 8 without pacing, infinite with pacing.
#[test]
fn the_limit_an_ack_depends_on_pacing() {
    for (pacing, counted) in [(true, 44), (false, 8)] {
        let mut rounds = Rounds::new();
        rounds.path.paced = pacing;
        let before = rounds.window.cwnd;
        rounds.slow_start.on_ack(&Ack::new(Time::ZERO), segments(44), &rounds.path, &mut rounds.window);
        assert_eq!(rounds.window.cwnd - before, segments(counted).as_f64());
    }
}

/// RFC 9406, section 4.3: later slow starts are standard ones, which end at their threshold.
#[test]
fn a_finite_threshold_switches_it_off() {
    let mut rounds = Rounds::new();
    rounds.window.ssthresh = 40_000.0;
    rounds.slow_start.begin(Reason::Loss, &rounds.path, &rounds.window);
    rounds.round(50_000, 8);
    rounds.round(500_000, 8);
    assert_eq!(rounds.phase(), "slow-start");
    rounds.round(500_000, 8);
    assert_eq!((rounds.step, rounds.window.cwnd), (Step::Done, 40_000.0));
}

/// A threshold from an earlier connection may be too high, so HyStart++ stays active: whichever of the two is reached
/// first ends slow start.
#[test]
fn a_threshold_known_before_any_congestion_leaves_it_on() {
    let begin = |ssthresh: f64| {
        let mut rounds = Rounds::new();
        rounds.window.ssthresh = ssthresh;
        rounds.slow_start.begin(Reason::NoLoss, &rounds.path, &rounds.window);
        rounds.round(50_000, 8);
        rounds
    };
    let mut late = begin(1e9);
    late.round(90_000, 8);
    assert_eq!(late.phase(), "css");
    let mut early = begin(40_000.0);
    early.round(50_000, 10);
    assert_eq!((early.step, early.window.cwnd), (Step::Done, 40_000.0));
}
